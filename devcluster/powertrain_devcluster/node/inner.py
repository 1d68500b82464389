"""What runs inside a node's own namespaces: control plane, containerd, kubelet and kube-proxy.

It is process 1 of its process namespace: when it ends, for whatever reason, the kernel ends every process of the node,
and with the last of them the mounts, interfaces and packet rules go. It ends when its standard input closes.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from powertrain_devcluster.connection import connect
from powertrain_devcluster.controlplane.control_plane import ControlPlane, Settings
from powertrain_devcluster.events import Events
from powertrain_devcluster.node import cgroup as node_cgroup
from powertrain_devcluster.node import config as node_config
from powertrain_devcluster.node import namespaces
from powertrain_devcluster.node import relay as node_relay
from powertrain_devcluster.node.config import API_PORT, BRIDGE, NODE_ADDRESS, NodeLayout
from powertrain_devcluster.node.namespaces import do
from powertrain_devcluster.node.programs import NodePrograms
from powertrain_devcluster.process import Child, spawn
from powertrain_kube import KubeApi, NotFoundError

_NODE_DEADLINE_S = 90.0


@dataclass(frozen=True)
class Plan:
    """What the outside asks for."""

    name: str
    root: str
    run: str
    logs: str
    cgroups: list[str]
    listener: int
    port: int
    programs: dict[str, Any]
    evict_below: str = ""


def _prepare_namespaces(plan: Plan) -> None:
    namespaces.overlay(Path(plan.root), node_config.OVERLAID, (Path(plan.root), Path(plan.run)))
    node_cgroup.mount_own_view()
    do("ip", "link", "set", "lo", "up")
    # The kubelet wants an address that is not loopback, and packets to Services want a route before they are rewritten.
    do("ip", "link", "add", BRIDGE, "type", "bridge")
    do("ip", "address", "add", f"{NODE_ADDRESS}/24", "dev", BRIDGE)
    do("ip", "link", "set", BRIDGE, "up")
    do("ip", "route", "add", "default", "dev", BRIDGE)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    namespaces.lay_sysctls(Path(plan.root) / "sysctls")
    namespaces.mount_storage(Path(plan.root) / "node" / "containerd")


class Node:
    """containerd, kubelet and kube-proxy beside a control plane in the same namespaces."""

    def __init__(self, plan: Plan, cluster: ControlPlane, events: Events) -> None:
        self._plan = plan
        self._cluster = cluster
        self._events = events
        self._programs = NodePrograms(**plan.programs)
        self._env = self._programs.environment(cluster.environment())
        root = Path(plan.root) / "node"
        self._layout = NodeLayout(plan.name, root, Path(plan.run), Path(self._programs.cni))
        self._deadline_s = time.monotonic() + _NODE_DEADLINE_S

    def start(self) -> None:
        """Return when the node is Ready."""
        self._write_files()
        runtime = self._spawn("containerd", "--config", str(self._layout.root / "containerd.toml"))
        self._cluster.wait("containerd", self._layout.socket.exists, runtime, self._deadline_s)
        self._import(runtime)
        kubelet = self._spawn_kubelet()
        self._spawn("kube-proxy", f"--config={self._layout.root / 'kube-proxy.yaml'}")
        rest = connect(self._cluster.kubeconfig)
        self._cluster.wait("the node to be Ready", lambda: self._ready(rest), kubelet, self._deadline_s)
        rest.close()

    def _write_files(self) -> None:
        layout, credentials = self._layout, self._cluster.credentials
        (layout.root / "cni").mkdir(parents=True)
        (layout.root / "resolv.conf").write_text("")
        (layout.root / "containerd.toml").write_text(node_config.containerd(layout))
        (layout.root / "cni" / "10-powertrain.conflist").write_text(node_config.cni(layout))
        authority = credentials.authority
        hosts = (NODE_ADDRESS, layout.name)
        pair = authority.issue("kubelet", f"system:node:{layout.name}", "system:nodes", hosts=hosts)
        proxy = authority.issue("kube-proxy", "system:kube-proxy")
        self._cluster.write_kubeconfig(layout.root / "kubelet.kubeconfig", pair)
        self._cluster.write_kubeconfig(layout.root / "kube-proxy.kubeconfig", proxy)
        kubelet = node_config.kubelet(
            layout, authority.pair.certificate, pair.certificate, pair.key, self._plan.evict_below
        )
        (layout.root / "kubelet.yaml").write_text(kubelet)
        kube_proxy = node_config.kube_proxy(layout, layout.root / "kube-proxy.kubeconfig")
        (layout.root / "kube-proxy.yaml").write_text(kube_proxy)

    def _spawn(self, name: str, *arguments: str) -> Child:
        kubernetes = self._programs.kubernetes
        program = kubernetes[name] if name in kubernetes else self._programs.program(name)
        child = spawn(name, [program, *arguments], self._cluster.logs / f"{name}.log", env=self._env)
        self._cluster.children.append(child)
        return child

    def _spawn_kubelet(self) -> Child:
        root = self._layout.root
        return self._spawn(
            "kubelet",
            f"--config={root / 'kubelet.yaml'}",
            f"--kubeconfig={root / 'kubelet.kubeconfig'}",
            # Below it the kubelet makes sockets, whose paths must be short.
            f"--root-dir={self._layout.run / 'kubelet'}",
            f"--cert-dir={root / 'kubelet-pki'}",
            f"--hostname-override={self._layout.name}",
            f"--node-ip={NODE_ADDRESS}",
        )

    def _import(self, runtime: Child) -> None:
        def imported() -> bool:
            ctr = [str(self._programs.program("ctr")), "--address", str(self._layout.socket), "--namespace", "k8s.io"]
            command = [*ctr, "images", "import", self._programs.pause]
            return subprocess.run(command, env=self._env, capture_output=True, check=False).returncode == 0

        self._cluster.wait("the pause image", imported, runtime, self._deadline_s)

    def _ready(self, rest: KubeApi) -> bool:
        try:
            conditions = rest.get(f"/api/v1/nodes/{self._layout.name}")["status"].get("conditions") or []
        except NotFoundError:
            return False
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def run(plan: Plan, events: Events) -> None:
    """Start all of it, then hold it until the outside lets go."""
    _prepare_namespaces(plan)
    listener = socket.socket(fileno=plan.listener)
    settings = Settings(node_address=NODE_ADDRESS, fixed_api_port=API_PORT, cleans_up=False)
    kubernetes = {name: Path(path) for name, path in plan.programs["kubernetes"].items()}
    cluster = ControlPlane(kubernetes, Path(plan.root), logs=Path(plan.logs), progress=events, settings=settings)
    cluster.start()
    namespaces.reap_orphans(lambda: {child.popen.pid for child in cluster.children})
    Node(plan, cluster, events).start()
    cluster.write_kubeconfig(cluster.kubeconfig, cluster.credentials.admin, f"https://127.0.0.1:{plan.port}")
    node_relay.start(listener, API_PORT)
    events.emit(ready=cluster.processes)


def main() -> None:
    """`enter` changes the namespaces and starts `run` in them."""
    plan = Plan(**json.loads(sys.argv[2]))
    if sys.argv[1] == "enter":
        namespaces.enter("powertrain_devcluster.node.inner", plan.cgroups)
    namespaces.hold(run, plan)


if __name__ == "__main__":
    main()
