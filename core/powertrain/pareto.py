"""Pareto fronts over (time, power): which modes no other mode beats on both."""

from __future__ import annotations

import numpy as np

from powertrain.space import FloatArray, IntArray


def pareto_front(time_s: FloatArray, power_w: FloatArray) -> IntArray:
    """Return the indices of the non-dominated points, fastest first.

    A point is dominated if another is at least as good in both and better in one. Of exact duplicates the first is kept, so the front
    is strictly falling in power. Points that are not finite are never on it. O(n log n).
    """
    time_s, power_w = np.asarray(time_s, dtype=np.float64), np.asarray(power_w, dtype=np.float64)
    if time_s.shape != power_w.shape or time_s.ndim != 1:
        raise ValueError(f"time and power must be vectors of one length, not {time_s.shape} and {power_w.shape}")
    candidates = np.flatnonzero(np.isfinite(time_s) & np.isfinite(power_w))
    if candidates.size == 0:
        return candidates
    order = candidates[np.lexsort((power_w[candidates], time_s[candidates]))]
    falling = power_w[order]
    best_before = np.concatenate(([np.inf], np.minimum.accumulate(falling)[:-1]))
    return order[falling < best_before]


def stored_front(
    time_s: FloatArray, power_w: FloatArray, time_std_s: FloatArray, power_std_w: FloatArray, limit: int = 256
) -> IntArray:
    """Return the front that a profile keeps: non-dominated at the mean or at mean + 2σ, fastest first.

    The second front holds the modes that a cautious choice would take. Above `limit` points, every k-th is kept, both ends always.
    """
    mean = pareto_front(time_s, power_w)
    cautious = pareto_front(time_s + 2 * time_std_s, power_w + 2 * power_std_w)
    union = np.union1d(mean, cautious)
    ordered = union[np.lexsort((power_w[union], time_s[union]))]
    if ordered.size <= limit:
        return ordered
    return ordered[np.unique(np.linspace(0, ordered.size - 1, limit).round().astype(np.int64))]
