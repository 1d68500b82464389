"""Which modes to measure for the least prediction error: a first handful from the reference, then one at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from powertrain.physics.checks import checked_modes
from powertrain.physics.fitting import DEFAULT_NOISE
from powertrain.physics.model import (
    COUNT,
    POWER_AMPLITUDES,
    TIME_AMPLITUDES,
    TIME_COUNT,
    evaluate,
    indices,
    log_features,
)
from powertrain.physics.predictor import PhysicsPredictor
from powertrain.physics.prior import prior_around, residual_sd_for, widths_for
from powertrain.physics.reference import PhysicsReference, generic_reference
from powertrain.physics.residual import SMOOTH_SHARE, correlation, regime_sd
from powertrain.space import BoolArray, FloatArray, IntArray

# Random subsets of the space bound the time. Corners are not favoured: informative on paper, they are where published
# tables most often hold a row whose clock was not applied.
CANDIDATES, GRID = 200, 120
# Gain is divided by cost to this power: cheap modes win ties, slow ones are not shut out. At the start only the
# reference's own speed is known, which says little about a new workload's.
FIRST_COST_POWER, COST_POWER = 0.05, 0.1
SETTLING_S, STEPS = 5.0, 40
POWER_WEIGHT = 2.0  # power errors are about half as large as time errors and matter as much
# The first handful must serve workloads unlike the reference: the criterion is averaged over draws from the prior.
DRAWS, DRAW_WIDTH = 8, 0.7
ANCHOR_MARGIN = 0.15  # a mode within 15 % of the lowest power by the reference counts as a low-power anchor


def low_power_anchor(reference: PhysicsReference | None, X_candidates: ArrayLike) -> int:
    """Return the index of the mode with the lowest power by the reference: where a careful start begins."""
    modes = checked_modes(X_candidates)
    return int(np.argmin((reference or generic_reference(modes)).evaluate(modes).log_power))


def initial_design(
    reference: PhysicsReference | None,
    X_candidates: ArrayLike,
    k: int = 5,
    seed: int = 0,
    cost_s: ArrayLike | None = None,
) -> IntArray:
    """Choose the first k modes (indices, lowest power first) by greedily least expected error over the space.

    One of them at least is a low-power anchor. The error is that of the linearised model, averaged over what the
    workload may be like; `cost_s` may replace the reference's cost of each mode.
    """
    modes = checked_modes(X_candidates)
    base = reference or generic_reference(modes)
    log_power = base.evaluate(modes).log_power
    if k >= modes.shape[0]:
        return np.argsort(log_power, kind="stable").astype(np.int64)
    low = log_power <= log_power.min() + np.log1p(ANCHOR_MARGIN)
    rng = np.random.default_rng(seed)
    candidates = _subset(rng, np.arange(modes.shape[0]), CANDIDATES)
    if not low[candidates].any():
        candidates = np.append(candidates, np.argmin(log_power))
    grid = _subset(rng, np.arange(modes.shape[0]), GRID)
    scenarios = [_Scenario.build(base, theta, modes, candidates, grid) for theta in _plausible(base, modes)]
    cost = SETTLING_S + STEPS * np.exp(base.evaluate(modes[candidates]).log_time)
    if cost_s is not None:
        cost = np.asarray(cost_s, dtype=np.float64)[candidates]
    chosen: list[int] = []
    while len(chosen) < k:
        gain = np.sum([scenario.expected_gain() for scenario in scenarios], axis=0) / cost**FIRST_COST_POWER
        gain[chosen] = -np.inf
        if len(chosen) == k - 1 and not low[candidates[chosen]].any():
            gain[~low[candidates]] = -np.inf
        best = int(np.argmax(gain))
        chosen.append(best)
        for scenario in scenarios:
            scenario.condition_on(best)
    rows = candidates[chosen]
    return rows[np.argsort(log_power[rows], kind="stable")].astype(np.int64)


def accuracy_next(
    predictor: PhysicsPredictor, X_candidates: ArrayLike, measured_mask: BoolArray, cost_s: ArrayLike
) -> int:
    """Choose the mode whose measurement is expected to lower the error over the whole space most, per cost (damped)."""
    modes = checked_modes(X_candidates)
    mask = np.asarray(measured_mask, dtype=np.bool_)
    open_ = np.flatnonzero(~mask)
    if open_.size == 0:
        raise ValueError(f"all {mask.size} candidate modes are measured; nothing is left to choose")
    rng = np.random.default_rng([predictor.seed, int(mask.sum())])
    candidates = _subset(rng, open_, CANDIDATES)
    grid = _subset(rng, open_, GRID)
    time_after, power_after = predictor.lookahead(modes[grid], modes[candidates])
    now = predictor.posterior(modes[grid])
    gain = (now.log_time_std[:, None] - np.sqrt(time_after)).sum(axis=0)
    gain += POWER_WEIGHT * (now.log_power_std[:, None] - np.sqrt(power_after)).sum(axis=0)
    cost = np.asarray(cost_s, dtype=np.float64)[candidates]
    return int(candidates[np.argmax(gain / cost**COST_POWER)])


def _subset(rng: np.random.Generator, indices_: IntArray, size: int) -> IntArray:
    if indices_.size <= size:
        return indices_
    return np.sort(rng.permutation(indices_)[:size])


def _plausible(base: PhysicsReference, modes: FloatArray) -> list[FloatArray]:
    """Return the reference's parameters and some draws around them; the same ones at every call."""
    widths = widths_for(base, modes)
    sd = np.zeros(COUNT)
    sd[indices(TIME_AMPLITUDES)], sd[indices(POWER_AMPLITUDES)] = widths.time, widths.power
    sd[indices(("static",))], sd[indices(("mem",))] = widths.static, widths.memory
    draws = np.random.default_rng(0).standard_normal((DRAWS, COUNT))
    return [base.theta, *(base.theta + DRAW_WIDTH * sd * draw for draw in draws)]


