"""What other threads tell the worker, who alone owns cache and queue: observations, deletions, finished lists."""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import Literal

from powertrain_kube import ApiError, Object
from powertrain_operator.observation import Key, Observation
from powertrain_operator.plan import Apply, ApplyStatus

Source = Literal["watch", "list", "write"]


@dataclass(frozen=True)
class ObjectUpdate:
    """An object as a watch or a list showed it."""

    observation: Observation
    source: Source


@dataclass(frozen=True)
class ObjectDeletion:
    """A watch told that an object is gone."""

    key: Key
    version: int


@dataclass(frozen=True)
class ListCompletion:
    """A full list of a kind has ended; these were all its objects at that version."""

    kind: str
    present: frozenset[Key]
    version: int


@dataclass(frozen=True)
class BackgroundWrite:
    """Writes of one key's plan that are sent beside the worker's thread, in this order."""

    key: Key
    job_uid: str
    actions: tuple[Apply | ApplyStatus, ...]


@dataclass(frozen=True)
class WriteResult:
    """The result of a background write: an answer for each write that was made, and why the next one was not."""

    write: BackgroundWrite
    answers: tuple[Object, ...]
    error: ApiError | None = None


@dataclass(frozen=True)
class Wakeup:
    """Look up from waiting."""


Message = ObjectUpdate | ObjectDeletion | ListCompletion | WriteResult | Wakeup
Inbox = queue.SimpleQueue[Message]
