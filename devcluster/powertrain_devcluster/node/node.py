"""A cluster with one real node: a control plane, containerd and kubelet in namespaces of their own."""

from __future__ import annotations

import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.node.config import OVERLAID, overlay_upper
from powertrain_devcluster.node.inner import Plan
from powertrain_devcluster.node.namespaced import NamespacedCluster, cgroup_name, run_folder
from powertrain_devcluster.node.programs import NodePrograms

__all__ = ["NodeCluster", "NodePrograms", "cgroup_name", "run_folder"]
# What a name without a registry stands for.
_DEFAULT_REGISTRY = "docker.io/library"


class NodeCluster(NamespacedCluster):
    """A context manager; inside it a node is Ready, and `kubeconfig` works from the machine's loopback.

    With `evict_below` (as "5Gi" or "99%") its kubelet evicts pods while less memory than that is available.
    """

    MODULE = "powertrain_devcluster.node.inner"

    def __init__(
        self,
        programs: NodePrograms,
        root: Path,
        *,
        name: str = "node",
        logs: Path | None = None,
        progress: Progress | None = None,
        evict_below: str = "",
    ) -> None:
        super().__init__(root, [name], logs, progress)
        self.programs = programs
        self._evict_below = evict_below

    def _plan(self, cgroups: list[str], listener: int, port: int) -> dict[str, Any]:
        plan = Plan(
            name=self.nodes[0],
            root=str(self.root),
            run=str(self._run),
            logs=str(self.logs),
            cgroups=cgroups,
            listener=listener,
            port=port,
            programs=self.programs.to_dict(),
            evict_below=self._evict_below,
        )
        return asdict(plan)

    def import_image(self, archive: Path) -> None:
        """Make an image known to the node; pods that use it say `imagePullPolicy: Never`."""
        self._images("import", str(archive))

    def tag_image(self, reference: str, other: str) -> None:
        """Give an image that the node knows a second name."""
        self._images("tag", "--force", f"{_DEFAULT_REGISTRY}/{reference}", f"{_DEFAULT_REGISTRY}/{other}")

    def ctr(self) -> list[str]:
        """The command that speaks to the node's containerd about the images of its pods."""
        env = self.programs.environment({})
        program = [str(self.programs.program("ctr")), "--address", str(self._run / "containerd.sock")]
        return ["env", *(f"{key}={value}" for key, value in env.items()), *program, "--namespace", "k8s.io"]

    def _images(self, *arguments: str) -> None:
        command = [*self.ctr(), "images", *arguments]
        result = subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=False)
        if result.returncode != 0:
            last_line = (result.stderr.strip() or result.stdout.strip()).splitlines()[-1]
            raise ClusterError(f"ctr images {' '.join(arguments)}: {last_line}")

    def host_path(self, path: str) -> Path:
        """Where a file that the node or a pod wrote at this path of the host is seen from outside."""
        for folder in OVERLAID:
            if Path(path).is_relative_to(folder):
                return overlay_upper(self.root, folder) / Path(path).relative_to(folder)
        return Path(path)
