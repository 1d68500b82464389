"""Contact: whether the API server answers, judged by every call of the link, and since when it does not."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Contact:
    """Calls `away(since)` once when calls begin to fail and `back()` once when one succeeds again.

    `since` is the time of the last answer: the server may have been away from then on.
    """

    def __init__(self, clock: Callable[[], float], away: Callable[[float], None], back: Callable[[], None]) -> None:
        self._clock = clock
        self._away = away
        self._back = back
        self._lock = threading.Lock()
        self._last_s = clock()
        self._answers = True

    def note_answer(self) -> None:
        """Note an answer, whatever it said."""
        with self._lock:
            self._last_s = self._clock()
            if not self._answers:
                self._answers = True
                self._back()

    def note_failure(self) -> None:
        """Note that nobody answered."""
        with self._lock:
            if self._answers:
                self._answers = False
                self._away(self._last_s)

    @property
    def away_s(self) -> float:
        """Return how long nobody has answered, 0 while somebody does."""
        with self._lock:
            return 0.0 if self._answers else self._clock() - self._last_s
