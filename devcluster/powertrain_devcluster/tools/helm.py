"""Helm on a cluster of ours, with its state in a folder, so that nothing of the machine's own is read or written."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from powertrain_devcluster.errors import ClusterError

_LONGEST_S = 280.0


@dataclass(frozen=True)
class Helm:
    """One program, one folder for its state, and the way to a cluster (None: it only renders)."""

    program: Path
    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run it; a failure says what Helm said, unless the caller looks himself."""
        folders = ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")
        env = {"PATH": "/usr/bin:/bin"} | {name: str(self.home) for name in folders}
        if self.kubeconfig is not None:
            env["KUBECONFIG"] = str(self.kubeconfig)
        command = [str(self.program), *arguments]
        result = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=_LONGEST_S)
        if check and result.returncode != 0:
            raise ClusterError(f"helm {' '.join(arguments)}: {result.stderr}{result.stdout}")
        return result
