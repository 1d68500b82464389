"""Cleans up after a cluster, also when its supervisor was killed without a chance to do so.

A janitor is a small process of its own session that blocks on a pipe. When the pipe closes, by a stop or by the death
of the supervisor, it ends every process that carries the cluster's mark and removes its control groups and files.
There is one path of cleaning up, so the rare case is as tested as the common one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from powertrain_cli.cluster.process import MARKER

_PROC = Path("/proc")
_DEADLINE_S = 60.0


@dataclass(frozen=True)
class Chores:
    """What must be gone: marked processes (none without a mark), control groups and folders."""

    marker: str
    remove: list[str] = field(default_factory=list)
    cgroups: list[str] = field(default_factory=list)


def marked_processes(marker: str) -> list[int]:
    """Processes whose environment carries the mark; a process inherits it from its parent."""
    needle = f"{MARKER}={marker}".encode()
    found = []
    for entry in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if needle in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def _end_processes(marker: str, deadline_s: float) -> None:
    while (found := marked_processes(marker)) and time.monotonic() < deadline_s:
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _members(folder: Path) -> list[int]:
    pids: list[int] = []
    for procs in folder.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            pids += [int(pid) for pid in procs.read_text().split()]
    return pids


def _remove_cgroup(folder: Path, deadline_s: float) -> None:
    """Members of a dying control group take a moment to leave it, so removal is tried until it works."""
    while folder.is_dir() and time.monotonic() < deadline_s:
        for pid in _members(folder):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for inner, _, _ in os.walk(folder, topdown=False):
            with contextlib.suppress(OSError):
                Path(inner).rmdir()
        time.sleep(0.02)


def _remove_folder(path: str, deadline_s: float) -> None:
    while os.path.lexists(path):
        shutil.rmtree(path, ignore_errors=True)
        if time.monotonic() >= deadline_s:
            break
        time.sleep(0.02)
    # The folder of all clusters goes with the last cluster; it is not empty while another one runs.
    if Path(path).parent.name == "clusters":
        with contextlib.suppress(OSError):
            Path(path).parent.rmdir()


def clean(chores: Chores) -> None:
    """Do all chores; each is safe to repeat."""
    deadline_s = time.monotonic() + _DEADLINE_S
    if chores.marker:
        _end_processes(chores.marker, deadline_s)
    for group in chores.cgroups:
        _remove_cgroup(Path(group), deadline_s)
    for folder in chores.remove:
        _remove_folder(folder, deadline_s)


class Janitor:
    """The handle that a supervisor keeps; `finish` starts the cleaning and waits for its end."""

    def __init__(self, chores: Chores) -> None:
        env = {key: value for key, value in os.environ.items() if key != MARKER}
        self._popen = subprocess.Popen(
            [sys.executable, "-m", __name__, json.dumps(asdict(chores))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env=env,
        )

    def finish(self) -> None:
        if self._popen.stdin is not None:
            self._popen.stdin.close()
        self._popen.wait()


def main() -> None:
    """Wait for the end of the supervisor, then clean."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    chores = Chores(**json.loads(sys.argv[1]))
    sys.stdin.buffer.read()
    clean(chores)


if __name__ == "__main__":
    main()
