"""Validation: whether stored tables over batch sizes still hold, and their correction from fresh samples of some pairs.

If everything became slower by the same factor, the best pair is still the best. Only a relative change between pairs
(another load on memory or cache, other software) or in power calls for a new profile; until then the deviations of the
measured pairs are interpolated over the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from powertrain.samples import SampleTable
from powertrain.space import FloatArray

NOTICEABLE = 0.03
# Smaller relative changes than this seldom make another pair the best one.
TOLERANCE = 0.05
# At this distance (log units of knobs and size) from a fresh sample its deviation counts as much as the common one.
REACH = 2.0
FALL = 6.0  # weights fall with this power of the distance: above the 5 dimensions, or the many far ones would win
SAME = 1e-6  # squared distance that is none


@dataclass(frozen=True, eq=False)
class Validation:
    """What fresh samples say of stored tables. `common_*` are the factors that all share, `relative` is the largest
    change of time beside it, `power` the largest change of power.
    """

    common_time: float
    common_power: float
    relative: float
    power: float
    _at: FloatArray  # (fresh, 5): log knobs and log batch size of the fresh samples
    _deviations: FloatArray  # (fresh, 2): of log time and log power

    @property
    def changed(self) -> bool:
        """Say whether anything moved by more than clocks and heat do by themselves."""
        return max(abs(self.common_time - 1.0), self.relative, self.power) > NOTICEABLE

    @property
    def reprofile(self) -> bool:
        """Say whether pairs have changed against each other, or power has changed at all."""
        return self.relative > TOLERANCE or self.power > TOLERANCE

    def corrected(self, table: SampleTable) -> SampleTable:
        """Return samples as they would be measured now: moved as their neighbours, fading to the common factors.

        The factor of a sample is a weighed mean of the fresh ones', so none moves farther than they did.
        """
        near = (SAME + _squared_distances(_logs(table), self._at)) ** (-FALL / 2)
        far = REACH**-FALL
        common = np.log([self.common_time, self.common_power])
        time, power = np.exp((near @ self._deviations + far * common) / (near.sum(axis=1)[:, None] + far)).T
        peak_w = None if table.power_peak_w is None else table.power_peak_w * power
        return replace(table, step_s=table.step_s * time, power_w=table.power_w * power, power_peak_w=peak_w)


def validate(stored: SampleTable, fresh: SampleTable) -> Validation:
    """Compare fresh samples with the stored ones of the same pairs of mode and batch size, the latest of each."""
    if not len(fresh):
        raise ValueError("a check needs at least one fresh sample")
    rows = {pair: row for row, pair in enumerate(_pairs(stored))}
    missing = next((pair for pair in _pairs(fresh) if pair not in rows), None)
    if missing is not None:
        *mode, size = missing
        raise ValueError(f"the tables hold nothing at batch size {size} and mode {mode}; check pairs that they hold")
    before = stored.take(np.array([rows[pair] for pair in _pairs(fresh)]))
    deviations = np.log(np.column_stack([fresh.step_s / before.step_s, fresh.power_w / before.power_w]))
    common = np.median(deviations, axis=0)
    beside = deviations[:, 0] - common[0]
    return Validation(
        float(np.exp(common[0])),
        float(np.exp(common[1])),
        float(np.expm1(np.abs(beside).max())),
        float(np.expm1(np.abs(deviations[:, 1]).max())),
        _logs(fresh),
        deviations,
    )


def _pairs(table: SampleTable) -> list[tuple[int, ...]]:
    return [tuple(map(round, pair)) for pair in _points(table).tolist()]


def _logs(table: SampleTable) -> FloatArray:
    return np.log(_points(table))


def _points(table: SampleTable) -> FloatArray:
    return np.column_stack([table.matrix, table.batch_size.astype(np.float64)])


def _squared_distances(left: FloatArray, right: FloatArray) -> FloatArray:
    squared = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2.0 * left @ right.T
    nearest: FloatArray = np.maximum(squared, 0.0)
    return nearest
