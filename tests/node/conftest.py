"""A cluster with a real node for the whole session; where a machine can't, the reason is the skip's message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from powertrain_devcluster.builds import binaries, images, prepare
from powertrain_devcluster.connection import connect
from powertrain_devcluster.errors import MissingToolError, UnsupportedMachineError
from powertrain_devcluster.node.node import NodeCluster, NodePrograms
from powertrain_devcluster.testing.fixtures import (
    pytest_runtest_makereport,
    session_logs,
    started_or_skipped,
    test_namespace,
)
from powertrain_devcluster.testing.waits import SessionLogs
from powertrain_kube import KubeApi

__all__ = ["pytest_runtest_makereport", "session_logs", "test_namespace"]


@pytest.fixture(scope="session")
def node_programs() -> NodePrograms:
    try:
        return NodePrograms.find(prepare.Ready())
    except (UnsupportedMachineError, MissingToolError) as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def node_cluster(
    node_programs: NodePrograms, session_logs: SessionLogs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeCluster]:
    cluster = NodeCluster(node_programs, tmp_path_factory.mktemp("node"), logs=session_logs.folder)
    with started_or_skipped(cluster, session_logs) as running:
        yield running


@pytest.fixture(scope="session")
def kube(node_cluster: NodeCluster) -> Iterator[KubeApi]:
    rest = connect(node_cluster.kubeconfig)
    yield rest
    rest.close()


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
