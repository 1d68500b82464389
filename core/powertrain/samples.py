"""Samples: what was measured at a power mode, one by one and as a table of columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from powertrain.modes import PowerMode
from powertrain.space import BoolArray, FloatArray, IntArray, as_matrix

# Columns of a table that a sample may lack: NaN where it does, None where all do.
OPTIONAL_NUMBERS = (
    "power_peak_w",
    "step_spread_s",
    "steps",
    "power_spread_w",
    "temperature_c",
    "step_error_s",
    "power_error_w",
)
FLAGS = ("throttled", "unsafe")


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured mode; medians. Spread is the standard deviation of single steps or readings, error that of the time
    or the power itself; None where unknown.
    """

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
    step_error_s: float | None = None
    power_error_w: float | None = None

    def __post_init__(self) -> None:
        for name in ("step_s", "power_w", "power_peak_w"):
            value = getattr(self, name)
            if name == "power_peak_w" and value is None:
                continue
            if not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name} of mode {self.mode} must be a positive number, not {value!r}")
        if self.batch_size < 1:
            raise ValueError(f"batch_size of mode {self.mode} must be at least 1, not {self.batch_size}")


@dataclass(frozen=True, slots=True)
class EarlySample:
    """What is known of a mode that a ledger left early: where its power settles, with the error of that.

    A type of its own, so that nobody takes it for a measured mode. `step_s` is what its few steps took, None if none
    was timed.
    """

    mode: PowerMode
    power_w: float
    power_error_w: float
    step_s: float | None = None
    step_error_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("power_w", "step_s"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name} of mode {self.mode} must be a positive number, not {value!r}")

    def scaled(self, time_factor: float, power_factor: float) -> EarlySample:
        """Return it after a drift."""
        times = (None if each is None else each * time_factor for each in (self.step_s, self.step_error_s))
        return EarlySample(self.mode, self.power_w * power_factor, self.power_error_w * power_factor, *times)


@dataclass(frozen=True, eq=False)
class SampleTable:
    """Samples as columns. `matrix` has the columns cores, cpu_khz, gpu_hz, emc_hz; `extra` is kept as text."""

    matrix: FloatArray
    batch_size: IntArray
    step_s: FloatArray
    power_w: FloatArray
    power_peak_w: FloatArray | None = None
    extra: dict[str, list[str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    step_spread_s: FloatArray | None = None
    steps: FloatArray | None = None
    power_spread_w: FloatArray | None = None
    temperature_c: FloatArray | None = None
    throttled: BoolArray | None = None
    unsafe: BoolArray | None = None
    step_error_s: FloatArray | None = None
    power_error_w: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or self.matrix.shape[1] != 4:
            raise ValueError(f"the modes of a sample table must be a matrix of 4 columns, not {self.matrix.shape}")
        columns = {"batch_size": self.batch_size, "step_s": self.step_s, "power_w": self.power_w, **self._optional()}
        lengths = {name: len(column) for name, column in {**columns, **self.extra}.items()}
        wrong = {name: length for name, length in lengths.items() if length != len(self)}
        if wrong:
            raise ValueError(f"a sample table of {len(self)} modes needs as many values in each column, not {wrong}")

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> SampleTable:
        """Build a table from single samples."""
        rows = list(samples)
        optional: dict[str, Any] = {name: _numbers([getattr(row, name) for row in rows]) for name in OPTIONAL_NUMBERS}
        optional |= {name: _flags([getattr(row, name) for row in rows]) for name in FLAGS}
        return cls(
            matrix=as_matrix([row.mode for row in rows]),
            batch_size=np.array([row.batch_size for row in rows], dtype=np.int64),
            step_s=np.array([row.step_s for row in rows], dtype=np.float64),
            power_w=np.array([row.power_w for row in rows], dtype=np.float64),
            **optional,
        )

    def __len__(self) -> int:
        return len(self.matrix)

    def __iter__(self) -> Iterator[Sample]:
        return (self.sample(row) for row in range(len(self)))

    def sample(self, row: int) -> Sample:
        """Return one row as a Sample."""
        values: dict[str, Any] = {name: column[row].item() for name, column in self._optional().items()}
        present = {name: value for name, value in values.items() if not np.isnan(value)}
        if "steps" in present:
            present["steps"] = int(present["steps"])
        return Sample(
            mode=self.mode(row),
            step_s=float(self.step_s[row]),
            power_w=float(self.power_w[row]),
            batch_size=int(self.batch_size[row]),
            **present,
        )

    def mode(self, row: int) -> PowerMode:
        """Return the mode of one row."""
        return PowerMode(*(round(float(value)) for value in self.matrix[row]))

    def take(self, rows: IntArray | BoolArray) -> SampleTable:
        """Return the table of the given rows (indices or a mask)."""
        indices = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return replace(
            self,
            matrix=self.matrix[indices],
            batch_size=self.batch_size[indices],
            step_s=self.step_s[indices],
            power_w=self.power_w[indices],
            extra={name: [values[i] for i in indices] for name, values in self.extra.items()},
            **{name: column[indices] for name, column in self._optional().items()},
        )

    def batch_sizes(self) -> list[int]:
        """Return the batch sizes present, ascending."""
        return [int(size) for size in np.unique(self.batch_size)]

    def at_batch_size(self, size: int) -> SampleTable:
        """Return the rows of one batch size, or say which there are."""
        if size not in self.batch_size:
            raise ValueError(f"no rows with batch size {size}; present: {', '.join(map(str, self.batch_sizes()))}")
        return self.take(self.batch_size == size)

    def peak_factor(self, assumed: float) -> FloatArray:
        """Return per row how far single readings lie above the median; `assumed` where no peak was measured."""
        if self.power_peak_w is None:
            return np.full(len(self), assumed)
        return np.where(np.isnan(self.power_peak_w), assumed, self.power_peak_w / self.power_w)

    def _optional(self) -> dict[str, Any]:
        columns = {name: getattr(self, name) for name in (*OPTIONAL_NUMBERS, *FLAGS)}
        return {name: column for name, column in columns.items() if column is not None}


def _numbers(column: list[float | None]) -> FloatArray | None:
    if all(value is None for value in column):
        return None
    return np.array([np.nan if value is None else value for value in column], dtype=np.float64)


def _flags(column: list[bool]) -> BoolArray | None:
    return np.array(column, dtype=np.bool_) if any(column) else None
