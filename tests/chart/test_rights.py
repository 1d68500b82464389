"""What the release's accounts may do, tried with real tokens that are bound to pods as the kubelet binds them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from powertrain.api.resources import POWER_NODES, TRAINING_JOBS
from powertrain_kube import ApiError, ConflictError, KubeApi, NotFoundError

from .conftest import NAMESPACE, Identities, training_job

Object = dict[str, Any]
AGENT, OPERATOR = "powertrain-agent", "powertrain-operator"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
NODES = "/api/v1/nodes"
JOBS = TRAINING_JOBS.path(namespace="default")


@pytest.fixture
def nodes(kube: KubeApi, release: str) -> Iterator[tuple[str, str]]:
    """Two Nodes with their PowerNodes."""
    names = ("jetson-a", "jetson-b")
    for name in names:
        labels = {"kubernetes.io/hostname": name}
        annotations = {"example.com/rack": "7", "powertrain.io/power-mode": "old"}
        kube.create(NODES, {"metadata": {"name": name, "labels": labels, "annotations": annotations}})
        kube.create(POWER_NODES.path(), power_node(name) | {"spec": {}})
    yield names
    for name in names:
        for path in (f"{NODES}/{name}", POWER_NODES.path(name), f"{LEASES}/{name}"):
            with contextlib.suppress(NotFoundError):
                kube.delete(path)


def power_node(name: str, **more: Any) -> Object:
    return {"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerNode", "metadata": {"name": name}} | more


def lease(name: str, holder: str = "me") -> Object:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {"holderIdentity": holder},
    }


def report(rest: KubeApi, name: str) -> Object:
    body = power_node(name, status={"conditions": []})
    return rest.apply(POWER_NODES.path(name, subresource="status"), body, manager="powertrain-agent")


def renew(rest: KubeApi, name: str) -> Object:
    return rest.apply(f"{LEASES}/{name}", lease(name), manager="powertrain-agent")


# The agent.


def test_an_agent_reports_for_its_own_node_and_for_no_other(identities: Identities, nodes: tuple[str, str]) -> None:
    mine, other = nodes
    agent = identities.rest(AGENT, mine)
    assert report(agent, mine)["metadata"]["name"] == mine
    assert renew(agent, mine)["spec"]["holderIdentity"] == "me"
    renew(agent, mine)
    with pytest.raises(ApiError, match=rf"403.*agent of node {mine} writes .* only, not powernodes {other}"):
        report(agent, other)
    with pytest.raises(ApiError, match=rf"403.*only, not leases {other}"):
        renew(agent, other)
    with pytest.raises(ApiError, match=r"403.*only, not leases operator\.powertrain\.io"):
        renew(agent, "operator.powertrain.io")


def test_another_agents_lease_that_exists_can_not_be_renewed_either(
    kube: KubeApi, identities: Identities, nodes: tuple[str, str]
) -> None:
    mine, other = nodes
    kube.create(LEASES, lease(other, "its-agent"))
    with pytest.raises(ApiError, match="403"):
        renew(identities.rest(AGENT, mine), other)
    assert kube.get(f"{LEASES}/{other}")["spec"]["holderIdentity"] == "its-agent"


@pytest.mark.parametrize("pod", [True, False], ids=["pod-without-a-node", "no-pod"])
def test_a_token_that_names_no_node_writes_nothing(identities: Identities, nodes: tuple[str, str], pod: bool) -> None:
    agent = identities.rest(AGENT, pod=pod)
    for write in (report, renew):
        with pytest.raises(ApiError, match=r"403.*this token names no node"):
            write(agent, nodes[0])


def test_an_agent_touches_nothing_else(kube: KubeApi, identities: Identities, nodes: tuple[str, str]) -> None:
    mine = nodes[0]
    agent = identities.rest(AGENT, mine)
    kube.create(f"/api/v1/namespaces/{NAMESPACE}/secrets", {"metadata": {"name": "s"}, "stringData": {"k": "v"}})
    kube.create(JOBS, training_job("rights"))
    try:
        refused: list[Any] = [
            lambda: agent.apply(POWER_NODES.path(mine), power_node(mine, spec={}), manager="powertrain-agent"),
            lambda: agent.delete(POWER_NODES.path(mine)),
            lambda: agent.create(JOBS, training_job("rights")),
            lambda: agent.merge_patch(f"{JOBS}/rights", {"spec": {"suspend": True}}),
            lambda: agent.merge_patch(f"{JOBS}/rights/status", {"status": {}}),
            lambda: agent.get(f"{JOBS}/rights"),
            lambda: agent.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/s"),
            lambda: agent.get(f"/api/v1/namespaces/{NAMESPACE}/secrets"),
            lambda: agent.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps"),
            lambda: agent.get(f"/api/v1/namespaces/{NAMESPACE}/pods"),
            lambda: agent.get(f"{NODES}/{mine}"),
            lambda: agent.merge_patch(f"{NODES}/{mine}", {"metadata": {"annotations": {"powertrain.io/x": "1"}}}),
            lambda: agent.get(f"{LEASES}/{mine}"),
            lambda: agent.delete(f"{LEASES}/{mine}"),
        ]
        for attempt in refused:
            with pytest.raises(ApiError, match="403"):
                attempt()
    finally:
        kube.delete(f"{JOBS}/rights")
        kube.delete(f"/api/v1/namespaces/{NAMESPACE}/secrets/s")


# The operator.


def test_the_operator_changes_its_annotations_of_a_node(identities: Identities, nodes: tuple[str, str]) -> None:
    operator, name = identities.rest(OPERATOR), nodes[0]
    operator.merge_patch(f"{NODES}/{name}", {"metadata": {"annotations": {"powertrain.io/training-job": "a/b"}}})
    operator.merge_patch(f"{NODES}/{name}", {"metadata": {"annotations": {"powertrain.io/power-mode": None}}})
    metadata = {"name": name, "annotations": {"powertrain.io/power-mode": "new"}}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    after = operator.apply(f"{NODES}/{name}", body, manager="powertrain-operator-node")
    expected = {"example.com/rack": "7", "powertrain.io/training-job": "a/b", "powertrain.io/power-mode": "new"}
    assert after["metadata"]["annotations"].items() >= expected.items()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metadata": {"annotations": {"example.com/rack": "8"}}}, "but those that begin with powertrain.io/"),
        ({"metadata": {"annotations": {"example.com/rack": None}}}, "but those that begin with powertrain.io/"),
        ({"metadata": {"annotations": {"example.com/new": "1"}}}, "but those that begin with powertrain.io/"),
        ({"metadata": {"annotations": {"powertrain.iox": "1"}}}, "but those that begin with powertrain.io/"),
        ({"metadata": {"labels": {"powertrain.io/ignore": "true"}}}, "but its annotations"),
        ({"metadata": {"labels": None}}, "but its annotations"),
        ({"metadata": {"finalizers": ["powertrain.io/mine"]}}, "but its annotations"),
        ({"spec": {"unschedulable": True}}, "but its annotations"),
        ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, "but its annotations"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_the_operator_changes_nothing_else_of_a_node(
    identities: Identities, nodes: tuple[str, str], change: Object, words: str
) -> None:
    with pytest.raises(ApiError, match=f"403.*{words}"):
        identities.rest(OPERATOR).merge_patch(f"{NODES}/{nodes[0]}", change)


def test_the_operator_touches_nothing_that_it_does_not_need(
    kube: KubeApi, identities: Identities, nodes: tuple[str, str]
) -> None:
    operator, name = identities.rest(OPERATOR), nodes[0]
    kube.create(LEASES, lease(name, "its-agent"))
    refused: list[Any] = [
        lambda: operator.delete(f"{NODES}/{name}"),
        lambda: operator.create(NODES, {"metadata": {"name": "another"}}),
        lambda: operator.merge_patch(f"{NODES}/{name}/status", {"status": {"phase": "Running"}}),
        lambda: operator.merge_patch(f"{LEASES}/{name}", {"spec": {"holderIdentity": "operator"}}),
        lambda: operator.replace(f"{LEASES}/{name}", lease(name, "operator")),
        lambda: report(operator, name),
        lambda: operator.delete(POWER_NODES.path(name)),
        lambda: operator.create(JOBS, training_job("rights")),
        lambda: operator.get("/api/v1/secrets"),
        lambda: operator.get("/api/v1/configmaps"),
        lambda: operator.create("/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": {}}),
        lambda: operator.get("/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    ]
    for attempt in refused:
        with pytest.raises(ApiError, match="403"):
            attempt()


# The template.


@pytest.fixture
def job(kube: KubeApi, release: str) -> Iterator[str]:
    kube.create(JOBS, training_job("frozen"))
    yield f"{JOBS}/frozen"
    kube.delete(f"{JOBS}/frozen")


def change_image(rest: KubeApi, path: str, image: str) -> Object:
    containers = [{"name": "train", "image": image}]
    return rest.merge_patch(path, {"spec": {"workload": {"template": {"spec": {"containers": containers}}}}})


def test_a_template_changes_until_the_job_has_started(kube: KubeApi, job: str) -> None:
    change_image(kube, job, "two")
    kube.merge_patch(f"{job}/status", {"status": {"startedAt": "2026-01-01T00:00:00Z"}})
    words = "spec.workload.template can not change once the job has started.*delete frozen and apply the new one"
    with pytest.raises(ApiError, match=words):
        change_image(kube, job, "three")
    kube.merge_patch(job, {"spec": {"constraints": {"powerWatts": 20}}})
    kube.merge_patch(job, {"metadata": {"labels": {"a": "b"}}})


# The Lease by which releases notice each other.


def test_the_operator_writes_one_lease_of_kube_system(kube: KubeApi, identities: Identities) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    operator = identities.rest(OPERATOR)
    lease = operator.get(f"{leases}/powertrain-operator")
    # An operator of other tests may hold it, and may have renewed it in between.
    with contextlib.suppress(ConflictError):
        new_lease = operator.replace(
            f"{leases}/powertrain-operator?dryRun=All", lease | {"spec": {"holderIdentity": "me"}}
        )
        assert new_lease["spec"] == {"holderIdentity": "me"}
    kube.create(leases, {"metadata": {"name": "somebody"}})
    refused: list[Any] = [
        lambda: operator.get(leases),
        lambda: operator.get(f"{leases}/somebody"),
        lambda: operator.create(leases, {"metadata": {"name": "mine"}}),
        lambda: operator.delete(f"{leases}/powertrain-operator"),
    ]
    for attempt in refused:
        with pytest.raises(ApiError, match="403"):
            attempt()
    kube.delete(f"{leases}/somebody")
