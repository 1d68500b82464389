"""Every manifest of examples/ is accepted as it stands; those that can run here reach their end on simulated boards."""

from __future__ import annotations

import importlib.util
import os
import random
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from powertrain_devcluster.builds import binaries
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.fleet import Fleet, FleetSettings
from powertrain_devcluster.testing.waits import namespace, wait_for
from powertrain_kube import KubeApi

Object = dict[str, Any]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BOARDS = {"example-agx": "orin-agx", "example-xavier": "xavier-agx", "example-nano": "orin-nano"}
# Steps that are enough to be tried in a few modes, on boards that live 20 times as fast.
SIMULATED = {
    "mobilenet-v3.yaml": 400,
    "resnet18.yaml": 300,
    "yolov8n.yaml": 150,
    "bert.yaml": 40,
    "lstm.yaml": 600,
    "train-once.yaml": 300,
    "fine-tune.yaml": 300,
}
OTHERS = (
    "batch-sizes.yaml",
    "continuous-learning.yaml",
    "site-policy.yaml",
    "solar-charger.yaml",
    "solar-shed.yaml",
    "battery-site.yaml",
    "pytorch",
    "ddp",
    "lora",
    "federated",
    "step-loop",
)
# Its kinds are Kueue's: tests/cluster/test_kueue.py.
QUEUED = "kueue.yaml"
# Importing torch in three pods at once takes minutes where many things share two cores.
pytestmark = pytest.mark.timeout(1200)
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


