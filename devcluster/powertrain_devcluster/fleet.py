"""A whole PowerTrain beside a control plane: the kinds, the operator, and simulated Jetsons with their agents."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from powertrain.api.resources import POWER_NODES, RESOURCES
from powertrain.api.schema import crd
from powertrain_devcluster.builds.progress import Progress, Silent
from powertrain_devcluster.connection import connect
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.process import Child, spawn
from powertrain_devcluster.standin.kubelet import StandInKubelet
from powertrain_kube import AwayError, ConflictError, KubeApi, NotFoundError

Object = dict[str, Any]
NAMESPACE = "powertrain-system"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Where a pod of a real cluster finds a simulated board: a hostPath; here the node itself is the board.
BOARD_PATH = "var/lib/powertrain/simulated"
DEVICE_LABEL = "powertrain.io/device"
_POLL_S = 0.1
_START_S = 60.0


@dataclass(frozen=True)
class FleetSettings:
    """What a fleet is made of: a device per node name, and how much faster than real time they live."""

    boards: Mapping[str, str]
    time_scale: float = 1.0
    namespace: str = NAMESPACE
    operator_options: Sequence[str] = ()
    agent_options: Sequence[str] = ()
    labels: Mapping[str, str] | None = None
    seed: int = 0
    # Nodes without an agent: what trains without a power limit, such as a batch study, runs there.
    servers: Sequence[str] = ()


class Fleet:
    """A context manager; inside it the boards have joined and the operator serves. Its processes end with it.

    `identity` gives the kubeconfig of the operator (asked with an empty text) or of a node's agent, once its Node is
    there; without it all of them act as the administrator.
    """

    def __init__(
        self,
        kubeconfig: Path,
        settings: FleetSettings,
        root: Path,
        *,
        logs: Path,
        env: Mapping[str, str] | None = None,
        identity: Callable[[str], Path] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.settings = settings
        self.kubeconfig = kubeconfig
        self.logs = logs
        self.operator: Child | None = None
        self.agents: dict[str, Child] = {}
        self._env = dict(os.environ if env is None else env)
        self._identity = identity or (lambda _: kubeconfig)
        self._progress = progress or Silent()
        self._rest = connect(kubeconfig)
        self.nodes = StandInKubelet(
            kubeconfig,
            [*settings.boards, *settings.servers],
            root,
            logs=logs,
            labels=settings.labels,
            node_labels={name: {DEVICE_LABEL: device} for name, device in settings.boards.items()},
            env=self._env,
            extra_env={"POWERTRAIN_TIME_SCALE": f"{settings.time_scale:g}"},
            restart_backoff_s=1.0,
            progress=progress,
        )

    def __enter__(self) -> Fleet:
        with contextlib.ExitStack() as stack:
            stack.callback(self._end)
            self._progress.waiting("the kinds to be served")
            install_kinds(self._rest, _START_S)
            self._make_namespace()
            stack.enter_context(self.nodes)
            self.start_operator()
            for name in self.settings.boards:
                self.start_agent(name)
            self._wait_for_boards()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    # Processes

    def start_operator(self, *more: str) -> Child:
        """Start an operator; the one that `operator` names is replaced, not ended."""
        options = [
            "--kubeconfig",
            str(self._identity("")),
            "--namespace",
            self.settings.namespace,
            "--metrics-port",
            "0",
        ]
        command = [sys.executable, "-m", "powertrain_operator.main", *options, *self.settings.operator_options, *more]
        self.operator = self._spawn("operator", command)
        return self.operator

    def start_agent(self, name: str) -> Child:
        """Start the agent of a node on its simulated board."""
        root = self.nodes.node_root(name)
        board = root / BOARD_PATH
        if not board.is_symlink():
            board.parent.mkdir(parents=True, exist_ok=True)
            board.symlink_to(root)
        command = [sys.executable, "-m", "powertrain_agent.main", "--simulate", self.settings.boards[name]]
        command += ["--host-root", str(root), "--time-scale", f"{self.settings.time_scale:g}"]
        command += ["--seed", str(self.settings.seed), "--kubeconfig", str(self._identity(name)), "--node-name", name]
        command += ["--namespace", self.settings.namespace, "--metrics-port", "0", *self.settings.agent_options]
        self.agents[name] = self._spawn(f"agent-{name}", command)
        return self.agents[name]

    def _spawn(self, name: str, command: Sequence[str]) -> Child:
        return spawn(name, command, self.logs / f"{name}.log", env=self._env)

    def _end(self) -> None:
        for child in [*self.agents.values(), *([self.operator] if self.operator else [])]:
            child.kill()
        self._rest.close()

    # The start

    def _make_namespace(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.settings.namespace}}
        with contextlib.suppress(ConflictError):
            self._rest.create("/api/v1/namespaces", body)
        # k3s makes it too; pods of the stand-in need no handler.
        runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}}
        with contextlib.suppress(ConflictError):
            self._rest.create("/apis/node.k8s.io/v1/runtimeclasses", {**runtime, "handler": "nvidia"})

    def _wait_for_boards(self) -> None:
        """Wait until every agent has reported what its board is."""
        end_s = time.monotonic() + _START_S
        waiting = set(self.settings.boards)
        while waiting:
            self._progress.waiting(f"agents to join ({len(self.settings.boards) - len(waiting)} of {len(self.agents)})")
            for child in [*self.agents.values(), *([self.operator] if self.operator else [])]:
                if not child.alive:
                    raise ClusterError(f"{child.name} ended with code {child.popen.returncode}: {child.last_words()}")
            power_nodes = self._rest.get(POWER_NODES.path())["items"]
            waiting -= {each["metadata"]["name"] for each in power_nodes if (each.get("status") or {}).get("device")}
            if waiting and time.monotonic() > end_s:
                last_words = self.agents[min(waiting)].last_words()
                raise ClusterError(f"no report of {', '.join(sorted(waiting))} within {_START_S:g} s: {last_words}")
            if waiting:
                time.sleep(_POLL_S)


def install_kinds(rest: KubeApi, deadline_s: float) -> None:
    """Make the API server serve our kinds, or the present version of them, and wait until it does."""
    for resource in RESOURCES:
        # The schema's parts share objects; a copy without that is what JSON makes of it.
        rest.apply(f"{CRDS}/{resource.crd_name}", json.loads(json.dumps(crd(resource))), manager="powertrain-cli")
    end_s = time.monotonic() + deadline_s
    for resource in RESOURCES:
        while not is_served(rest, resource.path()):
            if time.monotonic() > end_s:
                raise ClusterError(f"{resource.crd_name} is not served after {deadline_s:g} s")
            time.sleep(_POLL_S)


def is_served(rest: KubeApi, path: str) -> bool:
    """Say whether objects of a kind can be had now."""
    try:
        rest.get(path)
    except (NotFoundError, AwayError):
        return False
    return True
