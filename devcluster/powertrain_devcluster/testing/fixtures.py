"""pytest fixtures that every level of tests on a cluster shares; a conftest imports them. Needs pytest."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import Protocol, TypeVar

import pytest

from powertrain_devcluster.errors import UnsupportedMachineError
from powertrain_devcluster.testing.waits import SessionLogs, namespace
from powertrain_kube import KubeApi

LOGS = pytest.StashKey[SessionLogs]()


class Startable(Protocol):
    """A cluster that a machine may be unable to run."""

    def start(self) -> object:
        """Start it, or raise UnsupportedMachineError."""

    def stop(self) -> object:
        """Stop what was started of it."""


C = TypeVar("C", bound=Startable)


@pytest.fixture(scope="session")
def session_logs(request: pytest.FixtureRequest) -> Iterator[SessionLogs]:
    """The folder for the logs of every process; it stays when a test failed."""
    logs = SessionLogs()
    request.config.stash[LOGS] = logs
    yield logs
    logs.close()


@pytest.fixture
def test_namespace(kube: KubeApi) -> Iterator[str]:
    """A namespace of the test's own."""
    with namespace(kube) as name:
        yield name


@contextlib.contextmanager
def started_or_skipped(cluster: C, logs: SessionLogs) -> Iterator[C]:
    """Start a cluster and stop it at the end; where the machine can't run it, the reason is the skip's message."""
    try:
        cluster.start()
    except UnsupportedMachineError as error:
        cluster.stop()
        pytest.skip(str(error))
    except BaseException:
        logs.failed = True
        cluster.stop()
        raise
    yield cluster
    cluster.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Name the logs' folder in the report of a test that failed."""
    report = yield
    logs = item.config.stash.get(LOGS, None)
    if report.failed and logs is not None:
        logs.failed = True
        report.sections.append(("logs of every process", str(logs.folder)))
    return report