@dataclass
class _Scenario:
    """Covariance of time and power at candidates and grid under one idea of the workload; shrinks with each choice."""

    covariance: FloatArray  # (2·(c+g), 2·(c+g)): time of all modes, then power of all modes
    noise: FloatArray
    candidates: int
    modes: int

    @classmethod
    def build(
        cls, base: PhysicsReference, theta: FloatArray, modes: FloatArray, candidates: IntArray, grid: IntArray
    ) -> _Scenario:
        widths = widths_for(base, modes)
        features = log_features(modes[np.concatenate([candidates, grid])], base.scale)
        at = evaluate(features, theta)
        count = features.shape[1]
        slopes = np.zeros((2 * count, COUNT))
        slopes[:count, :TIME_COUNT] = at.time_jacobian.T
        slopes[count:] = at.power_jacobian.T
        covariance = slopes @ prior_around(theta, base.theta_sd, widths).covariance @ slopes.T
        sd = regime_sd(residual_sd_for(base, widths), at.cpu_share)
        similar = correlation(features, features) * SMOOTH_SHARE
        for k in (0, 1):
            block = slice(k * count, (k + 1) * count)
            covariance[block, block] += similar * np.outer(sd[k], sd[k])
        noise = (sd**2 * (1.0 - SMOOTH_SHARE)).ravel() + DEFAULT_NOISE**2
        return cls(covariance, noise, candidates.size, count)

    def expected_gain(self) -> FloatArray:
        """Return by how much each candidate would lower the summed standard deviation over the grid."""
        c, m = self.candidates, self.modes
        time, power = np.arange(c), m + np.arange(c)
        tt, pp = (self.covariance[i, i] + self.noise[i] for i in (time, power))
        tp = self.covariance[time, power]
        determinant = tt * pp - tp**2
        total = np.zeros(c)
        for rows, weight in ((slice(c, m), 1.0), (slice(m + c, 2 * m), POWER_WEIGHT)):
            by_time, by_power = self.covariance[rows, :c], self.covariance[rows, m : m + c]
            removed = (by_time**2 * pp - 2.0 * by_time * by_power * tp + by_power**2 * tt) / determinant
            before = np.diag(self.covariance)[rows]
            left = np.sqrt(np.maximum(before[:, None] - removed, 1e-9))
            total += weight * (np.sqrt(np.maximum(before, 1e-9))[:, None] - left).sum(axis=0)
        return total

    def condition_on(self, candidate: int) -> None:
        """Take the measurement of this candidate as done."""
        both = [candidate, self.modes + candidate]
        own = self.covariance[np.ix_(both, both)] + np.diag(self.noise[both])
        columns = self.covariance[:, both]
        self.covariance = self.covariance - columns @ np.linalg.solve(own, columns.T)
