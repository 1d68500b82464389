"""Foreign changes: tells what somebody else set from what the agent may have set, and makes it the restore target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from powertrain_agent.control.attributes import Role
from powertrain_agent.control.snapshot import ANY, Entry, Phase, Snapshot


@dataclass(frozen=True)
class Foreign:
    """A value that neither was found nor comes from the agent; it is what will be restored."""

    path: str
    value: str
    instead_of: str

    def __str__(self) -> str:
        return f"{self.path} was set to {self.value} by someone else (restored in the end instead of {self.instead_of})"


def adopt(
    snapshot: Snapshot, readings: Mapping[str, str | None], online: frozenset[int]
) -> tuple[Snapshot, tuple[Foreign, ...]]:
    """Return the snapshot with foreign values as what to restore, and the list of them."""
    foreign: list[Foreign] = []
    entries = []
    for entry in snapshot.entries:
        value = readings.get(entry.attribute.path)
        if value is None or not _is_foreign(snapshot, entry, value, readings, online):
            entries.append(entry)
            continue
        foreign.append(Foreign(entry.attribute.path, value, entry.original))
        entries.append(replace(entry, original=value))
    changed = {change.path for change in foreign}
    merged = _consistent(tuple(_with_lock(entry, entries, changed) for entry in entries))
    return replace(snapshot, entries=merged), tuple(foreign)


def _is_foreign(
    snapshot: Snapshot, entry: Entry, value: str, readings: Mapping[str, str | None], online: frozenset[int]
) -> bool:
    attribute = entry.attribute
    if not attribute.active(online) or ANY in entry.ours:
        return False
    explained = {entry.original, *entry.ours}
    if attribute.role is Role.EMC_RATE:
        # An unlocked memory clock moves by itself: neither what it shows nor what it showed was set by anybody.
        if not _is_locked(snapshot, readings):
            return False
        if not _is_locked(snapshot, snapshot.originals):
            explained = set(entry.ours)
    if snapshot.phase is Phase.MOVING:
        explained |= {attribute.lowest, *(step for value in tuple(explained) for step in attribute.beside(value))}
    return value not in explained and not _clamped(snapshot, entry, value, readings)


def _is_locked(snapshot: Snapshot, readings: Mapping[str, str | None] | Mapping[str, str]) -> bool:
    return any(readings.get(e.attribute.path) == "1" for e in snapshot.entries if e.attribute.role is Role.EMC_LOCK)


def _clamped(snapshot: Snapshot, entry: Entry, value: str, readings: Mapping[str, str | None]) -> bool:
    """Say whether a lowered ceiling alone explains the value: then this attribute was not set by anybody.

    Newer kernels show a minimum above the maximum as the maximum, and a locked memory clock stays below its cap.
    (Somebody who pins both to that value looks the same; on doubt the lower minimum is restored.)
    """
    attribute = entry.attribute
    ceiling_role = {Role.MIN: Role.MAX, Role.EMC_RATE: Role.EMC_CAP}.get(attribute.role)
    partners = [e.attribute for e in snapshot.entries if e.attribute.group == attribute.group]
    ceilings = [_number(readings.get(partner.path) or "") for partner in partners if partner.role is ceiling_role]
    if not ceilings:
        return False
    below = [step for step in attribute.legal if step <= max(ceilings)]
    at_ceiling = _number(value) in (*ceilings, *below[-1:])
    # After a write that failed, a request from before may be hidden behind the ceiling and come up when that rises.
    hidden = snapshot.phase is Phase.MOVING or any(_number(own_value) > max(ceilings) for own_value in entry.ours)
    return at_ceiling and hidden


def _with_lock(entry: Entry, entries: list[Entry], changed: set[str]) -> Entry:
    """Only a locked memory clock takes a rate: whoever set one wants the lock too."""
    rate_changed = any(e.attribute.role is Role.EMC_RATE and e.attribute.path in changed for e in entries)
    return replace(entry, original="1") if entry.attribute.role is Role.EMC_LOCK and rate_changed else entry


def _consistent(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """A restored minimum above the restored maximum would be refused: it comes down to it."""
    top = {
        entry.attribute.group: _number(entry.original)
        for entry in entries
        if entry.attribute.role is Role.MAX and _number(entry.original) > 0
    }
    return tuple(
        replace(entry, original=str(top[entry.attribute.group]))
        if entry.attribute.role is Role.MIN and _number(entry.original) > top.get(entry.attribute.group, 1 << 62)
        else entry
        for entry in entries
    )


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
