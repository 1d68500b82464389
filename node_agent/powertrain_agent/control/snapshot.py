"""The write-ahead snapshot: what was found on the board and what the agent may have written, on the host's disk."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from powertrain import PowerMode
from powertrain_agent.control.attributes import Attribute, Role
from powertrain_agent.sysfs import Sysfs, SysfsError

BOOT_ID = "/proc/sys/kernel/random/boot_id"
SNAPSHOT, SCRIPT, LOCK = "snapshot.json", "restore.sh", "agent.lock"
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
    found: str
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
    def found(self) -> dict[str, str]:
        """Return the values to restore, by path."""
        return {entry.attribute.path: entry.found for entry in self.entries}

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """Return the attributes in the order in which they were taken up."""
        return tuple(entry.attribute for entry in self.entries)

    def adding(self, values: dict[Attribute, str]) -> Snapshot:
        """Return the snapshot with attributes that it did not hold yet."""
        known = {entry.attribute.path for entry in self.entries}
        new = tuple(Entry(attribute, value) for attribute, value in values.items() if attribute.path not in known)
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


class StateDir:
    """A directory on the host whose files are replaced as a whole, and are on the disk before the call returns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def hold(self) -> int:
        """Keep others off while the returned handle is open; raises BlockingIOError where another one holds it.

        The kernel lets go of what a dead process held.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path / LOCK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise
        return handle

    def stamp(self, name: str) -> tuple[int, int, int] | None:
        """Return what changes when somebody replaces or rewrites a file; None where there is none."""
        try:
            status = (self.path / name).stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes, or None."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, name: str, data: bytes, permissions: int = 0o600) -> None:
        """Write beside, flush, rename, flush the directory: after a crash the old or the new file is there."""
        self.path.mkdir(parents=True, exist_ok=True)
        beside = self.path / f".{name}.new"
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, permissions)
        try:
            self._write(handle, data)
            self._flush(handle)
        finally:
            os.close(handle)
        self._rename(beside, self.path / name)
        self._flush_directory()

    def remove(self, name: str) -> None:
        """Delete a file; it may be gone already."""
        (self.path / name).unlink(missing_ok=True)
        self._flush_directory()

    def _write(self, handle: int, data: bytes) -> None:
        while data:
            data = data[os.write(handle, data) :]

    def _flush(self, handle: int) -> None:
        os.fsync(handle)

    def _rename(self, beside: Path, target: Path) -> None:
        beside.replace(target)

    def _flush_directory(self) -> None:
        if not self.path.exists():
            return
        handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._flush(handle)
        finally:
            os.close(handle)


class SnapshotStore:
    """Loads and saves the snapshot of one board, with its restore.sh."""

    def __init__(self, directory: StateDir, sysfs: Sysfs) -> None:
        self.directory = directory
        self._sysfs = sysfs
        self._known: tuple[tuple[int, int, int], Snapshot] | None = None  # it is looked at every second

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
        return snapshot

    def _read(self) -> Snapshot | None:
        """Return what the file holds; decoded anew only when it is another one than at the last look."""
        stamp = self.directory.stamp(SNAPSHOT)
        if self._known is not None and self._known[0] == stamp:
            return self._known[1]
        data = self.directory.read(SNAPSHOT)
        snapshot = None if data is None else decode(data)
        self._known = None if stamp is None or snapshot is None else (stamp, snapshot)
        return snapshot

    def save(self, snapshot: Snapshot) -> None:
        """Put the snapshot on the disk; the script first, since it only works beside a snapshot."""
        from powertrain_agent.control.restore_script import script

        self._known = None  # two files within one tick of the disk's clock may look the same
        try:
            self.directory.replace(SCRIPT, script(snapshot).encode(), 0o700)
            self.directory.replace(SNAPSHOT, encode(snapshot))
        except OSError as error:
            reason = error.strerror or str(error)
            raise SnapshotError(f"the snapshot can't be written to {self.directory.path}: {reason}") from None

    def discard(self) -> None:
        """Forget the snapshot: the board is as it was found, or has rebooted since."""
        try:
            self.directory.remove(SNAPSHOT)
            self.directory.remove(SCRIPT)
        except OSError as error:
            raise SnapshotError(f"the snapshot in {self.directory.path} can't be removed: {error.strerror}") from None


def encode(snapshot: Snapshot) -> bytes:
    """Return the file form: a checksum and the body."""
    body = {
        "boot_id": snapshot.boot_id,
        "entries": [
            {"attribute": vars(entry.attribute), "found": entry.found, "ours": entry.ours} for entry in snapshot.entries
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
            f"the snapshot is damaged ({error}): what was found is not known, so the board is left as it is. "
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
