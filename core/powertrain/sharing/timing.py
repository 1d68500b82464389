"""Timing: the speeds, ends and makespan that shares lead to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from powertrain.sharing.demand import Demand


def speed_at(demand: Demand, watts: float) -> float:
    """Return the work per second within so many watts; 0 below the lowest mode."""
    cost_w, speed = demand.curve
    level = int(np.searchsorted(cost_w, watts * (1 + 1e-12), side="right"))
    return float(speed[level - 1]) if level else 0.0


def relative_speed(demand: Demand, watts: float) -> float:
    """Return the speed within so many watts as a fraction of the speed within the job's own maximum."""
    _, speed = demand.curve
    return speed_at(demand, watts) / float(speed[-1]) if speed.size and speed[-1] > 0 else 0.0


def lengths(demands: Sequence[Demand]) -> list[float]:
    """Return the work left of each board, with a stand-in where it is not known.

    A job of unknown length counts as one that needs as long at full speed as the longest known one. If no length is
    known, all count the same, so MinMakespan gives all the same relative speed.
    """
    tops = [float(speed[-1]) if (speed := demand.curve[1]).size else 0.0 for demand in demands]
    lengths_s = [d.remaining / top for d, top in zip(demands, tops, strict=True) if d.remaining is not None and top > 0]
    longest_s = max(lengths_s, default=0.0) or 1.0
    pairs = zip(demands, tops, strict=True)
    return [longest_s * top if demand.remaining is None else demand.remaining for demand, top in pairs]


def ends_s(demands: Sequence[Demand], shares: Mapping[str, float]) -> dict[str, float | None]:
    """Return in how many seconds each board ends with these shares: infinite without one, None for an unknown length.

    Boards of one unit end together, with the slowest of them.
    """
    ends = _ends_s(demands, shares)
    return {d.name: None if d.remaining is None else end for d, end in zip(demands, ends, strict=True)}


def makespan_s(demands: Sequence[Demand], shares: Mapping[str, float]) -> float:
    """Return when the last board ends if the shares stay as they are; 0 without boards, infinite if one can't train.

    Jobs of unknown length count with the stand-in of `lengths`, so that two sharings of one site can be compared.
    """
    return max(_ends_s(demands, shares), default=0.0)


def throughput(demands: Sequence[Demand], shares: Mapping[str, float]) -> float:
    """Return the sum of the relative speeds: how many unlimited boards would do the same.

    Work per second of different networks can't be added; speeds relative to each job's own full speed can.
    """
    relative = [relative_speed(demand, shares.get(demand.name, 0.0)) for demand in demands]
    slowest: dict[str, float] = {}
    for demand, value in zip(demands, relative, strict=True):
        if demand.unit:
            slowest[demand.unit] = min(slowest.get(demand.unit, math.inf), value)
    return sum(slowest.get(demand.unit, value) for demand, value in zip(demands, relative, strict=True))


def _ends_s(demands: Sequence[Demand], shares: Mapping[str, float]) -> list[float]:
    ends = []
    for demand, length in zip(demands, lengths(demands), strict=True):
        speed = speed_at(demand, shares.get(demand.name, 0.0))
        ends.append(0.0 if length == 0 else length / speed if speed > 0 else math.inf)
    last: dict[str, float] = {}
    for demand, end in zip(demands, ends, strict=True):
        if demand.unit:
            last[demand.unit] = max(last.get(demand.unit, 0.0), end)
    return [last.get(demand.unit, end) for demand, end in zip(demands, ends, strict=True)]
