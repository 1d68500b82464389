"""Power from the host's jtop service (jetson-stats, AGPL-3.0): optional, imported only when it is asked for."""

from __future__ import annotations

import time
from typing import Any

from powertrain_agent.telemetry.port import Clock, Reading, SourceError, SourceUnavailableError


class JtopSource:
    """A client of the service. It samples at its first client's interval; `read` waits for its next sample."""

    name = "jtop"

    def __init__(self, interval_s: float = 0.5, clock: Clock = time.monotonic) -> None:
        try:
            # Importing it changes multiprocessing's start method and takes a while: only when somebody wants it.
            from jtop import JtopException, jtop
        except ImportError as error:
            raise SourceUnavailableError(
                f"jetson-stats is not installed ({error}); install the extra 'jtop'"
            ) from error
        self._failure: type[Exception] = JtopException
        self._clock = clock
        self._client: Any = jtop(interval=interval_s)
        try:
            self._client.start()
        except (JtopException, OSError) as error:
            reason = " ".join(str(error).split())
            raise SourceUnavailableError(f"the jtop service does not answer: {reason}") from error

    def read(self) -> Reading:
        """Wait for the service's next sample and return it."""
        try:
            alive = self._client.ok()
            power = self._client.power
        except self._failure as error:
            raise SourceError(f"the jtop service was lost: {error}") from error
        if not alive:
            raise SourceError("the jtop service closed the connection")
        if "power" not in power.get("tot", {}):
            raise SourceError("the jtop service shows no power sensor")
        rails_w = {name: rail["power"] / 1000.0 for name, rail in power.get("rail", {}).items() if "power" in rail}
        return Reading(self._clock(), power["tot"]["power"] / 1000.0, rails_w)

    def close(self) -> None:
        """End the connection; the service stops sampling when nobody listens."""
        self._client.close()
