"""One machine of a k3s cluster: process 1 of its namespaces, which starts k3s and starts it again when it ends.

It tells the process that started it, in a JSON event per line, when its network can be wired, and reads `wired` when
that is done. It ends when its standard input closes, and all of the machine with it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from powertrain_devcluster.events import Events
from powertrain_devcluster.k3s import config
from powertrain_devcluster.k3s.config import Machine
from powertrain_devcluster.k3s.programs import K3sPrograms
from powertrain_devcluster.node import cgroup as node_cgroup
from powertrain_devcluster.node import namespaces
from powertrain_devcluster.node.namespaces import do
from powertrain_devcluster.process import Child, spawn

# As long as a service manager would wait, shortened.
_RESTART_S = 1.0
# NVIDIA's runtime on a Jetson wraps runc; runc under its name lets k3s offer the RuntimeClass without a GPU.
_NVIDIA_RUNTIME = "nvidia-container-runtime"


@dataclass(frozen=True)
class MachinePlan:
    """What the cluster asks of one machine."""

    number: int
    cluster: str
    root: str
    logs: str
    cgroups: list[str]
    kubeconfig: str
    token: str
    images: list[str]
    programs: dict[str, Any]

    @property
    def machine(self) -> Machine:
        return config.machines(self.cluster)[self.number]

    @property
    def others(self) -> list[Machine]:
        return [each for each in config.machines(self.cluster) if each.number != self.number]


def _mount(plan: MachinePlan) -> None:
    root = Path(plan.root)
    namespaces.overlay(root, config.OVERLAID, (root,))
    node_cgroup.mount_own_view()
    namespaces.lay_sysctls(root / "sysctls")
    # Not in an overlay: containerd makes overlays of its own below it, and whoever is outside can put images there.
    data, there = root / "rancher", config.DATA.parent
    (data / "k3s").mkdir(parents=True)
    there.mkdir()
    do("mount", "--bind", str(data), str(there))
    namespaces.mount_storage(config.DATA / "agent/containerd")


def _write_files(plan: MachinePlan, programs: K3sPrograms) -> Path:
    """Configuration and images where k3s looks for them; returns a folder for its PATH."""
    etc = config.DATA / "agent/etc/containerd"
    etc.mkdir(parents=True)
    drop_in = etc / "powertrain.toml"
    drop_in.write_text(config.containerd_drop_in(Path(programs.cni)))
    (etc / "config-v3.toml.tmpl").write_text(config.containerd_template(drop_in))
    networks = Path("/etc/cni/net.d")
    networks.mkdir(parents=True, exist_ok=True)
    (networks / "10-powertrain.conflist").write_text(config.cni(plan.machine))
    config.IMAGES.mkdir(parents=True)
    for index, archive in enumerate([programs.pause, *plan.images]):
        (config.IMAGES / f"{index}-{Path(archive).parent.name}.tar").symlink_to(archive)
    runtimes = Path(plan.root) / "runtimes"
    runtimes.mkdir()
    (runtimes / _NVIDIA_RUNTIME).symlink_to(programs.program("runc"))
    return runtimes


def _join_network(plan: MachinePlan) -> None:
    machine = plan.machine
    socket.sethostname(machine.name)
    do("ip", "link", "set", "lo", "up")
    do("ip", "address", "add", f"{machine.address}/24", "dev", "eth0")
    do("ip", "link", "set", "eth0", "up")
    do("ip", "route", "add", "default", "via", config.GATEWAY)
    for other in plan.others:
        do("ip", "route", "add", other.pods, "via", other.address)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


class Service:
    """Keeps k3s running, as a service manager does; containers outlive it."""

    def __init__(self, plan: MachinePlan, programs: K3sPrograms, runtimes: Path, events: Events) -> None:
        server = config.machines(plan.cluster)[0]
        self._command = [str(programs.k3s), *config.arguments(plan.machine, server, Path(plan.kubeconfig))]
        env = programs.environment({**os.environ, "K3S_TOKEN": plan.token})
        self._env = {**env, "PATH": f"{env['PATH']}:{runtimes}"}
        self._log = Path(plan.logs) / f"k3s-{plan.machine.role}.log"
        self._events = events
        self._child: Child | None = None

    def run(self) -> None:
        """Start it, and again whenever it ends; never returns."""
        while True:
            self._child = spawn("k3s", self._command, self._log, env=self._env)
            code = self._child.popen.wait()
            self._events.emit(ended=code, said=self._child.last_words())
            time.sleep(_RESTART_S)

    def pids(self) -> set[int]:
        return {self._child.popen.pid} if self._child is not None else set()


def _run(plan: MachinePlan, events: Events) -> None:
    programs = K3sPrograms(**plan.programs)
    _mount(plan)
    runtimes = _write_files(plan, programs)
    events.emit(entered=True)
    if sys.stdin.readline().strip() != "wired":
        os._exit(0)
    _join_network(plan)
    service = Service(plan, programs, runtimes, events)
    namespaces.reap_orphans(service.pids)
    threading.Thread(target=namespaces.hold_lifeline, name="lifeline", daemon=True).start()
    service.run()


def main() -> None:
    """`enter` changes the namespaces and starts `run` in them."""
    plan = MachinePlan(**json.loads(sys.argv[2]))
    if sys.argv[1] == "enter":
        namespaces.enter("powertrain_devcluster.k3s.machine", plan.cgroups)
    events = Events()
    try:
        _run(plan, events)
    except Exception as error:
        events.emit(error=f"{plan.machine.name}: {type(error).__name__}: {error}")
    os._exit(1)


if __name__ == "__main__":
    main()
