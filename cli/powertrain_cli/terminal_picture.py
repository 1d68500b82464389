"""A picture on a terminal that is drawn anew again and again; views of a running session or demo build on it."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.live import Live


class TerminalPicture:
    """Begins and ends the picture; `_live` is None where none is drawn, and the view prints lines instead."""

    def __init__(self, console: Console, is_drawn: bool, transient: bool = False) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=transient) if is_drawn else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Draw no more; what is printed from here on stays."""
        if self._live:
            self._live.stop()
