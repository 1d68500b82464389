"""A control plane for the whole session, a namespace per test, and the logs' folder named when a test fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from powertrain_devcluster.builds import binaries, prepare
from powertrain_devcluster.connection import connect
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.errors import MissingToolError
from powertrain_devcluster.standin.kubelet import StandInKubelet
from powertrain_devcluster.testing.fixtures import pytest_runtest_makereport, session_logs, test_namespace
from powertrain_devcluster.testing.waits import SessionLogs
from powertrain_kube import KubeApi

__all__ = ["pytest_runtest_makereport", "session_logs", "test_namespace"]


@pytest.fixture(scope="session")
def cluster_binaries() -> dict[str, Path]:
    try:
        return binaries.resolve(binaries.CONTROL_PLANE, prepare.Ready())
    except MissingToolError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def control_plane(
    cluster_binaries: dict[str, Path], session_logs: SessionLogs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    root = tmp_path_factory.mktemp("control-plane")
    with ControlPlane(cluster_binaries, root, logs=session_logs.folder) as running:
        yield running


@pytest.fixture(scope="session")
def kube(control_plane: ControlPlane) -> Iterator[KubeApi]:
    rest = connect(control_plane.kubeconfig)
    yield rest
    rest.close()


StandInFactory = Callable[..., StandInKubelet]


@pytest.fixture
def stand_in(control_plane: ControlPlane, tmp_path: Path) -> Iterator[StandInFactory]:
    """Starts simulated nodes that go away with the test."""
    with contextlib.ExitStack() as stack:

        def start(*names: str, **options: Any) -> StandInKubelet:
            options = {"env": control_plane.environment(), "logs": control_plane.logs, **options}
            nodes = StandInKubelet(control_plane.kubeconfig, names, tmp_path / "nodes", **options)
            return stack.enter_context(nodes)

        yield start
