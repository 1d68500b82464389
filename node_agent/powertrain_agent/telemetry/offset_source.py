"""A power source with an offset: what the sensors do not see (carrier board, disks) is added to every reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from powertrain_agent.telemetry.port import PowerSource, Reading


class OffsetSource:
    """Adds the watts of the moment to the total; the rails stay what the sensors say."""

    def __init__(self, source: PowerSource, offset_w: Callable[[], float]) -> None:
        self._source, self._offset_w = source, offset_w

    @property
    def name(self) -> str:
        """Return the inner source's name."""
        return self._source.name

    def read(self) -> Reading:
        """Read the inner source and add the offset."""
        reading, offset_w = self._source.read(), self._offset_w()
        return replace(reading, power_w=reading.power_w + offset_w, offset_w=offset_w) if offset_w else reading

    def close(self) -> None:
        """Close the inner source."""
        self._source.close()
