"""Backoff: how long to wait before the next try, longer each time, never in step with others."""

from __future__ import annotations

import random


class Backoff:
    """Doubles from `first_s` to `most_s`; each wait is drawn from the upper half of it."""

    def __init__(self, first_s: float = 0.5, most_s: float = 30.0, draw: random.Random | None = None) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._draw = draw or random.Random()
        self._bound_s = first_s

    def next_s(self) -> float:
        """Return the next wait."""
        bound_s = self._bound_s
        self._bound_s = min(2 * bound_s, self._most_s)
        return bound_s * self._draw.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Begin again: it worked."""
        self._bound_s = self._first_s
