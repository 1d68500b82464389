"""Heat and throttling: thermal zones, throttle alerts and over-current counters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from powertrain_agent.hardware.capability import Access, Capability
from powertrain_agent.hardware.files import first_number, hwmon_named, optional
from powertrain_agent.sysfs import Sysfs

CLASS = "/sys/class/thermal"
BPMP_SOCTHERM = "/sys/kernel/debug/bpmp/debug/soctherm"


@dataclass(frozen=True)
class Thermal:
    """Files by name: zone temperatures (m°C), alert states (above 0 = throttling), event counters."""

    zones: dict[str, str]
    alerts: dict[str, str]
    over_current: dict[str, str]

    def temperatures_c(self, sysfs: Sysfs) -> dict[str, float]:
        """Return each zone that can be read; zones of gated blocks answer EAGAIN and are left out."""
        return {name: value / 1000 for name, value in _numbers(sysfs, self.zones).items()}

    def throttling(self, sysfs: Sysfs) -> tuple[str, ...]:
        """Return the names of the alerts that are on."""
        return tuple(name for name, value in _numbers(sysfs, self.alerts).items() if value > 0)

    def over_current_events(self, sysfs: Sysfs) -> dict[str, int]:
        """Return the counters; only differences between two readings mean anything."""
        return _numbers(sysfs, self.over_current)


def _numbers(sysfs: Sysfs, files: Mapping[str, str]) -> dict[str, int]:
    """Return the number in each file that shows one now, by its name."""
    texts = sysfs.read_each(tuple(files.values()))
    values = {name: first_number(texts[path]) for name, path in files.items()}
    return {name: value for name, value in values.items() if value is not None}


def discover(sysfs: Sysfs) -> Thermal:
    """Find zones, alerts and counters."""
    zones: dict[str, str] = {}
    alerts: dict[str, str] = {}
    for name in sorted(sysfs.list(CLASS), key=_number):
        kind = optional(sysfs, f"{CLASS}/{name}/type")
        if kind and name.startswith("thermal_zone"):
            zones[kind if kind not in zones else f"{kind}-{name}"] = f"{CLASS}/{name}/temp"
        elif kind and name.startswith("cooling_device") and kind.endswith("-alert"):
            alerts[kind] = f"{CLASS}/{name}/cur_state"
    return Thermal(zones, alerts, _over_current(sysfs))


def _number(name: str) -> int:
    """Return the number at the end of a name: zone 10 comes after zone 9."""
    match = re.search(r"\d+$", name)
    return int(match[0]) if match else 0


def _over_current(sysfs: Sysfs) -> dict[str, str]:
    counters = {
        match[1]: f"{path}/{name}"
        for path in hwmon_named(sysfs, "soctherm_oc")
        for name in sysfs.list(path)
        if (match := re.fullmatch(r"(oc\d+)_event_cnt", name))
    }
    if counters:
        return counters
    # BPMP counts from oc0, the hwmon driver from oc1.
    alarms = [name for name in sysfs.list(BPMP_SOCTHERM) if re.fullmatch(r"oc\d+", name)]
    return {f"oc{int(name[2:]) + 1}": f"{BPMP_SOCTHERM}/{name}/event_cnt" for name in alarms}


def thermal_capability(thermal: Thermal) -> Capability:
    """Say whether temperatures can be read."""
    if not thermal.zones:
        return Capability("thermal", Access.MISSING, f"no thermal zone below {CLASS}", unit="m°C")
    return Capability("thermal", Access.READ_ONLY, "", tuple(thermal.zones.values()), unit="m°C")


def over_current_capability(thermal: Thermal) -> Capability:
    """Say whether over-current events are counted."""
    if not thermal.over_current:
        reason = f"no hwmon named soctherm_oc and nothing below {BPMP_SOCTHERM}: throttling by over-current goes unseen"
        return Capability("over-current", Access.MISSING, reason, unit="events")
    return Capability("over-current", Access.READ_ONLY, "", tuple(thermal.over_current.values()), unit="events")
