"""Starts, finds and ends supervisors from the outside: what the verbs up and down do."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from powertrain_devcluster import state
from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.daemon import Request
from powertrain_devcluster.errors import BadInputError, ClusterError
from powertrain_devcluster.state import ClusterState

_STOP_S = 60.0
# Longer than any start takes that does not give up by itself.
_JOIN_S = 300.0


@dataclass(frozen=True)
class Nodes:
    """The nodes that somebody asks for: a real one, those of k3s, simulated ones."""

    node: bool = False
    k3s: bool = False
    simulated: int = 0

    def __post_init__(self) -> None:
        if self.k3s and (self.node or self.simulated):
            raise BadInputError("--k3s has nodes of its own: use it without --node and --simulate-nodes")


def up(request: Request, progress: Progress) -> ClusterState:
    """Start a supervisor and return when its cluster is ready; on any way out but that, nothing is left."""
    popen = subprocess.Popen(
        [sys.executable, "-m", "powertrain_devcluster.daemon", json.dumps(asdict(request))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        cwd="/",
    )
    assert popen.stdin is not None
    assert popen.stdout is not None
    try:
        ready = _follow(popen.stdout, progress)
        popen.stdin.write("keep\n")
        popen.stdin.flush()
    except BaseException:
        progress.waiting("the cluster to be taken down again")
        # A closed lifeline ends the supervisor at whatever point it is.
        popen.stdin.close()
        popen.wait()
        raise
    finally:
        popen.stdout.close()
    popen.stdin.close()
    # It is meant to outlive us; without this, Popen would warn about a child that still runs.
    popen.returncode = 0
    return ready


def _follow(lines: IO[str], progress: Progress) -> ClusterState:
    for line in lines:
        event = json.loads(line)
        if "waiting" in event:
            progress.waiting(event["waiting"])
        elif "ready" in event:
            return ClusterState(**event["ready"])
        elif event.get("exit_code") == BadInputError.exit_code:
            raise BadInputError(event["error"])
        elif "error" in event:
            raise ClusterError(event["error"])
    raise ClusterError("the supervisor was stopped while the cluster was starting")


def running(folder: Path) -> ClusterState:
    """The state of the cluster in this folder; one clear line when there is none."""
    if not state.is_held(folder):
        raise ClusterError(f"no cluster {folder.name!r} is up; start it with: powertrain cluster up")
    cluster = state.read(folder)
    if cluster is None:
        raise ClusterError(f"cluster {folder.name!r} is only beginning to start; ask again in a moment")
    return cluster


def join(folder: Path, nodes: Nodes, progress: Progress) -> ClusterState:
    """Return when the cluster that somebody else starts or has started is ready; refused if it has other nodes."""
    state.wait_until(lambda: state.read(folder) is not None or not state.is_held(folder), _JOIN_S)
    _check_nodes(running(folder), nodes)
    if not _start_is_over(folder):
        progress.waiting(f"cluster {folder.name}, which another command starts")
    state.wait_until(lambda: _start_is_over(folder), _JOIN_S)
    cluster = running(folder)
    if cluster.phase != "ready":
        raise ClusterError(f"cluster {folder.name!r} is not ready after {_JOIN_S:.0f} s; look at {cluster.logs}")
    return cluster


def _start_is_over(folder: Path) -> bool:
    cluster = state.read(folder)
    return cluster is None or cluster.phase == "ready" or not state.is_held(folder)


def _check_nodes(cluster: ClusterState, nodes: Nodes) -> None:
    """What was not asked for may be there."""
    lacking = (nodes.node and not cluster.node) or (nodes.k3s and not cluster.k3s)
    if lacking or nodes.simulated not in (0, cluster.simulate_nodes):
        real = "k3s" if cluster.k3s else "a real node" if cluster.node else "no real node"
        raise BadInputError(
            f"cluster {cluster.name!r} is up with {real} and {cluster.simulate_nodes} simulated ones; nodes can't be "
            f"changed: end it first (powertrain cluster down --name {cluster.name}) or choose another --name"
        )


def down(folder: Path) -> bool:
    """End the cluster and remove all of it; returns whether there was one."""
    if not state.is_held(folder):
        # The supervisor was killed: its janitor is at work or done, or was killed as well.
        existed = folder.exists()
        state.wait_for_janitor(folder)
        shutil.rmtree(folder, ignore_errors=True)
        return existed
    state.wait_until(lambda: state.read(folder) is not None, 5.0)
    cluster = state.read(folder)
    if cluster is not None:
        _end(cluster.pid, folder)
    if folder.exists():
        raise ClusterError(f"cluster {folder.name!r} did not end within {_STOP_S:.0f} s; look at {folder}")
    return True


def _end(pid: int, folder: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if state.wait_until(lambda: not folder.exists(), _STOP_S):
            return
