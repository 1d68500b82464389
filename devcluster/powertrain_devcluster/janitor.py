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
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from powertrain_devcluster.process import MARKER

_PROC = Path("/proc")
# What takes longer than this does not end at all.
DEADLINE_S = 60.0


@dataclass(frozen=True)
class Chores:
    """What must be gone: marked processes (none without a mark), control groups and folders."""

    marker: str
    remove: list[str] = field(default_factory=list)
    cgroups: list[str] = field(default_factory=list)


def marked_processes(marker: str) -> list[int]:
    """Processes whose environment carries the mark; a process inherits it from its parent."""
    needle = f"{MARKER}={marker}".encode()
    processes = []
    for entry in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if needle in (entry / "environ").read_bytes().split(b"\0"):
                processes.append(int(entry.name))
    return processes


def _members(groups: Iterable[Path]) -> list[int]:
    """Processes in these control groups and below; os.walk passes over what vanishes while it looks."""
    pids: list[int] = []
    for group in groups:
        for folder, _, _ in os.walk(group):
            with contextlib.suppress(OSError):
                pids += [int(pid) for pid in Path(folder, "cgroup.procs").read_text().split()]
    return pids


def _thaw(groups: Iterable[Path]) -> None:
    """With control groups v1 a frozen process dies only when it is thawed, and runc freezes what it is about to end."""
    for group in groups:
        for folder, _, files in os.walk(group):
            if "freezer.state" in files:
                with contextlib.suppress(OSError):
                    Path(folder, "freezer.state").write_text("THAWED")


def _end_processes(marker: str, groups: Sequence[Path], deadline_s: float) -> None:
    while time.monotonic() < deadline_s:
        _thaw(groups)
        processes = {*(marked_processes(marker) if marker else ()), *_members(groups)}
        if not processes:
            return
        for pid in processes:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _remove_cgroups(groups: Iterable[Path], deadline_s: float) -> None:
    """A dying process takes a moment to leave its control group, so removal is tried until it works."""
    for group in groups:
        while group.is_dir():
            for folder, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
            if time.monotonic() >= deadline_s:
                break
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


def clean(chores: Chores, deadline_s: float = DEADLINE_S) -> None:
    """Do all chores; each is safe to repeat, and to do while another process does the same."""
    end_s = time.monotonic() + deadline_s
    groups = [Path(group) for group in chores.cgroups]
    _end_processes(chores.marker, groups, end_s)
    _remove_cgroups(groups, end_s)
    for folder in chores.remove:
        _remove_folder(folder, end_s)


def at_work(folder: Path) -> bool:
    """Whether a janitor of a cluster in this folder lives; without its supervisor it is cleaning or about to."""
    needle = json.dumps(str(folder)).encode()
    for entry in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            if __name__.encode() in command.split(b"\0") and needle in command:
                return True
    return False


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
