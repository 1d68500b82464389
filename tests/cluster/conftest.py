"""A control plane for the whole session, a namespace per test, and the logs' folder named when a test fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from powertrain_devcluster.builds import binaries, prepare
from powertrain_devcluster.connection import connect
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.errors import MissingToolError
from powertrain_devcluster.standin.kubelet import StandInKubelet
from powertrain_devcluster.testing.waits import SessionLogs, namespace
from powertrain_kube import KubeApi

LOGS = pytest.StashKey[SessionLogs]()


@pytest.fixture(scope="session")
def cluster_binaries() -> dict[str, Path]:
    try:
        return binaries.resolve(binaries.CONTROL_PLANE, prepare.Ready())
    except MissingToolError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def session_logs(request: pytest.FixtureRequest) -> Iterator[SessionLogs]:
    logs = SessionLogs()
    request.config.stash[LOGS] = logs
    yield logs
    logs.close()


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


@pytest.fixture
def test_namespace(kube: KubeApi) -> Iterator[str]:
    with namespace(kube) as name:
        yield name


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    logs = item.config.stash.get(LOGS, None)
    if report.failed and logs is not None:
        logs.failed = True
        report.sections.append(("logs of every process", str(logs.folder)))
    return report
