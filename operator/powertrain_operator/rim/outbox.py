"""Outbox: Events are written beside the worker, in their order, so that no decision waits for one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from powertrain_operator.plan import Announce

LOOK_S = 0.2


class Outbox:
    """`put` from the worker's thread, `run` in one of its own."""

    def __init__(self, write: Callable[[Announce], None]) -> None:
        self._write = write
        self._waiting: queue.SimpleQueue[Announce] = queue.SimpleQueue()

    def put(self, event: Announce) -> None:
        """Have an Event written soon."""
        self._waiting.put(event)

    def run(self, stop: threading.Event) -> None:
        """Write until told to stop, then what still waits."""
        while not (stop.is_set() and self._waiting.empty()):
            try:
                self._write(self._waiting.get(timeout=LOOK_S))
            except queue.Empty:
                continue
