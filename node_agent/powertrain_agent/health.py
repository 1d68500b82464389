"""Health: what counts as a silent agent, and a power source whose answers show that the sampler lives."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from powertrain_agent.telemetry import PowerSource, Reading

PORT = 9095
# Setting a mode waits for clocks to follow, some seconds on a slow board; a loop that is silent for longer hangs.
STALE_AFTER_S: Mapping[str, float] = {"loop": 30.0, "sampler": 15.0}


class BeatingSource:
    """A power source whose every answer, also "I can't", is a beat: a lost sensor is no hanging sampler.

    `seen` gets each reading, None for one that could not be taken.
    """

    def __init__(
        self,
        source: PowerSource,
        beat: Callable[[], None],
        on_reading: Callable[[Reading | None], None] = lambda reading: None,
    ) -> None:
        self._source = source
        self._beat = beat
        self._on_reading = on_reading

    @property
    def name(self) -> str:
        """Return the source's name."""
        return self._source.name

    def read(self) -> Reading:
        """Return the power now, or raise SourceError."""
        reading: Reading | None = None
        try:
            reading = self._source.read()
            return reading
        finally:
            self._beat()
            self._on_reading(reading)

    def close(self) -> None:
        """Give up what the source holds open."""
        self._source.close()
