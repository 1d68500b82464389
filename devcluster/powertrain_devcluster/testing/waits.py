"""Helpers for tests on a cluster: waits that say what they saw, namespaces, and what a cluster may leave behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import urllib3

from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.node import cgroup as node_cgroup
from powertrain_devcluster.node.namespaced import cgroup_name, run_folder
from powertrain_devcluster.node.programs import SystemPrograms
from powertrain_kube import AwayError, KubeApi, NotFoundError

T = TypeVar("T")
Object = dict[str, Any]
# A look costs a client and an API server a few milliseconds each. Looking after a share of what was waited already
# finds a short wait's end at once, and a long one's a few percent late, instead of keeping a core busy for minutes.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.5
_SHARE = 0.05
# What looking at something that is not there yet, or at a server that can't answer now, ends in.
_NOT_YET = (NotFoundError, AwayError, urllib3.exceptions.HTTPError, OSError, KeyError, IndexError)


def wait_for(
    what: str,
    read: Callable[[], T],
    holds: Callable[[T], object] = bool,
    deadline_s: float = 30.0,
    *,
    every_s: float | None = None,
) -> T:
    """Look until it holds, ever less often (or `every_s`, for a look that itself must miss nothing on the way).

    Returns what was seen, or fails with what was seen last.
    """
    begin_s = time.monotonic()
    while True:
        value: T | None = None
        problem: Exception | None = None
        try:
            value = read()
            if holds(value):
                return value
        except _NOT_YET as error:
            problem = error
        waited_s = time.monotonic() - begin_s
        if waited_s > deadline_s:
            last = repr(problem) if problem else repr(value)
            raise AssertionError(f"waited {deadline_s:g} s for {what}; last saw: {last[:4000]}")
        time.sleep(every_s or min(max(_SHARE * waited_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S))


@contextlib.contextmanager
def namespace(rest: KubeApi, prefix: str = "test") -> Iterator[str]:
    """A namespace of a test's own, with its default service account, deleted afterwards."""
    name = f"{prefix}-{uuid.uuid4().hex[:8]}"
    rest.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_for("the default service account", lambda: rest.get(account))
    try:
        yield name
    finally:
        with contextlib.suppress(NotFoundError):
            rest.delete(f"/api/v1/namespaces/{name}")


@dataclass
class SessionLogs:
    """One folder for the logs of every process of a test session; it stays when a test failed."""

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="powertrain-logs-")))
    failed: bool = False

    def close(self) -> None:
        if not self.failed:
            shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class Machine:
    """What a cluster could leave behind on a machine, seen at one moment."""

    processes: frozenset[str]
    mounts: tuple[str, ...]
    interfaces: tuple[str, ...]
    packet_rules: str
    sysctls: tuple[str, ...]
    system_files: tuple[str, ...]


_SEARCHED = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
SYSCTLS = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward")


def restart_api_server(control_plane: ControlPlane, away: Callable[[], None]) -> None:
    """Kill the API server, do something while it is away, and start it again as it was."""
    child = next(child for child in control_plane.children if child.name == "kube-apiserver")
    arguments = [str(part) for part in child.popen.args[1:]]  # type: ignore[index]
    child.kill()
    control_plane.children.remove(child)
    away()
    new = control_plane.spawn("kube-apiserver", *arguments)
    control_plane.wait("the API server", control_plane.ready, new, time.monotonic() + 60.0)


# Where Kubernetes and containerd write unless they are told otherwise, and some even then.
_SYSTEM_FOLDERS = (
    "/etc/cni",
    "/etc/kubernetes",
    "/etc/rancher",
    "/opt/cni",
    "/opt/containerd",
    "/run/containerd",
    "/run/flannel",
    "/run/k3s",
    "/run/kubernetes",
    "/run/netns",
    "/run/runc",
    "/run/xtables.lock",
    "/usr/libexec/kubernetes",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/etcd",
    "/var/lib/kubelet",
    "/var/lib/rancher",
    "/var/log/containers",
    "/var/log/pods",
)


def _system_files() -> Iterator[str]:
    for folder in map(Path, _SYSTEM_FOLDERS):
        if folder.exists():
            yield str(folder)
            yield from map(str, folder.rglob("*"))


def machine(token: str, programs: SystemPrograms | None = None) -> Machine:
    """Look at the machine; of its processes only at those that carry `token`, as others come and go by themselves."""
    return Machine(
        processes=frozenset(_processes(token)),
        mounts=tuple(Path("/proc/self/mounts").read_text().splitlines()),
        interfaces=tuple(sorted(entry.name for entry in Path("/sys/class/net").iterdir())),
        packet_rules=_packet_rules(programs),
        sysctls=tuple(f"{name}={Path('/proc/sys', name).read_text().strip()}" for name in SYSCTLS),
        system_files=tuple(sorted(_system_files())),
    )


def traces_of_node(root: Path) -> list[str]:
    """Control groups and folders that a node cluster of this root has made."""
    groups = (hierarchy.group(cgroup_name(root)) for hierarchy in node_cgroup.hierarchies())
    return [str(path) for path in (*groups, run_folder(root), root) if path.exists()]


def _processes(token: str) -> Iterator[str]:
    needle = token.encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            about = command + (entry / "environ").read_bytes() + (entry / "cgroup").read_bytes()
            if needle in about and int(entry.name) != os.getpid():
                yield f"{entry.name}: {command.replace(bytes(1), b' ').decode(errors='replace')}"


def _packet_rules(programs: SystemPrograms | None) -> str:
    """The machine's own rules, or why they were not looked at; with a node's programs they must be."""
    save = str(programs.program("iptables-save")) if programs else shutil.which("iptables-save", path=_SEARCHED)
    if save is None:
        return "not looked at: iptables-save is not on PATH"
    if os.geteuid() != 0:
        return "not looked at: iptables-save needs root"
    env = programs.environment(os.environ) if programs else None
    result = subprocess.run([save], capture_output=True, text=True, env=env, check=False)
    assert result.returncode == 0, f"{save} ended with code {result.returncode}: {result.stderr.strip()}"
    return "\n".join(line for line in result.stdout.splitlines() if not line.startswith(("#", ":")))
