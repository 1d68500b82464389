"""The write-ahead snapshot: what was found on the board and what the agent may have written, on the host's disk."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from powertrain import PowerMode
from powertrain_agent.control.attributes import Attribute, Role
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.sysfs import Sysfs, SysfsError

BOOT_ID = "/proc/sys/kernel/random/boot_id"
SNAPSHOT, SCRIPT = "snapshot.json", "restore.sh"
# Several times what the largest boards need (9 and 4 KB).
SNAPSHOT_BYTES, SCRIPT_BYTES = 32 * 1024, 16 * 1024
ANY = "*"  # in `ours`: the kernel may have put any value there because of the agent
_FORMAT = 1


class SnapshotError(Exception):
    """The snapshot can't be kept: nothing may be written to the board."""


class SnapshotCorruptError(SnapshotError):
    """The snapshot's checksum is wrong: what was found is not known, so the board stays as it is."""


class Phase(StrEnum):
    """Whether writes may be half done."""

    MOVING = "moving"
    SETTLED = "settled"


@dataclass(frozen=True)
class Entry:
    """One attribute: the value to restore, and every value it may hold because of the agent."""

    attribute: Attribute
    original: str
    ours: tuple[str, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """The state of the agent's work on the board. `mode` was verified last; `target` is being applied."""

    boot_id: str
    entries: tuple[Entry, ...] = ()
    phase: Phase = Phase.SETTLED
    mode: PowerMode | None = None
    target: PowerMode | None = None
    recorded: dict[str, str] = field(default_factory=dict)  # governors and the like: never written, kept for a person

    @property
    def originals(self) -> dict[str, str]:
        """Return the values to restore, by path."""
        return {entry.attribute.path: entry.original for entry in self.entries}

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """Return the attributes in the order in which they were taken up."""
        return tuple(entry.attribute for entry in self.entries)

    def adding(self, values: dict[Attribute, str]) -> Snapshot:
        """Return the snapshot with attributes that it did not hold yet."""
        paths = {entry.attribute.path for entry in self.entries}
        new = tuple(Entry(attribute, value) for attribute, value in values.items() if attribute.path not in paths)
        return replace(self, entries=(*self.entries, *new))

    def without(self, groups: set[str]) -> Snapshot:
        """Return the snapshot without some groups."""
        return replace(self, entries=tuple(e for e in self.entries if e.attribute.group not in groups))

    def held_mode(self) -> PowerMode | None:
        """Return the mode to hold: in the middle of a change the lower of both, knob by knob."""
        if self.mode is None or self.target is None:
            return self.target or self.mode
        a, b = self.mode, self.target
        return PowerMode(
            min(a.cores, b.cores), min(a.cpu_khz, b.cpu_khz), min(a.gpu_hz, b.gpu_hz), min(a.emc_hz, b.emc_hz)
        )


class SnapshotStore:
    """Loads and saves the snapshot of one board, with its restore.sh."""

    def __init__(self, directory: StateDir, sysfs: Sysfs) -> None:
        self.directory = directory
        self._sysfs = sysfs
        self._cached: tuple[tuple[int, int, int], Snapshot] | None = None  # it is looked at every second
        self._unsaved: Snapshot | None = None

    def boot_id(self) -> str:
        """Return the id of the present boot."""
        try:
            return self._sysfs.read(BOOT_ID)
        except SysfsError as error:
            raise SnapshotError(f"the boot can't be told apart from others: {error}") from None

    def load(self) -> Snapshot | None:
        """Return the snapshot of this boot; one of another boot is void and removed."""
        try:
            snapshot = self._read()
        except OSError as error:
            raise SnapshotError(f"the snapshot in {self.directory.path} can't be read: {error.strerror}") from None
        if snapshot is None:
            return None
        if snapshot.boot_id != self.boot_id():
            self.discard()
            return None
        return self._unsaved or snapshot

    def _read(self) -> Snapshot | None:
        """Return what the file holds; decoded anew only when it is another one than at the last look."""
        stamp = self.directory.stamp(SNAPSHOT)
        if self._cached is not None and self._cached[0] == stamp:
            return self._cached[1]
        data = self.directory.read(SNAPSHOT)
        snapshot = None if data is None else decode(data)
        self._cached = None if stamp is None or snapshot is None else (stamp, snapshot)
        return snapshot

    def save(self, snapshot: Snapshot) -> None:
        """Put the snapshot on the disk; the script first, since it only works beside a snapshot."""
        from powertrain_agent.control.restore_script import script

        self._cached = None  # two files within one tick of the disk's clock may look the same
        try:
            self.directory.replace(SCRIPT, script(snapshot).encode(), 0o700, SCRIPT_BYTES)
            self.directory.replace(SNAPSHOT, encode(snapshot), reserve_bytes=SNAPSHOT_BYTES)
        except OSError as error:
            reason = error.strerror or str(error)
            raise SnapshotError(f"the snapshot can't be written to {self.directory.path}: {reason}") from None
        self._unsaved = None

    def keep(self, snapshot: Snapshot) -> None:
        """Work on with a snapshot that could not be saved, as long as this process lives."""
        self._unsaved = snapshot

    def save_again(self) -> None:
        """Try once more to save what could not be."""
        if self._unsaved is not None:
            with suppress(SnapshotError):
                self.save(self._unsaved)

    def discard(self) -> None:
        """Forget the snapshot: the board is as it was found, or has rebooted since."""
        try:
            self.directory.remove(SNAPSHOT)
            self.directory.remove(SCRIPT)
            self._unsaved = None
        except OSError as error:
            raise SnapshotError(f"the snapshot in {self.directory.path} can't be removed: {error.strerror}") from None


def encode(snapshot: Snapshot) -> bytes:
    """Return the file form: a checksum and the body."""
    body = {
        "boot_id": snapshot.boot_id,
        "entries": [
            {"attribute": vars(entry.attribute), "found": entry.original, "ours": entry.ours}
            for entry in snapshot.entries
        ],
        "phase": snapshot.phase,
        "mode": str(snapshot.mode) if snapshot.mode else None,
        "target": str(snapshot.target) if snapshot.target else None,
        "recorded": snapshot.recorded,
    }
    text = _canonical(body)
    return f'{{"format": {_FORMAT}, "checksum": "{_checksum(text)}", "body": {text}}}\n'.encode()


def decode(data: bytes) -> Snapshot:
    """Read the file form."""
    try:
        document = json.loads(data)
        body: dict[str, Any] = document["body"]
        if document["format"] != _FORMAT:
            raise SnapshotCorruptError(f"the snapshot has format {document['format']!r}; this agent reads {_FORMAT}")
        if document["checksum"] != _checksum(_canonical(body)):
            raise ValueError("wrong checksum")
        return _snapshot(body)
    except (ValueError, KeyError, TypeError) as error:
        raise SnapshotCorruptError(
            f"the snapshot is damaged ({error}): the original settings are not known, so the board stays as it is. "
            "A reboot brings its stored power mode back; remove the file afterwards"
        ) from None


def _snapshot(body: dict[str, Any]) -> Snapshot:
    entries = tuple(Entry(_attribute(raw["attribute"]), raw["found"], tuple(raw["ours"])) for raw in body["entries"])
    mode, target = (PowerMode.parse(body[key]) if body[key] else None for key in ("mode", "target"))
    return Snapshot(body["boot_id"], entries, Phase(body["phase"]), mode, target, dict(body["recorded"]))


def _attribute(raw: dict[str, Any]) -> Attribute:
    return Attribute(**{**raw, "role": Role(raw["role"]), "legal": tuple(raw["legal"]), "cpus": tuple(raw["cpus"])})


def _canonical(body: dict[str, Any]) -> str:
    return json.dumps(body, sort_keys=True)


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
