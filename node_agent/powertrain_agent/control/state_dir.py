"""The state directory: files on the host that are replaced as a whole, in space that can be reserved beforehand.

A file with reserved space has a second one beside it, written with as many bytes. A save overwrites that one, and the
two change places: no save needs a new block, so a disk that fills up later does not stop it. The unused bytes at a
file's end are newlines, which readers of JSON and shells skip. (A file system that never overwrites in place, such as
btrfs, needs new blocks all the same.)
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

LOCK = "agent.lock"
PADDING = b"\n"


class StateDir:
    """A directory on the host whose files are replaced as a whole, and are on the disk before the call returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filled: dict[int, int] = {}  # by inode, how far a file of reserved space holds more than padding

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

    def replace(self, name: str, data: bytes, permissions: int = 0o600, reserve_bytes: int = 0) -> None:
        """Write beside, flush, rename, flush the directory: after a crash the old or the new file is there.

        With `reserve_bytes` the first call takes space for two files of that size, and no later one needs more.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        beside, target = self._beside(name), self.path / name
        self._drop_shared(beside)
        if reserve_bytes:
            self._reserve(beside, reserve_bytes)
            if not target.exists():
                self._reserve(self._aside(name), reserve_bytes)
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(handle, permissions)
            self._overwrite(handle, data, reserve_bytes)
            self._flush(handle)
        finally:
            os.close(handle)
        self._exchange(name) if reserve_bytes else self._rename(beside, target)
        self._flush_directory()

    def remove(self, *names: str) -> None:
        """Delete files, which may be gone already, and give back the space that was reserved for them."""
        for name in names:
            for place in (self.path / name, self._beside(name), self._aside(name)):
                place.unlink(missing_ok=True)
        self._flush_directory()

    def _beside(self, name: str) -> Path:
        return self.path / f".{name}.new"

    def _aside(self, name: str) -> Path:
        return self.path / f".{name}.old"

    def _drop_shared(self, beside: Path) -> None:
        """Never write into a file that a crash left with two names: one of them may be the one that counts."""
        with suppress(FileNotFoundError):
            if beside.stat().st_nlink > 1:
                beside.unlink()

    def _reserve(self, place: Path, size: int) -> None:
        """Make a file have so many bytes on the disk, written ones: a promise of blocks alone may be broken."""
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            missing = size - os.fstat(handle).st_size
            if missing > 0:
                os.lseek(handle, 0, os.SEEK_END)
                self._write(handle, PADDING * missing)
                self._flush(handle)
        finally:
            os.close(handle)

    def _overwrite(self, handle: int, data: bytes, reserve_bytes: int) -> None:
        if not reserve_bytes:
            os.ftruncate(handle, 0)
            self._write(handle, data)
            return
        status = os.fstat(handle)
        filled = self._filled.get(status.st_ino, status.st_size)
        self._filled[status.st_ino] = status.st_size  # as long as nobody knows better
        self._write(handle, data + PADDING * max(0, min(filled, status.st_size) - len(data)))
        self._filled[status.st_ino] = len(data)

    def _exchange(self, name: str) -> None:
        """Put the new file in place and keep the old one, with its space, for the next."""
        beside, target, aside = self._beside(name), self.path / name, self._aside(name)
        if target.exists():
            aside.unlink(missing_ok=True)
            os.link(target, aside)
        self._rename(beside, target)
        self._rename(aside, beside)

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
