"""A cluster with a real node for the whole session; where a machine can't, the reason is the skip's message."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from powertrain_devcluster.builds import binaries, images, prepare
from powertrain_devcluster.connection import connect
from powertrain_devcluster.errors import MissingToolError, UnsupportedMachineError
from powertrain_devcluster.node.node import NodeCluster, NodePrograms
from powertrain_devcluster.testing.waits import SessionLogs, namespace
from powertrain_kube import KubeApi

LOGS = pytest.StashKey[SessionLogs]()


@pytest.fixture(scope="session")
def node_programs() -> NodePrograms:
    try:
        return NodePrograms.find(prepare.Ready())
    except (UnsupportedMachineError, MissingToolError) as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def session_logs(request: pytest.FixtureRequest) -> Iterator[SessionLogs]:
    logs = SessionLogs()
    request.config.stash[LOGS] = logs
    yield logs
    logs.close()


@pytest.fixture(scope="session")
def node_cluster(
    node_programs: NodePrograms, session_logs: SessionLogs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeCluster]:
    cluster = NodeCluster(node_programs, tmp_path_factory.mktemp("node"), logs=session_logs.folder)
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
def kube(node_cluster: NodeCluster) -> Iterator[KubeApi]:
    rest = connect(node_cluster.kubeconfig)
    yield rest
    rest.close()


@pytest.fixture
def test_namespace(kube: KubeApi) -> Iterator[str]:
    with namespace(kube) as name:
        yield name


@pytest.fixture(scope="session")
def agent_archive(node_programs: NodePrograms) -> Path:
    try:
        return images.build("agent", prepare.Ready())
    except MissingToolError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def agent_image(node_cluster: NodeCluster, agent_archive: Path) -> str:
    """The agent's image, known to the node."""
    node_cluster.import_image(agent_archive)
    return images.recipe("agent").reference


@pytest.fixture(scope="session")
def kubectl(node_cluster: NodeCluster) -> list[str]:
    program: Path = binaries.resolve(["kubectl"])["kubectl"]
    return [str(program), "--kubeconfig", str(node_cluster.kubeconfig)]


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
