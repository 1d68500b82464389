"""The supervisor that `powertrain cluster up` leaves behind: it owns the cluster's processes until it is told to stop.

Its standard input is a lifeline: when it closes before the word `keep`, whoever asked for the cluster is gone and so
is the cluster. Its standard output carries one JSON event per line.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from powertrain_devcluster import state
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.events import Events
from powertrain_devcluster.k3s.cluster import K3sCluster, K3sPrograms
from powertrain_devcluster.node.node import NodeCluster, NodePrograms
from powertrain_devcluster.standin.kubelet import StandInKubelet
from powertrain_devcluster.state import ClusterState

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopRequested(BaseException):
    """Somebody wants the cluster to end; not an Exception, so that no handler takes it for an error."""


@dataclass(frozen=True)
class Request:
    """What to start."""

    name: str
    folder: str
    binaries: dict[str, str]
    simulate_nodes: int = 0
    node: bool = False
    # What a real node, or k3s, runs on.
    programs: dict[str, Any] = field(default_factory=dict)
    k3s: bool = False


class Cluster(Protocol):
    """What the supervisor needs to know about whatever it runs."""

    root: Path
    logs: Path
    kubeconfig: Path
    server: str
    nodes: list[str]

    @property
    def processes(self) -> dict[str, int]: ...

    def environment(self) -> dict[str, str]: ...


def _stop(number: int, frame: FrameType | None) -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise StopRequested


def _hold_lifeline() -> None:
    if sys.stdin.readline().strip() != "keep":
        os.kill(os.getpid(), signal.SIGTERM)


def _run(request: Request, events: Events) -> None:
    folder = Path(request.folder)
    with state.claim(folder), contextlib.ExitStack() as stack:
        running = ClusterState(request.name, os.getpid(), "starting", request.node, request.simulate_nodes, request.k3s)
        running = replace(running, logs=str(folder / "logs"))
        state.write(folder, running)
        cluster: Cluster = stack.enter_context(_open(request, folder, events))
        nodes: list[str] = list(cluster.nodes)
        running = replace(running, server=cluster.server, kubeconfig=str(cluster.kubeconfig))
        if request.simulate_nodes:
            nodes += stack.enter_context(_stand_in(request, cluster, events)).node_names
        running = replace(running, phase="ready", nodes=nodes, processes=cluster.processes)
        state.write(folder, running)
        events.emit(ready=asdict(running))
        signal.pause()


def _open(request: Request, folder: Path, events: Events) -> contextlib.AbstractContextManager[Cluster]:
    if request.k3s:
        return K3sCluster(K3sPrograms(**request.programs), folder, name=request.name, progress=events)
    if request.node:
        return NodeCluster(NodePrograms(**request.programs), folder, name=f"{request.name}-node", progress=events)
    binaries = {name: Path(path) for name, path in request.binaries.items()}
    return ControlPlane(binaries, folder, progress=events)


def _stand_in(request: Request, cluster: Cluster, events: Events) -> StandInKubelet:
    names = [f"{request.name}-{index}" for index in range(request.simulate_nodes)]
    return StandInKubelet(
        cluster.kubeconfig,
        names,
        cluster.root / "nodes",
        logs=cluster.logs,
        env=cluster.environment(),
        # The objects go with the cluster, so nobody need delete them.
        remove_nodes=False,
        progress=events,
    )


def main() -> None:
    """Run one cluster from its start to its end."""
    for number in _SIGNALS:
        signal.signal(number, _stop)
    events = Events()
    threading.Thread(target=_hold_lifeline, name="lifeline", daemon=True).start()
    try:
        _run(Request(**json.loads(sys.argv[1])), events)
    except StopRequested:
        events.emit(stopped=True)
    except ClusterError as error:
        events.emit(error=str(error), exit_code=error.exit_code)
    except OSError as error:
        problem = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        events.emit(error=problem, exit_code=ClusterError.exit_code)
    except Exception as error:
        events.emit(error=f"{type(error).__name__}: {error}", exit_code=ClusterError.exit_code)


if __name__ == "__main__":
    main()
