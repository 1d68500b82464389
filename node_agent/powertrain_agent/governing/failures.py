"""Failures: a part of the loop that raises is logged, counted and shown; the other parts go on, above all the guard."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from powertrain_kube.log import Log

LOOP = "LoopHealthy"
FAILING, RECOVERED = "Failing", "Recovered"
QUIET_S = 60.0  # without a failure for so long, the loop counts as well again
MOST_LETTERS = 500  # of an exception: some show all that they were given


class Failures:
    """What went wrong in the loop, newest first of all; the same failure may come every second and is logged once."""

    def __init__(self, log: Log, clock: Callable[[], float], count: Callable[[str], None]) -> None:
        """Log there; `count` gets the part that failed."""
        self._log, self._clock, self._count = log, clock, count
        self._logged_reasons: dict[str, str] = {}
        self._latest: tuple[float, str] | None = None
        self.count = 0

    @contextmanager
    def catching(self, part: str) -> Iterator[None]:
        """Let a part of the loop fail without the rest."""
        try:
            yield
        except Exception as error:
            self.note(part, error)

    def note(self, part: str, error: Exception) -> None:
        """Take note of an exception in a part of the loop; call it where the exception is handled."""
        reason = f"{part}: {error!r}"[:MOST_LETTERS]
        self.count += 1
        self._latest = (self._clock(), reason)
        self._count(part)
        if self._logged_reasons.get(part) != reason:
            self._log("error", reason=reason, trace=traceback.format_exc())
        self._logged_reasons[part] = reason

    def recent(self) -> str:
        """Return the newest failure of the last minute; empty where there was none."""
        if self._latest is None or self._clock() - self._latest[0] > QUIET_S:
            return ""
        return self._latest[1]
