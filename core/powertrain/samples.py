"""Samples: what was measured at a power mode, one by one and as a table of columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from powertrain.modes import PowerMode
from powertrain.space import BoolArray, FloatArray, IntArray, as_matrix


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured mode. Spread is the standard deviation of single steps or sensor readings; None where unknown."""

    mode: PowerMode
    step_s: float
    power_w: float
    batch_size: int = 1
    step_spread_s: float | None = None
    steps: int | None = None
    power_peak_w: float | None = None
    power_spread_w: float | None = None
    temperature_c: float | None = None
    throttled: bool = False
    unsafe: bool = False  # the mode was left early because a reading was above the exploration limit

    def __post_init__(self) -> None:
        for name in ("step_s", "power_w"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name} of mode {self.mode} must be a positive number, not {value!r}")
        if self.batch_size < 1:
            raise ValueError(f"batch_size of mode {self.mode} must be at least 1, not {self.batch_size}")


@dataclass(frozen=True, eq=False)
class SampleTable:
    """Samples as columns. `matrix` has the columns cores, cpu_khz, gpu_hz, emc_hz."""

    matrix: FloatArray
    batch_size: IntArray
    step_s: FloatArray
    power_w: FloatArray
    power_peak_w: FloatArray | None = None
    extra: dict[str, list[str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lengths = {self.matrix.shape[0], len(self.batch_size), len(self.step_s), len(self.power_w)}
        if len(lengths) != 1 or self.matrix.shape[1:] != (4,):
            raise ValueError(f"columns of a sample table must have one length, not {sorted(lengths)}")

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> SampleTable:
        """Build a table from single samples."""
        rows = list(samples)
        peaks = [row.power_peak_w for row in rows]
        return cls(
            matrix=as_matrix([row.mode for row in rows]),
            batch_size=np.array([row.batch_size for row in rows], dtype=np.int64),
            step_s=np.array([row.step_s for row in rows], dtype=np.float64),
            power_w=np.array([row.power_w for row in rows], dtype=np.float64),
            power_peak_w=None if None in peaks or not rows else np.array(peaks, dtype=np.float64),
        )

    def __len__(self) -> int:
        return self.matrix.shape[0]

    def __iter__(self) -> Iterator[Sample]:
        return (self.sample(row) for row in range(len(self)))

    def sample(self, row: int) -> Sample:
        """Return one row as a Sample."""
        return Sample(
            mode=self.mode(row),
            step_s=float(self.step_s[row]),
            power_w=float(self.power_w[row]),
            batch_size=int(self.batch_size[row]),
            power_peak_w=None if self.power_peak_w is None else float(self.power_peak_w[row]),
        )

    def mode(self, row: int) -> PowerMode:
        """Return the mode of one row."""
        return PowerMode(*(round(float(value)) for value in self.matrix[row]))

    def take(self, rows: IntArray | BoolArray) -> SampleTable:
        """Return the table of the given rows (indices or a mask)."""
        chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return replace(
            self,
            matrix=self.matrix[chosen],
            batch_size=self.batch_size[chosen],
            step_s=self.step_s[chosen],
            power_w=self.power_w[chosen],
            power_peak_w=None if self.power_peak_w is None else self.power_peak_w[chosen],
            extra={name: [values[i] for i in chosen] for name, values in self.extra.items()},
        )

    def batch_sizes(self) -> list[int]:
        """Return the batch sizes present, ascending."""
        return [int(size) for size in np.unique(self.batch_size)]

    def at_batch_size(self, size: int) -> SampleTable:
        """Return the rows of one batch size, or say which there are."""
        if size not in self.batch_size:
            raise ValueError(f"no rows with batch size {size}; present: {self.batch_sizes()}")
        return self.take(self.batch_size == size)
