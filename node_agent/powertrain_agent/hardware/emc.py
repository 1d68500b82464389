"""The memory clock's knob: BPMP lock, bandwidth manager, the old override clock, or only a cap; its legal rates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from powertrain_agent.hardware.capability import Access, Capability, unwritable
from powertrain_agent.hardware.files import number, numbers, optional
from powertrain_agent.sysfs import Sysfs

BPMP = "/sys/kernel/debug/bpmp/debug"
CAPS = ("/sys/kernel/nvpmodel_clk_cap/emc", "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap")
BANDWIDTH_MANAGER = "/sys/class/devfreq/bwmgr"  # R39, and Thor
_CCF = "/sys/kernel/debug/clk"  # kernels with the common clock framework
_OLD = "/sys/kernel/debug/clock"


class EmcKind(StrEnum):
    """How the memory clock is set."""

    BPMP = "bpmp"
    DEVFREQ = "devfreq"
    OVERRIDE = "override"
    CAP = "cap"


@dataclass(frozen=True)
class Emc:
    """The files of the knob. `lock` holds the rate at what `rate_write` was told; `rate_read` shows it.

    A bandwidth manager has two limits instead, a minimum and a maximum, which hold the rate where they are equal.
    """

    kind: EmcKind
    table_hz: tuple[int, ...]
    rate_read: str
    rate_write: str
    lock: str | None = None
    switches: tuple[str, ...] = ()  # further files that must be 1 for the lock to hold
    cap: str | None = None
    minimum: str | None = None  # of a bandwidth manager, whose maximum is `rate_write`

    @property
    def is_held(self) -> bool:
        """Say whether the clock can be held at a rate; a cap only keeps it from going above."""
        return self.kind is not EmcKind.CAP

    @property
    def paths(self) -> tuple[str, ...]:
        """Return every file that setting the clock may write."""
        return tuple(path for path in (self.minimum, self.rate_write, self.lock, *self.switches, self.cap) if path)


def discover(sysfs: Sysfs) -> Emc | None:
    """Return the best way to set the memory clock: a lock, then the bandwidth manager, which no debugfs needs, a cap.

    Whether a bandwidth manager's limits hold is known on no board yet: like every knob it counts only where what was
    written is read back, and windows whose memory clock is another are thrown away.
    """
    cap = next((path for path in CAPS if sysfs.exists(path)), None)
    lock = _bpmp(sysfs, cap) or _override(sysfs, cap)
    if lock is not None and lock.is_held and not unwritable(sysfs, (lock.rate_write, *filter(None, [lock.lock]))):
        return lock
    return _bandwidth_manager(sysfs) or lock or _cap_only(cap)


def _bandwidth_manager(sysfs: Sysfs) -> Emc | None:
    if not sysfs.exists(f"{BANDWIDTH_MANAGER}/max_freq"):
        return None
    path = sysfs.resolve(BANDWIDTH_MANAGER)
    table = numbers(optional(sysfs, f"{path}/available_frequencies")) or _bpmp_table(sysfs)
    low, high = f"{path}/min_freq", f"{path}/max_freq"
    # Reading a limit is said to hang on some releases, and nvpmodel to fail over it: then it is no knob.
    if not table or number(sysfs, low) is None or number(sysfs, high) is None or unwritable(sysfs, (low, high)):
        return None
    return Emc(EmcKind.DEVFREQ, table, f"{path}/cur_freq", high, minimum=low)


def _bpmp(sysfs: Sysfs, cap: str | None) -> Emc | None:
    clock = f"{BPMP}/clk/emc"
    if not sysfs.exists(f"{clock}/mrq_rate_locked"):
        return None
    switches = tuple(path for path in (f"{BPMP}/bwmgr/bwmgr_halt", f"{clock}/state") if sysfs.exists(path))
    lock = f"{clock}/mrq_rate_locked"
    table = _bpmp_table(sysfs)
    if cap and unwritable(sysfs, (lock, f"{clock}/rate")) and not unwritable(sysfs, (cap,)):
        return Emc(EmcKind.CAP, table, cap, cap, cap=cap)
    return Emc(EmcKind.BPMP, table, f"{clock}/rate", f"{clock}/rate", lock, switches, cap)


def _bpmp_table(sysfs: Sysfs) -> tuple[int, ...]:
    khz = numbers(re.sub(r"\(.*?\)", " ", optional(sysfs, f"{BPMP}/emc/possible_rates") or ""))
    if not khz:
        khz = numbers(" ".join(sysfs.list(f"{BPMP}/emc/tables/regular")))
    if khz:
        return tuple(rate * 1000 for rate in khz)
    rows = [line.split() for line in (optional(sysfs, f"{BPMP}/clk/emc/dvfs_table") or "").splitlines()]
    return numbers(" ".join(row[1] for row in rows if len(row) > 1))


def _override(sysfs: Sysfs, cap: str | None) -> Emc | None:
    for base, prefix in ((_CCF, "clk_"), (_OLD, "")):
        clock = f"{base}/override.emc"
        lock = f"{clock}/{prefix}state"
        if not sysfs.exists(lock):
            continue
        rate = f"{clock}/{prefix}rate"
        update = f"{clock}/{prefix}update_rate"
        table = numbers(optional(sysfs, f"{base}/emc/{prefix}possible_rates"))
        in_hz = tuple(value * 1000 if value < 10_000_000 else value for value in table)
        return Emc(EmcKind.OVERRIDE, in_hz, rate, update if sysfs.exists(update) else rate, lock, (), cap)
    return None


def _cap_only(cap: str | None) -> Emc | None:
    return Emc(EmcKind.CAP, (), cap, cap, cap=cap) if cap else None


def capability(sysfs: Sysfs, emc: Emc | None) -> Capability:
    """Say whether the memory clock can be set."""
    if emc is None:
        reason = f"no memory clock below {BPMP}/clk/emc nor {_CCF}/override.emc, and no cap; is debugfs mounted?"
        return Capability("emc", Access.MISSING, reason, unit="Hz")
    if not emc.table_hz:
        reason = "no list of legal memory rates can be read (it lies in debugfs)"
        return Capability("emc", Access.READ_ONLY, reason, emc.paths, unit="Hz")
    needed = tuple(path for path in (emc.rate_write, emc.lock, emc.minimum) if path)
    blocked = unwritable(sysfs, needed)
    if blocked:
        return Capability("emc", Access.READ_ONLY, blocked, emc.paths, emc.table_hz, "Hz")
    reason = "only a cap, not a lock: the clock may run below it" if emc.kind is EmcKind.CAP else ""
    return Capability("emc", Access.WRITABLE, reason, emc.paths, emc.table_hz, "Hz")


def present_hz(sysfs: Sysfs, emc: Emc) -> int | None:
    """Return the rate now; a cap of 0 (none) means the top of the table."""
    rate = number(sysfs, emc.rate_read)
    if not rate:
        return emc.table_hz[-1] if emc.table_hz else None
    return rate
