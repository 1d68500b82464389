"""What runs inside a node's own namespaces: control plane, containerd, kubelet and kube-proxy.

It is process 1 of its process namespace: when it ends, for whatever reason, the kernel ends every process of the node,
and with the last of them the mounts, interfaces and packet rules go. It ends when its standard input closes.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from powertrain_cli.cluster import node_cgroup, node_config, node_relay
from powertrain_cli.cluster.controlplane import ControlPlane, Settings
from powertrain_cli.cluster.errors import ClusterError
from powertrain_cli.cluster.events import Events
from powertrain_cli.cluster.node_config import API_PORT, BRIDGE, NODE_ADDRESS, NodeLayout
from powertrain_cli.cluster.node_programs import NodePrograms
from powertrain_cli.cluster.process import Child, spawn
from powertrain_cli.cluster.rest import NotFoundError, Rest

_NODE_DEADLINE_S = 90.0
_PLENTY_BYTES = 6 * 1024**3


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


def enter(plan: Plan) -> None:
    """Join the node's control groups, then become process 1 of fresh namespaces."""
    node_cgroup.enter([Path(group) for group in plan.cgroups])
    flags = ["--net", "--pid", "--mount", "--cgroup", "--uts", "--ipc", "--propagation", "private", "--mount-proc"]
    inner = [sys.executable, "-m", "powertrain_cli.cluster.node_inner", "run", sys.argv[2]]
    os.execvp("unshare", ["unshare", *flags, "--kill-child", *inner])


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(command)}: {done.stderr.strip()}")


def _overlay(plan: Plan) -> None:
    """Lay a writable layer of the node's own over the machine's folders that it would write to."""
    for folder in node_config.OVERLAID:
        own = (Path(plan.root), Path(plan.run))
        if not Path(folder).is_dir() or any(path.is_relative_to(folder) for path in own):
            continue
        upper = node_config.overlay_upper(Path(plan.root), folder)
        work = upper.with_name("work")
        for each in (upper, work):
            each.mkdir(parents=True)
        _do("mount", "-t", "overlay", "-o", f"lowerdir={folder},upperdir={upper},workdir={work}", "none", folder)


def _prepare_namespaces(plan: Plan) -> None:
    _overlay(plan)
    node_cgroup.mount_own_view()
    _do("ip", "link", "set", "lo", "up")
    # The kubelet wants an address that is not loopback, and packets to Services want a route before they are rewritten.
    _do("ip", "link", "add", BRIDGE, "type", "bridge")
    _do("ip", "address", "add", f"{NODE_ADDRESS}/24", "dev", BRIDGE)
    _do("ip", "link", "set", BRIDGE, "up")
    _do("ip", "route", "add", "default", "dev", BRIDGE)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    _lay_sysctls(Path(plan.root) / "sysctls")
    _mount_storage(Path(plan.root) / "node" / "containerd")


def _mount_storage(folder: Path) -> None:
    """Images in memory where there is plenty: thousands of files then need neither be written nor removed."""
    folder.mkdir(parents=True)
    available = next(line for line in Path("/proc/meminfo").read_text().splitlines() if "MemAvailable" in line)
    if int(available.split()[1]) * 1024 > _PLENTY_BYTES:
        _do("mount", "-t", "tmpfs", "-o", f"size={_PLENTY_BYTES // 2},mode=0700", "none", str(folder))


def _lay_sysctls(values: Path) -> None:
    """The kubelet insists on values of its own; it finds them in files, and the machine's stay as they are."""
    for name, value in node_config.KUBELET_SYSCTLS.items():
        fake = values / name
        fake.parent.mkdir(parents=True, exist_ok=True)
        fake.write_text(value)
        if Path("/proc/sys", name).exists():
            _do("mount", "--bind", str(fake), f"/proc/sys/{name}")


def _reap_orphans(children: list[Child]) -> None:
    """Process 1 inherits what its descendants leave behind, and must collect it."""
    while True:
        ours = {child.popen.pid for child in children}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] == "Z" and fields[1] == "1" and int(entry.name) not in ours:
                    os.waitpid(int(entry.name), os.WNOHANG)
            except (OSError, ValueError):
                continue
        time.sleep(1.0)


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
        rest = Rest(self._cluster.kubeconfig)
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
        kubelet = node_config.kubelet(layout, authority.pair.certificate, pair.certificate, pair.key)
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

    def _ready(self, rest: Rest) -> bool:
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
    threading.Thread(target=_reap_orphans, args=(cluster.children,), name="reaper", daemon=True).start()
    Node(plan, cluster, events).start()
    cluster.write_kubeconfig(cluster.kubeconfig, cluster.credentials.admin, f"https://127.0.0.1:{plan.port}")
    node_relay.start(listener, API_PORT)
    events.emit(ready=cluster.processes)


def _hold_lifeline() -> None:
    """End at once when the outside lets go, also in the middle of the start."""
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """`enter` changes the namespaces and starts `run` in them."""
    plan = Plan(**json.loads(sys.argv[2]))
    if sys.argv[1] == "enter":
        enter(plan)
    lifeline = threading.Thread(target=_hold_lifeline, name="lifeline", daemon=True)
    lifeline.start()
    events = Events()
    try:
        run(plan, events)
    except ClusterError as error:
        events.emit(error=str(error))
    except Exception as error:
        events.emit(error=f"{type(error).__name__}: {error}")
    else:
        lifeline.join()
    # Not a return: threads that serve must not hold up the end of the namespace.
    os._exit(0)


if __name__ == "__main__":
    main()
