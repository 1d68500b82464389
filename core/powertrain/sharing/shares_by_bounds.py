"""Shares by bounds: they look at bounds alone, not at fronts (equal, or in proportion to each board's maximum)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from powertrain.sharing.demand import Demand, check_names
from powertrain.sharing.rows import Row, rows_of
from powertrain.space import FloatArray

_ROUNDING_W = 1e-9
_HALVINGS = 60


def equal(demands: Sequence[Demand], available_w: float) -> dict[str, float]:
    """Return the same share for every board that can train, but no less than it needs and no more than it may have."""
    return _by_weight(demands, available_w, np.ones(len(demands)))


def proportional(demands: Sequence[Demand], available_w: float) -> dict[str, float]:
    """Return shares in proportion to each board's maximum, but no less than it needs."""
    return _by_weight(demands, available_w, np.array([demand.max_w for demand in demands]))


def admit(rows: Sequence[Row], free_w: float) -> list[Row]:
    """Return the rows that can train at their lowest level, in their order; one that does not fit is passed over."""
    admitted = []
    for row in rows:
        if row.can_train and row.cost_w[0] <= free_w + _ROUNDING_W:
            admitted.append(row)
            free_w -= float(row.cost_w[0])
    return admitted


def by_priority(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of each priority, the highest first, in their order."""
    priorities = sorted({row.priority for row in rows}, reverse=True)
    return [[row for row in rows if row.priority == priority] for priority in priorities]


def _by_weight(demands: Sequence[Demand], available_w: float, weights: FloatArray) -> dict[str, float]:
    check_names(demands)
    weight = dict(zip((demand.name for demand in demands), weights, strict=True))
    shares = dict.fromkeys((demand.name for demand in demands), 0.0)
    free_w = available_w - sum(demand.idle_w for demand in demands)
    for rows in by_priority(rows_of(demands)):
        members = [member for row in admit(rows, free_w) for member in row.members]
        if not members:
            continue
        lowest_w = np.array([member.lowest_w for member in members])
        most_w = np.array([member.max_w for member in members])
        idle_w = sum(member.idle_w for member in members)
        parts = np.array([weight[member.name] for member in members])
        given_w = _clipped(lowest_w, most_w, parts, free_w + idle_w)
        free_w -= float(given_w.sum()) - idle_w
        shares |= dict(zip((member.name for member in members), map(float, given_w), strict=True))
    return shares


def _clipped(lowest_w: FloatArray, most_w: FloatArray, weights: FloatArray, available_w: float) -> FloatArray:
    """Return weights times one level, within the bounds, whose sum is what is available."""
    if most_w.sum() <= available_w:
        return most_w
    low, high = 0.0, available_w / max(float(weights.min()), _ROUNDING_W)
    for _ in range(_HALVINGS):
        level = (low + high) / 2
        low, high = (low, level) if np.clip(level * weights, lowest_w, most_w).sum() > available_w else (level, high)
    return np.clip(low * weights, lowest_w, most_w)
