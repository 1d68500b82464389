"""A cluster with one real node, in namespaces of its own: the machine's interfaces, rules, mounts stay as they are."""

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
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from powertrain_cli.cluster import node_cgroup
from powertrain_cli.cluster.errors import ClusterError
from powertrain_cli.cluster.janitor import Chores, Janitor, clean, marked_processes
from powertrain_cli.cluster.node_config import OVERLAID, overlay_upper
from powertrain_cli.cluster.node_inner import Plan
from powertrain_cli.cluster.node_programs import NodePrograms
from powertrain_cli.cluster.process import MARKER, start
from powertrain_cli.cluster.progress import Progress, Silent

__all__ = ["NodeCluster", "NodePrograms"]
# What a name without a registry stands for.
_DEFAULT_REGISTRY = "docker.io/library"


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


class NodeCluster:
    """A context manager; inside it a node is Ready, and `kubeconfig` works from the machine's loopback."""

    def __init__(
        self,
        programs: NodePrograms,
        root: Path,
        *,
        name: str = "node",
        logs: Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.root = root
        self.logs = logs or root / "logs"
        self.nodes = [name]
        self.kubeconfig = root / "kubeconfig"
        self.server = ""
        self.processes: dict[str, int] = {}
        self.marker = uuid.uuid4().hex
        self.programs = programs
        self._progress = progress or Silent()
        self._run = run_folder(root)
        self._janitor: Janitor | None = None
        self._popen: subprocess.Popen[str] | None = None

    def __enter__(self) -> NodeCluster:
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
        """Return when the node is Ready; on failure the caller stops."""
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
            self._spawn(listener, port, groups)
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

    def import_image(self, archive: Path) -> None:
        """Make an image known to the node; pods that use it say `imagePullPolicy: Never`."""
        self._images("import", str(archive))

    def tag_image(self, reference: str, other: str) -> None:
        """Give an image that the node knows a second name."""
        self._images("tag", "--force", f"{_DEFAULT_REGISTRY}/{reference}", f"{_DEFAULT_REGISTRY}/{other}")

    def _images(self, *arguments: str) -> None:
        ctr = [str(self.programs.program("ctr")), "--address", str(self._run / "containerd.sock")]
        command = [*ctr, "--namespace", "k8s.io", "images", *arguments]
        env = self.programs.environment(self.environment())
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1]
            raise ClusterError(f"ctr images {' '.join(arguments)}: {said}")

    def host_path(self, path: str) -> Path:
        """Where a file that the node or a pod wrote at this path of the host is seen from outside."""
        for folder in OVERLAID:
            if Path(path).is_relative_to(folder):
                return overlay_upper(self.root, folder) / Path(path).relative_to(folder)
        return Path(path)

    def _spawn(self, listener: socket.socket, port: int, groups: list[Path]) -> None:
        plan = Plan(
            name=self.nodes[0],
            root=str(self.root),
            run=str(self._run),
            logs=str(self.logs),
            cgroups=[str(group) for group in groups],
            listener=listener.fileno(),
            port=port,
            programs=self.programs.to_dict(),
        )
        log = self.logs / "node-supervisor.log"
        with log.open("ab") as errors:
            self._popen = start(
                [sys.executable, "-m", "powertrain_cli.cluster.node_inner", "enter", json.dumps(asdict(plan))],
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
