"""Runs what depends on the API server's version on the oldest Kubernetes that the chart supports; once per release.

Usage: python hack/test_versions.py [PYTEST ARGUMENT...]

The API server, controller-manager and scheduler are of that version (hack/controlplane-oldest, built once into the
cache); etcd and kubectl are of the newest. The tests are those of the chart, and those of the rules that the API server
keeps: CRDs with their defaults and validation, admission policies, roles.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from powertrain_devcluster.builds import binaries, prepare
from powertrain_devcluster.builds.progress import for_stream
from powertrain_devcluster.errors import ClusterError

ROOT = Path(__file__).resolve().parents[1]
TESTS = ("tests/cluster/test_api_rules.py", "tests/cluster/test_oldest.py", "tests/chart")
# Images for boards do not depend on the API server.
LEFT_OUT = "tests/chart/test_arm64.py"
PARTS = ("control-plane", "helm", "prometheus")


def supported() -> str:
    """Return the oldest minor version that the chart's kubeVersion lets in, as 1.30."""
    about = yaml.safe_load((ROOT / "charts/powertrain/Chart.yaml").read_text(encoding="utf-8"))
    return str(about["kubeVersion"]).removeprefix(">=").rpartition(".")[0]


def main(arguments: Sequence[str]) -> int:
    """Build what is needed and run the tests; pytest's exit code."""
    version = binaries.oldest_version()
    if not version.startswith(f"v{supported()}."):
        sys.exit(f"the chart's kubeVersion begins at {supported()}, but hack/controlplane-oldest is {version}")
    try:
        with for_stream() as progress:
            assets = binaries.oldest(progress)
            for part in PARTS:
                if reason := prepare.prepare(part, progress):
                    sys.exit(f"{part}: {reason}")
    except ClusterError as error:
        sys.exit(f"error: {error}")
    print(f"== Kubernetes {version}: {' '.join(TESTS)}", flush=True)
    env = {**os.environ, "KUBEBUILDER_ASSETS": str(assets), "POWERTRAIN_KUBERNETES": version}
    command = [sys.executable, "-m", "pytest", *TESTS, f"--ignore={LEFT_OUT}", "-m", "not torch", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
