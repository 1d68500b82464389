"""Choosing: the best mode under limits, with how sure it is, the runner-up, and why the others are out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from powertrain.feasibility import break_probability
from powertrain.limit_table import LIMITS, Quantity, Span
from powertrain.objectives import ASSUMED_PEAK_FACTOR, LimitError, Limits, Objective, PowerStatistic, Work
from powertrain.prediction import Prediction
from powertrain.space import BoolArray, FloatArray

__all__ = ["LIMIT_WORDS", "TOGETHER", "Choice", "Miss", "break_probability", "choose"]

# The limits by the names they have in a TrainingJob: what a person calls them, and their unit.
LIMIT_WORDS = {limit.wire_name: (limit.words, limit.unit) for limit in LIMITS if limit.attribute}
# Counts modes that keep each limit within the risk, but not all of them at once.
TOGETHER = "together"


@dataclass(frozen=True, slots=True)
class Miss:
    """How far the closest mode is from keeping the limits, by the limit it misses most (relative to the limit).

    A value within its limit means that the mode keeps the limits as expected, but is too likely to break them.
    """

    row: int
    constraint: str  # a key of LIMIT_WORDS
    value: float
    limit: float
    break_probability: float

    @property
    def text(self) -> str:
        """Say it in words."""
        name, unit = LIMIT_WORDS[self.constraint]
        if self.value <= self.limit:
            return (
                f"{name} {self.value:.4g} {unit} within {self.limit:.4g} {unit}, "
                f"but breaks a limit with probability {self.break_probability:.2g}"
            )
        over = f"{self.value - self.limit:.3g} {unit} or {self.value / self.limit - 1:.1%} too much"
        return f"{name} {self.value:.4g} {unit} instead of at most {self.limit:.4g} {unit} ({over})"


@dataclass(frozen=True, slots=True)
class Choice:
    """Rows of the chosen mode and the runner-up (None where nothing is feasible; then `closest` says by how much).

    `excluded` counts the modes that each limit alone puts out (one mode may count at several), by its name in a
    TrainingJob, and under `together` those that only all limits at once put out.
    """

    row: int | None
    runner_up: int | None
    break_probability: float
    feasible: int
    excluded: dict[str, int]
    closest: Miss | None
    reason: str


def choose(
    prediction: Prediction,
    objective: Objective,
    limits: Limits,
    work: Work | None = None,
    risk: float = 0.05,
    peak_factor: FloatArray | float = ASSUMED_PEAK_FACTOR,
    eligible: BoolArray | None = None,
) -> Choice:
    """Choose among modes whose joint probability of breaking any limit is at most `risk`.

    `peak_factor` says how far single readings lie above the mean; `eligible` narrows the candidates (for example to
    measured modes).
    """
    work = work or Work()
    limits.check(objective, work)
    if not 0 <= risk < 1:
        raise LimitError(f"risk must be a probability from 0 to below 1, not {risk}")
    break_risk = break_probability(prediction, limits, work, peak_factor)
    candidates = np.ones(len(prediction), dtype=np.bool_) if eligible is None else eligible
    feasible = candidates & (break_risk <= risk)
    alone = {
        name: candidates & (break_probability(prediction, single, work, peak_factor) > risk)
        for name, single in _single_limits(limits).items()
    }
    excluded = _excluded(alone, candidates & ~feasible)
    if not feasible.any():
        closest = _closest(_usage(prediction, limits, work, peak_factor), break_risk, candidates)
        reason = f"none of {int(candidates.sum())} modes keeps the limits"
        reason += f"; the closest has {closest.text}" if closest else ""
        return Choice(None, None, 1.0, 0, excluded, closest, reason)
    rows = np.flatnonzero(feasible)
    ranked = rows[_order(objective, prediction.time_s[rows], prediction.power_w[rows])]
    best, runner_up = int(ranked[0]), int(ranked[1]) if ranked.size > 1 else None
    reason = _reason(objective, prediction, best, runner_up, int(feasible.sum()), int(candidates.sum()))
    return Choice(best, runner_up, float(break_risk[best]), int(feasible.sum()), excluded, None, reason)


def _order(objective: Objective, time_s: FloatArray, power_w: FloatArray) -> np.ndarray:
    keys = {
        Objective.MIN_TIME: (power_w, time_s),
        Objective.MIN_POWER: (time_s, power_w),
        Objective.MIN_ENERGY: (time_s, time_s * power_w),
    }
    return np.lexsort(keys[objective])


def _single_limits(limits: Limits) -> dict[str, Limits]:
    """Return each limit that is set, alone."""
    return {limit.wire_name: limits.alone(limit) for limit, _ in limits.values()}


def _excluded(alone: dict[str, BoolArray], out: BoolArray) -> dict[str, int]:
    counts = {name: int(mask.sum()) for name, mask in alone.items()}
    unexplained = int((out & ~np.any(list(alone.values()), axis=0)).sum()) if alone else 0
    return counts | ({TOGETHER: unexplained} if unexplained else {})


def _closest(usage: dict[str, tuple[FloatArray, float]], break_risk: FloatArray, candidates: BoolArray) -> Miss | None:
    """Return the mode whose worst relative excess over its limits is least; if some have none, the surest of those."""
    if not usage:
        return None
    ratios = np.stack([value / limit for value, limit in usage.values()])
    worst = np.where(candidates & np.isfinite(ratios).all(axis=0), ratios.max(axis=0), np.inf)
    if np.isinf(worst).all():
        return None
    row = int(np.argmin(np.where(worst <= 1, break_risk - 2, worst)))
    name = list(usage)[int(np.argmax(ratios[:, row]))]
    value, limit = usage[name]
    return Miss(row, name, float(value[row]), limit, float(break_risk[row]))


def _usage(
    prediction: Prediction, limits: Limits, work: Work, peak_factor: FloatArray | float
) -> dict[str, tuple[FloatArray, float]]:
    """Return for each limit the expected value of every mode and the limit itself, in the units a user gave."""
    peak = prediction.power_w * peak_factor
    power = peak if limits.power_statistic is PowerStatistic.PEAK else prediction.power_w
    per_step = {Quantity.TIME: prediction.time_s, Quantity.ENERGY: prediction.power_w * prediction.time_s}
    usage = {}
    for limit, value in limits.values():
        if limit.quantity is Quantity.POWER:
            expected = peak if limit.span is Span.READING else power
        else:
            expected = per_step[limit.quantity] * (work.steps_in(limit.span) or 1)
        usage[limit.wire_name] = (expected, value)
    return usage


def _reason(
    objective: Objective, prediction: Prediction, best: int, runner_up: int | None, feasible: int, candidates: int
) -> str:
    what = {
        Objective.MIN_TIME: "fastest",
        Objective.MIN_POWER: "least power",
        Objective.MIN_ENERGY: "least energy",
    }[objective]
    keeping = "1 mode that keeps" if feasible == 1 else f"{feasible} modes that keep"
    text = f"{what} of {keeping} the limits ({candidates} considered)"
    if runner_up is None:
        return text + "; no other does"
    slower = prediction.time_s[runner_up] / prediction.time_s[best] - 1
    watts = prediction.power_w[runner_up] - prediction.power_w[best]
    return text + f"; the runner-up takes {slower:+.1%} time and {watts:+.2f} W"
