"""Trouble: what fails in one object's part of a reconcile. It is that object's alone, and shown in its conditions."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from powertrain_operator.observation import Key

RECONCILE_FAILED = "ReconcileFailed"


@dataclass(frozen=True)
class Trouble:
    """Whose part failed, what it says to the owner of the object, and where it happened, for the log."""

    key: Key
    words: str
    trace: str = ""


class Parts:
    """The parts of a shared reconcile, each for one object: one that fails is noted and left out."""

    def __init__(self) -> None:
        self._troubles: dict[Key, Trouble] = {}

    @contextmanager
    def of(self, key: Key) -> Iterator[None]:
        """Run one object's part; an exception ends the part and nothing else."""
        try:
            yield
        except Exception as error:
            self.note(key, error)

    def note(self, key: Key, error: Exception) -> None:
        """Take note that an object's part has failed."""
        self._troubles[key] = trouble(key, error)

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """Return what failed."""
        return tuple(self._troubles.values())


def trouble(key: Key, error: Exception) -> Trouble:
    """Return an exception as an object's trouble."""
    error_text = " ".join(str(error).split())[:300]
    failure = f"{type(error).__name__}: {error_text}"
    words = f"the operator fails to reconcile this object and retries: {failure}; see its log"
    return Trouble(key, words, "".join(traceback.format_exception(error, limit=-8)))
