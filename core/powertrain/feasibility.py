"""Feasibility: the joint probability that a mode breaks any of its limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from powertrain.objectives import ASSUMED_PEAK_FACTOR, Limits, Work
from powertrain.prediction import Prediction
from powertrain.space import BoolArray, FloatArray

# An energy limit ties time and power together, so one of them is integrated over, up to this many standard deviations.
_REACH = 8.5
# Where pieces of that end, as multiples of the value at which the energy limit leaves the other one its mean.
_PIECES = (1.0, 8.0)
_NODES = 20
# Limits are divided by steps and peak factors: an exact value on its limit must not miss it by a rounding error.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class _Normal:
    """Independent normal values, each with a limit of its own; a standard deviation of zero means exact."""

    mean: FloatArray
    std: FloatArray
    most: FloatArray

    def where(self, mask: BoolArray, other: _Normal) -> _Normal:
        """Return these values where the mask is true, the other's elsewhere."""
        return _Normal(
            np.where(mask, self.mean, other.mean),
            np.where(mask, self.std, other.std),
            np.where(mask, self.most, other.most),
        )

    def below(self, bound: FloatArray) -> FloatArray:
        """Return P(value ≤ bound)."""
        from scipy.special import ndtr

        result: FloatArray = ndtr(self.deviations(bound))
        return result

    def deviations(self, bound: FloatArray) -> FloatArray:
        """Return by how many standard deviations the bound lies above the mean; infinite for exact values."""
        room = bound - self.mean
        exact = np.where(room >= -_ROUNDING * np.abs(self.mean), np.inf, -np.inf)
        return np.where(self.std > 0, room / np.where(self.std > 0, self.std, 1.0), exact)


def break_probability(
    prediction: Prediction, limits: Limits, work: Work, peak_factor: FloatArray | float = ASSUMED_PEAK_FACTOR
) -> FloatArray:
    """Return for each mode the joint probability that at least one limit breaks.

    Errors of time and power are taken as independent and normal. A mode without a finite prediction breaks for sure.
    """
    values = np.stack([prediction.time_s, prediction.time_std_s, prediction.power_w, prediction.power_std_w])
    finite = np.isfinite(values).all(axis=0)
    time_s, time_std_s, power_w, power_std_w = np.where(finite, values, 1.0)
    time = _Normal(time_s, time_std_s, np.full_like(time_s, limits.step_s(work)))
    power = _Normal(power_w, power_std_w, np.broadcast_to(limits.mean_power_w(peak_factor), power_w.shape))
    max_energy = limits.step_j(work)
    if math.isinf(max_energy):
        holds = time.below(time.most) * power.below(power.most)
    else:
        holds = _hold_with_energy(time, power, max_energy)
    return np.where(finite, np.clip(1.0 - holds, 0.0, 1.0), 1.0)


def _hold_with_energy(time: _Normal, power: _Normal, max_energy: float) -> FloatArray:
    """Return P(time ≤ its limit, power ≤ its limit, time × power ≤ max_energy).

    The value with the smaller relative spread (x) is integrated over, so that the other's (y) probability is a smooth
    function of it. Up to x = max_energy / y's limit the energy limit follows from y's own: that part is exact. Where
    the energy that is left is y's mean, the probability falls, steeply if x is near zero there: pieces have own nodes.
    """
    from scipy.special import ndtr

    swap = time.std * np.abs(power.mean) > power.std * np.abs(time.mean)
    x, y = power.where(swap, time), time.where(swap, power)
    with np.errstate(divide="ignore"):
        bend = np.minimum(max_energy / y.most, x.most)
    exact = x.below(bend) * y.below(y.most)
    start = np.clip(x.deviations(bend), -_REACH, _REACH)
    end = np.clip(x.deviations(x.most), -_REACH, _REACH)
    # An exact x is one point: behind the bend it holds as often as y keeps to the energy that is left for it.
    is_behind = (x.std <= 0) & (x.mean > bend) & (x.mean <= x.most)
    behind = np.where(is_behind, y.below(_share(max_energy, x.mean)), 0.0)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    with np.errstate(divide="ignore"):
        falls = max_energy / np.maximum(y.mean, 0.0)
    edges = [start, *(np.clip(x.deviations(times * falls), start, end) for times in _PIECES), end]
    behind_bend = np.zeros_like(start)
    for left, right in pairwise(edges):
        half = np.where(x.std > 0, (right - left) / 2, 0.0)
        for node, weight in zip(nodes, weights, strict=True):
            z = left + half * (node + 1)
            density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
            hold = ndtr(y.deviations(_share(max_energy, x.mean + z * x.std)))
            behind_bend += weight * half * density * hold
    holds: FloatArray = exact + behind + behind_bend
    return holds


def _share(max_energy: float, x: FloatArray) -> FloatArray:
    """Return what the energy limit leaves for the other value (anything, if this one is not even above zero)."""
    return np.where(x > 0, max_energy / np.where(x > 0, x, 1.0), np.inf)
