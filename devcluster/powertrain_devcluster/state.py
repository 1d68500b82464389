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

from powertrain_devcluster import janitor
from powertrain_devcluster.errors import ClusterError

_LOCK = "lock"
_STATE = "cluster.json"
# Whoever asks whether a folder is held holds it for a moment himself.
_ASKED_S = 1.0


@dataclass(frozen=True)
class ClusterState:
    """Written by the supervisor, read by the verbs."""

    name: str
    pid: int
    phase: str
    # What it was asked to have.
    node: bool = False
    simulate_nodes: int = 0
    k3s: bool = False
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
    with contextlib.ExitStack() as stack:
        # The cluster's janitor removes all of it; this is for an end before there was one, at whatever point.
        stack.callback(_remove_unheld, folder)
        lock = _lock(folder, stack)
        # What a cluster left whose janitor was killed as well.
        for path in folder.iterdir():
            if path.name != _LOCK:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        yield lock


def _lock(folder: Path, stack: contextlib.ExitStack) -> IO[str]:
    """The locked file of a folder that nobody removes any more; the stack lets go of it."""
    while True:
        if not is_held(folder):
            wait_for_janitor(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            lock = stack.enter_context((folder / _LOCK).open("w"))
            if not _take(lock):
                raise ClusterError(f"cluster {folder.name!r} is being started or is up already")
            if _in_place(lock, folder):
                return lock


def _take(lock: IO[str]) -> bool:
    """Whether nobody else holds it; it is ours then."""

    def has_lock() -> bool:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    return wait_until(has_lock, _ASKED_S, poll_s=0.01)


def _in_place(lock: IO[str], folder: Path) -> bool:
    """Whether it is still the folder's: a janitor may have removed what we opened before we had it."""
    return os.path.samestat(os.fstat(lock.fileno()), (folder / _LOCK).stat())


def _remove_unheld(folder: Path) -> None:
    """Remove a folder that we let go of, unless somebody else has taken it since."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), (folder / _LOCK).open() as lock:
        if _take(lock) and _in_place(lock, folder):
            shutil.rmtree(folder, ignore_errors=True)


def wait_for_janitor(folder: Path) -> None:
    """Return when the janitor of a dead supervisor has cleaned up, or there is none."""
    wait_until(lambda: not janitor.at_work(folder), janitor.DEADLINE_S)


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
