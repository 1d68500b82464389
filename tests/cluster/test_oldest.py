"""Which versions of Kubernetes are tested: the newest in every level, the oldest by `make test-versions`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from powertrain_devcluster.builds import binaries
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.probe import version

ROOT = Path(__file__).resolve().parents[2]
WANTED = "POWERTRAIN_KUBERNETES"


def test_the_chart_supports_kubernetes_from_the_oldest_version_that_is_tested() -> None:
    about = yaml.safe_load((ROOT / "charts/powertrain/Chart.yaml").read_text(encoding="utf-8"))
    minor = ".".join(binaries.oldest_version().removeprefix("v").split(".")[:2])
    assert about["kubeVersion"] == f">={minor}.0-0"


@pytest.mark.skipif(WANTED not in os.environ, reason="only `make test-versions` chooses a version")
def test_the_server_is_of_the_version_that_is_to_be_tested(control_plane: ControlPlane) -> None:
    assert version(control_plane.kubeconfig, control_plane.server) == os.environ[WANTED]
