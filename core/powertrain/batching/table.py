"""BatchTable: step time, power and peak power of every mode at every batch size, the second paper's lookup tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from powertrain.batching.choice import BatchProfile
from powertrain.modes import PowerMode
from powertrain.objectives import ASSUMED_PEAK_FACTOR
from powertrain.prediction import Prediction
from powertrain.samples import SampleTable
from powertrain.space import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class BatchTable:
    """Rows are batch sizes (ascending), columns modes; infinite where nothing was measured."""

    modes: FloatArray  # (n, 4)
    batch_sizes: tuple[int, ...]
    step_s: FloatArray  # (sizes, n)
    power_w: FloatArray
    peak_w: FloatArray

    @classmethod
    def of(cls, table: SampleTable, assumed_peak_factor: float = ASSUMED_PEAK_FACTOR) -> BatchTable:
        """Build it from samples; peaks that were not measured are assumed."""
        modes, column = np.unique(table.matrix, axis=0, return_inverse=True)
        sizes, row = np.unique(table.batch_size, return_inverse=True)
        shape = (sizes.size, len(modes))
        step_s, power_w, peak_w = (np.full(shape, np.inf) for _ in range(3))
        at = (row.reshape(-1), column.reshape(-1))
        step_s[at], power_w[at] = table.step_s, table.power_w
        peak_w[at] = table.power_w * table.peak_factor(assumed_peak_factor)
        return cls(modes, tuple(int(size) for size in sizes), step_s, power_w, peak_w)

    def profiles(self, measured: BoolArray | None = None) -> tuple[BatchProfile, ...]:
        """Return one profile per batch size; `measured` (sizes, n) hides what was not measured."""
        visible = np.isfinite(self.step_s) if measured is None else measured & np.isfinite(self.step_s)
        exact = np.zeros(len(self.modes))
        profiles = []
        for row, size in enumerate(self.batch_sizes):
            step_s, power_w = (np.where(visible[row], values[row], np.inf) for values in (self.step_s, self.power_w))
            with np.errstate(invalid="ignore"):
                factor = np.where(visible[row], self.peak_w[row] / self.power_w[row], ASSUMED_PEAK_FACTOR)
            profiles.append(BatchProfile(size, Prediction(step_s, exact, power_w, exact), factor))
        return tuple(profiles)

    def along_gpu(self) -> BatchTable:
        """Return the modes that differ in the GPU clock alone, the other knobs at their maximum: the paper's space."""
        return self.take(self.ladder())

    def take(self, columns: IntArray) -> BatchTable:
        """Return the table of these modes."""
        parts = (values[:, columns] for values in (self.step_s, self.power_w, self.peak_w))
        return BatchTable(self.modes[columns], self.batch_sizes, *parts)

    def only(self, sizes: Sequence[int]) -> BatchTable:
        """Return the table of these batch sizes; each must be there."""
        lacking = [size for size in sizes if size not in self.batch_sizes]
        if lacking or not sizes:
            raise ValueError(f"the table has no batch sizes {lacking}; it has {list(self.batch_sizes)}")
        rows = [row for row, size in enumerate(self.batch_sizes) if size in sizes]
        parts = (values[rows] for values in (self.step_s, self.power_w, self.peak_w))
        return BatchTable(self.modes, tuple(self.batch_sizes[row] for row in rows), *parts)

    def ladder(self) -> IntArray:
        """Return the columns in which only the GPU clock varies, the others at their maximum, lowest clock first."""
        top = self.modes.max(axis=0)
        columns = np.flatnonzero(np.all(self.modes[:, [0, 1, 3]] == top[[0, 1, 3]], axis=1))
        ordered: IntArray = columns[np.argsort(self.modes[columns, 2])]
        return ordered

    def mode(self, column: int) -> PowerMode:
        """Return the mode of a column."""
        return PowerMode(*(round(float(value)) for value in self.modes[column]))

    def row(self, batch_size: int) -> int:
        """Return the row of a batch size."""
        return self.batch_sizes.index(batch_size)
