"""WorkQueue: which keys are to be reconciled, and when; each key is in it at most once.

One thread owns it; the time is given to it, so that it is the same in every test.
"""

from __future__ import annotations

import heapq
import itertools
import random
from typing import NamedTuple

from powertrain_operator.sighting import Key


class Entry(NamedTuple):
    """A key that is asked for; no two have the same order."""

    at_s: float
    order: int
    key: Key
    urgent: bool


class WorkQueue:
    """Due keys come out in the order in which they became due, those that are urgent before the others."""

    def __init__(self, first_s: float, most_s: float, draw: random.Random | None = None) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._draw = draw or random.Random()
        self._due: dict[Key, Entry] = {}
        # Urgent ones first.
        self._heaps: tuple[list[Entry], list[Entry]] = ([], [])
        self._order = itertools.count()
        self._failures: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: Key, now_s: float, after_s: float = 0.0, *, urgent: bool = False) -> None:
        """Ask for a key; if it is asked for already, the earlier time counts, and that it is urgent."""
        at_s = now_s + max(0.0, after_s)
        known = self._due.get(key)
        if known is not None:
            if known.at_s <= at_s and (known.urgent or not urgent):
                return
            at_s, urgent = min(known.at_s, at_s), known.urgent or urgent
        entry = self._due[key] = Entry(at_s, next(self._order), key, urgent)
        heapq.heappush(self._heaps[not urgent], entry)

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
        for heap in self._heaps:
            if heap and heap[0].at_s <= now_s:
                key = heapq.heappop(heap).key
                del self._due[key]
                return key
        return None

    def due_s(self) -> float | None:
        """Return when the next key is or was due, None if there is none."""
        self._tidy()
        return min((heap[0].at_s for heap in self._heaps if heap), default=None)

    def _tidy(self) -> None:
        """Drop entries that another one for the same key has overtaken."""
        for heap in self._heaps:
            while heap and self._due.get(heap[0].key) is not heap[0]:
                heapq.heappop(heap)
