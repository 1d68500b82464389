"""WorkQueue: which keys are to be reconciled, and when; each key is in it at most once.

One thread owns it; the time is given to it, so that it is the same in every test.
"""

from __future__ import annotations

import heapq
import itertools
import random
from typing import NamedTuple

from powertrain_operator.observation import Key
from powertrain_operator.plan import Rank

# A flood of what comes first must not hold up releases, nor releases the rest. A key that is due for this long comes as
# early as a new one of the next better rank, …
AGE_S = 2.0
# … and of so many keys one is of a rank behind the best, where one is due.
SHARE = 4


class Entry(NamedTuple):
    """A key that is asked for; no two have the same order."""

    at_s: float
    order: int
    key: Key
    rank: Rank


class WorkQueue:
    """Due keys come out by rank and age, those of the same rank in the order in which they became due."""

    def __init__(self, first_s: float, most_s: float, draw: random.Random | None = None) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._draw = draw or random.Random()
        self._due: dict[Key, Entry] = {}
        self._heaps: dict[Rank, list[Entry]] = {rank: [] for rank in Rank}
        self._order = itertools.count()
        self._failures: dict[Key, int] = {}
        self._favoured = 0  # keys of the best rank that came in a row while others were due

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: Key, now_s: float, after_s: float = 0.0, rank: Rank = Rank.REST) -> None:
        """Ask for a key; if it is asked for already, the earlier time and the better rank count."""
        at_s = now_s + max(0.0, after_s)
        waiting = self._due.get(key)
        if waiting is not None:
            if waiting.at_s <= at_s and waiting.rank <= rank:
                return
            at_s, rank = min(waiting.at_s, at_s), min(waiting.rank, rank)
        entry = self._due[key] = Entry(at_s, next(self._order), key, rank)
        heapq.heappush(self._heaps[rank], entry)

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
        ready = [heap for heap in self._heaps.values() if heap and heap[0].at_s <= now_s]
        if not ready:
            return None
        self._favoured = (self._favoured + 1) % SHARE if len(ready) > 1 else 0
        if len(ready) > 1 and not self._favoured:
            ready = ready[1:]
        heap = min(ready, key=lambda heap: heap[0].at_s + AGE_S * heap[0].rank)
        key = heapq.heappop(heap).key
        del self._due[key]
        return key

    def due_s(self) -> float | None:
        """Return when the next key is or was due, None if there is none."""
        self._tidy()
        return min((heap[0].at_s for heap in self._heaps.values() if heap), default=None)

    def _tidy(self) -> None:
        """Drop entries that another one for the same key has overtaken."""
        for heap in self._heaps.values():
            while heap and self._due.get(heap[0].key) is not heap[0]:
                heapq.heappop(heap)
