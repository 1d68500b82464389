"""Combined front: the best combination of levels of a few rows, from their combined front."""

from __future__ import annotations

import numpy as np

from powertrain.sharing.rows import Table
from powertrain.space import FloatArray, IntArray

FEW_ROWS = 16
# Combinations kept after each row: more are not needed for a per mille, and each costs time.
_MOST_COMBINATIONS, _FEWEST, _MOST = 1024, 64, 256


def merged(table: Table, level: IntArray, available_w: float) -> IntArray:
    """Return levels at or above the given ones with the highest value within the watts.

    Row by row, the combinations so far are joined with the row's levels; those that cost more and give less than
    another are dropped, and of the rest one per small step of watts is kept. Every combination is a real one, so the
    watts are kept exactly.
    """
    rows = level.size
    lowest_w = table.cost_of(level)
    # What the rows to come need at least.
    ahead_w = np.append(np.cumsum(lowest_w[::-1])[::-1], 0.0)
    most_points = int(np.clip(_MOST_COMBINATIONS // max(rows, 1), _FEWEST, _MOST))
    cost, value = np.zeros(1), np.zeros(1)
    trail: list[tuple[IntArray, IntArray]] = []
    for row in range(rows):
        levels = np.arange(level[row], table.last[row] + 1)
        cost_all = np.add.outer(cost, table.cost_w[row, levels]).ravel()
        value_all = np.add.outer(value, table.value[row, levels]).ravel()
        places = _front(cost_all, value_all, available_w - ahead_w[row + 1], most_points)
        trail.append((places // levels.size, levels[places % levels.size]))
        cost, value = cost_all[places], value_all[places]
    return _trace(trail, int(np.argmax(value)) if rows else 0)


def _front(cost: FloatArray, value: FloatArray, most_w: float, most_points: int) -> IntArray:
    """Return the places of the combinations worth keeping: the cheapest always, and no more than `kept` and that."""
    fits = np.flatnonzero(cost <= most_w + 1e-9)
    if not fits.size:
        return np.array([int(np.argmin(cost))])
    order = fits[np.lexsort((-value[fits], cost[fits]))]
    rising = np.empty(order.size, dtype=bool)
    rising[0] = True
    np.greater(value[order][1:], np.maximum.accumulate(value[order])[:-1], out=rising[1:])
    front: IntArray = order[rising]
    if front.size <= most_points:
        return front
    step = (cost[front] - cost[front[0]]) / max(float(cost[front[-1]] - cost[front[0]]), 1e-12) * most_points
    bucket = step.astype(np.int64)
    # The last of a bucket is its best; the cheapest of all is kept beside them.
    last = np.append(bucket[1:] != bucket[:-1], True)
    last[0] = True
    thinned: IntArray = front[last]
    return thinned


def _trace(trail: list[tuple[IntArray, IntArray]], place: int) -> IntArray:
    """Return the levels that led to the combination at a place."""
    levels = np.zeros(len(trail), dtype=np.int64)
    for row in range(len(trail) - 1, -1, -1):
        before, chosen = trail[row]
        levels[row] = chosen[place]
        place = int(before[place])
    return levels
