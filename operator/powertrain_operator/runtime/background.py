"""Background work: Events, and writes that no decision waits for, are sent beside the worker's thread, in order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from powertrain_kube import ApiError, Object
from powertrain_operator.plan import Apply, ApplyStatus
from powertrain_operator.runtime.messages import BackgroundWrite, WriteResult

POLL_S = 0.2
Item = TypeVar("Item")


class BackgroundQueue(Generic[Item]):
    """`put` from the worker's thread, `run` in one of its own: `handle` gets one item after the other."""

    def __init__(self, handle: Callable[[Item], None]) -> None:
        self._handle = handle
        self._waiting: queue.SimpleQueue[Item] = queue.SimpleQueue()

    def put(self, item: Item) -> None:
        """Have an item handled soon."""
        self._waiting.put(item)

    def run(self, stop: threading.Event) -> None:
        """Handle items until told to stop, then those that still wait."""
        while not (stop.is_set() and self._waiting.empty()):
            try:
                item = self._waiting.get(timeout=POLL_S)
            except queue.Empty:
                continue
            self._handle(item)


def send_all(write: BackgroundWrite, send: Callable[[Apply | ApplyStatus], Object]) -> WriteResult:
    """Send the actions of a write and return the answers, and the first error, which ends it."""
    answers: list[Object] = []
    for action in write.actions:
        try:
            answers.append(send(action))
        except ApiError as error:
            return WriteResult(write, tuple(answers), error)
    return WriteResult(write, tuple(answers))
