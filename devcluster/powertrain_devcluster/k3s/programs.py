"""Finds what a k3s cluster needs: k3s and its shim from the cache, the system's programs as for any real node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from powertrain_devcluster.builds import k3s
from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.node.programs import SystemPrograms, require_machine, system


@dataclass(frozen=True)
class K3sPrograms(SystemPrograms):
    """The folder of k3s, beside the system's programs."""

    folder: str

    @classmethod
    def find(cls, progress: Progress) -> K3sPrograms:
        """Look for everything, and make what can be made."""
        require_machine()
        return cls(**system(progress), folder=str(k3s.programs(progress)))

    @property
    def k3s(self) -> Path:
        return Path(self.folder) / k3s.PROGRAM

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """The environment in which k3s finds its own shim before any other."""
        env = super().environment(base)
        return {**env, "PATH": f"{self.folder}:{env['PATH']}"}
