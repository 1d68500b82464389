"""The verbs as people run them: on a cluster without PowerTrain, without any right, and through the life of a job."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from powertrain.api.resources import TRAINING_JOBS
from powertrain_devcluster import kubeconfig
from powertrain_devcluster.builds import binaries
from powertrain_devcluster.connection import connect
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.fleet import Fleet, FleetSettings
from powertrain_devcluster.testing.waits import SessionLogs, wait_for
from powertrain_kube import KubeApi

pytestmark = pytest.mark.timeout(600)
Object = dict[str, Any]
Done = subprocess.CompletedProcess[str]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/mobilenet-v3.yaml"
NODE, STOP_FILE = "verbs-orin", "tmp/training-is-over"
VERBS = {
    "submit": ["submit", str(EXAMPLE)],
    "list": ["list"],
    "status": ["status", "some"],
    "explain": ["explain", "some"],
    "front": ["front", "some"],
    "nodes": ["nodes"],
    "restore": ["restore", "some"],
    "why-pending": ["why-pending", "some"],
    "profiles": ["profiles"],
}

# As the chart's role for people who train, bound in one namespace.
TRAINER: list[Object] = [
    {"apiGroups": ["powertrain.io"], "resources": ["trainingjobs", "powerprofiles"], "verbs": ["get", "list"]}
]


@dataclass(frozen=True)
class Shell:
    """A user's shell: the commands on its PATH, and the cluster that it is about."""

    kubeconfig: Path

    @property
    def env(self) -> dict[str, str]:
        # A terminal's colours are wanted where there is one, whatever the tests themselves run in.
        environment = {
            name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")
        }
        path = f"{Path(sys.executable).parent}:{binaries.kubectl().parent}:{os.environ['PATH']}"
        return {**environment, "KUBECONFIG": str(self.kubeconfig), "PATH": path, "TERM": "xterm-256color"}

    def __call__(self, *command: str) -> Done:
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=False, timeout=120)

    def json(self, *command: str, code: int = 0) -> Any:
        result = self(*command, "--json")
        assert result.returncode == code, result.stderr
        return json.loads(result.stdout)

    def each(self, commands: Mapping[str, list[str]], *program: str) -> dict[str, Done]:
        """Run several at once: most of their time is the start of Python."""
        with ThreadPoolExecutor(3) as pool:
            results = pool.map(lambda arguments: self(*(program or ("powertrain",)), *arguments), commands.values())
            return dict(zip(commands, results, strict=True))


@dataclass(frozen=True)
class OneBoardCluster:
    """A cluster with one board; what each verb said before PowerTrain was there; and its administrator."""

    plane: ControlPlane
    fleet: Fleet
    before: Mapping[str, Done]
    rest: KubeApi
    shell: Shell


@pytest.fixture(scope="module")
def cluster(
    cluster_binaries: dict[str, Path], session_logs: SessionLogs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OneBoardCluster]:
    root, logs = tmp_path_factory.mktemp("verbs"), session_logs.folder / "verbs"
    with ControlPlane(cluster_binaries, root / "plane", logs=logs) as plane:
        shell = Shell(plane.kubeconfig)
        before = shell.each(VERBS)
        settings, env = FleetSettings({NODE: "orin-agx"}, time_scale=30.0), plane.environment()
        with Fleet(plane.kubeconfig, settings, root / "nodes", logs=logs, env=env) as fleet:
            rest = connect(plane.kubeconfig)
            yield OneBoardCluster(plane, fleet, before, rest, shell)
            rest.close()


def user(cluster: OneBoardCluster, name: str, folder: Path, rules: list[Object]) -> Shell:
    """Return the shell of a service account that may do this in the namespace default, and nothing else."""
    group = "rbac.authorization.k8s.io"
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    roles = f"/apis/{group}/v1/namespaces/default"
    cluster.rest.create(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules}
    cluster.rest.create(f"{roles}/roles", role)
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }
    cluster.rest.create(f"{roles}/rolebindings", binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = cluster.rest.create(f"{accounts}/{name}/token", request)["status"]["token"]
    path = folder / name
    path.write_text(kubeconfig.render("verbs", cluster.plane.server, cluster.rest.ca_file, {"token": token}))
    return Shell(path)


def test_before_powertrain_is_installed_each_verb_says_so_in_one_line(cluster: OneBoardCluster) -> None:
    for verb, result in cluster.before.items():
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (3, "", 1), (verb, result)
        assert "powertrain.io: install PowerTrain there first" in result.stderr, verb


def test_without_any_right_each_verb_says_so_in_one_line(cluster: OneBoardCluster, tmp_path: Path) -> None:
    nobody = user(cluster, "nobody", tmp_path, [])
    for verb, result in nobody.each(VERBS).items():
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (3, "", 1), (verb, result)
        assert result.stderr.startswith("error: no permission: "), verb
        assert 'User "system:serviceaccount:default:nobody" cannot' in result.stderr, verb


def manifest(folder: Path) -> Path:
    """Write the example as a job that tries few modes and trains until a file says stop."""
    job = yaml.safe_load(EXAMPLE.read_text())
    job["spec"]["profiling"] = {"maxModes": 3}
    container = job["spec"]["workload"]["template"]["spec"]["containers"][0]
    container["command"] = ["powertrain-simtrain", "mobilenet-v3", "--stop-file", f"/board/{STOP_FILE}"]
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    return path


class Terminal:
    """`powertrain status JOB` on a terminal, as a person watches it."""

    def __init__(self, shell: Shell, job: str) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            ["powertrain", "status", job], env=shell.env, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
        )
        os.close(theirs)
        self.output = ""

    def until(self, words: str) -> None:
        """Read until a picture shows these words after what was read before."""
        fresh = ""
        while words not in fresh:
            fresh += os.read(self._ours, 65536).decode(errors="replace")
        self.output += fresh

    def end(self) -> int:
        """Read to its end; returns the exit code."""
        try:
            while chunk := os.read(self._ours, 65536):
                self.output += chunk.decode(errors="replace")
        except OSError:  # Linux says so when the last writer has closed its side
            pass
        os.close(self._ours)
        return self._process.wait(timeout=30)


