"""Faults on command: what a real board does wrong, kept in a file so that they outlive a killed process."""

from __future__ import annotations

import errno
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from powertrain_agent.simulate.state import FAULT_FILE, JsonFile


class FaultKind(StrEnum):
    """What goes wrong; the comment says what `target` and `value` mean."""

    FAIL_WRITE = "fail-write"  # target: path pattern; the write ends in `errno`
    FAIL_READ = "fail-read"  # target: path pattern
    IGNORE_WRITE = "ignore-write"  # target: path pattern; accepted without effect
    ROUND_WRITE = "round-write"  # target: path pattern; the next lower legal value is taken
    VANISH = "vanish"  # target: path pattern; the file is no longer there
    STUCK = "stuck"  # target: path pattern; reads and writes hang
    CLOCK_NOT_APPLIED = "clock-not-applied"  # target: cpu, gpu or emc; value: table steps the real clock is off
    OVER_CURRENT = "over-current"  # value: events a second on the instantaneous alarm
    THROTTLE = "throttle"  # target: cpu, gpu or * for both; value: share of the clock that is left
    DRIFT = "drift"  # value: factor on step time and load power, reached a minute after it began
    CONTENTION = "contention"  # value: factor on the time of memory traffic
    POWER_STUCK = "power-stuck"  # value: watts that every sensor's total reads from now on, whatever happens; also ≤ 0
    POWER_SCALE = "power-scale"  # value: factor on what the sensors read
    POWER_OFFSET = "power-offset"  # value: watts that every total reads too much
    DESCENDING_ONLY = "descending-only"  # clocks can be lowered, never raised again before a reboot


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong, `times` times or (None) until it is cleared."""

    kind: FaultKind
    target: str = "*"
    errno: int = errno.EIO
    value: float = 0.0
    times: int | None = None
    since_s: float = 0.0

    def hits(self, path: str) -> bool:
        """Say whether a path is meant; a pattern without a slash is one for the file's name or the knob."""
        return fnmatchcase(path if "/" in self.target else path.rsplit("/", 1)[-1], self.target)


@dataclass(frozen=True)
class ActiveFaults:
    """The faults of one moment."""

    faults: tuple[Fault, ...] = ()

    @property
    def any(self) -> bool:
        """Say whether there is one."""
        return bool(self.faults)

    def find(self, kind: FaultKind, path: str | None = None) -> Fault | None:
        """Return the first fault of a kind that concerns the path (or, without a path, any)."""
        for fault in self.faults:
            if fault.kind is kind and (path is None or fault.hits(path)):
                return fault
        return None

    def value(self, kind: FaultKind, default: float) -> float:
        """Return the value of the first fault of a kind."""
        fault = self.find(kind)
        return default if fault is None else fault.value


NO_FAULTS = ActiveFaults()


class Faults:
    """The faults that are switched on, in a file."""

    def __init__(self, root: Path) -> None:
        self._file: JsonFile[list[Fault]] = JsonFile(root / FAULT_FILE, _decode, lambda all_: [asdict(f) for f in all_])

    def all(self) -> list[Fault]:
        """Return every fault that is switched on."""
        return self._file.load() or []

    def now(self) -> ActiveFaults:
        """Return the faults of this moment; each call looks at the file, so ask once and look often."""
        faults = self.all()
        return ActiveFaults(tuple(faults)) if faults else NO_FAULTS

    def find(self, kind: FaultKind, path: str | None = None) -> Fault | None:
        """Return the first fault of a kind that concerns the path now."""
        return self.now().find(kind, path)

    def strike(self, kind: FaultKind, path: str) -> Fault | None:
        """Return the fault that concerns the path and count it as having happened once."""
        fault = self.find(kind, path)
        if fault is not None and fault.times is not None:
            rest = [other for other in self.all() if other is not fault]
            if fault.times > 1:
                rest.append(replace(fault, times=fault.times - 1))
            self._file.save(rest)
        return fault

    def add(self, fault: Fault) -> None:
        """Switch a fault on."""
        self._file.save([*self.all(), fault])

    def clear(self, kind: FaultKind | None = None) -> None:
        """Switch all faults, or all of one kind, off."""
        self._file.save([fault for fault in self.all() if kind is not None and fault.kind != kind])


def _decode(raw: object) -> list[Fault]:
    assert isinstance(raw, list)
    return [Fault(**{**entry, "kind": FaultKind(entry["kind"])}) for entry in raw]
