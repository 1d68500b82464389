"""Reads and writes sample tables as tidy CSV, with errors that name file, line and column."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import numpy as np

from powertrain.modes import MAX_CLOCK, MAX_CORES
from powertrain.samples import SampleTable
from powertrain.space import FloatArray, IntArray, ModeSpace

MODE_COLUMNS = ("cpu_cores", "cpu_khz", "gpu_hz", "emc_hz")
COLUMNS = (*MODE_COLUMNS, "batch_size", "time_ms", "power_w")
PEAK_COLUMN = "power_peak_w"

_MOST = {"cpu_cores": MAX_CORES, "cpu_khz": MAX_CLOCK, "gpu_hz": MAX_CLOCK, "emc_hz": MAX_CLOCK, "batch_size": 10**9}


class TableError(ValueError):
    """A sample table that can't be used; the message names file, line and column."""


@dataclass
class _Rows:
    """The rows of a file while they are read: numbers in the order of COLUMNS and the peak, with line numbers."""

    has_peak: bool
    others: list[str]
    numbers: list[list[float]] = field(default_factory=list)
    extras: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


def read_csv(path: Path, space: ModeSpace | None = None) -> SampleTable:
    """Read a tidy CSV file.

    Rows that repeat a mode and batch size are merged to their median (extra columns: the first row's), values that
    `space` does not hold are kept; both are said in the table's `warnings`. Missing columns, cells that are empty, not
    numbers, NaN, infinite, zero or negative, and files without rows are errors. Only a peak may be left empty.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise TableError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise TableError(f"{path}: is a folder, not a CSV file") from None
    except OSError as error:
        raise TableError(f"{path}: can't be read ({error.strerror})") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TableError(f"{path}, line {line}: is not UTF-8 text ({error.reason}); is this a CSV file?") from None
    return _table(path, _read(path, text), space)


def write_csv(table: SampleTable, stream: TextIO) -> None:
    """Write the columns that `read_csv` reads, extra columns last; spreads, temperature and flags are left out."""
    peak = [PEAK_COLUMN] if table.power_peak_w is not None else []
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*COLUMNS, *peak, *table.extra])
    for row in range(len(table)):
        mode = table.mode(row)
        cells: list[object] = [mode.cores, mode.cpu_khz, mode.gpu_hz, mode.emc_hz, int(table.batch_size[row])]
        cells += [f"{table.step_s[row] * 1e3:.10g}", f"{table.power_w[row]:.10g}"]
        if table.power_peak_w is not None:
            has_peak = not np.isnan(table.power_peak_w[row])
            cells.append(f"{table.power_peak_w[row]:.10g}" if has_peak else "")
        writer.writerow([*cells, *(values[row] for values in table.extra.values())])


def _read(path: Path, text: str) -> _Rows:
    lines = _filled_lines(path, text)
    first, header = next(lines, (1, []))
    header = [name.strip() for name in header]
    _check_header(path, first, header)
    numeric = [*COLUMNS, *([PEAK_COLUMN] if PEAK_COLUMN in header else [])]
    rows = _Rows(PEAK_COLUMN in header, [name for name in header if name not in numeric])
    positions = [(header.index(column), column) for column in numeric]
    extra_positions = [header.index(name) for name in rows.others]
    for line, cells in lines:
        if len(cells) != len(header):
            raise TableError(f"{path}, line {line}: {len(cells)} cells, but the header has {len(header)} columns")
        rows.numbers.append([_number(path, line, column, cells[at]) for at, column in positions])
        rows.extras.append([cells[at] for at in extra_positions])
        rows.lines.append(line)
    if not rows.lines:
        raise TableError(f"{path}: has a header but no rows")
    return rows


def _filled_lines(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and cells of each row that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise TableError(f"{path}, line {reader.line_num}: is not a CSV file ({error})") from None


def _check_header(path: Path, line: int, header: Sequence[str]) -> None:
    columns = ",".join(COLUMNS)
    if not header:
        raise TableError(f"{path}: is empty; the first line must be {columns}")
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        separator = next((mark for mark in (";", "\t") if mark in header[0]), None)
        hint = f"; separate columns by commas, not by {separator!r}" if separator else ""
        raise TableError(f"{path}, line {line}: no column {', '.join(missing)}; a table needs {columns}{hint}")
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise TableError(f"{path}, line {line}: column {', '.join(map(repr, repeated))} stands there more than once")


def _number(path: Path, line: int, column: str, cell: str) -> float:
    if column == PEAK_COLUMN and not cell.strip():
        return math.nan
    try:
        # Python reads 1_000 as a thousand; in a table it is a slip.
        value = float("" if "_" in cell else cell)
    except ValueError:
        raise TableError(f"{path}, line {line}, column {column}: {cell.strip()!r} is not a number") from None
    if not math.isfinite(value) or value <= 0:
        raise TableError(f"{path}, line {line}, column {column}: {cell.strip()!r} is not a finite number above zero")
    most = _MOST.get(column)
    if most is not None and (value > most or not value.is_integer()):
        raise TableError(
            f"{path}, line {line}, column {column}: {cell.strip()!r} is not a whole number from 1 to {most}"
        )
    return value


def _table(path: Path, rows: _Rows, space: ModeSpace | None) -> SampleTable:
    numbers = np.asarray(rows.numbers, dtype=np.float64)
    _, first, group = np.unique(numbers[:, :5], axis=0, return_index=True, return_inverse=True)
    warnings = []
    if len(first) < len(numbers):
        warnings.append(_merge_repeats(path, numbers, group.reshape(-1), rows.lines))
    keep = np.sort(first)
    values = numbers[keep]
    warnings += _outside_space(path, values, space)
    return SampleTable(
        matrix=values[:, :4],
        batch_size=values[:, 4].astype(np.int64),
        step_s=values[:, 5] / 1e3,
        power_w=values[:, 6],
        power_peak_w=values[:, 7] if rows.has_peak and not np.isnan(values[:, 7]).all() else None,
        extra={name: [rows.extras[i][k] for i in keep] for k, name in enumerate(rows.others)},
        warnings=tuple(warnings),
    )


def _merge_repeats(path: Path, numbers: FloatArray, group: IntArray, lines: list[int]) -> str:
    """Put the median of each repeated mode into all of its rows, and say how many there were."""
    counts = np.bincount(group)
    members = np.split(np.argsort(group, kind="stable"), np.cumsum(counts)[:-1])
    repeated = [rows for rows in members if len(rows) > 1]
    for rows in repeated:
        numbers[rows, 5:7] = np.median(numbers[rows, 5:7], axis=0)
        peaks = numbers[rows, 7:]
        if not np.isnan(peaks).all():
            numbers[rows, 7:] = np.nanmedian(peaks, axis=0)
    earliest = min(repeated, key=lambda rows: int(rows[0]))
    at = ", ".join(str(lines[row]) for row in earliest[:3]) + (", …" if len(earliest) > 3 else "")
    what = "1 mode stands" if len(repeated) == 1 else f"{len(repeated)} modes stand"
    each = "" if len(repeated) == 1 else " of each"
    example = "" if len(repeated) == 1 else "for example "
    return f"{path}: {what} there more than once at one batch size ({example}lines {at}): the median{each} is kept"


def _outside_space(path: Path, rows: FloatArray, space: ModeSpace | None) -> list[str]:
    if space is None:
        return []
    problems = []
    for column, (name, axis) in enumerate(zip(MODE_COLUMNS, space.axes, strict=True)):
        strange = np.setdiff1d(rows[:, column].astype(np.int64), axis)
        if strange.size:
            listed = ", ".join(map(str, strange[:5].tolist())) + (", …" if strange.size > 5 else "")
            legal = ", ".join(map(str, axis.tolist()))
            problems.append(f"{path}: {name} {listed} is not in the device's table ({legal}): kept as it is")
    return problems
