"""The tables of `tune` on a terminal: modes tried and the front, as many rows as the terminal has room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from powertrain_cli.units import plus_minus

# A title and the names of the columns.
HEAD_ROWS = 2
GAP = 2  # between two columns
TRIED_SHARE = 0.55  # of the free rows; the rest is the front's


@dataclass(frozen=True)
class TriedRow:
    """A measured mode."""

    human: str
    time_ms: float
    power_w: float
    note: str = ""


@dataclass(frozen=True)
class FrontRow:
    """A predicted mode; ± is two standard deviations."""

    human: str
    time_ms: float
    time_pm_ms: float
    power_w: float
    power_pm_w: float


@dataclass(frozen=True)
class _Line:
    cells: tuple[str, ...]
    above: bool  # the budget


def rows_for(free: int, trials: int, front: int) -> tuple[int, int]:
    """Return how many rows of each table fit into the free lines; what one table does not need, the other has."""
    room = free - HEAD_ROWS * ((trials > 0) + (front > 0))
    if not front:
        return max(0, min(trials, room)), 0
    for_front = min(front, max(room - trials, room - round(room * TRIED_SHARE)))
    return max(0, min(trials, room - for_front)), max(0, for_front)


def tried_table(rows: Sequence[TriedRow], last: int, budget_w: float, title: str, width: int) -> Table:
    """Return the last modes that were measured; those above the budget are marked."""
    lines = []
    for number, row in list(enumerate(rows, start=1))[-last:]:
        above = row.power_w > budget_w
        note = "; ".join(filter(None, (f"above {budget_w:g} W" if above else "", row.note)))
        lines.append(_Line((str(number), row.human, f"{row.time_ms:.1f}", f"{row.power_w:.1f}", note), above))
    return _table(title, ("#", "mode", "ms a step", "W", ""), ("#", "ms a step", "W"), lines, width)


def front_table(rows: Sequence[FrontRow], most: int, budget_w: float, width: int) -> Table:
    """Return some points of the predicted front; those above the budget are marked."""
    lines = []
    for row in spread(rows, most):
        above = row.power_w > budget_w
        figures = (
            f"{row.time_ms:.1f}",
            plus_minus(row.time_ms, row.time_pm_ms),
            f"{row.power_w:.1f}",
            plus_minus(row.power_w, row.power_pm_w),
        )
        lines.append(_Line((row.human, *figures, f"above {budget_w:g} W" if above else ""), above))
    columns = ("mode", "ms a step", "±", "W", "± ", "")
    return _table("predicted front", columns, columns[1:-1], lines, width)


def spread(rows: Sequence[FrontRow], most: int) -> list[FrontRow]:
    """Return at most so many rows, evenly spread, the first and the last among them."""
    if len(rows) <= most:
        return list(rows)
    if most < 2:
        return list(rows[:most])
    return [rows[round(place * (len(rows) - 1) / (most - 1))] for place in range(most)]


def _table(title: str, columns: Sequence[str], right: Sequence[str], lines: Sequence[_Line], width: int) -> Table:
    """Return a table whose last column, which is words, is cut where the terminal is too narrow for it."""
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", no_wrap=True)
    used = [max(len(column), *(len(line.cells[place]) for line in lines)) for place, column in enumerate(columns[:-1])]
    room = max(0, width - sum(used) - GAP * len(used))
    for line in lines:
        words = line.cells[-1]
        cut = words if len(words) <= room else f"{words[: max(0, room - 1)]}…"
        table.add_row(*line.cells[:-1], cut, style="red" if line.above else "")
    return table
