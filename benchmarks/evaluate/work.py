"""Computes one cell: a pure function of the cell, the tables and the code."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from benchmarks.evaluate.plan import BERT, LSTM, MOBILENET, RESNET, YOLO, Cell
from benchmarks.evaluate.stepped import SteppedBoard
from benchmarks.evaluate.tables import Store, board_of

from powertrain.evaluation import Score, Settings, fronts
from powertrain.evaluation.board import Board
from powertrain.evaluation.matrix import Workload, picked_by_rule, self_fit
from powertrain.evaluation.runs import RunSettings, run
from powertrain.evaluation.scores import BudgetScore
from powertrain.profiling import Aim
from powertrain.reference import Reference
from powertrain.samples import SampleTable

BUDGETS_W = tuple(float(watts) for watts in range(17, 51))
ZOOM_W = 30.0


class SelfFitError(ValueError):
    """A cell whose reference was made from the target's own table: its figures would flatter."""


def compute(cell: Cell, store: Store) -> Any:
    """Return a cell's result as JSON-ready values, without anything that differs between two runs."""
    return {"run": _run, "self-fit": _self_fit, "fronts": _fronts, "picks": _picks, "cores": _fixed_cores}[cell.kind](
        cell, store
    )


def timed(cell: Cell, store: Store) -> tuple[Any, float]:
    """Return a cell's result and the processor seconds that it took."""
    started = time.process_time()
    return compute(cell, store), time.process_time() - started


def unbiased_reference(cell: Cell, store: Store) -> Reference:
    """Return the reference of a judged cell; one that was made from the target's own table is refused."""
    reference = store.reference(cell.reference)
    if reference.fitted_to(store.table(cell.target)):
        raise SelfFitError(f"reference {cell.reference!r} was fitted to the table of {cell.target!r}; take another one")
    return reference


def score_of(stored: dict[str, Any]) -> Score:
    """Return the score that a cell stored."""
    budgets = tuple(BudgetScore(**budget) for budget in stored["budgets"])
    return Score(**{**stored, "budgets": budgets, "profiled_excess_w": tuple(stored["profiled_excess_w"])})


def _run(cell: Cell, store: Store) -> dict[str, Any]:
    return _scores(cell, store, store.table(cell.target))


def _scores(cell: Cell, store: Store, table: SampleTable) -> dict[str, Any]:
    board = Board.of(table, cell.noise)
    if cell.period_s:
        board = SteppedBoard.measured_by(board, cell.steps, cell.period_s, cell.jitter)
    settings = RunSettings(
        aim=Aim(cell.aim),
        budgets_w=_usable(table) if cell.aim != Aim.ACCURACY else (),  # error alone is asked for: nothing is chosen
        checks=cell.checks,
        within_budget=False,
        validate_all=False,
        device=board_of(cell.target),
        prior_width=cell.prior_width,
        steps=cell.steps,
    )
    scores = run(cell.strategy, board, unbiased_reference(cell, store), cell.samples, cell.seed, settings)
    return {str(count): asdict(replace(score, fit_predict_ms=None)) for count, score in scores.items()}


def _fixed_cores(cell: Cell, store: Store) -> dict[str, Any]:
    """Score choices among modes with all cores against the best mode with any number of them."""
    table = store.table(cell.target)
    full_cores = table.take(table.matrix[:, 0] == table.matrix[:, 0].max())
    scores = _scores(cell, store, full_cores)
    for score in scores.values():
        for budget in score["budgets"]:
            free_s = float(table.step_s[table.power_w <= budget["budget_w"]].min())
            kept_s = float(full_cores.step_s[full_cores.power_w <= budget["budget_w"]].min())
            budget["penalty_pct"] = ((1.0 + budget["penalty_pct"] / 100) * kept_s / free_s - 1.0) * 100
    return scores


def _self_fit(cell: Cell, store: Store) -> dict[str, Any]:
    workload = Workload(cell.target, store.table(cell.target), store.reference(cell.reference))
    return self_fit(workload, Settings((cell.strategy,)))


def _fronts(cell: Cell, store: Store) -> dict[str, Any] | None:
    settings = Settings(aim=Aim(cell.aim), budgets_w=(20.0, 25.0, ZOOM_W), device=board_of(cell.target))
    reference = unbiased_reference(cell, store)
    return fronts(store.table(cell.target), reference, cell.strategy, cell.samples[0], settings, cell.seed)


def _picks(cell: Cell, store: Store) -> dict[str, int]:
    """Return how often the rule picks which reference for a target; the cell's seed is the number of seeds."""
    names = [name for name in (RESNET, MOBILENET, YOLO, BERT, LSTM) if name != cell.target]
    return picked_by_rule(store.table(cell.target), [store.reference(name) for name in names], cell.seed)


def _usable(table: SampleTable) -> tuple[float, ...]:
    """Return the papers' budgets that some mode keeps; twenty levels of its own range for a board below them."""
    usable = tuple(budget for budget in BUDGETS_W if budget >= float(table.power_w.min()))
    if float(table.power_w.max()) > BUDGETS_W[0] + 3:
        return usable
    return tuple(float(watts) for watts in np.linspace(table.power_w.min(), table.power_w.max(), 20))
