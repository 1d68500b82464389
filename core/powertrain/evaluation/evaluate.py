"""Evaluate: strategies × numbers of modes × seeds on one reference and one target table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from powertrain.evaluation.board import Board
from powertrain.evaluation.lagging_board import SensorSettings
from powertrain.evaluation.runs import RunSettings, run
from powertrain.evaluation.scores import Score, Summary
from powertrain.profiling import Aim, Caution
from powertrain.samples import SampleTable
from powertrain.strategies import strategy_class
from powertrain.strategies.base import HasPhysics

ALL = "all"
# Default budgets of a session that has to keep them begin at so many times the least power of the table.
ROOM_TO_EXPLORE = 1.15


class EvaluationError(ValueError):
    """An evaluation that can't be run as asked; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What to evaluate. `samples` are numbers of profiled modes, or "all"; budgets None: every watt that binds."""

    strategies: tuple[str, ...] = ("transfer",)
    samples: tuple[int | str, ...] = (10, 20, 50)
    seeds: int = 10
    first_seed: int = 0
    aim: Aim = Aim.FRONT
    budgets_w: tuple[float, ...] | None = None
    checks: int = 0
    noise: float = 0.0
    within_budget: bool = False
    validate_all: bool = False
    device: str | None = None
    risk: float = 0.05
    jobs: int = 1
    prior_width: float = 1.0
    steps: int = 40  # that a profiled mode runs; they make the profiling minutes
    # Within a budget: a ledger over replayed readings decides (Normal), or every mode must be safe beforehand (High).
    caution: Caution = Caution.NORMAL
    lag_s: tuple[float, float] = (0.3, 1.2)  # from which the lag of a replayed board's power is drawn
    period_s: float = 0.1  # from reading to reading of a replay


def evaluate(
    target: SampleTable,
    reference: HasPhysics | None,
    settings: Settings,
    progress: Callable[[float], None] | None = None,
) -> list[dict[str, Any]]:
    """Return one result per strategy and number of modes, in the stable JSON form of `Summary`."""
    return [summary.to_dict() for summary in summaries(target, reference, settings, progress)]


def summaries(
    target: SampleTable,
    reference: HasPhysics | None,
    settings: Settings,
    progress: Callable[[float], None] | None = None,
) -> list[Summary]:
    """Return the same with every run in it, for whoever wants to join several tables."""
    sizes = target.batch_sizes()
    if len(sizes) > 1:
        raise EvaluationError(
            f"the target holds several batch sizes ({sizes}); choose one: each is a workload of its own"
        )
    board = Board.of(target, settings.noise)
    counts = _counts(settings.samples, len(board.space))
    for name in settings.strategies:
        strategy_class(name)
    run_settings = RunSettings(
        settings.aim,
        _budgets(board, settings.budgets_w, settings.within_budget),
        settings.checks,
        settings.within_budget,
        settings.validate_all,
        settings.device,
        settings.risk,
        settings.prior_width,
        settings.steps,
        SensorSettings(settings.noise, settings.lag_s, settings.period_s)
        if settings.caution is Caution.NORMAL
        else None,
    )
    tasks = list(product(settings.strategies, range(settings.first_seed, settings.first_seed + settings.seeds)))
    collected = {(name, count): Summary(name, label) for name in settings.strategies for count, label in counts.items()}
    with _mapper(settings.jobs) as mapped:
        arguments = [(name, board, reference, tuple(counts), seed, run_settings) for name, seed in tasks]
        for finished_tasks, ((name, _), scores) in enumerate(zip(tasks, mapped(_run, arguments), strict=True), start=1):
            for count, score in scores.items():
                collected[name, count].scores.append(score)
            if progress is not None:
                progress(finished_tasks / len(tasks))
    return list(collected.values())


def _run(arguments: tuple[str, Board, HasPhysics | None, tuple[int, ...], int, RunSettings]) -> dict[int, Score]:
    return run(*arguments)


@contextmanager
def _mapper(jobs: int) -> Iterator[Callable[..., Iterable[dict[int, Score]]]]:
    if jobs <= 1:
        yield map
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield pool.map


def _counts(samples: tuple[int | str, ...], size: int) -> dict[int, int | str]:
    """Return the numbers of modes to stop at, with the label that the result carries."""
    counts: dict[int, int | str] = {}
    for value in samples:
        if value == ALL:
            counts[size] = ALL
        elif not isinstance(value, int) or value < 1:
            raise EvaluationError(f"a number of samples must be at least 1, or 'all'; not {value!r}")
        elif value > size:
            raise EvaluationError(
                f"{value} samples were requested, but the target has only {size} modes; use at most {size}, or 'all'"
            )
        else:
            counts[value] = value
    if not counts:
        raise EvaluationError("give at least one number of samples")
    return counts


def _budgets(board: Board, requested_w: tuple[float, ...] | None, within_budget: bool) -> tuple[float, ...]:
    """Return the budgets that at least one mode keeps; by default every whole watt, or 20 levels on a small board.

    A session that may not exceed its budget has nothing to explore until the budget exceeds the least power by a part.
    """
    lowest, highest = float(board.truth.power_w.min()), float(board.truth.power_w.max())
    if within_budget and requested_w is None:
        lowest *= ROOM_TO_EXPLORE
    if requested_w is None:
        watts = np.arange(np.ceil(lowest), np.floor(highest) + 1)
        requested_w = tuple(float(w) for w in (watts if watts.size >= 10 else np.linspace(lowest, highest, 20)))
    usable = tuple(w for w in requested_w if w >= lowest)
    if not usable:
        raise EvaluationError(
            f"no mode of the target keeps any of the budgets {requested_w}; its least power is {lowest:.4g} W"
        )
    return usable
