"""`powertrain cluster up --node` leaves the machine as it was: before, during and after."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from powertrain_devcluster.node.cgroup import hierarchies
from powertrain_devcluster.node.node import NodePrograms, cgroup_name, run_folder
from powertrain_devcluster.testing.sandbox import Sandbox, finish, wait_line
from powertrain_devcluster.testing.waits import SessionLogs, wait_for

INTERRUPTED_CODE = 130


@pytest.fixture
def sandbox(
    node_programs: NodePrograms, session_logs: SessionLogs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sandbox]:
    box = Sandbox(tmp_path_factory.mktemp("sandbox-" + os.urandom(4).hex()), node_programs)
    yield box
    box.close(session_logs)


def test_a_killed_supervisor_takes_the_node_its_pods_and_their_traces_with_it(
    sandbox: Sandbox, node_programs: NodePrograms, agent_archive: Path
) -> None:
    before = sandbox.machine_state()
    up = sandbox.json("up", "--node")
    assert up["nodes"] == ["powertrain-node"]
    socket = run_folder(sandbox.folder()) / "containerd.sock"
    ctr = [str(node_programs.program("ctr")), "--address", str(socket), "--namespace", "k8s.io"]
    env = node_programs.environment(sandbox.env)
    subprocess.run([*ctr, "images", "import", str(agent_archive)], env=env, check=True, capture_output=True)
    kubectl = [str(Path(node_programs.kubernetes["kubelet"]).with_name("kubectl")), "--kubeconfig", up["kubeconfig"]]
    pod = [
        "run",
        "pod",
        "--image=powertrain-agent:dev",
        "--image-pull-policy=Never",
        "--command",
        "--",
        "sleep",
        "1000",
    ]
    subprocess.run([*kubectl, *pod], check=True, capture_output=True)
    subprocess.run([*kubectl, "wait", "--for=condition=Ready", "pod/pod", "--timeout=60s"], check=True)
    groups = [each.group(cgroup_name(sandbox.folder())) for each in hierarchies()]
    assert any(list(group.glob("kubepods/**/pod*")) for group in groups)
    # While pods run, only processes differ.
    during = sandbox.machine_state()
    assert dataclasses.replace(during, processes=frozenset()) == before
    os.kill(up["pid"], signal.SIGKILL)
    sandbox.expect_nothing_left(before)


def test_down_leaves_nothing_of_a_node(sandbox: Sandbox) -> None:
    before = sandbox.machine_state()
    sandbox.json("up", "--node")
    status = sandbox.json("status")
    assert status["ready"] is True
    assert {"etcd", "kube-apiserver", "containerd", "kubelet", "kube-proxy"} <= set(status["alive"])
    assert all(status["alive"].values())
    assert {"containerd", "kubelet", "kube-proxy"} <= set(sandbox.json("logs")["logs"])
    sandbox.json("down")
    sandbox.expect_nothing_left(before)


PHASES = [
    "control groups",
    "certificates",
    "etcd",
    "the API server",
    "the controller-manager",
    "containerd",
    "the pause image",
    "the node to be Ready",
]


@pytest.mark.parametrize("phase", PHASES)
def test_an_interrupt_in_any_phase_leaves_nothing(sandbox: Sandbox, phase: str) -> None:
    before = sandbox.machine_state()
    process = sandbox.start("up", "--node")
    wait_line(process, f"waiting for {phase}")
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == INTERRUPTED_CODE
    sandbox.expect_nothing_left(before)
    assert wait_for("no folder", lambda: not run_folder(sandbox.folder()).exists())
