"""What other threads tell the worker, who alone owns world and queue: sightings, deletions, finished lists."""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import Literal

from powertrain_kube import ApiError, Object
from powertrain_operator.plan import Apply, ApplyStatus
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
class Errand:
    """Writes of one key's plan that are made beside the worker, in this order."""

    key: Key
    job_uid: str
    actions: tuple[Apply | ApplyStatus, ...]


@dataclass(frozen=True)
class Carried:
    """What came of an errand: an answer for each write that was made, and why the next one was not."""

    errand: Errand
    answers: tuple[Object, ...]
    error: ApiError | None = None


@dataclass(frozen=True)
class Wake:
    """Look up from waiting."""


News = Seen | Deleted | Listed | Carried | Wake
Inbox = queue.SimpleQueue[News]
