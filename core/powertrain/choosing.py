"""Choosing: the best mode under limits, with how sure it is, the runner-up, and why the others are out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from powertrain.objectives import ASSUMED_PEAK_FACTOR, Limits, Objective, PowerStatistic, Work
from powertrain.prediction import Prediction
from powertrain.space import BoolArray, FloatArray

# Points of the quantile rule that integrates over step time when an energy limit ties time and power together.
QUADRATURE_POINTS = 64


@dataclass(frozen=True, slots=True)
class Miss:
    """How far the closest mode is from keeping the limits, by the limit it misses most."""

    row: int
    constraint: str
    value: float
    limit: float

    @property
    def text(self) -> str:
        """Say it in words."""
        return f"{self.constraint} {self.value:.4g} instead of at most {self.limit:.4g}"


@dataclass(frozen=True, slots=True)
class Choice:
    """Rows of the chosen mode and the runner-up (None where nothing is feasible; then `closest` says by how much)."""

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

    Time and power errors are taken as independent and normal. `eligible` narrows the candidates (for example to measured modes).
    """
    work = work or Work()
    limits.check(objective, work)
    if not 0 <= risk < 1:
        raise ValueError(f"risk must be a probability below 1, not {risk}")
    broken = break_probability(prediction, limits, work, peak_factor)
    candidates = np.ones(len(prediction), dtype=np.bool_) if eligible is None else eligible
    feasible = candidates & (broken <= risk)
    excluded = _excluded(prediction, limits, work, risk, peak_factor, candidates)
    if not feasible.any():
        closest = _closest(prediction, limits, work, peak_factor, candidates)
        reason = "no mode keeps the limits" + (f"; the closest has {closest.text}" if closest else "")
        return Choice(None, None, 1.0, 0, excluded, closest, reason)
    rows = np.flatnonzero(feasible)
    ranked = rows[_order(objective, prediction.time_s[rows], prediction.power_w[rows])]
    best, runner_up = int(ranked[0]), int(ranked[1]) if ranked.size > 1 else None
    reason = _reason(objective, prediction, best, runner_up, int(feasible.sum()), int(candidates.sum()))
    return Choice(best, runner_up, float(broken[best]), int(feasible.sum()), excluded, None, reason)


def break_probability(
    prediction: Prediction, limits: Limits, work: Work, peak_factor: FloatArray | float = ASSUMED_PEAK_FACTOR
) -> FloatArray:
    """Return for each mode the joint probability that at least one limit breaks."""
    max_power = np.broadcast_to(limits.mean_power_w(peak_factor), prediction.power_w.shape)
    max_step, max_energy = limits.step_s(work), limits.step_j(work)
    if np.isfinite(max_energy):
        return 1.0 - _all_hold_with_energy(prediction, max_power, max_step, max_energy)
    holds = _below(prediction.power_w, prediction.power_std_w, max_power)
    if np.isfinite(max_step):
        holds = holds * _below(prediction.time_s, prediction.time_std_s, np.full_like(holds, max_step))
    return 1.0 - holds


def _all_hold_with_energy(
    prediction: Prediction, max_power: FloatArray, max_step: float, max_energy: float
) -> FloatArray:
    """Integrate over step time: given the time, the energy limit is a limit on power."""
    from scipy.special import ndtri

    holds = np.zeros_like(prediction.time_s)
    quantiles = (np.arange(QUADRATURE_POINTS) + 0.5) / QUADRATURE_POINTS
    for z in ndtri(quantiles):
        step_s = prediction.time_s + z * prediction.time_std_s
        bound = np.minimum(max_power, max_energy / np.maximum(step_s, 1e-12))
        holds += np.where(step_s <= max_step, _below(prediction.power_w, prediction.power_std_w, bound), 0.0)
    return holds / QUADRATURE_POINTS


def _below(mean: FloatArray, std: FloatArray, bound: FloatArray) -> FloatArray:
    """Return P(value ≤ bound); a standard deviation of zero means the value is exact."""
    from scipy.special import ndtr

    certain = std <= 0
    scaled = (bound - mean) / np.where(certain, 1.0, std)
    result: FloatArray = np.where(certain, (mean <= bound).astype(np.float64), ndtr(scaled))
    return result


