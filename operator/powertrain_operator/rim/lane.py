"""Lane: writes that no decision waits for are made beside the worker, who learns of their answers as of other news."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from powertrain_kube import ApiError, Object
from powertrain_operator.plan import Apply, ApplyStatus
from powertrain_operator.rim.inbox import Carried, Errand

LOOK_S = 0.2


class Lane:
    """`put` from the worker's thread, `run` in one of its own: one errand after the other, each until it fails."""

    def __init__(self, send: Callable[[Apply | ApplyStatus], Object], tell: Callable[[Carried], None]) -> None:
        self._send = send
        self._tell = tell
        self._waiting: queue.SimpleQueue[Errand] = queue.SimpleQueue()

    def put(self, errand: Errand) -> None:
        """Have an errand done soon."""
        self._waiting.put(errand)

    def run(self, stop: threading.Event) -> None:
        """Do errands until told to stop, then what still waits."""
        while not (stop.is_set() and self._waiting.empty()):
            try:
                errand = self._waiting.get(timeout=LOOK_S)
            except queue.Empty:
                continue
            self._tell(carry(errand, self._send))


def carry(errand: Errand, send: Callable[[Apply | ApplyStatus], Object]) -> Carried:
    """Do an errand and return the answers, and the first error, which ends it."""
    answers: list[Object] = []
    for action in errand.actions:
        try:
            answers.append(send(action))
        except ApiError as error:
            return Carried(errand, tuple(answers), error)
    return Carried(errand, tuple(answers))
