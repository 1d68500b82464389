"""One k3s for the whole session, with the product's images in its import folder; a machine that can't have it skips."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from powertrain_devcluster.builds import binaries, images, prepare
from powertrain_devcluster.connection import connect
from powertrain_devcluster.errors import MissingToolError, UnsupportedMachineError
from powertrain_devcluster.k3s.cluster import K3sCluster, K3sPrograms
from powertrain_devcluster.testing.fixtures import (
    pytest_runtest_makereport,
    session_logs,
    started_or_skipped,
    test_namespace,
)
from powertrain_devcluster.testing.waits import SessionLogs
from powertrain_devcluster.tools.helm import Helm
from powertrain_kube import KubeApi

__all__ = ["pytest_runtest_makereport", "session_logs", "test_namespace"]

IMAGES = ("operator", "agent", "init", "training-example")


@pytest.fixture(scope="session")
def k3s_programs() -> K3sPrograms:
    try:
        return K3sPrograms.find(prepare.Ready())
    except (UnsupportedMachineError, MissingToolError) as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def k3s(
    k3s_programs: K3sPrograms, session_logs: SessionLogs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[K3sCluster]:
    archives = [images.build(name, prepare.Ready()) for name in IMAGES]
    cluster = K3sCluster(k3s_programs, tmp_path_factory.mktemp("k3s"), logs=session_logs.folder, images=archives)
    with started_or_skipped(cluster, session_logs) as running:
        yield running


@pytest.fixture(scope="session")
def kube(k3s: K3sCluster) -> Iterator[KubeApi]:
    rest = connect(k3s.kubeconfig)
    yield rest
    rest.close()


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
