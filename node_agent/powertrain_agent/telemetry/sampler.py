"""Sampler: reads a power source at a steady rate in a thread of its own and hands every reading on."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from powertrain_agent.telemetry.port import Clock, PowerSource, Reading, SourceError

PERIOD_S = 0.1


class Sampler:
    """Calls `deliver` with each reading and `complain` with each failure; neither may block.

    `complain` is also told whether the failure is the first of its stretch: all are counted, one is worth a line.

    Ticks keep to a grid: a slow reading skips ticks instead of shifting all later ones.
    """

    def __init__(
        self,
        source: PowerSource,
        deliver: Callable[[Reading], None],
        complain: Callable[[SourceError, bool], None],
        period_s: float = PERIOD_S,
        clock: Clock = time.monotonic,
    ) -> None:
        if period_s <= 0:
            raise ValueError(f"the period must be above 0 s, not {period_s}")
        self._source = source
        self._deliver = deliver
        self._complain = complain
        self._period_s = period_s
        self._clock = clock
        # Waiting for it is one call, where an event makes a lock for each of its waits.
        self._stop: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self) -> None:
        """Take no further reading; the source stays open."""
        self._stop.put(None)
        self._thread.join(timeout=10.0)

    def sample_once(self) -> None:
        """Take one reading and hand it on."""
        try:
            reading = self._source.read()
        except SourceError as error:
            self._complain(error, not self._failing)
            self._failing = True
            return
        self._failing = False
        self._deliver(reading)

    def next_wait_s(self, started_s: float) -> float:
        """Return how long to wait for the next tick of the grid that began at `started_s`."""
        elapsed_s = self._clock() - started_s
        return self._period_s - elapsed_s % self._period_s

    def _run(self) -> None:
        started_s, wait_s = self._clock(), 0.0
        while not self._is_to_stop(wait_s):
            self.sample_once()
            wait_s = self.next_wait_s(started_s)

    def _is_to_stop(self, wait_s: float) -> bool:
        try:
            self._stop.get(timeout=wait_s)
        except queue.Empty:
            return False
        return True
