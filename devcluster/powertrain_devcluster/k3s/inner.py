"""What runs inside the namespaces of a k3s cluster: a network, the machines on it, and a way in for kubectl.

It is process 1 of its process namespace, and the machines' namespaces are inside it: when it ends, for whatever reason,
the kernel ends every process of the cluster, and with the last of them mounts, interfaces and packet rules go. It ends
when its standard input closes.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from powertrain_devcluster import kubeconfig
from powertrain_devcluster.connection import connect
from powertrain_devcluster.controlplane.certificates import KeyPair
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.events import Events
from powertrain_devcluster.k3s import config
from powertrain_devcluster.k3s.config import API_PORT, Machine
from powertrain_devcluster.k3s.machine import MachinePlan
from powertrain_devcluster.node import cgroup as node_cgroup
from powertrain_devcluster.node import namespaces
from powertrain_devcluster.node import relay as node_relay
from powertrain_devcluster.node.namespaces import do
from powertrain_devcluster.process import start
from powertrain_kube import AwayError, KubeApi

_DEADLINE_S = 180.0
_POLL_S = 0.2
_NETWORK = "network0"


@dataclass(frozen=True)
class Plan:
    """What the outside asks for."""

    name: str
    root: str
    logs: str
    cgroups: list[str]
    listener: int
    port: int
    token: str
    programs: dict[str, Any]
    # Archives of images that every machine has from the beginning.
    images: list[str] = field(default_factory=list)


class Supervised:
    """A machine's process 1, and the last trouble that it told of."""

    def __init__(self, machine: Machine, plan: MachinePlan, log: Path) -> None:
        self.machine = machine
        self.trouble = ""
        with log.open("ab") as errors:
            self.popen = start(
                [sys.executable, "-m", "powertrain_devcluster.k3s.machine", "enter", json.dumps(asdict(plan))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def wire(self) -> None:
        """Join the machine to the network when it has namespaces, then let it go on."""
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        if "entered" not in self._hear(self.popen.stdout.readline()):
            raise ClusterError(self.trouble or f"{self.machine.name} ended before it had a network")
        port = f"port{self.machine.number}"
        do(*f"ip link add {port} type veth peer name eth0 netns {self.popen.pid}".split())
        do(*f"ip link set {port} master {_NETWORK} up".split())
        self.popen.stdin.write("wired\n")
        self.popen.stdin.flush()
        threading.Thread(target=self._listen, name=f"listen-{self.machine.name}", daemon=True).start()

    def _listen(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self._hear(line)

    def _hear(self, line: str) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(line) if line else {}
        if "error" in event:
            self.trouble = event["error"]
        elif "ended" in event:
            self.trouble = f"k3s on {self.machine.name} ended with code {event['ended']}: {event['said']}"
        return event


class K3s:
    """The machines of one cluster, from their start until all nodes are Ready."""

    def __init__(self, plan: Plan, events: Events) -> None:
        self._plan, self._events = plan, events
        self._root, self._logs = Path(plan.root), Path(plan.logs)
        # Outside of what is overlaid, so that everybody sees it.
        self._own_kubeconfig = self._root / "k3s.yaml"
        self._machines: list[Supervised] = []
        self._deadline_s = time.monotonic() + _DEADLINE_S

    def start(self) -> dict[str, int]:
        """Return when all nodes are Ready, with the numbers of the machines' first processes."""
        for machine in config.machines(self._plan.name):
            self._events.waiting(f"the machine {machine.name}")
            self._machines.append(self._boot(machine))
            self._machines[-1].wire()
        namespaces.reap_orphans(lambda: {each.popen.pid for each in self._machines})
        self._wait("the k3s server", lambda: self._own_credentials() is not None)
        self._write_kubeconfig(f"https://{config.machines(self._plan.name)[0].address}:{API_PORT}")
        rest = connect(self._root / "kubeconfig")
        self._wait("the nodes to be Ready", lambda: self._ready(rest) == {each.machine.name for each in self._machines})
        rest.close()
        self._write_kubeconfig(f"https://127.0.0.1:{self._plan.port}")
        return {f"k3s-{each.machine.role}": each.popen.pid for each in self._machines}

    def _boot(self, machine: Machine) -> Supervised:
        root = self._root / machine.role
        root.mkdir()
        plan = MachinePlan(
            number=machine.number,
            cluster=self._plan.name,
            root=str(root),
            logs=str(self._logs),
            cgroups=[str(group) for group in node_cgroup.create(machine.role)],
            kubeconfig=str(self._own_kubeconfig),
            token=self._plan.token,
            images=self._plan.images,
            programs=self._plan.programs,
        )
        return Supervised(machine, plan, self._logs / f"machine-{machine.role}.log")

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        self._events.waiting(what)
        while not condition():
            for each in self._machines:
                if each.trouble:
                    raise ClusterError(each.trouble)
            if time.monotonic() > self._deadline_s:
                raise ClusterError(f"gave up waiting for {what} after {_DEADLINE_S:.0f} s; logs: {self._logs}")
            time.sleep(_POLL_S)

    def _write_kubeconfig(self, server: str) -> None:
        """k3s' own holds certificates and key; ours names files, so that clients make no copies of them."""
        parts = self._own_credentials()
        assert parts is not None
        pki = self._root / "pki"
        pki.mkdir(mode=0o700, exist_ok=True)
        for name, text in parts.items():
            with os.fdopen(os.open(pki / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(base64.b64decode(text))
        pair = KeyPair(pki / "admin.crt", pki / "admin.key")
        kubeconfig.write(self._root / "kubeconfig", "powertrain", server, pki / "ca.crt", pair)

    def _own_credentials(self) -> dict[str, str] | None:
        path = self._own_kubeconfig
        return credentials_in(path.read_text(encoding="utf-8")) if path.is_file() else None

    def _ready(self, rest: KubeApi) -> set[str]:
        try:
            nodes = rest.get("/api/v1/nodes")["items"]
        except AwayError:
            return set()
        return {node["metadata"]["name"] for node in nodes if _is_ready(node)}


def credentials_in(text: str) -> dict[str, str] | None:
    """Return certificates and key of k3s' own kubeconfig by file name; None while k3s has not written them yet."""
    document = yaml.safe_load(text)
    if not document or not document.get("users") or not document.get("clusters"):
        return None
    user, cluster = document["users"][0]["user"], document["clusters"][0]["cluster"]
    return {
        "ca.crt": cluster["certificate-authority-data"],
        "admin.crt": user["client-certificate-data"],
        "admin.key": user["client-key-data"],
    }


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def run(plan: Plan, events: Events) -> None:
    """Start all of it, then hold it until the outside lets go."""
    node_cgroup.mount_own_view()
    do("ip", "link", "set", "lo", "up")
    do("ip", "link", "add", _NETWORK, "type", "bridge")
    do("ip", "address", "add", f"{config.GATEWAY}/24", "dev", _NETWORK)
    do("ip", "link", "set", _NETWORK, "up")
    listener = socket.socket(fileno=plan.listener)
    processes = K3s(plan, events).start()
    node_relay.start(listener, API_PORT, config.machines(plan.name)[0].address)
    events.emit(ready=processes)


def main() -> None:
    """`enter` changes the namespaces and starts `run` in them."""
    plan = Plan(**json.loads(sys.argv[2]))
    if sys.argv[1] == "enter":
        namespaces.enter("powertrain_devcluster.k3s.inner", plan.cgroups)
    namespaces.hold(run, plan)


if __name__ == "__main__":
    main()
