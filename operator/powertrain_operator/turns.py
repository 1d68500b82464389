"""Whose turn it is: the higher priority first, then namespaces one after the other, then the job that came first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
# For each such time that a job waits, one of the nodes that its namespace has is not held against it any more: a job
# for several nodes is not overtaken for ever by the single ones of others.
AGE_S = 600.0
# These are for the cluster's own pods. Anybody may name them, so they must not buy a place in the queue.
_SYSTEM = "system-"


@dataclass(frozen=True)
class Waiter:
    """A job that waits for its turn; `came` orders the jobs of one namespace."""

    uid: str
    namespace: str
    priority: int
    came: tuple[str, ...]
    waited_s: float = 0.0


def in_turn(waiters: Iterable[Waiter], held_boards: Mapping[str, int], last_served: Mapping[str, str]) -> list[str]:
    """Return the jobs' uids in the order in which they get nodes.

    `held_boards` counts the nodes that a namespace has, `last_served` says when a job of it last got nodes. A namespace
    with a thousand jobs gets as many turns as one with a single job.
    """
    ahead: Counter[tuple[str, int]] = Counter()
    keyed = []
    for waiter in sorted(waiters, key=lambda w: w.came):
        before = ahead[waiter.namespace, waiter.priority]
        ahead[waiter.namespace, waiter.priority] += 1
        owed = max(0, held_boards.get(waiter.namespace, 0) - int(waiter.waited_s // AGE_S))
        turn = (-waiter.priority, before + owed, last_served.get(waiter.namespace, ""), waiter.came)
        keyed.append((turn, waiter.uid))
    return [uid for _, uid in sorted(keyed)]


def priority(template: Object, classes: Iterable[Object]) -> int:
    """Return the priority that a template's pods get from the cluster's PriorityClasses."""
    name = (template.get("spec") or {}).get("priorityClassName") or ""
    if str(name).startswith(_SYSTEM):
        return 0
    for each in classes:
        if each["metadata"]["name"] == name or (not name and each.get("globalDefault")):
            return int(each.get("value") or 0)
    return 0
