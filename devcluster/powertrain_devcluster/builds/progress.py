"""How a long start tells a person what it waits for; never on stdout."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, TextIO

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
# A log that says nothing for minutes looks like a hang; one with a line per package cannot be read.
_LINE_EVERY_S = 20.0


class Progress(Protocol):
    """Receives what is being waited for, in a few words."""

    def waiting(self, what: str) -> None: ...


class Silent:
    """Tells nobody."""

    def waiting(self, what: str) -> None:
        return None


def _step(what: str) -> str:
    """What is waited for, without how far it is, which stands in parentheses."""
    return what.split("(", 1)[0].strip()


class Lines:
    """One line per step, and now and then how far a long one is; for logs and pipes."""

    def __init__(self, stream: TextIO | None = None, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._clock_s = clock_s
        self._last = ""
        self._said_s = 0.0

    def waiting(self, what: str) -> None:
        if _step(what) == self._last and self._clock_s() - self._said_s < _LINE_EVERY_S:
            return
        self._last = _step(what)
        self._said_s = self._clock_s()
        self._stream.write(f"waiting for {what}\n")
        self._stream.flush()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return None


class Spinner:
    """A turning line on a terminal with the step and its seconds; it wipes itself at the end."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._what = "the start"
        self._since = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._turn, name="spinner", daemon=True)

    def waiting(self, what: str) -> None:
        if _step(what) != _step(self._what):
            self._since = time.monotonic()
        self._what = what

    def _turn(self) -> None:
        for frame in itertools.cycle(_FRAMES):
            seconds = time.monotonic() - self._since
            self._stream.write(f"\r\x1b[K{frame} waiting for {self._what} · {seconds:.0f} s")
            self._stream.flush()
            if self._stop.wait(0.1):
                break
        self._stream.write("\r\x1b[K")
        self._stream.flush()

    def __enter__(self) -> Spinner:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()


def for_stream(stream: TextIO | None = None) -> Spinner | Lines:
    """A spinner where somebody watches, lines elsewhere."""
    target = stream or sys.stderr
    return Spinner(target) if target.isatty() else Lines(target)
