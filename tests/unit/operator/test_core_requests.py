"""The floor of cores that stay online: what the node's pods and the training request, and the policy's minimum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from powertrain_kube import Object
from powertrain_operator.core_requests import MAX_CORES, answer_key, core_floor, millicores, of_others, of_pod
from powertrain_operator.plan import CountRequests

from .conftest import Cluster
from .fakes import FakeApi, WorkerHarness


def container(cpu: str, kind: str = "requests", **fields: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {kind: {"cpu": cpu}}, **fields}


def pod(cpu: str, phase: str = "Running", **labels: str) -> dict[str, Any]:
    spec = {"containers": [container(cpu)]}
    return {"metadata": {"name": "pod", "labels": labels}, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [("500m", 500), ("2", 2000), ("0.5", 500), ("1e-3", 1), ("100n", 1), ("1k", 1_000_000), ("?", MAX_CORES * 1000)],
)
def test_quantities_are_read_as_the_api_server_reads_them(quantity: str, expected: int) -> None:
    assert millicores(quantity) == expected


def test_a_pod_needs_its_containers_or_an_init_container_that_needs_more() -> None:
    sidecar = container("250m", restartPolicy="Always")
    assert of_pod({"containers": [container("1"), container("500m", "limits")]}) == 1500
    assert of_pod({"containers": [container("1")], "initContainers": [sidecar, container("3")]}) == 3250
    assert of_pod({"containers": [container("1")], "overhead": {"cpu": "100m"}}) == 1100
    assert of_pod({}) == 0


def test_pods_that_are_over_and_those_of_training_jobs_are_not_counted() -> None:
    ours = {"powertrain.io/training-job-uid": "u"}
    assert of_others([pod("1"), pod("2", "Succeeded"), pod("4", "Pending"), pod("8", **ours)]) == 5000


@pytest.mark.parametrize(
    ("requested", "minimum", "floor"),
    [(0, None, 1), (1001, 1, 2), (4000, 1, 4), (1500, 6, 6), (999_000, 1, MAX_CORES)],
)
def test_the_floor_follows_requests_and_policy(requested: int, minimum: int | None, floor: int) -> None:
    assert core_floor(requested, minimum) == floor


def hotplug(cluster: Cluster, **spec: Any) -> None:
    body = {"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerPolicy", "metadata": {"name": "site"}}
    cluster.put({**body, "spec": {"cpuCores": "Hotplug", **spec}})
    cluster.settle()


def min_cores(cluster: Cluster) -> object:
    return cluster.get("PowerNode", "orin-1")["spec"]["policy"].get("minCores")


def test_a_session_begins_with_the_floor_of_its_node(one_board: Cluster) -> None:
    c = one_board
    hotplug(c, minCores=2)
    c.requested["orin-1"] = 1200
    train = {"name": "train", "image": "example.org/train:1", "resources": {"requests": {"cpu": "2500m"}}}
    c.submit(workload={"template": {"spec": {"containers": [train]}}})
    assert (min_cores(c), c.session()["uid"] != "") == (4, True)
    c.running()
    generation = c.session()["generation"]
    c.requested["orin-1"] = 7000
    c.wait(120)
    assert (min_cores(c), c.session()["generation"]) == (4, generation), "a running session keeps its floor"
    c.ends("job-0-1")
    c.restores()
    assert min_cores(c) == 2


def test_fixed_cores_ask_for_no_count(one_board: Cluster) -> None:
    one_board.submit()
    assert not [write for write in one_board.writes if write.startswith("CountRequests")]


class Pods(FakeApi):
    """A server that remembers what was listed."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[str, Mapping[str, str]]] = []

    def list(self, path: str, query: Mapping[str, str]) -> Object:
        self.requests.append((path, query))
        return {"items": [pod("1500m")]}


def test_the_count_is_asked_of_the_server_for_that_node_alone() -> None:
    rig = WorkerHarness()
    api = rig.worker.gateway._api = Pods()  # type: ignore[assignment]
    rig.worker.gateway.execute(CountRequests(answer_key("orin-1"), "orin-1"))
    assert rig.worker.cache.answer(answer_key("orin-1")) == "1500"
    assert api.requests == [("/api/v1/pods", {"fieldSelector": "spec.nodeName=orin-1"})]
