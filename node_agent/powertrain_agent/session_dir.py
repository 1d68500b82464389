"""A session's directory: the socket and the ready file, the two things that its container sees of the agent.

A container may have got the directory writable, and then anything may lie in it: links to other files of the host,
directories in place of files. So every name is looked up below an open directory, no link is followed, files are made
anew, and permissions change by descriptor.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SOCKET_NAME, READY_NAME = "steps.sock", "ready"
BUFFER_BYTES = 256 * 1024  # more than the kernel's own limit on waiting datagrams, often ten, lets in
MOST_ENTRIES = 10_000  # removed in one go: a container that fills its directory does not hold up the loop
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class SessionDir:
    """The host directory of one session: what its container sees of the agent."""

    def __init__(self, base: Path, uid: str) -> None:
        if not uid or "/" in uid or uid.startswith("."):
            raise ValueError(f"a session's uid names a directory; {uid!r} can't")
        self.uid = uid
        self.path = base / uid

    def open_socket(self) -> socket.socket:
        """Bind the datagram socket anew (whatever else has its name is removed)."""
        with self._open_directory() as directory:
            _clear(directory, SOCKET_NAME)
            receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
                # By way of the open directory: a socket's address has room for 107 bytes only, a path may be longer.
                receiver.bind(f"/proc/self/fd/{directory}/{SOCKET_NAME}")
                _let_all_send(directory)
            except OSError:
                receiver.close()
                raise
        return receiver

    def write_ready(self, boot_id: str, mode: str) -> None:
        """Open the gate: a safe mode was verified for this session in this boot."""
        beside = f".{READY_NAME}"
        document = json.dumps({"session": self.uid, "boot_id": boot_id, "mode": mode}).encode()
        with self._open_directory() as directory:
            _clear(directory, beside)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(beside, flags, 0o644, dir_fd=directory)
            with os.fdopen(handle, "wb") as file:
                os.fchmod(handle, 0o644)
                file.write(document)
            _clear(directory, READY_NAME)
            os.rename(beside, READY_NAME, src_dir_fd=directory, dst_dir_fd=directory)

    def close_gate(self) -> None:
        """Let no further container start."""
        with suppress(FileNotFoundError), self._open_directory(make=False) as directory:
            _clear(directory, READY_NAME)

    def remove(self) -> None:
        """Delete the directory: the session is over. What can't be deleted stays, and opens no gate."""
        with suppress(OSError):
            self.close_gate()
        with suppress(OSError), self._open_directory(make=False) as directory:
            _empty(directory)
        with suppress(OSError):
            self.path.rmdir()

    @contextmanager
    def _open_directory(self, make: bool = True) -> Iterator[int]:
        if make:
            self.path.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, _DIRECTORY)
        try:
            if make:
                os.fchmod(handle, 0o755)
            yield handle
        finally:
            os.close(handle)


def _let_all_send(directory: int) -> None:
    """Trainings do not always run as root, and sending needs write permission."""
    handle = os.open(SOCKET_NAME, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        if not stat.S_ISSOCK(os.fstat(handle).st_mode):
            raise FileExistsError(f"{SOCKET_NAME} was replaced by something that is not a socket")
        os.chmod(f"/proc/self/fd/{handle}", 0o666)  # noqa: PTH101 (a descriptor that only names a file)
    finally:
        os.close(handle)


def _clear(directory: int, name: str) -> None:
    """Free a name; a link goes, what it points to stays. A directory that can't be removed is put aside."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        aside = f".aside-{secrets.token_hex(8)}"
        os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
        with suppress(OSError):
            _remove_directory(directory, aside)


def _remove_directory(directory: int, name: str) -> None:
    inside = os.open(name, _DIRECTORY, dir_fd=directory)
    try:
        _empty(inside)
    finally:
        os.close(inside)
    os.rmdir(name, dir_fd=directory)


def _empty(directory: int) -> None:
    """Remove what a directory holds, up to a bound. What lies deeper comes up first, so no depth is too deep."""
    left = MOST_ENTRIES
    while left > 0 and (names := os.listdir(directory)):
        for name in names[:left]:
            left -= 1
            try:
                os.unlink(name, dir_fd=directory)
            except IsADirectoryError:
                left -= _raise_contents(directory, name)


def _raise_contents(directory: int, name: str) -> int:
    """Move what a directory holds one level up and remove it; return how many entries that were."""
    inside = os.open(name, _DIRECTORY, dir_fd=directory)
    try:
        children = os.listdir(inside)[:MOST_ENTRIES]  # noqa: PTH208 (a descriptor, not a path)
        for child in children:
            os.rename(child, f".raised-{secrets.token_hex(8)}", src_dir_fd=inside, dst_dir_fd=directory)
    finally:
        os.close(inside)
    os.rmdir(name, dir_fd=directory)
    return len(children)
