"""Process: which process of which boot; a number alone is given to another process sooner or later."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROC = Path("/proc")
BOOT_ID = PROC / "sys/kernel/random/boot_id"
ENDED_STATES = ("Z", "X")  # a zombie runs no more; in a container nobody may ever collect it


@dataclass(frozen=True)
class Process:
    """One process of this machine, told apart from any that gets its number later."""

    pid: int
    started_ticks: int  # since the boot
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """Return the process that has this number now; None where none runs."""
        started_ticks = _started_ticks(pid)
        return None if started_ticks is None else cls(pid, started_ticks, _boot_id())

    @property
    def is_alive(self) -> bool:
        """Say whether this very process still runs."""
        return self.boot_id == _boot_id() and _started_ticks(self.pid) == self.started_ticks

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        return {"pid": self.pid, "startedTicks": self.started_ticks, "bootID": self.boot_id}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Process:
        """Return the process that `as_dict` wrote."""
        return cls(int(raw["pid"]), int(raw["startedTicks"]), str(raw["bootID"]))


def _started_ticks(pid: int) -> int | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name stands in brackets and may hold blanks and brackets itself.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ENDED_STATES else int(fields[19])


def _boot_id() -> str:
    return BOOT_ID.read_text(encoding="ascii").strip()
