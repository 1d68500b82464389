"""What libraries log, as lines of the operator's own log; a storm of them becomes one line in ten seconds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from powertrain_kube import Log

QUIET_S = 10.0


class LibraryLines(logging.Handler):
    """An API server that is away makes every watch complain at every try; one of them says it all."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._clock = clock
        self._last_s: float | None = None
        self._unsaid = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, or count it."""
        now_s = self._clock()
        if self._last_s is not None and now_s - self._last_s < QUIET_S:
            self._unsaid += 1
            return
        self._log("library", name=record.name, reason=record.getMessage(), notShown=self._unsaid or None)
        self._last_s, self._unsaid = now_s, 0


def capture(log: Log) -> None:
    """Send the warnings of kopf and its client into the operator's log."""
    handler = LibraryLines(log)
    for name in ("kopf", "aiohttp", "asyncio", "urllib3"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.WARNING)
    # Signals are the main thread's; kopf, in a thread of its own, warns that it does not see them.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
