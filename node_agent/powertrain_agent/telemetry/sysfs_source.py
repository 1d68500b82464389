"""Power from the board's own sensors through sysfs: the default source, without any service on the host."""

from __future__ import annotations

import time

from powertrain_agent.hardware.sensors import PowerSensors
from powertrain_agent.sysfs import Sysfs, SysfsError
from powertrain_agent.telemetry.port import Clock, Reading, SourceError, SourceUnavailableError


class SysfsSource:
    """Reads the rails that make up the total; `all_rails` reads the others too (each costs about a millisecond)."""

    name = "sysfs"

    def __init__(
        self,
        sysfs: Sysfs,
        sensors: PowerSensors,
        offset_w: float = 0.0,
        clock: Clock = time.monotonic,
        all_rails: bool = False,
    ) -> None:
        if not sensors.rails:
            raise SourceUnavailableError("the board has no INA3221 or INA238 power sensor below /sys/bus/i2c/devices")
        self._sysfs = sysfs
        self._total = {rail.label for rail in sensors.total_rails()}
        self._rails = sensors.rails if all_rails else sensors.total_rails()
        self._paths = tuple(path for rail in self._rails for path in rail.paths)
        self._offset_w = offset_w
        self._clock = clock

    def read(self) -> Reading:
        """Read the rails once; the time is the middle of the reading."""
        started_s = self._clock()
        try:
            texts = self._sysfs.read_together(self._paths)
            rails_w = {rail.label: rail.watts(texts) for rail in self._rails}
        except SysfsError as error:
            raise SourceError(f"power can't be read: {error}") from error
        total_w = sum(watts for label, watts in rails_w.items() if label in self._total)
        return Reading(0.5 * (started_s + self._clock()), total_w + self._offset_w, rails_w)

    def close(self) -> None:
        """Nothing is held open."""
