"""Child processes that cannot outlive their parent, each with a log of its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MARKER = "POWERTRAIN_CLUSTER_ID"
_PR_SET_PDEATHSIG = 1
_TAIL_BYTES = 16 * 1024
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent() -> Callable[[], None] | None:
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


@dataclass(frozen=True)
class Child:
    """A started program and where it writes."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    def tail(self) -> str:
        """The end of its log."""
        try:
            with self.log.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - _TAIL_BYTES))
                return file.read().decode(errors="replace")
        except OSError:
            return ""

    def kill(self) -> None:
        """End it and its process group at once, and collect it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()


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
        popen = subprocess.Popen(
            [str(part) for part in argv],
            stdin=stdin,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - one prctl, no Python objects of other threads
            pass_fds=tuple(pass_fds),
        )
    return Child(name, popen, log)
