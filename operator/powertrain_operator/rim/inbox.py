"""What other threads tell the worker, who alone owns world and queue: sightings, deletions, finished lists."""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import Literal

from powertrain_operator.sighting import Key, Sighting

Source = Literal["watch", "list", "write"]


@dataclass(frozen=True)
class Seen:
    """An object as a watch or a list showed it."""

    sighting: Sighting
    source: Source


@dataclass(frozen=True)
class Deleted:
    """A watch told that an object is gone."""

    key: Key
    version: int


@dataclass(frozen=True)
class Listed:
    """A full list of a kind has ended; these were all its objects at that version."""

    kind: str
    present: frozenset[Key]
    version: int


@dataclass(frozen=True)
class Wake:
    """Look up from waiting."""


News = Seen | Deleted | Listed | Wake
Inbox = queue.SimpleQueue[News]
