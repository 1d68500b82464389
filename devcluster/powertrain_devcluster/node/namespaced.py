"""A cluster in namespaces of its own, from the outside: the machine's interfaces, rules, mounts stay as they are."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, TypeVar

from powertrain_devcluster.builds.progress import Progress, Silent
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.janitor import Chores, Janitor, clean, marked_processes
from powertrain_devcluster.node import cgroup as node_cgroup
from powertrain_devcluster.process import MARKER, start

Self = TypeVar("Self", bound="NamespacedCluster")


def _short(root: Path) -> str:
    return hashlib.sha256(str(root).encode()).hexdigest()[:8]


def cgroup_name(root: Path) -> str:
    """The name of the control groups of the cluster that lives in `root`."""
    return f"powertrain-{_short(root)}"


def run_folder(root: Path) -> Path:
    """Where its sockets are; their paths may have 107 bytes, which `root` may exceed already."""
    return Path(tempfile.gettempdir()) / f"pt-{_short(root)}"


def _seen_from_outside(marker: str, inside: dict[str, int]) -> dict[str, int]:
    """The numbers that processes of the node have on the machine, from those in its own namespace."""
    outside: dict[int, int] = {}
    for pid in marked_processes(marker):
        with contextlib.suppress(OSError, IndexError):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            numbers = next((line for line in lines if line.startswith("NSpid:")), "").split()[1:]
            outside[int(numbers[1])] = pid
    return {name: outside[number] for name, number in inside.items() if number in outside}


class NamespacedCluster:
    """A context manager; inside it the nodes are Ready, and `kubeconfig` works from the machine's loopback.

    A process inside the namespaces (`MODULE enter PLAN`) starts all of it and ends when its standard input closes.
    """

    MODULE: ClassVar[str]

    def __init__(
        self, root: Path, nodes: list[str], logs: Path | None = None, progress: Progress | None = None
    ) -> None:
        self.root = root
        self.logs = logs or root / "logs"
        self.nodes = nodes
        self.kubeconfig = root / "kubeconfig"
        self.server = ""
        self.processes: dict[str, int] = {}
        self.marker = uuid.uuid4().hex
        self._progress = progress or Silent()
        self._run = run_folder(root)
        self._janitor: Janitor | None = None
        self._popen: subprocess.Popen[str] | None = None

    def _plan(self, cgroups: list[str], listener: int, port: int) -> dict[str, Any]:
        """What the process inside is told, as it will be written as JSON."""
        raise NotImplementedError

    def __enter__(self: Self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def environment(self) -> dict[str, str]:
        """The environment for processes that must not outlive this cluster."""
        return {**os.environ, MARKER: self.marker}

    def start(self) -> None:
        """Return when the nodes are Ready; on failure the caller stops."""
        group = cgroup_name(self.root)
        planned = [hierarchy.group(group) for hierarchy in node_cgroup.hierarchies()]
        chores = Chores(self.marker, [str(self._run), str(self.root)], [str(folder) for folder in planned])
        # What an earlier cluster of this root could not clean up, because its janitor was killed as well.
        clean(Chores("", [str(self._run)], chores.cgroups))
        # Known to the janitor before they exist, so that no death in between leaves any.
        self._janitor = Janitor(chores)
        self._progress.waiting("control groups")
        groups = node_cgroup.create(group)
        self.root.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(parents=True, exist_ok=True)
        self._run.mkdir(mode=0o700)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = int(listener.getsockname()[1])
            self.server = f"https://127.0.0.1:{port}"
            self._spawn(listener, self._plan([str(each) for each in groups], listener.fileno(), port))
        self._follow()

    def stop(self) -> None:
        """End everything at once, and remove it."""
        if self._popen is not None:
            if self._popen.stdin is not None:
                self._popen.stdin.close()
            try:
                self._popen.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._popen.kill()
                self._popen.wait()
            if self._popen.stdout is not None:
                self._popen.stdout.close()
            self._popen = None
        self.processes = {}
        if self._janitor is not None:
            self._janitor.finish()
            self._janitor = None

    def _spawn(self, listener: socket.socket, plan: dict[str, Any]) -> None:
        with (self.logs / "node-supervisor.log").open("ab") as errors:
            self._popen = start(
                [sys.executable, "-m", self.MODULE, "enter", json.dumps(plan)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=self.environment(),
                pass_fds=[listener.fileno()],
            )

    def _follow(self) -> None:
        assert self._popen is not None
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            event = json.loads(line)
            if "waiting" in event:
                self._progress.waiting(event["waiting"])
            elif "error" in event:
                raise ClusterError(event["error"])
            elif "ready" in event:
                self.processes = _seen_from_outside(self.marker, event["ready"])
                return
        log = self.logs / "node-supervisor.log"
        last = (log.read_text().strip() or "its log is empty").splitlines()[-1] if log.exists() else "no log"
        raise ClusterError(f"the node's supervisor ended while starting: {last}")
