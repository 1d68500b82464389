"""Plan: what a reconcile wants done, as values; the runtime executes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Literal

from powertrain_kube import Object, Propagation
from powertrain_operator.cache import Cache, Change
from powertrain_operator.observation import Key
from powertrain_operator.settings import Settings
from powertrain_operator.trouble import Trouble

# Who owns which fields. One manager per group of fields that is applied as a whole: a field that is left out of the
# next apply of the same manager is removed.
FIELD_MANAGER = "powertrain-operator"
STATUS_MANAGER = "powertrain-operator-status"
ENVELOPE_MANAGER = "powertrain-operator-envelope"
MANAGERS = (FIELD_MANAGER, STATUS_MANAGER, ENVELOPE_MANAGER)

EventType = Literal["Normal", "Warning"]


@dataclass(frozen=True)
class Apply:
    """Server-side apply: exactly these fields are this manager's. Without a uid the object is made if it is missing.

    Always say the uid of an object that must exist already: an apply to a name that is gone would make a new one.
    `background`: no decision waits for it, so that others need not wait for it either. `version`: only if the object is
    still of this version, so that a write that comes late undoes nothing; 0: whatever version it has.
    """

    body: Object
    uid: str = ""
    version: int = 0
    manager: str = FIELD_MANAGER
    background: bool = False


@dataclass(frozen=True)
class ApplyStatus:
    """Server-side apply of the status; the body's spec and labels, if any, are ignored by the server."""

    body: Object
    uid: str = ""
    manager: str = STATUS_MANAGER
    background: bool = False


@dataclass(frozen=True)
class Create:
    """Create the object unless one of that name is there, which is left alone; if it is not the same owner's, the cache
    then knows that the name is taken.
    """

    body: Object


@dataclass(frozen=True)
class Delete:
    """Delete the object with this uid; done if it is gone or another one has its name."""

    key: Key
    uid: str
    propagation: Propagation = "Background"


@dataclass(frozen=True)
class Announce:
    """An Event about an object; the same one again within ten minutes only counts up."""

    regarding: Object  # its apiVersion, kind and metadata are used
    type: EventType
    reason: str  # stable CamelCase
    message: str


@dataclass(frozen=True)
class CheckTemplate:
    """Ask the server whether it would accept this object; the cache then knows the verdict under `key`."""

    key: str
    body: Object


@dataclass(frozen=True)
class CountRequests:
    """Ask the server how much CPU the pods of a node request; the cache then knows it under `key`, in millicores."""

    key: str
    node: str


Action = Apply | ApplyStatus | Create | Delete | Announce | CheckTemplate | CountRequests


@dataclass(frozen=True)
class Plan:
    """Actions are executed in this order, background writes last; the first that fails ends its part of the plan, which
    is tried again with backoff.

    `requeue_s` asks for another reconcile after that time even if nothing happens; `job_uid` is in every log line.
    `troubles` are of single objects whose part of this reconcile failed.
    """

    actions: tuple[Action, ...] = ()
    requeue_s: float | None = None
    job_uid: str = ""
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True)
class Context:
    """What a reconcile may use beside the cache."""

    now: datetime
    monotonic_s: float
    settings: Settings


# Looks at the cache and says what is to be done for one object, which may be gone. Changes nothing itself.
Reconcile = Callable[[Cache, Key, Context], Plan]
# Says which objects are to be looked at again after a change.
AffectedKeys = Callable[[Cache, Change], Iterable[Key]]


class Rank(IntEnum):
    """Which of the keys that are due comes first."""

    START = 0  # a job waits for its nodes, or a board for its first envelope
    END = 1  # a job's pods are to be made, or its board is given back
    REST = 2  # how everybody is getting on


# Says how soon a key is to come.
RankOf = Callable[[Cache, Key], Rank]
# Says what is still to be done for an object whose own reconcile fails, with words for those who look at it.
FailureActions = Callable[[Cache, Key, str, Context], Iterable[Action]]
