"""`powertrain cluster up --k3s` leaves the machine as it was: before, during and after."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator

import pytest

from powertrain_devcluster.k3s.programs import K3sPrograms
from powertrain_devcluster.node.cgroup import hierarchies
from powertrain_devcluster.node.namespaced import cgroup_name
from powertrain_devcluster.testing.sandbox import Sandbox, finish, wait_line
from powertrain_devcluster.testing.waits import SessionLogs

BAD_INPUT_CODE = 2
INTERRUPTED_CODE = 130


@pytest.fixture
def sandbox(
    k3s_programs: K3sPrograms, session_logs: SessionLogs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sandbox]:
    box = Sandbox(tmp_path_factory.mktemp("sandbox-" + os.urandom(4).hex()), k3s_programs)
    yield box
    box.close(session_logs)


def test_a_killed_supervisor_takes_both_nodes_and_their_traces_with_it(sandbox: Sandbox) -> None:
    before = sandbox.machine_state()
    up = sandbox.json("up", "--k3s")
    assert up["nodes"] == ["powertrain-server", "powertrain-agent"]
    status = sandbox.json("status")
    assert status["ready"] is True
    assert status["alive"] == {"k3s-server": True, "k3s-agent": True}
    assert {"k3s-server", "k3s-agent"} <= set(sandbox.json("logs")["logs"])
    groups = [each.group(cgroup_name(sandbox.folder())) for each in hierarchies()]
    assert any((group / node / "kubepods").is_dir() for group in groups for node in ("server", "agent"))
    # While both nodes run, only processes differ.
    assert dataclasses.replace(sandbox.machine_state(), processes=frozenset()) == before
    refused = sandbox.run("up", "--node")
    assert (refused.returncode, "is up with k3s" in refused.stderr) == (BAD_INPUT_CODE, True)
    os.kill(up["pid"], signal.SIGKILL)
    sandbox.expect_nothing_left(before)


@pytest.mark.parametrize("phase", ["the machine powertrain-agent", "the nodes to be Ready"])
def test_an_interrupt_in_any_phase_leaves_nothing(sandbox: Sandbox, phase: str) -> None:
    before = sandbox.machine_state()
    process = sandbox.start("up", "--k3s")
    wait_line(process, f"waiting for {phase}")
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == INTERRUPTED_CODE
    sandbox.expect_nothing_left(before)


def test_k3s_has_nodes_of_its_own(sandbox: Sandbox) -> None:
    refused = sandbox.run("up", "--k3s", "--simulate-nodes", "2")
    assert (refused.returncode, refused.stdout) == (BAD_INPUT_CODE, "")
    assert "use it without --node and --simulate-nodes" in refused.stderr
