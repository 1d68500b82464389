"""Chooses the power source: the one asked for, else sysfs, and says why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from powertrain_agent.hardware.sensors import PowerSensors
from powertrain_agent.sysfs import Sysfs
from powertrain_agent.telemetry.jtop_source import JtopSource
from powertrain_agent.telemetry.port import PowerSource, SourceUnavailableError
from powertrain_agent.telemetry.sysfs_source import SysfsSource
from powertrain_agent.telemetry.tegrastats_source import TegrastatsSource

SourceName = Literal["sysfs", "jtop", "tegrastats"]


@dataclass(frozen=True)
class Chosen:
    """A source, and why it is not the one asked for (empty if it is); no source at all on a board without sensors."""

    source: PowerSource | None
    reason: str = ""


def open_source(first_choice: SourceName, sysfs: Sysfs, sensors: PowerSensors) -> Chosen:
    """Open the wanted source; what can't be had falls back to sysfs with the reason."""
    reasons: list[str] = []
    for name in dict.fromkeys((first_choice, "sysfs")):
        try:
            return Chosen(_open(name, sysfs, sensors), "; ".join(reasons))
        except SourceUnavailableError as error:
            reasons.append(f"{name}: {error}")
    return Chosen(None, "; ".join(reasons))


def _open(name: str, sysfs: Sysfs, sensors: PowerSensors) -> PowerSource:
    if name == "jtop":
        return JtopSource()
    if name == "tegrastats":
        return TegrastatsSource.start(sensors.total)
    return SysfsSource(sysfs, sensors)
