"""A table that fits its terminal: it leaves out columns, the least important first, instead of breaking words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

# A column of words may be as narrow as this, or as its longest word.
NARROWEST_WORDS = 16
GAP, BORDERS = 2, 3


@dataclass(frozen=True)
class FittingTable:
    """Columns and rows; `words` are the columns that wrap, `drop` those that are left out first, first first.

    Without `drop` the columns go from the right, except the first one and those of words.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    right: Sequence[str] = ()
    words: Sequence[str] = ()
    drop: Sequence[str] = ()
    lines: bool = False
    _texts: list[list[Text]] = field(init=False)

    def __post_init__(self) -> None:
        texts = [[cell if isinstance(cell, Text) else Text(str(cell)) for cell in row] for row in self.rows]
        object.__setattr__(self, "_texts", texts)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the columns that fit."""
        places = self.fitting(options.max_width)
        yield self._table(places)
        missing = [name for place, name in enumerate(self.columns) if place not in places and name.strip()]
        if missing:
            yield Text(f"not shown here (narrow terminal): {', '.join(missing)}", style="dim")

    def fitting(self, width: int) -> list[int]:
        """Return the places of the columns that are drawn at a width."""
        order = list(self.drop) or [name for name in reversed(self.columns[1:]) if name not in self.words]
        places = list(range(len(self.columns)))
        for name in order:
            if self._least(places) <= width:
                break
            if name in self.columns:
                places.remove(self.columns.index(name))
        return places

    def _least(self, places: Sequence[int]) -> int:
        per_column, fixed = (BORDERS, 1) if self.lines else (GAP, -GAP)
        return sum(self._narrowest(place) + per_column for place in places) + fixed

    def _narrowest(self, place: int) -> int:
        cells = [Text(self.columns[place]), *(row[place] for row in self._texts)]
        whole = max(cell.cell_len for cell in cells)
        if self.columns[place] not in self.words:
            return whole
        longest_word = max((Text(word).cell_len for cell in cells for word in cell.plain.split()), default=0)
        return min(whole, max(NARROWEST_WORDS, longest_word))

    def _table(self, places: Sequence[int]) -> Table:
        table = Table(
            title=self.title or None,
            title_justify="left",
            box=box.HEAVY_HEAD if self.lines else None,
            header_style="bold",
            pad_edge=self.lines,
        )
        for place in places:
            name = self.columns[place]
            justify = "right" if name in self.right else "left"
            table.add_column(name, justify=justify, no_wrap=name not in self.words, overflow="fold")  # type: ignore[arg-type]
        for row in self._texts:
            table.add_row(*(row[place] for place in places))
        return table
