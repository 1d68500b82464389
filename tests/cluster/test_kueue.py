"""A TrainingJob in a queue of the real Kueue, as examples/kueue.yaml has it: held, admitted, preempted."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from powertrain.api.resources import POWER_NODES, TRAINING_JOBS
from powertrain_devcluster.builds import prepare
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.errors import MissingToolError
from powertrain_devcluster.fleet import Fleet, FleetSettings
from powertrain_devcluster.testing.waits import namespace, wait_for
from powertrain_devcluster.tools import kueue
from powertrain_devcluster.tools.kueue import Kueue
from powertrain_kube import KubeApi, NotFoundError

Object = dict[str, Any]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/kueue.yaml"
BOARDS = {"queue-agx": "orin-agx", "queue-xavier": "xavier-agx"}
QUEUES = "/apis/kueue.x-k8s.io/v1beta2"
# A job of the example requests two cores.
ROOM_FOR_ONE = "3"
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    settings = FleetSettings(BOARDS, time_scale=20.0)
    root, env = tmp_path_factory.mktemp("queue"), control_plane.environment()
    with Fleet(control_plane.kubeconfig, settings, root, logs=control_plane.logs, env=env) as running:
        yield running


@pytest.fixture(scope="module")
def running_kueue(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kueue]:
    try:
        folder = kueue.programs(prepare.Ready())
    except MissingToolError as error:
        pytest.skip(str(error))
    root, env = tmp_path_factory.mktemp("kueue"), control_plane.environment()
    with Kueue(folder, control_plane.kubeconfig, root, logs=control_plane.logs, env=env) as running:
        yield running


def path_of(document: Object, home: str) -> str:
    plurals = {"ClusterQueue": "clusterqueues", "LocalQueue": "localqueues", "ResourceFlavor": "resourceflavors"}
    plural = {**plurals, "WorkloadPriorityClass": "workloadpriorityclasses"}[document["kind"]]
    place = f"namespaces/{home}/" if document["kind"] == "LocalQueue" else ""
    return f"{QUEUES}/{place}{plural}/{document['metadata']['name']}"


@pytest.fixture
def queue(kube: KubeApi, fleet: Fleet, running_kueue: Kueue) -> Iterator[str]:
    """A namespace with the example's queue, in which there is room for one job."""
    *objects, _ = yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8"))
    with namespace(kube, "queue") as home:
        for document in objects:
            if document["kind"] == "ClusterQueue":
                document["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = ROOM_FOR_ONE
            kube.apply(path_of(document, home), document)
        yield home
        for job in kube.get(TRAINING_JOBS.path(namespace=home))["items"]:
            kube.delete(TRAINING_JOBS.path(job["metadata"]["name"], home))
        wait_for("no job", lambda: kube.get(TRAINING_JOBS.path(namespace=home))["items"], lambda left: left == [], 60)
    # Kueue's own finalizers go while Kueue runs.
    wait_for("the namespace to go", lambda: _is_gone(kube, f"/api/v1/namespaces/{home}"), deadline_s=60)
    shared = [path_of(document, home) for document in objects if document["kind"] != "LocalQueue"]
    for path in shared:
        kube.delete(path)
    # A finalizer keeps the flavor until Kueue has seen its queue go, and the next test makes one of the same name.
    wait_for("the queue to go", lambda: all(_is_gone(kube, path) for path in shared), deadline_s=60)


def _is_gone(kube: KubeApi, path: str) -> bool:
    try:
        kube.get(path)
    except NotFoundError:
        return True
    return False


def job(name: str, board: str, priority: str = "") -> Object:
    """Return the example's job, on one board, going on until it is told to end."""
    *_, example = yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8"))
    copied_job = copy.deepcopy(example)
    copied_job["metadata"]["name"] = name
    if priority:
        copied_job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = priority
    copied_job["spec"]["placement"] = {"nodeSelector": {"powertrain.io/device": board}}
    copied_job["spec"]["profiling"] = {"maxModes": 3}
    container = copied_job["spec"]["workload"]["template"]["spec"]["containers"][0]
    container["command"] = [*container["command"][:2], "--stop-file", f"/board/{name}"]
    return copied_job


class Queue:
    """What the tests do and see in one namespace."""

    def __init__(self, kube: KubeApi, fleet: Fleet, home: str) -> None:
        self._kube, self._fleet, self._home = kube, fleet, home

    def submit(self, name: str, board: str, priority: str = "") -> None:
        self._kube.create(TRAINING_JOBS.path(namespace=self._home), job(name, board, priority))

    def wait(self, name: str, holds: Callable[[Object], object], what: str, deadline_s: float = 120.0) -> Object:
        path = TRAINING_JOBS.path(name, self._home)
        return wait_for(f"{name}: {what}", lambda: self._kube.get(path)["status"], holds, deadline_s)

    def phase(self, name: str, *phases: str) -> Object:
        return self.wait(name, lambda status: status.get("phase") in phases, f"one of {phases}")

    def batch_job(self, name: str) -> Object:
        return self._kube.get(f"/apis/batch/v1/namespaces/{self._home}/jobs/{name}-0-1")

    def pods(self, name: str) -> list[Object]:
        selector = f"job-name={name}-0-1"
        pod_list: list[Object] = self._kube.get(f"/api/v1/namespaces/{self._home}/pods", {"labelSelector": selector})[
            "items"
        ]
        return pod_list

    def end(self, name: str, node: str) -> None:
        (self._fleet.nodes.node_root(node) / name).touch()
        assert self.phase(name, "Succeeded", "Failed")["phase"] == "Succeeded"

    def is_restored(self, node: str) -> bool:
        return bool(self._kube.get(POWER_NODES.path(node))["status"]["session"]["restored"])


HELD = "the Job is suspended: its queue has not admitted it yet"


def test_a_full_queue_holds_a_job_whose_board_is_free_and_admits_it_when_there_is_room(
    kube: KubeApi, fleet: Fleet, queue: str
) -> None:
    kueue = Queue(kube, fleet, queue)
    kueue.submit("first", "orin-agx")
    kueue.phase("first", "Running")
    kueue.submit("second", "xavier-agx")
    kueue.wait("second", lambda status: HELD in status.get("message", ""), "to be held")
    held_job = kueue.batch_job("second")
    assert held_job["spec"]["suspend"] is True
    assert held_job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "training"
    assert kueue.pods("second") == []
    kueue.end("first", "queue-agx")
    kueue.phase("second", "Running")
    admitted = kueue.batch_job("second")
    assert admitted["spec"]["suspend"] is False
    # Kueue turns `suspend`: our Job is created without it, and nothing of ours is ever applied to it again.
    ours = [field for field in admitted["metadata"]["managedFields"] if field["manager"].startswith("powertrain")]
    assert [field["operation"] for field in ours] == ["Update"]
    kueue.end("second", "queue-xavier")


def test_a_preempted_job_gives_its_board_back_and_trains_again_when_it_is_admitted_again(
    kube: KubeApi, fleet: Fleet, queue: str
) -> None:
    kueue = Queue(kube, fleet, queue)
    kueue.submit("patient", "orin-agx")
    kueue.phase("patient", "Running")
    kueue.submit("hasty", "xavier-agx", priority="urgent")
    kueue.phase("hasty", "Running")
    assert kueue.batch_job("patient")["spec"]["suspend"] is True
    kueue.wait("patient", lambda status: HELD in status.get("message", ""), "to be held")
    wait_for("the board to be restored", lambda: kueue.is_restored("queue-agx"), deadline_s=90)
    assert kueue.phase("patient", "WaitingForNode")["attempt"] == 1
    kueue.end("hasty", "queue-xavier")
    status = kueue.phase("patient", "Running")
    assert status["attempt"] == 1, "a preemption is no failure"
    assert not kueue.is_restored("queue-agx")
    kueue.end("patient", "queue-agx")
