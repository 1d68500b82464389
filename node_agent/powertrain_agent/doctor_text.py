"""What the doctor found, as text; both `powertrain doctor` and `powertrain-agent doctor` print it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from powertrain_agent.doctor import DoctorReport, KnobReport

MARKS = {True: "yes", False: "NO", None: "–"}
COLUMNS = ("knob", "read", "write", "verify", "restore", "shows")
GAP = "  "
# A last column that is narrower than this goes on a line of its own.
LEAST_LAST_COLUMN = 16


def text(report: DoctorReport, width: int | None = None) -> str:
    """Return the report in lines of at most `width` columns; without a width (a pipe) nothing is wrapped."""
    return "\n".join(_wrapped(line, indent, width) for line, indent in _lines(report, width)) + "\n"


def _lines(report: DoctorReport, width: int | None) -> Iterator[tuple[str, int]]:
    """Return each line, and by how much its continuation is indented."""
    if report.knobs:
        yield from _table([COLUMNS, *(_row(knob) for knob in report.knobs)], width)
        yield "", 0
        for knob in report.knobs:
            if knob.reason:
                yield f"{knob.title}: {knob.reason}", 4
            if knob.fix:
                yield f"    {knob.fix}", 4
        yield f"mount family for the chart: {report.mount_family}", 4
        for path in report.missing_mounts:
            yield f"    not on this host: {path}", 4
    for hint in report.hints:
        yield f"hint: {hint}", 4
    yield report.verdict, 0


def _row(knob: KnobReport) -> tuple[str, ...]:
    steps = (knob.read, knob.write, knob.verify, knob.restore)
    return (knob.title, *(MARKS[step] for step in steps), knob.value)


def _table(rows: Sequence[Sequence[str]], width: int | None) -> Iterator[tuple[str, int]]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS) - 1)]
    indent = sum(widths) + len(GAP) * len(widths)
    narrow = width is not None and width - indent < LEAST_LAST_COLUMN
    for row in rows:
        cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=False)]
        yield GAP.join(cells if narrow else [*cells, row[-1]]).rstrip(), indent
        if narrow and row[-1] and row is not rows[0]:
            yield f"    {row[-1]}", 4


def _wrapped(line: str, indent: int, width: int | None) -> str:
    if width is None or len(line) <= width:
        return line
    return textwrap.fill(line, width, subsequent_indent=" " * indent, replace_whitespace=False, drop_whitespace=True)
