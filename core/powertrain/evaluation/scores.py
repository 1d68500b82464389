"""Scores: prediction error, calibration, penalty and excess power of single runs, and their summary over seeds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from powertrain.prediction import Prediction
from powertrain.samples import SampleTable
from powertrain.space import BoolArray, FloatArray

# Half-width of a 95 % interval in standard deviations.
Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class BudgetScore:
    """What one choice under one power budget was truly worth.

    `penalty_pct` is against the fastest mode within the budget. A choice over the budget never counts as better than
    that mode.
    """

    budget_w: float
    penalty_pct: float
    excess_w: float
    binding: bool
    plausible_penalty_pct: float | None = None  # against the fastest plausible mode
    excess_over_99_pct: float | None = None  # against the fastest plausible mode within 99 % of the budget


@dataclass(frozen=True, slots=True)
class Score:
    """One run: a strategy, a number of modes, a seed."""

    mape_time_pct: float | None = None
    mape_power_pct: float | None = None
    time_95: float | None = None
    power_95: float | None = None
    budgets: tuple[BudgetScore, ...] = ()
    profiled_excess_w: tuple[float, ...] = ()
    profiling_minutes: float = 0.0
    fit_predict_ms: float | None = None
    modes: int = 0
    all_time_pct: float | None = None  # over all modes, profiled ones included, as the papers score
    all_power_pct: float | None = None
    windows: WindowsAbove | None = None  # of a replay
    visits: int | None = None
    board_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class WindowsAbove:
    """Windows of true power above the limit, while exploring and after the choice, and the worst of all in percent."""

    exploring: int = 0
    after: int = 0
    worst_excess_pct: float = -100.0

    def __add__(self, other: WindowsAbove) -> WindowsAbove:
        return WindowsAbove(
            self.exploring + other.exploring,
            self.after + other.after,
            max(self.worst_excess_pct, other.worst_excess_pct),
        )


def prediction_score(prediction: Prediction, truth: SampleTable, scored: BoolArray) -> Score:
    """Return errors and interval coverage over the scored rows; truth has the rows of the prediction."""
    time_s, power_w = truth.step_s[scored], truth.power_w[scored]
    time_error = np.abs(prediction.time_s[scored] - time_s)
    power_error = np.abs(prediction.power_w[scored] - power_w)
    return Score(
        mape_time_pct=float(np.mean(time_error / time_s) * 100),
        mape_power_pct=float(np.mean(power_error / power_w) * 100),
        time_95=float(np.mean(time_error <= Z95 * prediction.time_std_s[scored])),
        power_95=float(np.mean(power_error <= Z95 * prediction.power_std_w[scored])),
    )


def budget_score(truth: SampleTable, row: int, budget_w: float, plausible: BoolArray | None = None) -> BudgetScore:
    """Return what choosing this row under this budget was worth; some mode must keep the budget.

    `plausible` says which rows of the table can be believed; without it nothing is scored against those alone.
    """
    fastest_w = float(truth.power_w[int(np.argmin(truth.step_s))])
    penalty = _slower_pct(truth, row, truth.power_w <= budget_w)
    excess = max(0.0, float(truth.power_w[row]) - budget_w)
    score = BudgetScore(budget_w, 0.0 if penalty is None else penalty, excess, binding=budget_w < fastest_w)
    if plausible is None:
        return score
    return replace(
        score,
        plausible_penalty_pct=_slower_pct(truth, row, plausible & (truth.power_w <= budget_w)),
        excess_over_99_pct=_slower_pct(truth, row, plausible & (truth.power_w <= 0.99 * budget_w)),
    )


def _slower_pct(truth: SampleTable, row: int, among: BoolArray) -> float | None:
    """Return by how many percent a row is slower than the fastest of some, never below zero; None without any."""
    if not among.any():
        return None
    return max(0.0, (float(truth.step_s[row]) / float(truth.step_s[among].min()) - 1.0) * 100)


@dataclass
class Summary:
    """Collects the runs of one strategy and one number of modes."""

    strategy: str
    samples: int | str
    scores: list[Score] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form; null where a strategy has no such figure."""
        budgets = [b for score in self.scores for b in score.budgets]
        feasible = [b for b in budgets if b.excess_w <= 0]
        profiled = [w for score in self.scores for w in score.profiled_excess_w]
        limited = any(score.profiled_excess_w for score in self.scores)
        return {
            "strategy": self.strategy,
            "samples": self.samples,
            "seeds": len(self.scores),
            "mape_time_pct": _quartiles([s.mape_time_pct for s in self.scores]),
            "mape_power_pct": _quartiles([s.mape_power_pct for s in self.scores]),
            "mape_all_time_pct": _quartiles([s.all_time_pct for s in self.scores]),
            "mape_all_power_pct": _quartiles([s.all_power_pct for s in self.scores]),
            "penalty_pct": _tail([b.penalty_pct for b in budgets]),
            "penalty_binding_pct": _tail([b.penalty_pct for b in budgets if b.binding]),
            "penalty_feasible_pct": _tail([b.penalty_pct for b in feasible]),
            "penalty_by_budget_pct": _by_budget(budgets),
            "over_budget_pct": _share([b.excess_w > 0 for b in budgets]),
            "over_budget_1w_pct": _share([b.excess_w > 1 for b in budgets]),
            "excess_w": float(np.mean([b.excess_w for b in budgets])) if budgets else None,
            "unsafe_profiled_pct": _share([w > 0 for w in profiled]) if limited else None,
            "unsafe_profiled_1w_pct": _share([w > 1 for w in profiled]) if limited else None,
            "profiling_minutes": float(np.median([s.profiling_minutes for s in self.scores])),
            "modes_measured": float(np.median([s.modes for s in self.scores])),
            **self._replayed(budgets),
            "fit_predict_ms": _median([s.fit_predict_ms for s in self.scores]),
            "calibration": {
                "time_95": _median([s.time_95 for s in self.scores]),
                "power_95": _median([s.power_95 for s in self.scores]),
            },
        }

    def _replayed(self, budgets: list[BudgetScore]) -> dict[str, Any]:
        """Return what only a replay of readings knows; null without one."""
        binding = [b for b in budgets if b.binding]
        plausible = [b.plausible_penalty_pct for b in binding if b.plausible_penalty_pct is not None]
        excess = [b.excess_over_99_pct for b in binding if b.excess_over_99_pct is not None]
        windows = [s.windows for s in self.scores if s.windows is not None]
        over_99 = _tail(excess)
        return {
            "plausible": {
                "penalty_binding_pct": _tail(plausible),
                "excess_over_99_pct": over_99 and {key: over_99[key] for key in ("median", "mean", "p90")},
            }
            if plausible
            else None,
            "windows_above": asdict(sum(windows, WindowsAbove())) if windows else None,
            "visits": _median([s.visits for s in self.scores]),
            "board_seconds": _median([s.board_seconds for s in self.scores]),
        }


def _present(values: list[float | None]) -> FloatArray:
    return np.array([v for v in values if v is not None], dtype=np.float64)


def _median(values: list[float | None]) -> float | None:
    present = _present(values)
    return float(np.median(present)) if present.size else None


def _quartiles(values: list[float | None]) -> dict[str, float] | None:
    present = _present(values)
    if not present.size:
        return None
    q1, median, q3 = np.percentile(present, [25, 50, 75])
    return {"median": float(median), "q1": float(q1), "q3": float(q3), "worst": float(present.max())}


def _tail(values: list[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {
        "median": float(np.median(values)),
        "mean": float(np.mean(values)),
        "p90": float(np.percentile(values, 90)),
        "worst": float(np.max(values)),
    }


def _by_budget(budgets: list[BudgetScore]) -> dict[str, float]:
    levels = sorted({b.budget_w for b in budgets})
    return {f"{level:g}": float(np.median([b.penalty_pct for b in budgets if b.budget_w == level])) for level in levels}


def _share(flags: list[bool]) -> float | None:
    return float(np.mean(flags) * 100) if flags else None
