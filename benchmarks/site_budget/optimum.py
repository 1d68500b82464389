"""The best static shares of a small fleet, by trying every combination of points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from powertrain.sharing import Demand, Goal
from powertrain.sharing.timing import lengths

MOST_COMBINATIONS = 2_000_000


def optimum(demands: Sequence[Demand], available_w: float, goal: Goal) -> float:
    """Return the shortest makespan in seconds, or the highest throughput, of all combinations in which every board
    trains; infinite (or 0) if none fits. Units and priorities are not looked at.
    """
    curves = [demand.curve for demand in demands]
    if np.prod([watts.size for watts, _ in curves]) > MOST_COMBINATIONS:
        raise ValueError(f"too many combinations; at most {MOST_COMBINATIONS:,} are tried")
    cost_w, worst_s, sum_speed = np.zeros(1), np.zeros(1), np.zeros(1)
    for (watts, speed), length in zip(curves, lengths(demands), strict=True):
        with np.errstate(divide="ignore"):
            ends = np.where(speed > 0, length / speed, np.inf) if length else np.zeros(speed.size)
        cost_w = np.add.outer(cost_w, watts).ravel()
        worst_s = np.maximum.outer(worst_s, ends).ravel()
        sum_speed = np.add.outer(sum_speed, speed / speed[-1]).ravel()
    fits = cost_w <= available_w + 1e-9
    if goal is Goal.MIN_MAKESPAN:
        return float(worst_s[fits].min(initial=np.inf))
    return float(sum_speed[fits].max(initial=0.0))
