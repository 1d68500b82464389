"""`powertrain cluster` by hand: it starts, it answers, and whatever ends it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from powertrain_devcluster.builds import binaries
from powertrain_devcluster.testing.sandbox import Sandbox, finish, wait_line
from powertrain_devcluster.testing.waits import SessionLogs, wait_for

ENVIRONMENT_CODE = 3
BAD_INPUT_CODE = 2
INTERRUPTED_CODE = 130


@pytest.fixture
def sandbox(
    cluster_binaries: dict[str, Path], session_logs: SessionLogs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sandbox]:
    box = Sandbox(tmp_path_factory.mktemp("sandbox-" + os.urandom(4).hex()))
    yield box
    box.close(session_logs)


def test_up_status_kubectl_logs_and_down_work_by_hand_and_leave_nothing(sandbox: Sandbox) -> None:
    before = sandbox.machine_state()
    up = sandbox.json("up", "--simulate-nodes", "2")
    assert up["nodes"] == ["powertrain-0", "powertrain-1"]
    assert sandbox.json("status")["ready"] is True
    assert sandbox.json("up")["pid"] == up["pid"]
    kubectl = [str(binaries.resolve(["kubectl"])["kubectl"]), "--kubeconfig", up["kubeconfig"]]
    result = subprocess.run([*kubectl, "get", "nodes"], capture_output=True, text=True, env=sandbox.env, check=True)
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:]] == [
        ["powertrain-0", "Ready"],
        ["powertrain-1", "Ready"],
    ]
    assert sandbox.run("kubeconfig").stdout.rstrip() == Path(up["kubeconfig"]).read_text().rstrip()
    assert set(sandbox.json("logs")["logs"]) == {*binaries.CONTROL_PLANE}
    unknown = sandbox.run("logs", "kubelet")
    assert (unknown.returncode, unknown.stdout) == (BAD_INPUT_CODE, "")
    assert "no log of 'kubelet'; there are: etcd, kube-apiserver" in unknown.stderr
    assert sandbox.json("down") == {"name": "powertrain", "existed": True}
    sandbox.expect_nothing_left(before)
    assert sandbox.json("down")["existed"] is False
    assert sandbox.run("status").returncode == ENVIRONMENT_CODE


def test_two_clusters_live_side_by_side_and_end_one_by_one(sandbox: Sandbox) -> None:
    before = sandbox.machine_state()
    first, second = sandbox.json("up", "--name", "one"), sandbox.json("up", "--name", "two")
    assert first["server"] != second["server"]
    sandbox.json("down", "--name", "one")
    assert sandbox.json("status", "--name", "two")["ready"] is True
    assert sandbox.run("status", "--name", "one").returncode == ENVIRONMENT_CODE
    sandbox.json("down", "--name", "two")
    sandbox.expect_nothing_left(before)


def test_a_second_up_waits_for_the_first_and_refuses_other_nodes(sandbox: Sandbox) -> None:
    first = sandbox.start("up", "--simulate-nodes", "1")
    wait_line(first, "waiting for certificates")
    joined = sandbox.json("up", "--simulate-nodes", "1")
    assert (joined["phase"], joined["nodes"]) == ("ready", ["powertrain-0"])
    assert sandbox.json("status")["server"] == joined["server"]
    assert finish(first)[0] == 0
    for other in (["--node"], ["--simulate-nodes", "2"]):
        refused = sandbox.run("up", *other)
        assert (refused.returncode, refused.stdout) == (BAD_INPUT_CODE, "")
        assert "is up with no real node and 1 simulated ones" in refused.stderr


def test_a_second_up_says_that_the_first_was_stopped(sandbox: Sandbox) -> None:
    first = sandbox.start("up")
    wait_line(first, "waiting for certificates")
    second = sandbox.start("up")
    wait_line(second, "waiting for cluster powertrain, which another command starts")
    first.send_signal(signal.SIGINT)
    assert finish(first)[0] == INTERRUPTED_CODE
    code, words = finish(second)
    assert code == ENVIRONMENT_CODE
    assert "no cluster 'powertrain' is up" in words


PHASES = ["certificates", "etcd", "the API server", "the controller-manager", "simulated nodes"]


@pytest.mark.parametrize("phase", PHASES)
def test_an_interrupt_in_any_phase_leaves_nothing(sandbox: Sandbox, phase: str) -> None:
    before = sandbox.machine_state()
    process = sandbox.start("up", "--simulate-nodes", "1")
    wait_line(process, f"waiting for {phase}")
    process.send_signal(signal.SIGINT)
    code, words = finish(process)
    assert code == INTERRUPTED_CODE
    assert "nothing was left behind" in words
    sandbox.expect_nothing_left(before)


def test_an_interrupt_while_go_builds_leaves_no_half_built_binary(sandbox: Sandbox, tmp_path: Path) -> None:
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    version = 'if [ "$1" = version ]; then echo go version go1.26.0 linux/amd64; exit; fi'
    go.write_text(f"#!/bin/sh\n{version}\necho k8s.io/some/package >&2\nexec sleep 1000\n")
    go.chmod(0o755)
    cache = tmp_path / "cache"
    env = {"PATH": f"{go.parent}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(cache), "KUBEBUILDER_ASSETS": ""}
    process = sandbox.start("up", env=env)
    wait_line(process, "waiting for Go to build Kubernetes")
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == INTERRUPTED_CODE
    wait_for("no process", sandbox.machine_state, lambda now: not now.processes)
    assert [path.name for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"] == []


def test_a_parent_killed_during_the_start_takes_the_cluster_with_it(sandbox: Sandbox) -> None:
    before = sandbox.machine_state()
    process = sandbox.start("up")
    wait_line(process, "waiting for the API server")
    process.kill()
    finish(process)
    sandbox.expect_nothing_left(before)


def test_a_killed_supervisor_takes_the_cluster_and_its_pods_with_it(sandbox: Sandbox) -> None:
    before = sandbox.machine_state()
    up = sandbox.json("up", "--simulate-nodes", "1")
    kubectl = str(binaries.resolve(["kubectl"])["kubectl"])
    # A grandchild in a session of its own is what plain process groups would miss.
    script = "setsid sleep 1000 & sleep 1000"
    run = [
        kubectl,
        "--kubeconfig",
        up["kubeconfig"],
        "run",
        "pod",
        "--image=none",
        "--command",
        "--",
        "sh",
        "-c",
        script,
    ]
    subprocess.run(run, check=True, capture_output=True, env=sandbox.env)
    wait_for(
        "the pod's processes", sandbox.machine_state, lambda now: sum("sleep 1000" in p for p in now.processes) >= 2
    )
    os.kill(up["pid"], signal.SIGKILL)
    sandbox.expect_nothing_left(before)
    assert sandbox.run("up", "--simulate-nodes", "1").returncode == 0


def test_a_full_disk_is_one_clear_line(sandbox: Sandbox, tmp_path: Path) -> None:
    mounted = 'mount -t tmpfs -o size=16m none "$XDG_STATE_HOME" && exec "$@"'
    sandbox.state.mkdir()
    argv = ["unshare", "--mount", "sh", "-c", mounted, "sh", *sandbox.command("up", "--json")]
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system needs the right to mount (root)")
    result = subprocess.run(argv, env=sandbox.env, capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stdout) == (ENVIRONMENT_CODE, "")
    [error] = [line for line in result.stderr.splitlines() if not line.startswith("waiting")]
    assert "no space left on the disk" in error
    assert "a cluster needs 256 MiB" in error


def test_a_state_folder_that_cannot_be_is_one_clear_line(sandbox: Sandbox) -> None:
    sandbox.state.write_text("a file")
    result = sandbox.run("up")
    assert (result.returncode, result.stdout) == (ENVIRONMENT_CODE, "")
    [error] = [line for line in result.stderr.splitlines() if not line.startswith("waiting")]
    assert error == f"error: {sandbox.folder()}: Not a directory"


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "-a", "x" * 33])
def test_a_name_that_cannot_be_is_refused_with_the_rule(sandbox: Sandbox, name: str) -> None:
    result = sandbox.run("up", "--name", name)
    assert result.returncode == BAD_INPUT_CODE
    assert f"cluster name {name!r} is not 1-32 lower-case letters" in result.stderr


def test_the_logs_of_a_cluster_outlive_the_test_that_failed_on_it(tmp_path: Path) -> None:
    box = Sandbox(tmp_path / "sandbox-failed")
    folder = box.folder("mine") / "logs"
    folder.mkdir(parents=True)
    (folder / "etcd.log").write_text("why")
    kept_logs = SessionLogs(tmp_path / "kept", failed=True)
    box.close(kept_logs)
    assert not folder.exists()
    assert (kept_logs.folder / "sandbox-failed" / "mine" / "etcd.log").read_text() == "why"


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: CURRENT
"""


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (None, BAD_INPUT_CODE, "no such file or directory"),
        ("{", BAD_INPUT_CODE, "not YAML"),
        ("kind: Pod", BAD_INPUT_CODE, "kind is not Config"),
        (
            KUBECONFIG.replace("CURRENT", "other"),
            BAD_INPUT_CODE,
            "current-context 'other' is not among its contexts: c",
        ),
        (KUBECONFIG.replace("CURRENT", "c"), ENVIRONMENT_CODE, "no answer from https://127.0.0.1:1"),
    ],
    ids=["missing", "broken", "no config", "wrong context", "no server"],
)
def test_a_wrong_kubeconfig_is_one_clear_line(
    sandbox: Sandbox, tmp_path: Path, text: str | None, code: int, message: str
) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    for verb in ("up", "status"):
        result = sandbox.run(verb, "--kubeconfig", str(path), "--json")
        assert (result.returncode, result.stdout) == (code, ""), result.stderr
        [line] = result.stderr.splitlines()
        assert message in line
