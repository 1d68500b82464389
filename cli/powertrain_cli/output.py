"""Output: JSON or a table on stdout, everything else (progress, warnings, errors) on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, RenderableType

from powertrain_cli.fitting import FittingTable

if TYPE_CHECKING:
    from rich.progress import Progress

PIPE_COLUMNS = 400
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else.")]


def stdout() -> Console:
    """Return a console on the present stdout, coloured only on a terminal."""
    return Console(file=sys.stdout, highlight=False, emoji=False)


def stderr() -> Console:
    """Return a console on the present stderr, coloured only on a terminal."""
    return Console(file=sys.stderr, highlight=False, emoji=False)


def emit_json(data: Any) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(data, indent=2, allow_nan=False) + "\n")


def show(picture: RenderableType) -> None:
    """Print a picture; a pipe has no width unless $COLUMNS gives one, so nothing is left out or folded there."""
    console = stdout()
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = max(console.width, PIPE_COLUMNS)
    console.print(picture)


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    right: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> None:
    """Print a table; columns in `right` are aligned right, those in `drop` are left out first on a narrow terminal."""
    show(FittingTable(columns, rows, title, right, _words(columns, rows, right), drop, lines=True))


def _words(columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str]) -> list[str]:
    """Return the columns that hold words, which can wrap: all but the first, figures and short terms."""
    return [
        name
        for place, name in enumerate(columns)
        if place and name not in right and any(" " in str(row[place]) for row in rows)
    ]


def drop_stdout() -> None:
    """Send what is still printed nowhere: the reader (`| head`) has gone, and Python would complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def warn(text: str) -> None:
    """Print a warning on stderr."""
    stderr().print(f"warning: {text}", style="yellow", markup=False, soft_wrap=True)


def progress() -> Progress:
    """Return a progress bar on stderr, for anything over a second; in a pipe or log it would be an empty line."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

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
