"""Pareto fronts over (time, power): which modes no other mode beats on both."""

from __future__ import annotations

import numpy as np

from powertrain.space import FloatArray, IntArray


def pareto_front(time_s: FloatArray, power_w: FloatArray) -> IntArray:
    """Return the indices of the non-dominated points, fastest first.

    A point is dominated if another is at least as good in both and better in one. Of exact duplicates the first is
    kept, so the front is strictly falling in power. Points that are not finite are never on it. O(n log n).
    """
    time_s, power_w = np.asarray(time_s, dtype=np.float64), np.asarray(power_w, dtype=np.float64)
    if time_s.shape != power_w.shape or time_s.ndim != 1:
        raise ValueError(f"time and power must be vectors of one length, not {time_s.shape} and {power_w.shape}")
    candidates = np.flatnonzero(np.isfinite(time_s) & np.isfinite(power_w))
    if candidates.size == 0:
        return candidates
    # One unstable sort by time and a repair of its ties: half the time of a stable sort by two keys.
    order = candidates[np.argsort(time_s[candidates])]
    time, power = time_s[order], power_w[order]
    starts = _starts_of_runs(time)
    least = np.minimum.reduceat(power, starts)
    on_front = least < np.concatenate(([np.inf], np.minimum.accumulate(least)[:-1]))
    sizes = np.diff(np.append(starts, order.size))
    members = np.repeat(on_front, sizes) & (power == np.repeat(least, sizes))
    front: IntArray = np.minimum.reduceat(order[members], _starts_of_runs(time[members]))
    return front


def _starts_of_runs(values: FloatArray) -> IntArray:
    """Return where each run of equal values begins."""
    return np.concatenate(([0], np.flatnonzero(values[1:] != values[:-1]) + 1))


def stored_front(
    time_s: FloatArray, power_w: FloatArray, time_std_s: FloatArray, power_std_w: FloatArray, limit: int = 256
) -> IntArray:
    """Return the front that a profile keeps: non-dominated at the mean or at mean + 2σ, fastest first.

    The second front holds the modes that a cautious choice would take. Above `limit` points, evenly spaced ones are
    kept, both ends always.
    """
    if limit < 2:
        raise ValueError(f"a front is kept with at least its 2 ends, not {limit}")
    mean = pareto_front(time_s, power_w)
    cautious = pareto_front(time_s + 2 * time_std_s, power_w + 2 * power_std_w)
    union = np.union1d(mean, cautious)
    ordered = union[np.lexsort((power_w[union], time_s[union]))]
    if ordered.size <= limit:
        return ordered
    return ordered[np.unique(np.linspace(0, ordered.size - 1, limit).round().astype(np.int64))]
