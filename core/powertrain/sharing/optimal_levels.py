"""Optimal levels: which level each row takes, for the shortest makespan or the highest throughput."""

from __future__ import annotations

import math

import numpy as np

from powertrain.sharing.combined_front import FEW_ROWS, merged
from powertrain.sharing.rows import Table
from powertrain.space import FloatArray, IntArray

# Watts are sums of floats: a plan that uses every watt must not fail by a rounding error.
ROUNDING_W = 1e-9
_PRICES, _LEAST_PRICE = 32, 1e-9
_MOST_STEPS = 64


def shortest(table: Table, available_w: float) -> IntArray:
    """Return the cheapest levels with the earliest common end that the watts allow.

    Bisects over the end times that the fronts offer, so the makespan is the exact optimum. A row that is already at its
    highest level can't go faster and does not hold the others back.
    """
    rates = np.unique(table.rate)
    low, high = 0, rates.size - 1  # the lowest rate fits: the caller admitted every row at its lowest level
    while low < high:
        middle = (low + high + 1) // 2
        if table.cost_of(_needed(table, rates[middle])).sum() <= available_w + ROUNDING_W:
            low = middle
        else:
            high = middle - 1
    # Beyond the highest rate of the slowest row the makespan stays; there the cheapest levels are taken.
    rate = min(float(rates[low]), float(table.rate[:, -1].min()))
    return _needed(table, rate)


def _needed(table: Table, rate: float) -> IntArray:
    """Return the lowest level of each row with at least this rate, or its highest."""
    needed: IntArray = np.minimum((table.rate < rate).sum(axis=1), table.last)
    return needed


def fill(table: Table, level: IntArray, available_w: float) -> IntArray:
    """Return levels at or above the given ones that raise the throughput most within the watts.

    Among few rows a single step is a large part of the whole, so combinations are compared (`merged`). Among many, a
    price per watt is bisected: at each price every row takes the level with the most value net of its cost. These
    levels are the corners of the concave hulls, in the order of marginal speed per watt. What is left then goes, level
    by level, to the row that gains most.
    """
    if level.size <= FEW_ROWS:
        return merged(table, level, available_w)
    allowed = table.reachable(level)
    value = np.where(allowed, table.value, -np.inf)
    cost = np.where(np.isfinite(table.cost_w), table.cost_w, 0.0)
    room = np.empty_like(cost)  # reused: a fresh array of this size costs more than the arithmetic
    cheap, dear = level, _best(value, cost, 0.0, room)
    if table.cost_of(dear).sum() <= available_w + ROUNDING_W:
        return dear
    high = _dearest(table)
    low = high * _LEAST_PRICE
    for _ in range(_PRICES):
        price = math.sqrt(low * high)  # slopes of a front differ by orders of magnitude
        chosen = _best(value, cost, price, room)
        if table.cost_of(chosen).sum() <= available_w + ROUNDING_W:
            cheap, high = chosen, price
        else:
            dear, low = chosen, price
    return _climb(table, _half_steps(table, cheap, dear, available_w), available_w)


def _best(value: FloatArray, cost: FloatArray, price: float, room: FloatArray) -> IntArray:
    np.multiply(cost, price, out=room)
    np.subtract(value, room, out=room)
    chosen: IntArray = np.argmax(room, axis=1)
    return chosen


def _dearest(table: Table) -> float:
    """Return a price at which no row goes above its level."""
    steps = np.diff(np.where(np.isfinite(table.cost_w), table.cost_w, np.nan), axis=1)
    gains = np.diff(np.where(np.isfinite(table.cost_w), table.value, np.nan), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = gains / np.maximum(steps, ROUNDING_W)
    return float(np.nanmax(slopes, initial=0.0)) + 1.0


def _half_steps(table: Table, cheap: IntArray, dear: IntArray, available_w: float) -> IntArray:
    """Return the levels with as many steps from `cheap` to `dear` as fit, the best value per watt first.

    Many rows may change at one price (boards of one kind with one job); between them the watts decide.
    """
    chosen = np.maximum(cheap, 0).copy()
    steps_w = table.cost_of(dear) - table.cost_of(cheap)
    gains = table.value_of(dear) - table.value_of(cheap)
    places = np.flatnonzero((gains > 0) & (steps_w > 0))
    left_w = available_w - float(table.cost_of(chosen).sum())
    for place in places[np.argsort(-gains[places] / steps_w[places], kind="stable")]:
        if steps_w[place] <= left_w + ROUNDING_W:
            chosen[place] = dear[place]
            left_w -= float(steps_w[place])
    return chosen


def _climb(table: Table, level: IntArray, available_w: float) -> IntArray:
    """Return the levels after what is left went, level by level, to whichever row gains most by it."""
    chosen = level.copy()
    for _ in range(_MOST_STEPS):
        now_w = table.cost_of(chosen)
        left_w = available_w - float(now_w.sum())
        if left_w <= 0:
            break
        fits = table.cost_w <= (now_w + left_w + ROUNDING_W)[:, None]
        highest = np.maximum(fits.sum(axis=1) - 1, chosen)
        gains = table.value_of(highest) - table.value_of(chosen)
        place = int(np.argmax(gains))
        if gains[place] <= 0:
            break
        chosen[place] = highest[place]
    return chosen
