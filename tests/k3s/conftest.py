"""One k3s for the whole session, with the product's images in its import folder; a machine that can't have it skips."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from powertrain_devcluster.builds import binaries, images, prepare
from powertrain_devcluster.connection import connect
from powertrain_devcluster.errors import MissingToolError, UnsupportedMachineError
from powertrain_devcluster.k3s.cluster import K3sCluster, K3sPrograms
from powertrain_devcluster.testing.waits import SessionLogs, namespace
from powertrain_devcluster.tools.helm import Helm
from powertrain_kube import KubeApi

LOGS = pytest.StashKey[SessionLogs]()
IMAGES = ("operator", "agent", "init", "training-example")


@pytest.fixture(scope="session")
def k3s_programs() -> K3sPrograms:
    try:
        return K3sPrograms.find(prepare.Ready())
    except (UnsupportedMachineError, MissingToolError) as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def session_logs(request: pytest.FixtureRequest) -> Iterator[SessionLogs]:
    logs = SessionLogs()
    request.config.stash[LOGS] = logs
    yield logs
    logs.close()


@pytest.fixture(scope="session")
def k3s(
    k3s_programs: K3sPrograms, session_logs: SessionLogs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[K3sCluster]:
    archives = [images.build(name, prepare.Ready()) for name in IMAGES]
    cluster = K3sCluster(k3s_programs, tmp_path_factory.mktemp("k3s"), logs=session_logs.folder, images=archives)
    try:
        cluster.start()
    except UnsupportedMachineError as error:
        cluster.stop()
        pytest.skip(str(error))
    except BaseException:
        session_logs.failed = True
        cluster.stop()
        raise
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def kube(k3s: K3sCluster) -> Iterator[KubeApi]:
    rest = connect(k3s.kubeconfig)
    yield rest
    rest.close()


@pytest.fixture
def test_namespace(kube: KubeApi) -> Iterator[str]:
    with namespace(kube) as name:
        yield name


@pytest.fixture(scope="session")
def kubectl(k3s: K3sCluster) -> list[str]:
    """The kubectl that k3s brings."""
    return [f"{k3s.programs.folder}/kubectl", "--kubeconfig", str(k3s.kubeconfig)]


@pytest.fixture(scope="session")
def helm(k3s: K3sCluster, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    try:
        program: Path = binaries.helm(prepare.Ready())
    except MissingToolError as error:
        pytest.skip(str(error))
    return Helm(program, tmp_path_factory.mktemp("helm"), k3s.kubeconfig)


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