def _order(objective: Objective, time_s: FloatArray, power_w: FloatArray) -> np.ndarray:
    keys = {
        Objective.MIN_TIME: (power_w, time_s),
        Objective.MIN_POWER: (time_s, power_w),
        Objective.MIN_ENERGY: (time_s, time_s * power_w),
    }
    return np.lexsort(keys[objective])


def _single_limits(limits: Limits) -> dict[str, Limits]:
    """Return each limit alone, by the name a user reads."""
    alone = {
        "power (W)": Limits(power_w=limits.power_w, power_statistic=limits.power_statistic),
        "hard power limit (W)": Limits(hard_limit_w=limits.hard_limit_w),
        "epoch time (s)": Limits(epoch_s=limits.epoch_s),
        "training time (s)": Limits(training_s=limits.training_s),
        "energy per epoch (J)": Limits(energy_per_epoch_j=limits.energy_per_epoch_j),
        "energy (J)": Limits(energy_j=limits.energy_j),
    }
    return {name: single for name, single in alone.items() if single != Limits(power_statistic=single.power_statistic)}


def _excluded(
    prediction: Prediction,
    limits: Limits,
    work: Work,
    risk: float,
    peak_factor: FloatArray | float,
    candidates: BoolArray,
) -> dict[str, int]:
    counts = {}
    for name, single in _single_limits(limits).items():
        counts[name] = int((candidates & (break_probability(prediction, single, work, peak_factor) > risk)).sum())
    return counts


def _closest(
    prediction: Prediction, limits: Limits, work: Work, peak_factor: FloatArray | float, candidates: BoolArray
) -> Miss | None:
    """Return the mode whose worst relative excess over its limits is least."""
    if not candidates.any():
        return None
    usage = _usage(prediction, limits, work, peak_factor)
    ratios = np.stack([value / limit for value, limit in usage.values()])
    worst = np.where(candidates, ratios.max(axis=0), np.inf)
    row = int(np.argmin(worst))
    name = list(usage)[int(np.argmax(ratios[:, row]))]
    value, limit = usage[name]
    return Miss(row, name, float(value[row]), limit)


def _usage(
    prediction: Prediction, limits: Limits, work: Work, peak_factor: FloatArray | float
) -> dict[str, tuple[FloatArray, float]]:
    """Return for each limit the expected value of every mode and the limit itself, in the units a user gave."""
    peak = prediction.power_w * peak_factor
    energy = prediction.power_w * prediction.time_s
    per_epoch, total = work.steps_per_epoch or 1, work.steps or 1
    power = peak if limits.power_statistic is PowerStatistic.PEAK else prediction.power_w
    rows = {
        "power (W)": (power, limits.power_w),
        "hard power limit (W)": (peak, limits.hard_limit_w),
        "epoch time (s)": (prediction.time_s * per_epoch, limits.epoch_s),
        "training time (s)": (prediction.time_s * total, limits.training_s),
        "energy per epoch (J)": (energy * per_epoch, limits.energy_per_epoch_j),
        "energy (J)": (energy * total, limits.energy_j),
    }
    return {name: (value, limit) for name, (value, limit) in rows.items() if limit is not None}


def _reason(
    objective: Objective, prediction: Prediction, best: int, runner_up: int | None, feasible: int, candidates: int
) -> str:
    what = {
        Objective.MIN_TIME: "fastest",
        Objective.MIN_POWER: "least power",
        Objective.MIN_ENERGY: "least energy",
    }[objective]
    text = f"{what} of {feasible} modes that keep the limits ({candidates} considered)"
    if runner_up is None:
        return text + "; no other does"
    slower = prediction.time_s[runner_up] / prediction.time_s[best] - 1
    watts = prediction.power_w[runner_up] - prediction.power_w[best]
    return text + f"; the runner-up takes {slower:+.1%} time and {watts:+.2f} W"
