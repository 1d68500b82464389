"""Mount families: which directories of the host the agent's pod must be able to write, by board and release."""

from __future__ import annotations

from dataclasses import dataclass

from powertrain_agent.hardware.identity import Identity
from powertrain_agent.sysfs import Sysfs

_CPU = "/sys/devices/system/cpu"
# Mounted only where somebody asks for it by a value of its own.
DEBUGFS = "/sys/kernel/debug/"
_BPMP = f"{DEBUGFS}bpmp"
_OLD_CAP, _NEW_CAP = "/sys/kernel/nvpmodel_emc_cap", "/sys/kernel/nvpmodel_clk_cap"
_OLD_FAN, _FAN = "/sys/devices/pwm-fan", "/sys/devices/platform/pwm-fan"
_CPUSET_V1 = "/sys/fs/cgroup/cpuset"


@dataclass(frozen=True)
class MountFamily:
    """Directories that are mounted writable below the host root; /sys and /proc/device-tree come read-only besides."""

    name: str
    writable: tuple[str, ...]


FAMILIES = {
    family.name: family
    for family in (
        MountFamily("orin-r36", (_CPU, "/sys/devices/platform/bus@0/17000000.gpu", _BPMP, _NEW_CAP, _FAN)),
        MountFamily("orin-r35", (_CPU, "/sys/devices/17000000.ga10b", _BPMP, _OLD_CAP, _FAN)),
        MountFamily("xavier-r32", (_CPU, "/sys/devices/17000000.gv11b", _BPMP, _OLD_CAP, _OLD_FAN, _CPUSET_V1)),
        MountFamily(
            "nano-r32",
            (_CPU, "/sys/devices/57000000.gpu", f"{DEBUGFS}clk", _OLD_CAP, _OLD_FAN, _CPUSET_V1),
        ),
        MountFamily("generic", ("/sys/devices", "/sys/kernel")),
    )
}


def family_of(identity: Identity) -> MountFamily:
    """Return the family for a board; what is not known gets the generic one, which is wider than it need be."""
    release = int(identity.l4t.split(".")[0]) if identity.l4t else 0
    match identity.soc:
        case "tegra234" if release >= 36:
            return FAMILIES["orin-r36"]
        case "tegra234" if release >= 34:
            return FAMILIES["orin-r35"]
        case "tegra194" if release == 32:
            return FAMILIES["xavier-r32"]
        case "tegra210" if release == 32:
            return FAMILIES["nano-r32"]
    return FAMILIES["generic"]


def missing(sysfs: Sysfs, family: MountFamily) -> tuple[str, ...]:
    """Return the family's directories that this host does not have; a mount of one would keep the pod from starting."""
    return tuple(path for path in family.writable if not sysfs.exists(path))
