"""The one port to the kernel's files: reads and writes below a root directory, never hangs, never creates a file."""

from __future__ import annotations

import contextlib
import errno as codes
import os
import queue
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

DEFAULT_TIMEOUT_S = 2.0  # a sysfs read takes about a millisecond; some nodes of newer boards hang in D state
_MAX_LINKS = 40  # the kernel's own limit on symbolic links in one path
_READ_BYTES = 65536  # a sysfs attribute holds at most one page; /proc and debugfs files are longer


class SysfsError(Exception):
    """A file of the board that can't be read or written; names the path, the errno and what was tried."""

    def __init__(self, path: str, errno: int, doing: str) -> None:
        super().__init__(path, errno, doing)
        self.path = path
        self.errno = errno
        self.doing = doing

    @property
    def code(self) -> str:
        """Return the errno's name, such as EINVAL."""
        return codes.errorcode.get(self.errno, f"errno {self.errno}")

    def __str__(self) -> str:
        return f"{self.doing} {self.path}: {self.code} ({os.strerror(self.errno)})"


class SysfsTimeoutError(SysfsError):
    """A file whose read or write did not come back in time."""

    def __init__(self, path: str, doing: str, timeout_s: float) -> None:
        super().__init__(path, codes.ETIMEDOUT, doing)
        self.timeout_s = timeout_s

    def __reduce__(self) -> tuple[type[SysfsTimeoutError], tuple[str, str, float]]:
        return type(self), (self.path, self.doing, self.timeout_s)


