"""Rows: boards and units as one padded table of costs and rates, so that sharing works on whole arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from powertrain.sharing.demand import Demand
from powertrain.sharing.timing import lengths
from powertrain.space import BoolArray, FloatArray, IntArray

# A unit of many boards has as many levels as all their points together; so many, evenly spaced, are kept.
_MOST_LEVELS = 256
# A board that has nothing left to do still counts as very short work, so that rates stay finite.
_SHORTEST = 1e-9


@dataclass(frozen=True, eq=False)
class Row:
    """A board, or the boards of one unit: what each level costs and how fast the work then goes.

    `cost_w` is the sum over the members, net of their idle watts; `rate` is the fraction of the work left done per
    second, strictly ascending; `members_w` holds each member's watts at each level.
    """

    members: tuple[Demand, ...]
    cost_w: FloatArray
    rate: FloatArray
    members_w: FloatArray
    priority: int

    @property
    def can_train(self) -> bool:
        """Whether there is any level."""
        return bool(self.cost_w.size)


def rows_of(demands: Sequence[Demand]) -> list[Row]:
    """Return a row per board or unit, in the order of their first members."""
    grouped: dict[tuple[str, str], list[tuple[Demand, float]]] = {}
    for demand, length in zip(demands, lengths(demands), strict=True):
        key = ("unit", demand.unit) if demand.unit else ("board", demand.name)
        grouped.setdefault(key, []).append((demand, length))
    return [_row(members) for members in grouped.values()]


def _row(members: list[tuple[Demand, float]]) -> Row:
    demands = tuple(demand for demand, _ in members)
    curves = [_curve(demand, length) for demand, length in members]
    if len(curves) == 1:
        (watts, rate), idle_w = curves[0], demands[0].idle_w
        return Row(demands, np.maximum(watts - idle_w, 0.0), rate, watts[None, :], demands[0].priority)
    rate = _levels([rate for _, rate in curves])
    members_w = np.zeros((len(curves), rate.size))
    for place, (cost, own) in enumerate(curves):
        if rate.size:
            members_w[place] = cost[np.searchsorted(own, rate)]
    net = members_w.sum(axis=0) - sum(demand.idle_w for demand in demands)
    return Row(demands, np.maximum(net, 0.0), rate, members_w, max(demand.priority for demand in demands))


def _curve(demand: Demand, length: float) -> tuple[FloatArray, FloatArray]:
    """Return a board's (watts, rate), the rate strictly ascending: of equally fast points the cheapest."""
    watts, speed = demand.curve
    if not watts.size:
        return watts, speed
    is_kept = np.empty(speed.size, dtype=bool)
    is_kept[0] = True
    np.greater(speed[1:], speed[:-1], out=is_kept[1:])
    return watts[is_kept], speed[is_kept] / max(length, _SHORTEST)


def _levels(rates: list[FloatArray]) -> FloatArray:
    """Return the rates that a unit can have: no more than its slowest member's highest; none if one can't train."""
    if any(not rate.size for rate in rates):
        return np.empty(0)
    top = min(float(rate[-1]) for rate in rates)
    low = min(max(float(rate[0]) for rate in rates), top)
    levels = np.unique(np.concatenate([rate[(rate >= low) & (rate <= top)] for rate in rates]))
    if levels.size <= _MOST_LEVELS:
        return levels
    return levels[np.unique(np.linspace(0, levels.size - 1, _MOST_LEVELS).round().astype(np.int64))]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows side by side, padded: missing levels cost infinitely much."""

    cost_w: FloatArray
    rate: FloatArray
    value: FloatArray
    """Rate relative to the row's highest, times its number of boards: what throughput counts."""
    last: IntArray

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Table:
        """Pad the rows to one length."""
        width = max((row.cost_w.size for row in rows), default=1)
        cost = np.full((len(rows), width), math.inf)
        rate, value = np.zeros((len(rows), width)), np.full((len(rows), width), -math.inf)
        for place, row in enumerate(rows):
            size = row.cost_w.size
            cost[place, :size], rate[place, :size] = row.cost_w, row.rate
            rate[place, size:] = row.rate[-1]
            top = row.rate[-1] if row.rate[-1] > 0 else 1.0
            value[place, :size] = row.rate / top * len(row.members)
        return cls(cost, rate, value, np.array([row.cost_w.size - 1 for row in rows], dtype=np.int64))

    def cost_of(self, level: IntArray) -> FloatArray:
        """Return what each row costs at its level."""
        return self.cost_w[np.arange(level.size), level]

    def value_of(self, level: IntArray) -> FloatArray:
        """Return what each row is worth at its level."""
        return self.value[np.arange(level.size), level]

    def reachable(self, level: IntArray) -> BoolArray:
        """Return which levels are at or above the given ones."""
        return np.arange(self.cost_w.shape[1])[None, :] >= level[:, None]