class Kubectl:
    """The real kubectl in one namespace."""

    def __init__(self, program: Path, kubeconfig: Path, home: str) -> None:
        self._command = [str(program), "--kubeconfig", str(kubeconfig), "--namespace", home]
        self.namespace = home

    def __call__(self, *arguments: str, text: str | None = None) -> str:
        result = subprocess.run([*self._command, *arguments], input=text, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"kubectl {' '.join(arguments)}: {result.stderr}"
        return result.stdout

    def apply(self, objects: list[Object]) -> None:
        self("apply", "--filename", "-", text=yaml.safe_dump_all(objects))

    def objects(self, example: str) -> list[Object]:
        """Return what a manifest, or a folder of kustomize, consists of."""
        path = EXAMPLES / example
        text = path.read_text() if path.is_file() else self("kustomize", str(path))
        return [document for document in yaml.safe_load_all(text) if document]


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    env = control_plane.environment()
    # Pods of two examples run kubectl.
    env = {**env, "PATH": f"{binaries.kubectl().parent}:{env.get('PATH', os.defpath)}"}
    settings = FleetSettings(BOARDS, time_scale=20.0, servers=["example-server"])
    root = tmp_path_factory.mktemp("examples")
    with Fleet(control_plane.kubeconfig, settings, root, logs=control_plane.logs, env=env) as running:
        yield running


@pytest.fixture(scope="module")
def kubectl(fleet: Fleet, kube: KubeApi) -> Iterator[Kubectl]:
    with namespace(kube, "examples") as name:
        yield Kubectl(binaries.kubectl(), fleet.kubeconfig, name)


@pytest.fixture
def ended(kube: KubeApi, kubectl: Kubectl) -> Callable[..., Object]:
    def wait(name: str, deadline_s: float = 600.0) -> Object:
        path = f"/apis/powertrain.io/v1alpha1/namespaces/{kubectl.namespace}/trainingjobs/{name}"
        phases = ("Succeeded", "Failed")
        job = wait_for(
            f"{name} to end",
            lambda: kube.get(path),
            lambda body: (body.get("status") or {}).get("phase") in phases and not body["metadata"].get("finalizers"),
            deadline_s,
        )
        assert job["status"]["phase"] == "Succeeded", job["status"]
        return job

    return wait


def hurry(job: Object, steps: int | None = None) -> Object:
    """Make a job short: few modes, few steps."""
    job["spec"].setdefault("profiling", {})["maxModes"] = 3
    if steps is not None:
        container = job["spec"]["workload"]["template"]["spec"]["containers"][0]
        container["command"] = [*container["command"][:2], "--steps", str(steps)]
    return job


def test_every_example_is_tested() -> None:
    files = {path.name for path in EXAMPLES.glob("*.yaml")}
    folders = {path.parent.name for path in EXAMPLES.glob("*/kustomization.yaml")}
    assert files | folders == {*SIMULATED, *OTHERS, QUEUED}


@pytest.mark.parametrize("example", [*SIMULATED, *OTHERS])
def test_a_manifest_is_accepted_as_it_stands(kubectl: Kubectl, example: str) -> None:
    text = yaml.safe_dump_all(kubectl.objects(example))
    output = kubectl("apply", "--dry-run=server", "--validate=strict", "--filename", "-", text=text)
    assert "created (server dry run)" in output


def test_the_simulated_workloads_run_to_their_end(kubectl: Kubectl, ended: Callable[..., Object]) -> None:
    names = {}
    for example, steps in SIMULATED.items():
        objects = kubectl.objects(example)
        names[example] = hurry(objects[-1], steps)["metadata"]["name"]
        kubectl.apply(objects)
    jobs = {example: ended(name) for example, name in names.items()}
    for job in jobs.values():
        conditions = {c["type"]: c["status"] for c in job["status"]["conditions"]}
        assert (conditions["Admitted"], conditions["ModeApplied"], conditions["Complete"]) == ("True",) * 3
    assert jobs["mobilenet-v3.yaml"]["status"]["nodes"][0]["limitWatts"] == 30


def test_a_study_of_batch_sizes_ends_and_its_job_trains_with_one_of_them(
    kubectl: Kubectl, kube: KubeApi, ended: Callable[..., Object]
) -> None:
    study, job = kubectl.objects("batch-sizes.yaml")
    study["spec"]["seeds"] = 1
    job["spec"]["placement"] = {"nodeSelector": {"powertrain.io/device": "orin-agx"}}
    # Enough for a size to be measured while a busy machine plans; a trial ends as soon as its profile is stored.
    kubectl.apply([study, hurry(job, 2400)])
    path = f"/apis/powertrain.io/v1alpha1/namespaces/{kubectl.namespace}/batchstudies/proxy"
    status = wait_for(
        "the study", lambda: kube.get(path)["status"], lambda reported: reported.get("completedAt"), 240.0
    )
    assert (status["phase"], status["relation"]) == ("Succeeded", "8: 0.50, 32: 1.00")
    batch = ended("batch-sizes")["status"]["batch"]
    assert {each["batchSize"]: each["state"] for each in batch["sizes"]} == {8: "Profiled", 32: "Profiled"}
    assert batch["chosen"] in (8, 32)


def test_the_second_night_reuses_the_profile_of_the_first(
    kubectl: Kubectl, kube: KubeApi, ended: Callable[..., Object]
) -> None:
    objects = kubectl.objects("continuous-learning.yaml")
    config = next(document for document in objects if document["kind"] == "ConfigMap")
    job = hurry(yaml.safe_load(config["data"]["job.yaml"]), 900)
    # One kind of board, so that the second night can't come to another.
    job["spec"]["placement"] = {"nodeSelector": {"powertrain.io/device": "orin-agx"}}
    config["data"]["job.yaml"] = yaml.safe_dump(job)
    kubectl.apply(objects)
    path = f"/apis/powertrain.io/v1alpha1/namespaces/{kubectl.namespace}/trainingjobs"
    finished_jobs: list[Object] = []
    for night in (1, 2):
        kubectl("create", "job", f"night-{night}", "--from=cronjob/nightly-training")
        earlier_names = {each["metadata"]["name"] for each in finished_jobs}

        def new(earlier_names: set[str] = earlier_names) -> list[str]:
            jobs = [each["metadata"]["name"] for each in kube.get(path)["items"]]
            return [name for name in jobs if name.startswith("nightly-") and name not in earlier_names]

        finished_jobs.append(ended(wait_for("the night's TrainingJob", new)[0]))
    profiles = kube.get(f"/apis/powertrain.io/v1alpha1/namespaces/{kubectl.namespace}/powerprofiles")["items"]
    nightly = [each for each in profiles if each["spec"]["workload"] == "nightly"]
    assert [each["status"]["uses"] for each in nightly] == [1]


@pytest.mark.torch
@needs_torch
def test_an_unmodified_pytorch_script_is_counted_and_leaves_checkpoints(
    kubectl: Kubectl, fleet: Fleet, ended: Callable[..., Object]
) -> None:
    objects = kubectl.objects("pytorch")
    assert "powertrain" not in next(o for o in objects if o["kind"] == "ConfigMap")["data"]["train.py"].lower().replace(
        "knows nothing of powertrain", ""
    )
    job = hurry(next(document for document in objects if document["kind"] == "TrainingJob"))
    job["spec"]["workload"]["epochs"] = 6
    kubectl.apply(objects)
    status = ended("pytorch")["status"]
    assert status["progress"]["samples"] >= 4096 * 5
    board = fleet.nodes.node_root(status["nodes"][0]["name"])
    assert (board / "var/lib/training/pytorch/last.pt").stat().st_size > 0


def quiet_port() -> int:
    """Return a free port that no process is given by chance: it lies below those that the kernel hands out."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


ROUND = re.compile(
    r"round \d+: (?P<round>[\d.]+) s, slowest is replica (?P<slowest>\d) with (?P<took>[\d.]+) s "
    r"\(each: (?P<each>.+) s\)"
)


@pytest.mark.torch
@needs_torch
def test_three_boards_end_with_the_same_weights_and_say_which_is_slowest(
    kubectl: Kubectl, fleet: Fleet, ended: Callable[..., Object]
) -> None:
    objects = kubectl.objects("federated")
    job = hurry(next(document for document in objects if document["kind"] == "TrainingJob"))
    job["spec"]["workload"]["epochs"] = 6
    container = job["spec"]["workload"]["template"]["spec"]["containers"][0]
    # Processes of one machine: no cluster DNS, one loopback.
    local = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(quiet_port()), "GLOO_SOCKET_IFNAME": "lo", "SAMPLES": "512"}
    container["env"] += [{"name": name, "value": value} for name, value in local.items()]
    kubectl.apply(objects)
    nodes = ended("federated")["status"]["nodes"]
    limits = {BOARDS[node["name"]]: node["limitWatts"] for node in nodes}
    assert limits == {"orin-agx": 30, "xavier-agx": 20, "orin-nano": 8}
    logs = [next(fleet.logs.glob(f"pod.{kubectl.namespace}.federated-{n}-1-*.train.log")).read_text() for n in range(3)]
    ends = [re.findall(r"replica (\d) ends with the weights (\w+) after 6 rounds", log) for log in logs]
    assert [[replica for replica, _ in end] for end in ends] == [["0"], ["1"], ["2"]]
    assert len({weights for end in ends for _, weights in end}) == 1
    rounds = list(ROUND.finditer(logs[0]))
    assert len(rounds) == 6
    for each in rounds:
        took_s = [float(seconds) for seconds in each["each"].split(", ")]
        assert float(each["took"]) == max(took_s) == took_s[int(each["slowest"])]
        assert float(each["round"]) >= float(each["took"])


def test_a_loop_that_is_no_network_is_counted_by_its_own_calls(kubectl: Kubectl, ended: Callable[..., Object]) -> None:
    objects = kubectl.objects("step-loop")
    job = hurry(next(document for document in objects if document["kind"] == "TrainingJob"))
    job["spec"]["workload"]["epochs"] = 10
    kubectl.apply(objects)
    status = ended("step-loop")["status"]
    assert status["progress"]["samples"] == 10 * 102400


def test_the_sites_policy_reaches_its_boards(kubectl: Kubectl, kube: KubeApi) -> None:
    objects = kubectl.objects("site-policy.yaml")
    kubectl("label", "node", "example-nano", "site=greenhouse")
    kubectl("label", "node", "example-xavier", "site=laboratory")
    try:
        kubectl.apply(objects)
        path = "/apis/powertrain.io/v1alpha1"
        node = wait_for(
            "the policy on the board",
            lambda: kube.get(f"{path}/powernodes/example-nano")["spec"].get("policy") or {},
            lambda policy: policy.get("maxWatts") == 20,
        )
        assert (node["hardMaxWatts"], node["powerOffsetWatts"]) == (25, 1.5)
        available = wait_for(
            "the policy's status",
            lambda: kube.get(f"{path}/powerpolicies/laboratory").get("status") or {},
            lambda status: status.get("nodes") == 1,
        )
        assert available["nodes"] == 1
    finally:
        kubectl("delete", "powerpolicy", "greenhouse", "laboratory")
        kubectl("label", "node", "example-nano", "example-xavier", "site-")


def test_the_suns_watts_reach_the_envelope(
    kubectl: Kubectl, fleet: Fleet, kube: KubeApi, ended: Callable[..., Object]
) -> None:
    objects = kubectl.objects("solar-charger.yaml")
    binding = next(document for document in objects if document["kind"] == "ClusterRoleBinding")
    binding["subjects"][0]["namespace"] = kubectl.namespace
    sun = fleet.nodes.node_root("example-agx") / "run/solar"
    sun.mkdir(parents=True)
    (sun / "watts").write_text("22\n")
    # Two minutes old: fresh enough to count, old enough to tell it from the time of the reading.
    written_s = round(time.time()) - 120
    os.utime(sun / "watts", (written_s, written_s))
    try:
        kubectl("label", "node", "example-agx", "power=solar")
        kubectl.apply(objects)
        wait_for(
            "the annotation",
            lambda: kube.get("/api/v1/nodes/example-agx")["metadata"]["annotations"]["powertrain.io/available-watts"],
            lambda watts: watts == "22",
        )
        at = kube.get("/api/v1/nodes/example-agx")["metadata"]["annotations"]["powertrain.io/available-watts-at"]
        assert datetime.fromisoformat(at).timestamp() == written_s
        job = hurry(kubectl.objects("mobilenet-v3.yaml")[0], 300)
        job["metadata"]["name"] = "by-the-sun"
        # Visits above the limit end in time only if the agent sees every reading; on a board that lives 20 times as
        # fast, a busy machine is late by seconds. What is tested here is whose limit holds.
        job["spec"]["profiling"]["caution"] = "High"
        job["spec"]["placement"] = {"nodeSelector": {"power": "solar"}}
        kubectl.apply([job])
        path = "/apis/powertrain.io/v1alpha1/powernodes/example-agx"
        session = wait_for("the envelope", lambda: kube.get(path)["spec"]["session"], bool)
        assert session["availableWatts"]["watts"] == 22
        assert ended("by-the-sun")["status"]["nodes"][0]["violations"] == 0
    finally:
        kubectl(
            "delete", "--ignore-not-found", "--cascade=foreground", "--filename", "-", text=yaml.safe_dump_all(objects)
        )
        kubectl("label", "node", "example-agx", "power-")
        kubectl(
            *("annotate", "node", "example-agx", "powertrain.io/available-watts-", "powertrain.io/available-watts-at-")
        )


def test_a_fleet_that_cannot_start_quotes_what_its_process_said(control_plane: ControlPlane, tmp_path: Path) -> None:
    settings = FleetSettings(
        {"odd": "no-such-board"}, namespace="odd-system", operator_options=["--cluster-lease", "odd-system"]
    )
    env = control_plane.environment()
    fleet = Fleet(control_plane.kubeconfig, settings, tmp_path / "nodes", logs=tmp_path, env=env)
    with pytest.raises(ClusterError, match=r"agent-odd ended with code \d+: .*no-such-board"), fleet:
        pass
