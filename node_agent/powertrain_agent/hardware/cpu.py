"""The CPU's knobs: which cores there are, which share a clock, and the legal clocks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from powertrain_agent.hardware.capability import Access, Capability, unwritable
from powertrain_agent.hardware.files import number, numbers, optional, parse_cpus
from powertrain_agent.sysfs import Sysfs

BASE = "/sys/devices/system/cpu"
BOOT_CPU = 0  # it can't go offline, and nobody should try


@dataclass(frozen=True)
class Policy:
    """CPUs that share one clock. The table is empty while all of them are offline and the kernel hides it."""

    path: str
    cpus: tuple[int, ...]
    table_khz: tuple[int, ...]

    @property
    def min_path(self) -> str:
        """Return the lower limit's file (kHz)."""
        return f"{self.path}/scaling_min_freq"

    @property
    def max_path(self) -> str:
        """Return the upper limit's file (kHz)."""
        return f"{self.path}/scaling_max_freq"

    def legal_khz(self, wanted_khz: int) -> int:
        """Return the highest step at or below the wanted one: clusters may have different tables."""
        return max((step for step in self.table_khz if step <= wanted_khz), default=self.table_khz[0])


@dataclass(frozen=True)
class Cpu:
    """The present CPUs and their policies."""

    present: tuple[int, ...]
    policies: tuple[Policy, ...]
    switchable: tuple[int, ...]

    @property
    def table_khz(self) -> tuple[int, ...]:
        """Return the clocks of the cluster that holds the boot CPU, else of the first that shows any."""
        tables = [policy.table_khz for policy in self.policies if policy.table_khz]
        return tables[0] if tables else ()


def online_path(cpu: int) -> str:
    """Return the hotplug file of a CPU."""
    return f"{BASE}/cpu{cpu}/online"


def online(sysfs: Sysfs) -> tuple[int, ...]:
    """Return the CPUs that are online now."""
    return parse_cpus(sysfs.read(f"{BASE}/online"))


def discover(sysfs: Sysfs) -> Cpu:
    """Find CPUs and policies; a board whose files can't be read has none."""
    present = parse_cpus(optional(sysfs, f"{BASE}/present") or optional(sysfs, f"{BASE}/online") or "")
    names = [name for name in sysfs.list(f"{BASE}/cpufreq") if re.fullmatch(r"policy\d+", name)]
    names.sort(key=lambda name: int(name.removeprefix("policy")))
    policies = _with_cpus(sysfs, names, present)
    switchable = tuple(cpu for cpu in present if cpu != BOOT_CPU and sysfs.is_writable(online_path(cpu)))
    return Cpu(present, policies, switchable)


def _with_cpus(sysfs: Sysfs, names: list[str], present: tuple[int, ...]) -> tuple[Policy, ...]:
    """A policy whose CPUs are all offline may refuse to be read: it then gets the CPUs nobody else claims."""
    first = [int(name.removeprefix("policy")) for name in names]
    cpus_by_policy = [parse_cpus(optional(sysfs, f"{BASE}/cpufreq/{name}/related_cpus") or "") for name in names]
    claimed = {cpu for cpus in cpus_by_policy for cpu in cpus}
    policies = []
    for k, (name, cpus) in enumerate(zip(names, cpus_by_policy, strict=True)):
        following = first[k + 1] if k + 1 < len(first) else None
        left = tuple(
            cpu for cpu in present if cpu >= first[k] and cpu not in claimed and (following is None or cpu < following)
        )
        path = f"{BASE}/cpufreq/{name}"
        table = numbers(optional(sysfs, f"{path}/scaling_available_frequencies"))
        policies.append(Policy(path, cpus or left, table))
    return tuple(policies)


def clock_capability(sysfs: Sysfs, cpu: Cpu) -> Capability:
    """Say whether the CPU clock can be pinned."""
    if not cpu.policies:
        return Capability("cpu", Access.MISSING, f"no cpufreq policy below {BASE}/cpufreq", unit="kHz")
    paths = tuple(path for policy in cpu.policies for path in (policy.min_path, policy.max_path))
    if not cpu.table_khz:
        reason = (
            f"the cpufreq driver {optional(sysfs, cpu.policies[0].path + '/scaling_driver')} shows no frequency table"
        )
        return Capability("cpu", Access.READ_ONLY, reason, paths, unit="kHz")
    blocked = unwritable(sysfs, paths)
    return Capability("cpu", Access.READ_ONLY if blocked else Access.WRITABLE, blocked, paths, cpu.table_khz, "kHz")


def cores_capability(sysfs: Sysfs, cpu: Cpu) -> Capability:
    """Say whether CPU cores can be taken offline (whether they should is the core policy's business)."""
    legal = tuple(range(1, len(cpu.present) + 1))
    if not cpu.present:
        return Capability("cores", Access.MISSING, f"{BASE}/present can't be read", unit="cores")
    others = tuple(core for core in cpu.present if core != BOOT_CPU)
    paths = tuple(online_path(core) for core in others)
    if not others:
        return Capability("cores", Access.READ_ONLY, "only the boot CPU, which never goes offline", (), legal, "cores")
    blocked = unwritable(sysfs, paths)
    return Capability("cores", Access.READ_ONLY if blocked else Access.WRITABLE, blocked, paths, legal, "cores")


def present_khz(sysfs: Sysfs, cpu: Cpu) -> int | None:
    """Return the highest upper limit in force, the clock the CPU may run at now."""
    limits = [number(sysfs, policy.max_path) for policy in cpu.policies]
    return max((limit for limit in limits if limit), default=None)
