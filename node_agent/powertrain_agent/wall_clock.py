"""WallClock: whether the board's time of day can be trusted. A board whose clock has no battery boots in the past."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

TOLERATED_S = 30.0  # an answer may take 10 s, and its date has whole seconds
EARLIEST = datetime(2025, 1, 1, tzinfo=UTC)  # this release is younger: an earlier date is a clock that was never set


class WallClock:
    """Compares the board's clock with the API server's; `seen` gets each difference. Told by any thread."""

    def __init__(
        self,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_offset: Callable[[float], None] = lambda ahead_s: None,
    ) -> None:
        self._now, self._on_offset = now, on_offset
        self._ahead_s: float | None = None

    def compare(self, server: datetime) -> None:
        """Take the date of an answer that has just come."""
        self._ahead_s = (self._now() - server).total_seconds()
        self._on_offset(self._ahead_s)

    @property
    def doubt(self) -> str:
        """Say why the time of day can't be trusted; empty if it can."""
        if self._ahead_s is None:
            now = self._now()
            return f"the board's clock says {now:%Y-%m-%d %H:%M}, so it was never set" if now < EARLIEST else ""
        if abs(self._ahead_s) <= TOLERATED_S:
            return ""
        way = "ahead of" if self._ahead_s > 0 else "behind"
        return f"the board's clock is {abs(self._ahead_s):.0f} s {way} the API server's"
