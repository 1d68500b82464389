"""Shares: how many watts each board of a site may take, for one goal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from powertrain.sharing.demand import Demand, Goal, check_names
from powertrain.sharing.optimal_levels import ROUNDING_W, fill, shortest
from powertrain.sharing.rows import Row, Table, rows_of
from powertrain.sharing.shares_by_bounds import admit, by_priority, equal


def share(demands: Sequence[Demand], available_w: float, goal: Goal) -> dict[str, float]:
    """Return the watts of each board, by name; 0 for a board that can't train now.

    Σ shares of training boards + Σ idle watts of the others ≤ `available_w`, and each share is within its board's
    bounds. A higher priority gets all it can use before the next one gets any. Within a priority the boards that come
    first are admitted first, each with the watts of its lowest level; then the goal decides. Watts that no front can
    use are given as headroom, in proportion to the shares.
    """
    check_names(demands)
    if goal is Goal.EQUAL:
        return equal(demands, available_w)
    shares = dict.fromkeys((demand.name for demand in demands), 0.0)
    free_w = available_w - sum(demand.idle_w for demand in demands)
    for rows in by_priority(rows_of(demands)):
        admitted = admit(rows, free_w)
        if not admitted:
            continue
        granted_w = _within(admitted, free_w, goal)
        shares |= granted_w
        free_w -= sum(granted_w[member.name] - member.idle_w for row in admitted for member in row.members)
    return _with_headroom(demands, shares, available_w)


def _within(rows: Sequence[Row], free_w: float, goal: Goal) -> dict[str, float]:
    """Return the shares of admitted rows of one priority."""
    table = Table.of(rows)
    start = shortest(table, free_w) if goal is Goal.MIN_MAKESPAN else np.zeros(len(rows), dtype=np.int64)
    levels = fill(table, start, free_w)
    return {
        member.name: float(row.members_w[place, level])
        for row, level in zip(rows, levels, strict=True)
        for place, member in enumerate(row.members)
    }


def _with_headroom(demands: Sequence[Demand], shares: dict[str, float], available_w: float) -> dict[str, float]:
    """Return the shares with what is left over added to those who train.

    No front gains by it, but a board whose power was predicted a little too low can then still run its mode.
    """
    training = [demand for demand in demands if shares[demand.name] > 0]
    now_w = np.array([shares[demand.name] for demand in training])
    most_w = np.array([demand.max_w for demand in training])
    idle_w = sum(demand.idle_w for demand in demands if shares[demand.name] == 0)
    left_w = available_w - idle_w - float(now_w.sum())
    if not training or left_w <= 0:
        return shares
    # One round of proportional parts is enough: what a board can't take stays unused.
    raised_w = np.minimum(now_w * (1 + max(left_w - ROUNDING_W, 0.0) / now_w.sum()), most_w)
    return shares | dict(zip((demand.name for demand in training), map(float, raised_w), strict=True))
