"""Reads and writes sample tables as tidy CSV, with errors that name file, line and column."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import numpy as np

from powertrain.samples import SampleTable
from powertrain.space import ModeSpace

INTEGER_COLUMNS = ("cpu_cores", "cpu_khz", "gpu_hz", "emc_hz", "batch_size")
COLUMNS = (*INTEGER_COLUMNS, "time_ms", "power_w")
PEAK_COLUMN = "power_peak_w"


class TableError(ValueError):
    """A sample table that can't be used; the message names file, line and column."""


@dataclass
class _Rows:
    """The rows of a file while they are read; `lines` are their line numbers."""

    numbers: list[list[float]] = field(default_factory=list)
    extras: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


def read_csv(path: Path, known: ModeSpace | None = None) -> SampleTable:
    """Read a tidy CSV file.

    Rows that repeat a mode and batch size are merged to their median, values that `known` does not hold are kept; both are said in the
    table's `warnings`. Missing columns, cells that are empty, not numbers, NaN, infinite, zero or negative, and files without rows are errors.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            header, rows = _read(path, stream)
    except FileNotFoundError:
        raise TableError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise TableError(f"{path}: is a folder, not a CSV file") from None
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: is not UTF-8 text ({error.reason} at byte {error.start})") from None
    except csv.Error as error:
        raise TableError(f"{path}: is not a CSV file ({error})") from None
    return _table(path, header, rows, known)


def write_csv(table: SampleTable, stream: TextIO) -> None:
    """Write a table in the form that `read_csv` reads, extra columns last."""
    peak = [PEAK_COLUMN] if table.power_peak_w is not None else []
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*COLUMNS, *peak, *table.extra])
    for row in range(len(table)):
        mode = table.mode(row)
        cells: list[object] = [mode.cores, mode.cpu_khz, mode.gpu_hz, mode.emc_hz, int(table.batch_size[row])]
        cells += [f"{table.step_s[row] * 1e3:.6g}", f"{table.power_w[row]:.6g}"]
        if table.power_peak_w is not None:
            cells.append(f"{table.power_peak_w[row]:.6g}")
        writer.writerow([*cells, *(values[row] for values in table.extra.values())])


def _read(path: Path, stream: TextIO) -> tuple[list[str], _Rows]:
    reader = csv.reader(stream)
    header = [name.strip() for name in next(reader, [])]
    if not header:
        raise TableError(f"{path}: is empty; the first line must be {','.join(COLUMNS)}")
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise TableError(f"{path}, line 1: no column {', '.join(missing)}; a table needs {','.join(COLUMNS)}")
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise TableError(f"{path}, line 1: column {', '.join(repeated)} stands there twice")
    rows = _Rows()
    numeric = [*COLUMNS, *([PEAK_COLUMN] if PEAK_COLUMN in header else [])]
    others = [name for name in header if name not in numeric]
    for cells in reader:
        if not any(cell.strip() for cell in cells):
            continue
        line = reader.line_num
        if len(cells) != len(header):
            raise TableError(f"{path}, line {line}: {len(cells)} cells, but the header has {len(header)} columns")
        named = dict(zip(header, cells, strict=True))
        rows.numbers.append([_number(path, line, column, named[column]) for column in numeric])
        rows.extras.append([named[column] for column in others])
        rows.lines.append(line)
    if not rows.lines:
        raise TableError(f"{path}: has a header but no rows")
    return header, rows


def _number(path: Path, line: int, column: str, cell: str) -> float:
    where = f"{path}, line {line}, column {column}"
    try:
        value = float(cell)
    except ValueError:
        raise TableError(f"{where}: {cell.strip()!r} is not a number") from None
    if not math.isfinite(value) or value <= 0:
        raise TableError(f"{where}: {cell.strip()!r} must be a finite number above zero")
    if column in INTEGER_COLUMNS and (value != int(value) or value > 1e12):
        raise TableError(f"{where}: {cell.strip()!r} must be a whole number")
    return value


def _table(path: Path, header: Sequence[str], rows: _Rows, known: ModeSpace | None) -> SampleTable:
    numbers = np.asarray(rows.numbers, dtype=np.float64)
    has_peak = PEAK_COLUMN in header
    others = [name for name in header if name not in (*COLUMNS, PEAK_COLUMN)]
    keys = numbers[:, :5]
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    warnings = []
    if len(first) < len(numbers):
        warnings.append(_merge_repeats(path, numbers, group, rows.lines))
    keep = np.sort(first)
    warnings += _unknown(path, keys[keep], known)
    kept = numbers[keep]
    return SampleTable(
        matrix=kept[:, :4],
        batch_size=kept[:, 4].astype(np.int64),
        step_s=kept[:, 5] / 1e3,
        power_w=kept[:, 6],
        power_peak_w=kept[:, 7] if has_peak else None,
        extra={name: [rows.extras[i][k] for i in keep] for k, name in enumerate(others)},
        warnings=tuple(warnings),
    )


def _merge_repeats(path: Path, numbers: np.ndarray, group: np.ndarray, lines: list[int]) -> str:
    """Put the median of each repeated mode into all of its rows, and say how many there were."""
    repeated = np.flatnonzero(np.bincount(group) > 1)
    for value in repeated:
        members = group == value
        numbers[members, 5:] = np.median(numbers[members, 5:], axis=0)
    example = np.flatnonzero(group == repeated[0])
    at = ", ".join(str(lines[i]) for i in example[:3])
    return f"{path}: {len(repeated)} mode(s) stand there more than once (lines {at}…): the median of each was kept"


def _unknown(path: Path, keys: np.ndarray, known: ModeSpace | None) -> list[str]:
    if known is None:
        return []
    found = []
    for column, name, axis in zip(range(4), INTEGER_COLUMNS, known.axes, strict=False):
        strange = np.setdiff1d(keys[:, column].astype(np.int64), axis)
        if strange.size:
            listed = ", ".join(map(str, strange[:5].tolist()))
            found.append(f"{path}: {name} {listed} not in the device's table ({strange.size} value(s)): kept")
    return found
