"""Three fronts of one profiled target: observed, predicted, and what the predicted one's modes truly give."""

from __future__ import annotations

from typing import Any

import numpy as np

from powertrain.evaluation.board import Board
from powertrain.evaluation.evaluate import Settings
from powertrain.evaluation.runs import RISK_BY_THE_MEAN
from powertrain.objectives import Limits
from powertrain.pareto import pareto_front
from powertrain.prediction import Prediction
from powertrain.profiling import Problem
from powertrain.samples import SampleTable
from powertrain.session import Ask, ProfilingSession
from powertrain.space import FloatArray, IntArray
from powertrain.strategies import is_cautious
from powertrain.strategies.base import HasPhysics, measured_prediction


def fronts(
    target: SampleTable, reference: HasPhysics | None, strategy: str, samples: int, settings: Settings, seed: int = 0
) -> dict[str, Any] | None:
    """Profile once and return the fronts in a stable JSON form: points of mode, step time and power, fastest first.

    `observed` is the truth's own front. `predicted` is that of the strategy's predictions (of its measurements, where
    it predicts nothing), `predicted_observed` the truth at the same modes. `choices` has the pick for each budget.
    None for a strategy that measures nothing.
    """
    board = Board.of(target, settings.noise)
    session = ProfilingSession(
        Problem(
            board.space,
            settings.aim,
            risk=settings.risk if is_cautious(strategy) else RISK_BY_THE_MEAN,
            max_modes=samples,
            min_gain=0.0,
            noise=settings.noise,
            device=settings.device,
            seed=seed,
            prior_width=settings.prior_width,
        ),
        strategy,
        reference,
        filtered=is_cautious(strategy),
    )
    while isinstance(answer := session.ask(), Ask):
        session.tell(board.measure(answer.mode, seed))
    if session.measured == 0:
        return None
    prediction = session.predict() or measured_prediction(session.problem, session.history)
    truth = board.truth
    rows = pareto_front(prediction.time_s, prediction.power_w)
    return {
        "strategy": strategy,
        "samples": samples,
        "seed": seed,
        "observed": _points(board, pareto_front(truth.step_s, truth.power_w), truth.step_s, truth.power_w),
        "predicted": _points(board, rows, prediction.time_s, prediction.power_w),
        "predicted_observed": _points(board, rows, truth.step_s, truth.power_w),
        "choices": [_choice(session, board, prediction, budget_w) for budget_w in settings.budgets_w or ()],
    }


def _choice(session: ProfilingSession, board: Board, prediction: Prediction, budget_w: float) -> dict[str, Any]:
    """Return what is chosen under a budget, what was foretold of it and what it is; the best mode for comparison."""
    truth = board.truth
    row = session.choose(Limits(power_w=budget_w)).row
    within = np.flatnonzero(truth.power_w <= budget_w)
    best = within[[int(np.argmin(truth.step_s[within]))]] if within.size else within
    rows: IntArray = np.array([] if row is None else [row], dtype=np.int64)
    return {
        "budget_w": budget_w,
        "best": _points(board, best, truth.step_s, truth.power_w),
        "predicted": _points(board, rows, prediction.time_s, prediction.power_w),
        "observed": _points(board, rows, truth.step_s, truth.power_w),
    }


def _points(board: Board, rows: IntArray, step_s: FloatArray, power_w: FloatArray) -> list[dict[str, Any]]:
    return [
        {"mode": str(board.space[int(row)]), "step_s": float(step_s[row]), "power_w": float(power_w[row])}
        for row in rows
    ]
