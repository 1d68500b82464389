"""The history of a session: power, step time, mode and limit over time, and what happened. Bounded, whatever it lasts.

A row covers a stretch of time. When the rows are full, neighbours are merged in pairs, so that rows cover twice the
time: a short session is kept second by second, a week in rows of an hour. Marks that do not fit drop the oldest trials
first: what a guard did matters more than one of many trials.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from powertrain.modes import PowerMode

ROWS, MARKS, TEXT = 720, 240, 200
HOST_BYTES = 200_000
# What goes into objects of the API: a few kilobytes, because the API server keeps and sends them with every change.
COMPACT_ROWS, COMPACT_MARKS, COMPACT_TEXT = 48, 40, 100
COMPACT_BYTES = 8_000
FEWEST = 4
FIRST_ROW_S = 1.0


class Happening(StrEnum):
    """What a mark stands for."""

    MODE = "mode"
    TRIAL = "trial"
    GUARD = "guard"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at one moment."""

    at_s: float
    kind: Happening
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """A stretch of time from `at_s` on. The mode and the limit are the last ones in it."""

    at_s: float
    readings: int
    power_min_w: float
    power_mean_w: float
    power_max_w: float
    steps: int = 0
    step_s: float | None = None
    mode: str | None = None
    limit_w: float | None = None

    def merged(self, later: Row) -> Row:
        """Return both as one row; means are weighted by what they were taken over."""
        readings, steps = self.readings + later.readings, self.steps + later.steps
        power_w = (self.power_mean_w * self.readings + later.power_mean_w * later.readings) / readings
        times = [(row.step_s, row.steps) for row in (self, later) if row.step_s is not None]
        weight = sum(count for _, count in times)
        return Row(
            self.at_s,
            readings,
            min(self.power_min_w, later.power_min_w),
            power_w,
            max(self.power_max_w, later.power_max_w),
            steps,
            sum(step_s * count for step_s, count in times) / weight if weight else None,
            later.mode,
            later.limit_w,
        )


class SessionHistory:
    """Takes readings and marks in the order of time and never grows beyond its bounds."""

    def __init__(self, began_at: str, rows: int = ROWS, marks: int = MARKS, text: int = TEXT) -> None:
        """Start empty; `began_at` is the wall clock's time of second 0."""
        self.began_at = began_at
        self._most_rows, self._most_marks, self._most_text = rows, marks, text
        self._row_s = FIRST_ROW_S
        self._rows: list[Row] = []
        self._marks: list[Mark] = []

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return the rows, oldest first."""
        return tuple(self._rows)

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Return the marks, oldest first."""
        return tuple(self._marks)

    def add(
        self,
        at_s: float,
        power_w: float,
        step_s: float | None = None,
        mode: str | None = None,
        limit_w: float | None = None,
    ) -> None:
        """Take one reading, with the step time of that moment where there is one."""
        steps = 0 if step_s is None else 1
        self._append(Row(at_s, 1, power_w, power_w, power_w, steps, step_s, mode, limit_w))

    def mark(self, at_s: float, kind: Happening, text: str) -> None:
        """Note that something happened."""
        self._marks.append(Mark(at_s, kind, text[: self._most_text]))
        if len(self._marks) > self._most_marks:
            trials = (place for place, mark in enumerate(self._marks) if mark.kind is Happening.TRIAL)
            del self._marks[next(trials, 0)]

    def compact(self, most_bytes: int = COMPACT_BYTES) -> SessionHistory:
        """Return a copy whose text has at most so many bytes, for objects of the API."""
        rows, marks, text = COMPACT_ROWS, COMPACT_MARKS, COMPACT_TEXT
        small = self._copy(rows, marks, text)
        while len(small.to_text().encode()) > most_bytes and rows > FEWEST:
            rows, marks, text = max(FEWEST, rows * 3 // 4), max(FEWEST, marks * 3 // 4), max(20, text * 7 // 8)
            small = self._copy(rows, marks, text)
        return small

    def _copy(self, rows: int, marks: int, text: int) -> SessionHistory:
        small = SessionHistory(self.began_at, rows, marks, text)
        small._row_s = self._row_s
        for row in self._rows:
            small._append(row)
        for mark in self._marks:
            small.mark(mark.at_s, mark.kind, mark.text)
        return small

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready columns; numbers have as many digits as a sensor gives."""
        columns: dict[str, list[Any]] = {name: [] for name in Row.__slots__}
        for row in self._rows:
            for name, value in asdict(row).items():
                columns[name].append(_short(value))
        modes = list(dict.fromkeys(columns["mode"]))
        columns["mode"] = [modes.index(mode) for mode in columns["mode"]]
        return {
            "began_at": self.began_at,
            "row_s": self._row_s,
            "modes": modes,
            **columns,
            "marks": [[_short(mark.at_s), mark.kind.value, mark.text] for mark in self._marks],
        }

    def to_text(self) -> str:
        """Return it as JSON without a blank."""
        return json.dumps(self.to_dict(), separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_text(cls, text: str | bytes) -> SessionHistory:
        """Read what `to_text` gave; raises ValueError where it is something else."""
        try:
            return cls.from_dict(json.loads(text))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"no history of a session: {error!r}") from None

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> SessionHistory:
        """Read what `to_dict` gave."""
        history = cls(str(document["began_at"]))
        history._row_s = float(document["row_s"])
        columns = {name: document[name][:ROWS] for name in Row.__slots__}
        modes = [None if mode is None else str(PowerMode.parse(mode)) for mode in document["modes"]]
        columns["mode"] = [modes[place] for place in columns["mode"]]
        values: Iterable[tuple[Any, ...]] = zip(*columns.values(), strict=True)
        history._rows = [Row(*map(_checked, each)) for each in values]
        marks = document["marks"][:MARKS]
        history._marks = [Mark(_checked(at_s), Happening(kind), str(text)[:TEXT]) for at_s, kind, text in marks]
        return history

    def _append(self, row: Row) -> None:
        last = self._rows[-1] if self._rows else None
        if last is not None and row.at_s < last.at_s + self._row_s:
            self._rows[-1] = last.merged(row)
            return
        self._rows.append(row)
        if len(self._rows) > self._most_rows:
            self._row_s *= 2
            self._halve()

    def _halve(self) -> None:
        """Merge what now lies in one row; after a gap in the readings that may be nothing, and the next merge helps."""
        rows, self._rows = self._rows, []
        for row in rows:
            last = self._rows[-1] if self._rows else None
            if last is not None and row.at_s < last.at_s + self._row_s:
                self._rows[-1] = last.merged(row)
            else:
                self._rows.append(replace(row))
        if len(self._rows) > self._most_rows:
            self._row_s *= 2
            self._halve()


def _checked(value: Any) -> Any:
    """Return a value of a stored row; others than numbers, modes and nothing have no place there."""
    if isinstance(value, (int, float)) and not math.isfinite(value):
        raise ValueError(f"{value} is not a number")
    if value is not None and not isinstance(value, (int, float, str)):
        raise ValueError(f"{value!r} in a row")
    return value


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value
