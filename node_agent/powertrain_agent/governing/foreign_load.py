"""Foreign load: do others than the session's pods use the CPUs? A window in which they do measures them as well."""

from __future__ import annotations

from collections.abc import Callable, Collection

from powertrain_agent.control import cgroups
from powertrain_agent.hardware.files import optional
from powertrain_agent.sysfs import Sysfs

LIMIT_CORES = 1.0  # services and the agent itself take less together
TICKS_PER_S = 100.0  # USER_HZ of every Linux on these boards


class ForeignLoad:
    """Compares the host's busy CPU time with that of the session's pods between two looks."""

    def __init__(self, sysfs: Sysfs, pod_uids: Callable[[], Collection[str]], clock: Callable[[], float]) -> None:
        self._sysfs, self._pod_uids, self._clock = sysfs, pod_uids, clock
        self._last: tuple[float, float, float] | None = None

    def look(self) -> str | None:
        """Return what is wrong since the last look; None where nothing is, or it can't be told."""
        host_s, pods_s = self._host_s(), self._pods_s()
        if host_s is None or pods_s is None:
            return None
        now_s = self._clock()
        last, self._last = self._last, (now_s, host_s, pods_s)
        if last is None or now_s - last[0] <= 0:
            return None
        cores = ((host_s - last[1]) - (pods_s - last[2])) / (now_s - last[0])
        return f"foreign load: others use {cores:.1f} cores" if cores > LIMIT_CORES else None

    def _host_s(self) -> float | None:
        """Return the host's busy seconds: user, nice, system, interrupts; not idle or waiting."""
        fields = (optional(self._sysfs, "/proc/stat") or "").split("\n", 1)[0].split()
        if len(fields) < 8 or fields[0] != "cpu":
            return None
        user, nice, system, _, _, irq, soft = (int(text) for text in fields[1:8])
        return (user + nice + system + irq + soft) / TICKS_PER_S

    def _pods_s(self) -> float | None:
        """Return the CPU seconds of the session's pods; only the unified hierarchy tells them in one file."""
        seconds = [self._used_s(path) for path in cgroups.directories(self._sysfs, self._pod_uids())]
        readable_s = [used_s for used_s in seconds if used_s is not None]
        return sum(readable_s) if readable_s else None

    def _used_s(self, directory: str) -> float | None:
        for line in (optional(self._sysfs, f"{directory}/cpu.stat") or "").splitlines():
            name, _, value = line.partition(" ")
            if name == "usage_usec" and value.isdigit():
                return int(value) / 1e6
        return None
