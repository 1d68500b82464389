"""The matrix of references × targets: what each reference is worth for each target, and which one the rule picks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from powertrain import strategies
from powertrain.evaluation.evaluate import EvaluationError, Settings, evaluate
from powertrain.profiling.history import History, ModeReport
from powertrain.reference import Reference, closest
from powertrain.samples import SampleTable
from powertrain.space import ModeSpace

# The agent asks for the closest reference after every measurement; by then it has about so many.
PICK_SAMPLES = 10


@dataclass(frozen=True, eq=False)
class Workload:
    """A measured table, and the reference learnt from all of it."""

    name: str
    table: SampleTable
    reference: Reference


def workloads_of(tables: Mapping[str, SampleTable], device: str | None = None) -> tuple[Workload, ...]:
    """Return each table with a reference that is trained from it on first use."""
    if len(tables) < 2:
        raise EvaluationError(f"a matrix needs at least two tables, not {len(tables)}")
    return tuple(Workload(name, table, Reference.from_table(table, device, name)) for name, table in tables.items())


def evaluate_matrix(
    workloads: Sequence[Workload], settings: Settings, progress: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """Return cells of reference × target in a stable JSON form, and which reference the rule picks for each target.

    `settings` must name one strategy and one number of modes.
    """
    if len(settings.strategies) != 1 or len(settings.samples) != 1:
        raise EvaluationError("a matrix is of one strategy and one number of samples")
    cells = []
    for row, source in enumerate(workloads):
        for column, target in enumerate(workloads):
            cells.append(self_fit(source, settings) if source is target else transferred(source, target, settings))
            if progress is not None:
                progress((row * len(workloads) + column + 1) / len(workloads) ** 2)
    return {
        "strategy": settings.strategies[0],
        "samples": settings.samples[0],
        "seeds": settings.seeds,
        "names": [workload.name for workload in workloads],
        "cells": cells,
        "picks": [pick(target, workloads, cells, settings.seeds) for target in workloads],
    }


def transferred(source: Workload, target: Workload, settings: Settings) -> dict[str, Any]:
    """Return the error on a target when a session starts from another workload's reference."""
    (result,) = evaluate(target.table, source.reference, settings)
    figures = {key: result[key] for key in ("mape_time_pct", "mape_power_pct")}
    scored = "all modes" if settings.validate_all else "unseen modes"
    return {"reference": source.name, "target": target.name, "self_fit": False, "validated_on": scored, **figures}


def self_fit(workload: Workload, settings: Settings) -> dict[str, Any]:
    """Return the error of the reference on the very table that it was fitted to.

    For networks that is about the least that can be hoped for. The physics of `transfer` stands there alone, while a
    transfer adds to it what its profiled modes teach beyond physics: a cell beside the diagonal may be the better one.
    """
    strategy, table = settings.strategies[0], workload.table
    if not strategies.learns_from_reference(strategy):  # a matrix of it would have equal rows
        names = ", ".join(filter(strategies.learns_from_reference, strategies.names()))
        raise EvaluationError(f"strategy {strategy!r} learns from no reference; a matrix is for {names}")
    if not strategies.needs_network(strategy):
        time_pct, power_pct = workload.reference.physics.mape_pct
    else:
        prediction = workload.reference.network().predict(table.matrix)
        time_pct = np.mean(np.abs(prediction.time_s / table.step_s - 1.0)) * 100
        power_pct = np.mean(np.abs(prediction.power_w / table.power_w - 1.0)) * 100
    return {
        "reference": workload.name,
        "target": workload.name,
        "self_fit": True,
        "validated_on": "all modes",
        "mape_time_pct": _single(float(time_pct)),
        "mape_power_pct": _single(float(power_pct)),
    }


def pick(
    target: Workload, workloads: Sequence[Workload], cells: Sequence[Mapping[str, Any]], seeds: int
) -> dict[str, Any]:
    """Return how often the rule picks which of the other references for a target, and what that costs.

    `loss` is the error (time + power, medians) with the picked references, by their mean, over that with the best one.
    """
    others = [workload.reference for workload in workloads if workload is not target]
    picks = picked_by_rule(target.table, others, seeds)
    errors = {cell["reference"]: _sum(cell) for cell in cells if cell["target"] == target.name and not cell["self_fit"]}
    best = min(errors, key=errors.__getitem__)
    usual = sum(errors[name] * times for name, times in picks.items()) / seeds
    return {
        "target": target.name,
        "picked": picks,
        "best": best,
        "worst": max(errors, key=errors.__getitem__),
        "loss": usual / errors[best],
        "loss_worst": max(errors.values()) / errors[best],
    }


def picked_by_rule(table: SampleTable, references: Sequence[Reference], seeds: int) -> dict[str, int]:
    """Return which workload's reference the agent would start from after a few random modes, and for how many seeds."""
    picks = Counter(closest(references, None, _few(table, seed)).card.workload for seed in range(seeds))
    return dict(sorted(picks.items()))


def _few(table: SampleTable, seed: int) -> History:
    """Return some measured modes of a table, as a session would have seen them."""
    history = History.of(ModeSpace.covering(table.matrix))
    for row in np.random.default_rng(seed).permutation(len(table))[:PICK_SAMPLES]:
        sample = table.sample(int(row))
        history = history.add(ModeReport(sample.mode, sample.mode, sample))
    return history


def _sum(cell: Mapping[str, Any]) -> float:
    return float(cell["mape_time_pct"]["median"] + cell["mape_power_pct"]["median"])


def _single(value: float) -> dict[str, float]:
    return {"median": value, "q1": value, "q3": value, "worst": value}
