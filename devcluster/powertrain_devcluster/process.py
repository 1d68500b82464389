"""Child processes that cannot outlive their parent, each with a log of its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

MARKER = "POWERTRAIN_CLUSTER_ID"
_PR_SET_PDEATHSIG = 1
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TAIL_BYTES = 16 * 1024
_LAST_LINES = 3
_LINE_CHARACTERS = 300
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _die_with_parent() -> Callable[[], None] | None:
    """What a new process runs before its program, so that the kernel kills it when the forking thread ends."""
    if _libc is None:
        return None
    parent = os.getpid()
    prctl = _libc.prctl

    def setup() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return setup


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """Handle signals afterwards: while it forks, Python drops whatever a handler raises, and the signal is lost."""
    signals: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        signals.append(number)

    # Only the main thread runs handlers, and only those written in Python raise anything.
    main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in _SIGNALS if main}
    handled = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in handled:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
        for each in signals:
            signal.raise_signal(each)


def start(argv: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:
    """Start a program in a session of its own; it ends with the calling thread, and with an interrupted start."""
    popen: subprocess.Popen[Any] | None = None
    try:
        with _signals_wait():
            popen = subprocess.Popen(
                [str(part) for part in argv],
                start_new_session=True,
                preexec_fn=_die_with_parent(),  # noqa: PLW1509 - one prctl, no Python objects of other threads
                **options,
            )
    except BaseException:
        if popen is not None:
            end(popen)
        raise
    return popen


def give_way(pid: int, niceness: int) -> None:
    """Say how much a session gives way: Linux shares its processors between sessions first, by a niceness of each."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness))


def end(popen: subprocess.Popen[Any]) -> None:
    """End a started program and its process group at once, and collect it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, signal.SIGKILL)
    popen.wait()


@dataclass(frozen=True)
class Child:
    """A started program and where it writes."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    # What was in the log before: of an earlier process of that name.
    log_begin_bytes: int = 0

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    def tail(self) -> str:
        """The end of what it wrote to its log."""
        try:
            with self.log.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(self.log_begin_bytes, file.tell() - _TAIL_BYTES))
                return file.read().decode(errors="replace")
        except OSError:
            return ""

    def last_words(self) -> str:
        """The last lines that it wrote, on one line; a log may be gone by the time that somebody looks for it."""
        lines = [line.strip()[:_LINE_CHARACTERS] for line in self.tail().splitlines() if line.strip()]
        return " | ".join(lines[-_LAST_LINES:]) or "its log is empty"

    def kill(self) -> None:
        """End it and its process group at once, and collect it."""
        end(self.popen)


def spawn(
    name: str,
    argv: Sequence[str | Path],
    log: Path,
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: int = subprocess.DEVNULL,
    pass_fds: Sequence[int] = (),
) -> Child:
    """Start a program in a process group of its own. Call it from a thread that lives as long as the program should."""
    with log.open("ab") as out:
        begin_bytes = out.tell()
        popen = start(
            argv,
            stdin=stdin,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=cwd,
            pass_fds=tuple(pass_fds),
        )
    return Child(name, popen, log, begin_bytes)
