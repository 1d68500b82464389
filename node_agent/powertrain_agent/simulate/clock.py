"""ManualClock: a clock that moves only when it is told to, for boards whose time a caller controls."""

from __future__ import annotations


class ManualClock:
    """Call it for the time; `advance` moves it."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self.now_s += seconds