class Sysfs:
    """The board's files below `root`; paths look absolute, such as "/sys/devices/system/cpu/online".

    In a pod the host's directories are mounted below /host, so links that point to an absolute path are
    followed inside the root. A subclass that simulates a kernel overrides `read_now` and `write_now`.
    """

    def __init__(self, root: Path | str = "/", timeout_s: float | None = DEFAULT_TIMEOUT_S) -> None:
        self.root = Path(root)
        self._prefix = str(self.root).rstrip("/")
        self.timeout_s = timeout_s
        # Why nothing may be written; empty where it may.
        self.read_only = ""
        self._worker = _Worker()
        self._hung: dict[str, _Call] = {}
        self._resolved: dict[str, str] = {}

    def read(self, path: str) -> str:
        """Return the file's text without trailing newlines, blanks and NULs."""
        return self._in_time(path, "read", lambda: self.read_now(path))

    def read_together(self, paths: Sequence[str]) -> dict[str, str]:
        """Return the texts of several files, read in one go: one change of threads instead of one per file."""
        return self._in_time(paths[0], "read", lambda: {path: self.read_now(path) for path in paths}) if paths else {}

    def read_each(self, paths: Sequence[str]) -> dict[str, str | None]:
        """Return the texts of several files, read in one go; None for each that can't be read now."""
        if len(paths) < 2:
            return {path: self._read_or_none(path) for path in paths}
        try:
            return self._in_time(f"{paths[0]} and others", "read", lambda: self._read_each_now(paths))
        except SysfsTimeoutError:
            # One of them hangs: each for itself, so that the others are known all the same.
            return {path: self._read_or_none(path) for path in paths}

    def write(self, path: str, text: str) -> None:
        """Hand the text to the kernel in one write() call; the file must exist."""
        if self.read_only:
            raise SysfsError(path, codes.EROFS, f"write {text!r} (refused: {self.read_only}) to")
        self._in_time(path, f"write {text!r} to", lambda: self.write_now(path, text))

    def list(self, path: str) -> list[str]:
        """Return the sorted names in a directory; empty when there is no such directory."""
        try:
            return sorted(os.listdir(self.locate(path)))  # noqa: PTH208 (names are wanted, not paths)
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Say whether there is a file or directory."""
        cached_location = self._resolved.get(path)
        # This is the hot path of every sample: what lies where it lay is not looked for.
        return (cached_location is not None and os.path.exists(cached_location)) or os.path.exists(self.locate(path))  # noqa: PTH110

    def is_writable(self, path: str) -> bool:
        """Say whether a write can be tried: root passes every access check, so the mode bits count too."""
        located = self.locate(path)
        try:
            return bool(os.stat(located).st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)) and os.access(  # noqa: PTH116
                located, os.W_OK
            )
        except OSError:
            return False

    def is_replaced(self, path: str) -> bool:
        """Say whether its owner has put another file in its place: what is mounted alone stays the old one."""
        try:
            return os.stat(self.locate(path)).st_nlink == 0  # noqa: PTH116
        except OSError:
            return False

    def resolve(self, path: str) -> str:
        """Return the path below the root with every link followed; the result still looks absolute."""
        located = self._follow(path)
        return located[len(self._prefix) :] or "/"

    def locate(self, path: str) -> str:
        """Return where the file lies on this machine."""
        location = self._resolved.get(path)
        if location is None or not os.path.lexists(location):
            location = self._resolved[path] = self._follow(path)
        return location

    def read_now(self, path: str) -> str:
        """Read without a time limit (runs in the worker thread)."""
        with _naming(path, "read"):
            handle = os.open(self.locate(path), os.O_RDONLY | os.O_CLOEXEC)
            try:
                chunks = []
                while chunk := os.read(handle, _READ_BYTES):
                    chunks.append(chunk)
            finally:
                os.close(handle)
        return b"".join(chunks).decode("utf-8", "replace").rstrip("\n\0 \t")

    def _read_each_now(self, paths: Sequence[str]) -> dict[str, str | None]:
        texts: dict[str, str | None] = {}
        for path in paths:
            try:
                texts[path] = self.read_now(path)
            except SysfsError:
                texts[path] = None
        return texts

    def _read_or_none(self, path: str) -> str | None:
        try:
            return self.read(path)
        except SysfsError:
            return None

    def write_now(self, path: str, text: str) -> None:
        """Write without a time limit (runs in the worker thread)."""
        data = f"{text}\n".encode()
        with _naming(path, f"write {text!r} to"):
            handle = os.open(self.locate(path), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
            try:
                byte_count = os.write(handle, data)
            finally:
                os.close(handle)
        if byte_count != len(data):
            raise SysfsError(path, codes.EIO, f"write {text!r} to")

    def _in_time(self, path: str, doing: str, work: Callable[[], T]) -> T:
        if self.timeout_s is None:
            return work()
        stuck = self._hung.get(path)
        if stuck is not None:
            if not stuck.completion.is_set():
                raise SysfsTimeoutError(path, doing, self.timeout_s)
            del self._hung[path]
        for _ in range(2):
            worker = self._worker
            call = worker.submit(work)
            if call.completion.wait(self.timeout_s):
                if call.error is not None:
                    raise call.error
                return call.result  # type: ignore[return-value]
            # The thread may be stuck in the kernel for good: leave it behind.
            if self._worker is worker:
                self._worker = _Worker()
            if not call.abandon():
                self._hung[path] = call  # ask this file no more until it returns
                break
            # It only waited behind another file that hangs: once more, in the new thread.
        raise SysfsTimeoutError(path, doing, self.timeout_s)

    def _follow(self, path: str) -> str:
        parts: list[str] = []
        todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                parts = parts[:-1]
                continue
            here = "/".join([self._prefix, *parts, part])
            try:
                target = os.readlink(here)  # noqa: PTH115 (this is the hot path of every sample)
            except OSError as error:
                parts.append(part)
                if error.errno == codes.ENOENT and ".." not in todo:
                    parts.extend(reversed(todo))  # below what is not there nothing is a link
                    break
                continue
            links += 1
            if links > _MAX_LINKS:
                raise SysfsError(path, codes.ELOOP, "follow")
            if target.startswith("/"):
                parts = []
            todo.extend(step for step in reversed(target.split("/")) if step not in ("", "."))
        return "/".join([self._prefix, *parts]) or "/"


class _Call:
    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work
        self.completion = threading.Event()
        self.result: object = None
        self.error: BaseException | None = None
        self._claim = threading.Lock()  # by whoever comes first: the thread that runs it, or who gives it up

    def abandon(self) -> bool:
        """Give the call up; False where it has begun, since nobody can take back what the kernel has."""
        return self._claim.acquire(blocking=False)

    def run(self) -> None:
        if not self._claim.acquire(blocking=False):
            return  # its caller was told that it failed: a late write would undo what came after it
        try:
            self.result = self.work()
        except BaseException as error:  # handed to the thread that waits
            self.error = error
        finally:
            self.completion.set()


class _Worker:
    """A daemon thread that runs one call after the other; it ends when its owner forgets it."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._started = False

    def submit(self, work: Callable[[], object]) -> _Call:
        if not self._started:
            self._started = True
            threading.Thread(target=_run_calls, args=(self._calls,), name="sysfs", daemon=True).start()
        call = _Call(work)
        self._calls.put(call)
        return call

    def __del__(self) -> None:
        self._calls.put(None)


def _run_calls(calls: queue.SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        call.run()


@contextlib.contextmanager
def _naming(path: str, doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SysfsError(path, error.errno or codes.EIO, doing) from None
