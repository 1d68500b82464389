"""What is known on disk about a running cluster: who supervises it, where it answers, where its logs are."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from powertrain_cli.cluster.errors import ClusterError

_LOCK = "lock"
_STATE = "cluster.json"
# How long the janitor of a killed supervisor may still be at work in the folder.
_JANITOR_S = 10.0


@dataclass(frozen=True)
class ClusterState:
    """Written by the supervisor, read by the verbs."""

    name: str
    pid: int
    phase: str
    server: str = ""
    kubeconfig: str = ""
    logs: str = ""
    nodes: list[str] = field(default_factory=list)
    processes: dict[str, int] = field(default_factory=dict)


def write(folder: Path, state: ClusterState) -> None:
    """Replace the state in one step, so that a reader never sees half of it."""
    scratch = folder / f".{_STATE}"
    scratch.write_text(json.dumps(asdict(state), indent=2))
    scratch.rename(folder / _STATE)


def read(folder: Path) -> ClusterState | None:
    """The last state written, if there is any."""
    try:
        return ClusterState(**json.loads((folder / _STATE).read_text()))
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextlib.contextmanager
def claim(folder: Path) -> Iterator[IO[str]]:
    """Hold the cluster's folder; the kernel lets go of it when the supervisor dies, however it dies."""
    if folder.exists() and not is_held(folder) and not wait_until(lambda: not folder.exists(), _JANITOR_S):
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ClusterError(f"cluster {folder.name!r} is being started or is up already") from error
        try:
            yield lock
        finally:
            # The cluster's janitor removes all of it; this is for an end before there was one.
            shutil.rmtree(folder, ignore_errors=True)


def is_held(folder: Path) -> bool:
    """Whether a supervisor lives."""
    try:
        with (folder / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    return False


def wait_until(condition: Callable[[], bool], seconds: float, poll_s: float = 0.05) -> bool:
    """Whether the condition came true in time."""
    deadline_s = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(poll_s)
    return True


def alive(pid: int) -> bool:
    """Whether a process of this number runs and is not merely waiting to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return not Path("/proc/self").exists()
