"""The parts of a cluster that decide without one: paths, variables, states, control groups, images."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from urllib3.exceptions import ReadTimeoutError

from powertrain_devcluster import kubeconfig
from powertrain_devcluster.builds import images
from powertrain_devcluster.connection import connect
from powertrain_devcluster.errors import BadInputError, UnsupportedMachineError
from powertrain_devcluster.k3s.inner import credentials_in
from powertrain_devcluster.node import cgroup as node_cgroup
from powertrain_devcluster.node import programs as node_programs
from powertrain_devcluster.standin import spec as standin_spec
from powertrain_devcluster.standin.spec import Addresses, CannotStartError, Sources
from powertrain_devcluster.standin.status import ContainerState, keep_transitions, phase
from powertrain_devcluster.testing.waits import wait_for
from powertrain_kube import AwayError

MOUNTS = {"/data": "/real/data", "/data/sub": "/real/sub", "/dev/termination-log": "/real/log"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data", "/real/data"),
        ("/data/file", "/real/data/file"),
        ("/data/sub/file", "/real/sub/file"),
        ("cat /data/x > /dev/termination-log", "cat /real/data/x > /real/log"),
        ("--path=/data:/data/sub", "--path=/real/data:/real/sub"),
        ("/database", "/database"),
        ("/data-2", "/data-2"),
        ("/other/data", "/other/data"),
        ("./data", "./data"),
    ],
)
def test_a_mount_path_is_replaced_only_where_it_is_a_path_of_its_own(text: str, expected: str) -> None:
    assert standin_spec.rewrite_paths(text, MOUNTS) == expected


@given(st.text(alphabet=st.characters(exclude_characters="/")))
def test_text_without_a_path_is_never_changed(text: str) -> None:
    assert standin_spec.rewrite_paths(text, MOUNTS) == text


@pytest.mark.parametrize(
    ("image", "name"),
    [("agent", "agent"), ("host:5000/team/agent:v1", "agent"), ("ghcr.io/x/agent@sha256:0", "agent")],
)
def test_an_image_is_known_by_its_last_name(image: str, name: str) -> None:
    assert standin_spec.image_name(image) == name


def test_an_unknown_field_is_refused_with_the_known_ones() -> None:
    pod = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {}}
    with pytest.raises(CannotStartError, match=r"'spec\.nobody' is not one of: metadata\.name"):
        standin_spec.field_ref(pod, "spec.nobody", Addresses("1", "2"))


def test_a_missing_optional_key_leaves_the_variable_out() -> None:
    sources = Sources(lambda name: {}, lambda name: {}, {})
    reference = {"name": "m", "key": "k", "optional": True}
    container: dict[str, Any] = {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": reference}}]}
    assert standin_spec.environment({}, container, Addresses("", ""), sources) == {}


def ended(code: int) -> ContainerState:
    state = ContainerState("c", "i")
    state.start("id")
    state.end(code, "")
    return state


def running() -> ContainerState:
    state = ContainerState("c", "i")
    state.start("id")
    return state


@pytest.mark.parametrize(
    ("initialised", "init_failed", "mains", "over", "expected"),
    [
        (False, False, [ContainerState("c", "i")], False, "Pending"),
        (True, False, [ContainerState("c", "i")], False, "Pending"),
        (True, False, [running()], False, "Running"),
        (True, False, [running(), ended(1)], False, "Running"),
        (True, False, [ended(0), ended(0)], True, "Succeeded"),
        (True, False, [ended(0), ended(1)], True, "Failed"),
        (False, True, [ContainerState("c", "i")], True, "Failed"),
    ],
)
def test_the_phase_follows_from_the_containers(
    initialised: bool, init_failed: bool, mains: list[ContainerState], over: bool, expected: str
) -> None:
    assert phase(initialised, init_failed, mains, over) == expected


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    old = [{"type": "Ready", "status": "True", "lastTransitionTime": "1"}]
    same = [{"type": "Ready", "status": "True", "lastTransitionTime": "2"}]
    other = [{"type": "Ready", "status": "False", "lastTransitionTime": "2"}]
    assert keep_transitions(old, same)[0]["lastTransitionTime"] == "1"
    assert keep_transitions(old, other)[0]["lastTransitionTime"] == "2"


def proc(folder: Path, cgroup: str, mountinfo: str) -> Path:
    (folder / "cgroup").write_text(cgroup)
    (folder / "mountinfo").write_text(mountinfo)
    return folder


def test_groups_of_v1_hierarchies_lie_below_our_own(tmp_path: Path) -> None:
    fake = proc(
        tmp_path,
        "4:memory:/box\n2:cpu,cpuacct:/\n1:name=systemd:/s\n",
        "1 0 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "2 0 0:2 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "3 0 0:3 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n",
    )
    groups = {str(each.group("pt")): each.options for each in node_cgroup.hierarchies(fake)}
    assert groups == {
        "/sys/fs/cgroup/memory/box/pt": "memory",
        "/sys/fs/cgroup/cpu/pt": "cpu,cpuacct",
        "/sys/fs/cgroup/systemd/s/pt": "name=systemd",
    }


def test_the_group_of_a_v2_hierarchy_lies_at_its_top(tmp_path: Path) -> None:
    fake = proc(tmp_path, "0::/user.slice\n", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n")
    [hierarchy] = node_cgroup.hierarchies(fake)
    assert (hierarchy.version, str(hierarchy.group("pt"))) == (2, "/sys/fs/cgroup/pt")


def test_without_root_a_real_node_says_that_it_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UnsupportedMachineError, match="a real node needs root"):
        node_programs.require_machine()


def test_the_same_tree_gives_the_same_layer_and_a_readable_archive(tmp_path: Path) -> None:
    digests = []
    for name in ("a", "b"):
        root = tmp_path / name
        (root / "bin").mkdir(parents=True)
        (root / "bin" / "tool").write_text("x")
        os.utime(root / "bin" / "tool", (len(digests), len(digests)))
        digests.append(images.write_layer(root, tmp_path / f"{name}.tar"))
    assert digests[0] == digests[1]
    out = tmp_path / "image.tar"
    images.write_archive(out, "x:dev", [(tmp_path / "a.tar", digests[0])], {"Entrypoint": ["/bin/tool"]})
    with tarfile.open(out) as archive:
        manifest = json.load(archive.extractfile("manifest.json") or pytest.fail("no manifest"))
        config = json.load(archive.extractfile(manifest[0]["Config"]) or pytest.fail("no config"))
    assert manifest[0]["RepoTags"] == ["x:dev"]
    assert config["rootfs"]["diff_ids"] == [digests[0]]


def test_an_unknown_image_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInputError, match="'nobody' is not one of: agent, "):
        images.recipe("nobody")


@pytest.mark.parametrize("name", ["agent"])
def test_every_file_that_an_image_lists_is_in_the_checkout(name: str) -> None:
    assert [source for source, _ in images.recipe(name).files() if not source.exists()] == []


def test_a_kubeconfig_with_a_token_sends_it(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text("not read before the first connection")
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig.render("site", "https://127.0.0.1:1", authority, {"token": "opensesame"}))
    assert connect(path)._authorization() == {"Authorization": "Bearer opensesame"}


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_server_that_does_not_answer_is_away(tmp_path: Path) -> None:
    authority, path = tmp_path / "ca.crt", tmp_path / "kubeconfig"
    authority.write_text("not read before there is a connection")
    path.write_text(kubeconfig.render("site", f"https://127.0.0.1:{closed_port()}", authority, {"token": "t"}))
    with pytest.raises(AwayError, match=r"GET /api: .*refused"):
        connect(path).get("/api")


@pytest.mark.parametrize(
    "problem", [AwayError("GET /api: 503"), ReadTimeoutError(None, "/api", "timed out"), OSError("refused")]
)
def test_a_wait_goes_on_while_the_server_can_not_answer(problem: Exception) -> None:
    answers = iter([problem, "answer"])

    def read() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert wait_for("an answer", read) == "answer"


def test_a_wait_that_gives_up_says_which_error_it_saw_last() -> None:
    def read() -> str:
        raise AwayError("GET /api: no answer")

    with pytest.raises(AssertionError, match=r"waited 0 s for it; last saw: AwayError\('GET /api: no answer'\)"):
        wait_for("it", read, deadline_s=0.0)


INTERRUPTED_WHILE_FORKING = """
import os, signal, sys
from pathlib import Path
from powertrain_devcluster.process import spawn
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    spawn("sleep", ["sleep", "1000"], Path(sys.argv[1]), env=dict(os.environ))
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_an_interrupt_while_a_process_is_forked_is_not_lost(tmp_path: Path) -> None:
    argv = ["env", "--default-signal=INT", sys.executable, "-c", INTERRUPTED_WHILE_FORKING, str(tmp_path / "log")]
    result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (result.stdout, result.stderr) == ("interrupted True\n", "")


def test_a_kubeconfig_that_k3s_has_only_begun_to_write_has_no_credentials_yet() -> None:
    assert credentials_in("") is None
    assert credentials_in("apiVersion: v1\nkind: Config\nusers:\n") is None
    user = {"client-certificate-data": "Yw==", "client-key-data": "aw=="}
    whole = {"clusters": [{"cluster": {"certificate-authority-data": "YQ=="}}], "users": [{"user": user}]}
    assert credentials_in(yaml.safe_dump(whole)) == {"ca.crt": "YQ==", "admin.crt": "Yw==", "admin.key": "aw=="}
