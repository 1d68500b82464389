"""Freshness: whether the watches show what is known to exist.

A watch that hangs looks like a quiet cluster. But every own write and every full list names versions that the watch
must show soon; one that does not is stale.
"""

from __future__ import annotations

from collections.abc import Callable

from powertrain_operator.observation import Key


class Freshness:
    """Fed by the worker's thread, asked by any."""

    def __init__(self, clock: Callable[[], float], stale_after_s: float) -> None:
        self._clock = clock
        self._stale_after_s = stale_after_s
        self._expected: dict[Key, tuple[int, float]] = {}

    def expect(self, key: Key, version: int) -> None:
        """Take note that the watch has still to show this version."""
        _, since_s = self._expected.get(key, (0, self._clock()))
        self._expected[key] = (version, since_s)

    def note_version(self, key: Key, version: int) -> None:
        """Take note that the watch has shown this version."""
        expected = self._expected.get(key)
        if expected is not None and version >= expected[0]:
            del self._expected[key]

    def note_deletion(self, key: Key) -> None:
        """Take note that the object is known to be deleted; a watch that lists anew never tells."""
        self._expected.pop(key, None)

    def problem(self) -> str:
        """Return which watches are stale, empty if none is."""
        now_s = self._clock()
        stale: dict[str, float] = {}
        for key, (_, since_s) in list(self._expected.items()):
            if now_s - since_s > self._stale_after_s:
                stale[key.kind] = max(stale.get(key.kind, 0.0), now_s - since_s)
        return "; ".join(f"the watch of {kind} is {s:.0f} s behind" for kind, s in sorted(stale.items()))
