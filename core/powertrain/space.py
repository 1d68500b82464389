"""ModeSpace: every power mode a board allows, held as a grid of arrays instead of objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from powertrain.modes import KNOBS, ModeError, PowerMode

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ModeSpace:
    """The product of four sorted axes, less what `allowed` masks out; rows in sorted order of modes."""

    cores: IntArray
    cpu_khz: IntArray
    gpu_hz: IntArray
    emc_hz: IntArray
    allowed: BoolArray | None = field(default=None)

    @classmethod
    def grid(cls, cores: ArrayLike, cpu_khz: ArrayLike, gpu_hz: ArrayLike, emc_hz: ArrayLike) -> ModeSpace:
        """Build the full product of the given values (sorted, without repeats)."""
        return cls(_axis("cores", cores), _axis("cpu_khz", cpu_khz), _axis("gpu_hz", gpu_hz), _axis("emc_hz", emc_hz))

    @classmethod
    def covering(cls, modes: FloatArray | Sequence[PowerMode]) -> ModeSpace:
        """Build the smallest space that holds exactly these modes (a measured table, a restricted board)."""
        matrix = as_matrix(modes)
        if matrix.shape[0] == 0:
            raise ModeError("a mode space needs at least one mode")
        grid = cls.grid(*(matrix[:, k] for k in range(4)))
        mask = np.zeros(grid.shape, dtype=np.bool_)
        mask[grid._positions(matrix)] = True
        return grid if mask.all() else cls(*grid.axes, allowed=mask)

    def __post_init__(self) -> None:
        for array in (*self.axes, self.allowed):
            if array is not None:
                array.setflags(write=False)

    @property
    def axes(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Return the four axes in the order of KNOBS."""
        return self.cores, self.cpu_khz, self.gpu_hz, self.emc_hz

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return the lengths of the axes."""
        return len(self.cores), len(self.cpu_khz), len(self.gpu_hz), len(self.emc_hz)

    def __len__(self) -> int:
        return int(np.prod(self.shape)) if self.allowed is None else int(self.allowed.sum())

    def __iter__(self) -> Iterator[PowerMode]:
        return (_mode(row) for row in self.matrix)

    def __getitem__(self, row: int) -> PowerMode:
        return _mode(self.matrix[row])

    def __contains__(self, mode: object) -> bool:
        return isinstance(mode, PowerMode) and self._find(mode) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModeSpace) and np.array_equal(self.matrix, other.matrix)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def matrix(self) -> FloatArray:
        """Return one row (cores, cpu_khz, gpu_hz, emc_hz) per mode; read-only."""
        columns = np.meshgrid(*(axis.astype(np.float64) for axis in self.axes), indexing="ij")
        flat = np.stack([column.ravel() for column in columns], axis=1)
        if self.allowed is not None:
            flat = flat[self.allowed.ravel()]
        flat.setflags(write=False)
        return flat

    @cached_property
    def _row_of_cell(self) -> IntArray | None:
        if self.allowed is None:
            return None
        flat = self.allowed.ravel()
        return np.where(flat, np.cumsum(flat) - 1, -1)

    def index(self, mode: PowerMode) -> int:
        """Return the row of a mode, or say which knob is not legal and what is."""
        row = self._find(mode)
        if row is None:
            raise ModeError(self._why_not(mode))
        return row

    def rows(self, modes: FloatArray | Sequence[PowerMode]) -> IntArray:
        """Return the row of each mode; all must be in the space."""
        matrix = as_matrix(modes)
        cells = np.ravel_multi_index(self._positions(matrix), self.shape)
        row_numbers = cells if self._row_of_cell is None else self._row_of_cell[cells]
        if (row_numbers < 0).any():
            raise ModeError(self._why_not(_mode(matrix[int(np.argmax(row_numbers < 0))])))
        return row_numbers.astype(np.int64)

    def parse(self, text: str) -> PowerMode:
        """Read a mode of this space in either text form."""
        parsed = PowerMode.parse(text)
        if "/" not in text:
            self.index(parsed)
            return parsed
        values = [parsed.cores]
        for knob, axis in zip(KNOBS[1:], self.axes[1:], strict=True):
            unit = 1e6 if knob == "cpu_khz" else 1e9
            value = getattr(parsed, knob)
            nearest = int(axis[np.argmin(np.abs(axis - value))])
            values.append(nearest if f"{nearest / unit:.2f}" == f"{value / unit:.2f}" else value)
        mode = PowerMode(*values)
        self.index(mode)
        return mode

    def nearest(self, mode: PowerMode) -> PowerMode:
        """Return the legal mode closest in relative steps of each knob (log distance), the lower on a tie."""
        target = np.log([mode.cores, mode.cpu_khz, mode.gpu_hz, mode.emc_hz])
        if self.allowed is None:
            nearest = [
                int(axis[np.argmin(np.abs(np.log(axis) - t))]) for axis, t in zip(self.axes, target, strict=True)
            ]
            return PowerMode(*nearest)
        distance = ((np.log(self.matrix) - target) ** 2).sum(axis=1)
        return self[int(np.argmin(distance))]

    def neighbours(self, mode: PowerMode) -> list[PowerMode]:
        """Return the legal modes one step away on one knob."""
        position = np.unravel_index(self._cell(mode), self.shape)
        modes = []
        for knob in range(4):
            for step in (-1, 1):
                moved = [int(p) for p in position]
                moved[knob] += step
                if 0 <= moved[knob] < self.shape[knob] and (self.allowed is None or self.allowed[tuple(moved)]):
                    modes.append(PowerMode(*(int(axis[p]) for axis, p in zip(self.axes, moved, strict=True))))
        return modes

    def subgrid(
        self,
        cores: ArrayLike | None = None,
        cpu_khz: ArrayLike | None = None,
        gpu_hz: ArrayLike | None = None,
        emc_hz: ArrayLike | None = None,
    ) -> ModeSpace:
        """Keep only the given values of each knob; a value that is not on its axis is an error."""
        keep = np.ones(self.shape, dtype=np.bool_) if self.allowed is None else self.allowed
        axes = []
        for position, (knob, axis, requested) in enumerate(
            zip(KNOBS, self.axes, (cores, cpu_khz, gpu_hz, emc_hz), strict=True)
        ):
            values = axis if requested is None else _axis(knob, requested)
            unknown = np.setdiff1d(values, axis)
            if unknown.size:
                raise ModeError(f"{knob} {unknown.tolist()} not available; legal: {axis.tolist()}")
            axes.append(values)
            keep = np.take(keep, np.searchsorted(axis, values), axis=position)
        if not keep.any():
            raise ModeError("no mode is left in that part of the space")
        return ModeSpace(axes[0], axes[1], axes[2], axes[3], None if keep.all() else keep)

    def at_or_above(
        self, cpu_khz: int | None = None, gpu_hz: int | None = None, emc_hz: int | None = None
    ) -> ModeSpace:
        """Keep the modes with no clock below these; above a knob's highest clock, only that clock is kept."""
        floors = (None, cpu_khz, gpu_hz, emc_hz)
        axes = [
            None if least is None else axis[axis >= min(least, int(axis[-1]))]
            for axis, least in zip(self.axes, floors, strict=True)
        ]
        return self.subgrid(*axes)

    def restrict(self, keep: BoolArray) -> ModeSpace:
        """Keep the rows where `keep` is true (a board that lost modes at run time)."""
        return ModeSpace.covering(self.matrix[keep])

    def encode(self) -> FloatArray:
        """Return the modes scaled to 0…1 per knob (a constant knob becomes 0), for distance and learning."""
        low, high = self.matrix.min(axis=0), self.matrix.max(axis=0)
        scaled: FloatArray = (self.matrix - low) / np.where(high > low, high - low, 1.0)
        return scaled

    def _positions(self, matrix: FloatArray) -> tuple[IntArray, ...]:
        positions = []
        for k, (knob, axis) in enumerate(zip(KNOBS, self.axes, strict=True)):
            at = np.minimum(np.searchsorted(axis, matrix[:, k]), len(axis) - 1)
            wrong = axis[at] != matrix[:, k]
            if wrong.any():
                bad = matrix[int(np.argmax(wrong)), k]
                raise ModeError(f"{knob} {bad:.0f} not available; legal: {axis.tolist()}")
            positions.append(at.astype(np.int64))
        return tuple(positions)

    def _cell(self, mode: PowerMode) -> int:
        self.index(mode)
        return int(np.ravel_multi_index(self._positions(as_matrix([mode])), self.shape)[0])

    def _find(self, mode: PowerMode) -> int | None:
        cell = []
        for knob, axis in zip(KNOBS, self.axes, strict=True):
            at = int(np.searchsorted(axis, getattr(mode, knob)))
            if at == len(axis) or axis[at] != getattr(mode, knob):
                return None
            cell.append(at)
        flat = int(np.ravel_multi_index(cell, self.shape))
        if self._row_of_cell is None:
            return flat
        row = int(self._row_of_cell[flat])
        return row if row >= 0 else None

    def _why_not(self, mode: PowerMode) -> str:
        for knob, axis in zip(KNOBS, self.axes, strict=True):
            if getattr(mode, knob) not in axis:
                return f"{knob} {getattr(mode, knob)} not available; legal: {axis.tolist()}"
        return f"mode {mode} is not in this space, though each of its values is; nearest: {self.nearest(mode)}"


def as_matrix(modes: FloatArray | Iterable[PowerMode]) -> FloatArray:
    """Return modes as a float matrix with the columns of KNOBS."""
    if isinstance(modes, np.ndarray):
        return modes.astype(np.float64, copy=False)
    rows = [(mode.cores, mode.cpu_khz, mode.gpu_hz, mode.emc_hz) for mode in modes]
    return np.asarray(rows, dtype=np.float64).reshape(len(rows), 4)


def _axis(knob: str, values: ArrayLike) -> IntArray:
    """Return the values sorted and without repeats."""
    numbers = np.atleast_1d(np.asarray(values))
    with np.errstate(invalid="ignore"):
        whole = numbers.astype(np.int64) if numbers.dtype.kind in "iuf" else np.zeros(numbers.shape, dtype=np.int64)
    if numbers.size == 0 or (whole != numbers).any() or (whole < 1).any():
        raise ModeError(f"{knob} needs at least one value, all whole numbers above zero; got {numbers.tolist()}")
    return np.unique(whole)


def _mode(row: FloatArray) -> PowerMode:
    return PowerMode(*(round(float(value)) for value in row))