def phase(cluster: OneBoardCluster, job: str, *phases: str) -> Object:
    path = TRAINING_JOBS.path(job, "default")
    return wait_for(
        f"{job}: {phases}", lambda: cluster.rest.get(path), lambda body: body["status"].get("phase") in phases, 240.0
    )


def chosen(cluster: OneBoardCluster, job: str) -> None:
    """Wait until no mode is checked: what runs then is the choice, beside its runner-up."""
    path = TRAINING_JOBS.path(job, "default")
    wait_for(f"{job} in its chosen mode", lambda: cluster.rest.get(path)["status"]["nodes"], is_chosen, 120.0)


def is_chosen(nodes: list[Object]) -> bool:
    return bool(nodes) and all(node.get("reason") == "Chosen" and node.get("runnerUp") for node in nodes)


def test_every_verb_tells_the_life_of_a_job(cluster: OneBoardCluster, tmp_path: Path) -> None:
    shell, file = cluster.shell, str(manifest(tmp_path))
    submission = shell("kubectl", "powertrain", "submit", file)
    assert (submission.returncode, submission.stdout) == (
        0,
        "created mobilenet-v3; see: powertrain status mobilenet-v3\n",
    )
    assert shell.json("powertrain", "submit", file, "--name", "second", "--power", "20")["name"] == "second"
    phase(cluster, "mobilenet-v3", "Running")
    chosen(cluster, "mobilenet-v3")
    expect_while_it_runs(shell, tmp_path / "front.svg")
    expect_for_one_namespace(user(cluster, "trainer", tmp_path, TRAINER))
    cluster.rest.delete(TRAINING_JOBS.path("second", "default"))
    terminal = Terminal(shell, "mobilenet-v3")
    terminal.until("of 30 W")
    stop = cluster.fleet.nodes.node_root(NODE) / STOP_FILE
    stop.parent.mkdir(parents=True, exist_ok=True)
    stop.touch()
    terminal.until("Succeeded")
    assert terminal.end() == 0
    assert "\x1b[32m" in terminal.output, "a running job is green on a terminal"
    expect_after_its_end(cluster)


def expect_while_it_runs(shell: Shell, picture: Path) -> None:
    job = "mobilenet-v3"
    commands = {verb: [verb] for verb in ("list", "nodes", "profiles")}
    commands |= {verb: [verb, job] for verb in ("status", "explain")}
    commands |= {"front": ["front", job, "--plot", str(picture)], "why-pending": ["why-pending", "second"]}
    plain = shell.each(commands)
    documents = shell.each({verb: [*command, "--json"] for verb, command in commands.items()}, "kubectl", "powertrain")
    for verb in commands:
        for result in (plain[verb], documents[verb]):
            assert (result.returncode, result.stderr) == (0, ""), (verb, result)
            assert "\x1b" not in result.stdout, verb
        assert json.loads(documents[verb].stdout), verb
    assert NODE in plain["list"].stdout
    assert "of 30 W" in plain["status"].stdout
    assert "predicted:" in plain["status"].stdout
    assert "the runner-up takes" in plain["explain"].stdout
    assert "boards, best for this job first" in plain["explain"].stdout
    assert f"drawn: {picture}" in plain["front"].stdout
    assert "limit 30 W" in picture.read_text()
    assert f"default/{job}" in plain["nodes"].stdout
    assert f"held by default/{job}" in plain["why-pending"].stdout
    assert "mobilenet-v3-b16-orin-agx" in plain["profiles"].stdout
    refused = shell("powertrain", "restore", NODE)
    assert (refused.returncode, refused.stdout.startswith("refused: ")) == (1, True), refused
    assert job in refused.stdout


def expect_for_one_namespace(trainer: Shell) -> None:
    result = trainer("powertrain", "explain", "mobilenet-v3")
    assert result.returncode == 0, result
    assert "may not list trainingjobs of other namespaces, powernodes, powerprofiles of other" in result.stderr
    assert "chosen: " in trainer("powertrain", "front", "mobilenet-v3").stdout
    assert result.stdout.startswith("mobilenet-v3: Running, MinTime with 30 W\n")
    document = trainer.json("powertrain", "why-pending", "second")
    assert document["pending"]


def expect_after_its_end(cluster: OneBoardCluster) -> None:
    path = TRAINING_JOBS.path("mobilenet-v3", "default")
    wait_for("its board", lambda: cluster.rest.get(path), lambda body: not body["metadata"].get("finalizers"), 60.0)
    shell = cluster.shell
    restored = shell("powertrain", "restore", NODE)
    assert (restored.returncode, restored.stdout) == (0, f"original settings of {NODE} restored; no job uses it\n")
    assert [line["phase"] for line in shell.json("powertrain", "list")["jobs"]] == ["Succeeded"]
    missing = shell("kubectl", "powertrain", "status", "nope")
    words = "error: no TrainingJob 'nope' in namespace 'default'; there are: mobilenet-v3\n"
    assert (missing.returncode, missing.stderr) == (2, words)
