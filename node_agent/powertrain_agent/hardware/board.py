"""Board: everything discovery found, each knob as a capability, and the mode space that follows from it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum

from powertrain import ModeSpace, PowerMode
from powertrain.api.v1alpha1 import ModeFloor
from powertrain.devices import Device
from powertrain_agent.hardware import cpu as cpus
from powertrain_agent.hardware import emc as emcs
from powertrain_agent.hardware import fan as fans
from powertrain_agent.hardware import gpu as gpus
from powertrain_agent.hardware import identity as identities
from powertrain_agent.hardware import sensors as power
from powertrain_agent.hardware import thermal as thermals
from powertrain_agent.hardware.capability import Access, Capability
from powertrain_agent.sysfs import Sysfs, SysfsError

UNKNOWN = 1  # a clock that a board does not show; modes need a positive number


class CorePolicy(StrEnum):
    """Whether the agent may take CPU cores offline."""

    FIXED = "Fixed"
    HOTPLUG = "Hotplug"


@dataclass(frozen=True)
class Fingerprint:
    """What must be equal for a measured profile to hold on another board or another day."""

    module: str
    l4t: str
    tables: str
    tpc_mask: str
    core_policy: CorePolicy
    total_rail: str

    def as_dict(self) -> dict[str, str]:
        """Return the fields as they are published."""
        return {
            "module": self.module,
            "l4t": self.l4t,
            "tables": self.tables,
            "tpcMask": self.tpc_mask,
            "corePolicy": str(self.core_policy),
            "totalRail": self.total_rail,
        }


@dataclass(frozen=True)
class Board:
    """A discovered board. `present_mode` is what it allowed at discovery time."""

    identity: identities.Identity
    device: Device | None
    cpu: cpus.Cpu
    gpu: gpus.Gpu | None
    emc: emcs.Emc | None
    sensors: power.PowerSensors
    thermal: thermals.Thermal
    fan: fans.Fan | None
    tpc_mask: str
    present_mode: PowerMode
    capabilities: dict[str, Capability]

    @property
    def name(self) -> str:
        """Return the catalogue's name, else what the board calls itself."""
        return self.device.name if self.device else self.identity.module or self.identity.model or "unknown"

    @property
    def core_order(self) -> tuple[int, ...]:
        """Return present CPUs in the order they come online: the catalogue's, else ascending."""
        listed = [cpu for cpu in self.device.core_order if cpu in self.cpu.present] if self.device else []
        return (*listed, *(cpu for cpu in self.cpu.present if cpu not in listed))

    def can(self, knob: str) -> bool:
        """Say whether a knob can be turned."""
        return self.capabilities[knob].writable

    def space(
        self, core_policy: CorePolicy = CorePolicy.FIXED, min_cores: int = 1, floor: ModeFloor | None = None
    ) -> ModeSpace:
        """Return the modes that can be applied, none below the floor; a knob that can't be turned stays as it is.

        All that a session sets comes from this space, so its lowest mode is the lowest one at or above the floor.
        """
        now = self.present_mode
        hotplug = core_policy is CorePolicy.HOTPLUG and self.can("cores")
        cores = range(min(min_cores, len(self.cpu.present)), len(self.cpu.present) + 1) if hotplug else [now.cores]
        every = ModeSpace.grid(
            list(cores),
            self._axis("cpu", self.cpu.table_khz, now.cpu_khz),
            self._axis("gpu", self.gpu.table_hz if self.gpu else (), now.gpu_hz),
            self._axis("emc", self.emc.table_hz if self.emc else (), now.emc_hz),
        )
        return every if floor is None else every.at_or_above(floor.cpu_khz, floor.gpu_hz, floor.emc_hz)

    def fingerprint(self, core_policy: CorePolicy = CorePolicy.FIXED) -> Fingerprint:
        """Return the board's identity for profiles; Fixed counts the cores that are online."""
        tables = {
            "cores": list(self.cpu.present) if core_policy is CorePolicy.HOTPLUG else self.present_mode.cores,
            "cpu_khz": self.cpu.table_khz,
            "gpu_hz": self.gpu.table_hz if self.gpu else (),
            "emc_hz": self.emc.table_hz if self.emc else (),
        }
        digest = hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()[:16]
        module = self.identity.module or self.identity.model or "unknown"
        return Fingerprint(module, self.identity.l4t, digest, self.tpc_mask, core_policy, self.sensors.total or "none")

    def _axis(self, knob: str, table: tuple[int, ...], now: int) -> list[int]:
        return list(table) if table and self.can(knob) else [now]


def discover(sysfs: Sysfs) -> Board:
    """Look at every knob and sensor; reads only, and never fails on a board that lacks something."""
    identity = identities.discover(sysfs)
    cpu, gpu, emc, fan = cpus.discover(sysfs), gpus.discover(sysfs), emcs.discover(sysfs), fans.discover(sysfs)
    device = identities.catalogue_entry(identity, gpu.table_hz if gpu else ())
    sensors = power.discover(sysfs, device.sensors.total if device else None)
    thermal = thermals.discover(sysfs)
    mask = gpus.tpc_mask(sysfs, gpu)
    each_knob = [
        cpus.cores_capability(sysfs, cpu),
        cpus.clock_capability(sysfs, cpu),
        gpus.capability(sysfs, gpu),
        emcs.capability(sysfs, emc),
        power.capability(sensors),
        thermals.thermal_capability(thermal),
        thermals.over_current_capability(thermal),
        fans.capability(sysfs, fan),
        _tpc_capability(mask, gpu),
    ]
    if not identity.is_jetson:
        each_knob = [capability.locked(identity.doubt) for capability in each_knob]
    mode = PowerMode(
        _online_count(sysfs, cpu),
        cpus.present_khz(sysfs, cpu) or UNKNOWN,
        (gpus.present_hz(sysfs, gpu) if gpu else None) or UNKNOWN,
        (emcs.present_hz(sysfs, emc) if emc else None) or UNKNOWN,
    )
    capabilities = {capability.knob: capability for capability in each_knob}
    return Board(identity, device, cpu, gpu, emc, sensors, thermal, fan, mask, mode, capabilities)


def _online_count(sysfs: Sysfs, cpu: cpus.Cpu) -> int:
    try:
        return len(cpus.online(sysfs)) or 1
    except SysfsError:
        return max(1, len(cpu.present))


def _tpc_capability(mask: str, gpu: gpus.Gpu | None) -> Capability:
    if mask == "unknown":
        where = gpu.device_path if gpu else "the GPU's device directory"
        return Capability("tpc", Access.MISSING, f"no tpc_pg_mask in {where}")
    paths = (f"{gpu.device_path}/tpc_pg_mask",) if gpu else ()
    return Capability("tpc", Access.READ_ONLY, "changing the mask needs a reboot; the agent never does", paths)
