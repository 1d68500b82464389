"""WorkQueue: which keys are to be reconciled, and when; each key is in it at most once.

One thread owns it; the time is given to it, so that it is the same in every test.
"""

from __future__ import annotations

import heapq
import itertools
import random

from powertrain_operator.sighting import Key


class WorkQueue:
    """Due keys come out in the order in which they became due."""

    def __init__(self, first_s: float, most_s: float, draw: random.Random | None = None) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._draw = draw or random.Random()
        self._due: dict[Key, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._order = itertools.count()
        self._failures: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: Key, now_s: float, after_s: float = 0.0) -> None:
        """Ask for a key; if it is asked for already, the earlier time counts."""
        at_s = now_s + max(0.0, after_s)
        known = self._due.get(key)
        if known is not None and known[0] <= at_s:
            return
        order = next(self._order)
        self._due[key] = (at_s, order)
        heapq.heappush(self._heap, (at_s, order, key))

    def retry(self, key: Key, now_s: float) -> float:
        """Ask for a key that failed, later each time, and never in step with others; returns how much later."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        bound_s = min(self._most_s, self._first_s * 2.0 ** min(failures, 30))
        wait_s = bound_s * self._draw.uniform(0.5, 1.0)
        self.add(key, now_s, wait_s)
        return wait_s

    def succeeded(self, key: Key) -> None:
        """Forget the failures of a key."""
        self._failures.pop(key, None)

    def pop(self, now_s: float) -> Key | None:
        """Take the next key that is due, if any."""
        self._tidy()
        if not self._heap or self._heap[0][0] > now_s:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due[key]
        return key

    def due_s(self) -> float | None:
        """Return when the next key is or was due, None if there is none."""
        self._tidy()
        return self._heap[0][0] if self._heap else None

    def _tidy(self) -> None:
        """Drop entries that an earlier one for the same key has overtaken."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][:2]:
            heapq.heappop(self._heap)
