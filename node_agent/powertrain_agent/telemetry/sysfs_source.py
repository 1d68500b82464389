"""Power from the board's own sensors through sysfs: the default source, without any service on the host."""

from __future__ import annotations

import time
from contextlib import suppress

from powertrain_agent.hardware.sensors import PowerSensors, Rail
from powertrain_agent.sysfs import Sysfs, SysfsError
from powertrain_agent.telemetry.port import Clock, Reading, SourceError, SourceUnavailableError


class SysfsSource:
    """Reads the rails that make up the total, and the others with every so many readings (each costs a millisecond)."""

    name = "sysfs"

    def __init__(
        self,
        sysfs: Sysfs,
        sensors: PowerSensors,
        clock: Clock = time.monotonic,
        others_every: int = 10,
    ) -> None:
        """Take the rails of a board; at 10 Hz the others are read once a second: they are shown, not guarded."""
        if not sensors.rails:
            raise SourceUnavailableError("the board has no INA3221 or INA238 power sensor below /sys/bus/i2c/devices")
        self._sysfs = sysfs
        self._total = sensors.total_rails()
        self._others = tuple(rail for rail in sensors.rails if rail not in self._total)
        self._total_paths, self._other_paths = _paths(self._total), _paths(self._others)
        self._every, self._reads = others_every, 0
        self._clock = clock

    def read(self) -> Reading:
        """Read the rails once; the time is the middle of the reading."""
        started_s = self._clock()
        try:
            texts = self._sysfs.read_together(self._total_paths)
            rails_w = {rail.label: rail.watts(texts) for rail in self._total}
        except SysfsError as error:
            raise SourceError(f"power can't be read: {error}") from error
        at_s, total_w = 0.5 * (started_s + self._clock()), sum(rails_w.values())
        self._reads += 1
        if self._reads % self._every == 0:
            with suppress(SysfsError):  # the total is what counts
                others = self._sysfs.read_together(self._other_paths)
                rails_w |= {rail.label: rail.watts(others) for rail in self._others}
        # A board without a rail for its input has several: the highest voltage is the closest to that of the supply.
        volts = [volts for rail in self._total if (volts := rail.volts(texts)) is not None]
        return Reading(at_s, total_w, rails_w, supply_v=max(volts, default=None))

    def close(self) -> None:
        """Nothing is held open."""


def _paths(rails: tuple[Rail, ...]) -> tuple[str, ...]:
    return tuple(path for rail in rails for path in rail.paths)
