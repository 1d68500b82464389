"""Output: JSON or a table on stdout, everything else (progress, warnings, errors) on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console, JustifyMethod
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

JsonFlag = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout, nothing else there.")]


def stdout() -> Console:
    """Return a console on the present stdout, coloured only on a terminal."""
    return Console(file=sys.stdout, highlight=False)


def stderr() -> Console:
    """Return a console on the present stderr, coloured only on a terminal."""
    return Console(file=sys.stderr, highlight=False)


def emit_json(data: Any) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(data, indent=2, allow_nan=False) + "\n")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str] = ()) -> None:
    """Print a table; the columns named in `right` are aligned right."""
    grid = Table(title=title, title_justify="left", header_style="bold")
    for position, column in enumerate(columns):
        justify: JustifyMethod = "right" if column in right else "left"
        grid.add_column(column, justify=justify, overflow="fold", no_wrap=position == 0)
    for row in rows:
        grid.add_row(*(str(cell) for cell in row))
    stdout().print(grid)


def drop_stdout() -> None:
    """Send what is still printed nowhere: the reader (`| head`) has gone, and Python would complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def warn(text: str) -> None:
    """Print a warning on stderr."""
    stderr().print(f"warning: {text}", style="yellow", markup=False, soft_wrap=True)


def progress() -> Progress:
    """Return a progress bar on stderr, for anything over a second; in a pipe or log it would be an empty line."""
    console = stderr()
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show on stderr that something is going on whose length is not known; only on a terminal."""
    with stderr().status(text):
        yield
