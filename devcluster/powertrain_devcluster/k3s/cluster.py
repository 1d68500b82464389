"""A k3s cluster from the outside: started, looked into and ended."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.errors import BadInputError, ClusterError
from powertrain_devcluster.janitor import marked_processes
from powertrain_devcluster.k3s import config
from powertrain_devcluster.k3s.inner import Plan
from powertrain_devcluster.k3s.programs import K3sPrograms
from powertrain_devcluster.node.config import overlay_upper
from powertrain_devcluster.node.namespaced import NamespacedCluster

__all__ = ["K3sCluster", "K3sPrograms"]


class K3sCluster(NamespacedCluster):
    """A context manager; inside it a server and an agent node are Ready, and `kubeconfig` works from here.

    `images` are archives that lie in k3s' own import folder when it starts.
    """

    MODULE = "powertrain_devcluster.k3s.inner"

    def __init__(
        self,
        programs: K3sPrograms,
        root: Path,
        *,
        name: str = "k3s",
        logs: Path | None = None,
        progress: Progress | None = None,
        images: Sequence[Path] = (),
    ) -> None:
        self.machines = config.machines(name)
        super().__init__(root, [machine.name for machine in self.machines], logs, progress)
        self.programs = programs
        self._name = name
        self._images = images

    def _plan(self, cgroups: list[str], listener: int, port: int) -> dict[str, Any]:
        plan = Plan(
            name=self._name,
            root=str(self.root),
            logs=str(self.logs),
            cgroups=cgroups,
            listener=listener,
            port=port,
            token=secrets.token_hex(16),
            programs=self.programs.to_dict(),
            images=[str(archive) for archive in self._images],
        )
        return asdict(plan)

    def host_path(self, node: str, path: str) -> Path:
        """Where a file that a node or its pod wrote at this path of its host is seen from outside."""
        root = self.root / self._machine(node).role
        if Path(path).is_relative_to(config.DATA.parent):
            return root / "rancher" / Path(path).relative_to(config.DATA.parent)
        for folder in config.OVERLAID:
            if Path(path).is_relative_to(folder):
                return overlay_upper(root, folder) / Path(path).relative_to(folder)
        return Path(path)

    def run(self, node: str, *command: str) -> str:
        """What a command says that runs on a node as its root."""
        inside = ["nsenter", f"--target={self.k3s_pid(node)}", "--net", "--mount", "--pid", "--uts", "--ipc"]
        env = self.programs.environment(self.environment())
        result = subprocess.run([*inside, *command], env=env, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise ClusterError(f"{' '.join(command)} on {node}: {result.stderr.strip() or result.stdout.strip()}")
        return result.stdout

    def k3s_pid(self, node: str) -> int:
        """The process of k3s on a node now; the node's own process 1 starts it again when it ends."""
        role = self._machine(node).role
        for pid in marked_processes(self.marker):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().split()
            except OSError:
                continue
            if words[:1] and Path(words[0]).name == "k3s" and words[1:2] == [role]:
                return pid
        raise ClusterError(f"k3s does not run on {node} now")

    def kill_k3s(self, node: str) -> None:
        """End k3s on a node as a crash would; its containers go on."""
        os.kill(self.k3s_pid(node), signal.SIGKILL)

    def _machine(self, node: str) -> config.Machine:
        for machine in self.machines:
            if machine.name == node:
                return machine
        raise BadInputError(f"node {node!r} is not one of: {', '.join(self.nodes)}")
