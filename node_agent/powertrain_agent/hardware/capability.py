"""Capability: what the agent can do with one knob or sensor of a board, and why not more."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from powertrain_agent.sysfs import Sysfs


class Access(StrEnum):
    """How far a knob or sensor can be used."""

    WRITABLE = "writable"
    READ_ONLY = "read-only"
    MISSING = "missing"


@dataclass(frozen=True)
class Capability:
    """One knob or sensor; the reason is empty when nothing is in the way."""

    knob: str
    access: Access
    reason: str = ""
    paths: tuple[str, ...] = ()
    legal: tuple[int, ...] = ()
    unit: str = ""

    @property
    def writable(self) -> bool:
        """Say whether the knob can be turned."""
        return self.access is Access.WRITABLE

    def locked(self, reason: str) -> Capability:
        """Return the same capability without the right to write."""
        if self.access is not Access.WRITABLE:
            return self
        return Capability(self.knob, Access.READ_ONLY, reason, self.paths, self.legal, self.unit)


def unwritable(sysfs: Sysfs, paths: tuple[str, ...]) -> str:
    """Return why these files can't all be written, empty if they can."""
    blocked = [path for path in paths if not sysfs.is_writable(path)]
    if not blocked:
        return ""
    absent = [path for path in blocked if not sysfs.exists(path)]
    if absent:
        return f"{absent[0]} is not there"
    return f"{blocked[0]} is not writable (a read-only mount, or no permission)"
