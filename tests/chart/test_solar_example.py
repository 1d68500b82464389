"""What the example's solar charger may do, tried with the token of one of its pods."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from powertrain_devcluster.testing.waits import wait_for
from powertrain_kube import ApiError, KubeApi, NotFoundError

from .conftest import ROOT, Identities

Object = dict[str, Any]
NODES = "/api/v1/nodes"
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/default/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}
MINE, OTHER = "solar-a", "solar-b"


@pytest.fixture
def charger(kube: KubeApi, tmp_path: Path) -> Iterator[KubeApi]:
    """A client with the token of a charger's pod on one of two Nodes; everything goes with the test."""
    objects = yaml.safe_load_all((ROOT / "examples/solar-charger.yaml").read_text(encoding="utf-8"))
    rights = [each for each in objects if each["kind"] in PATHS]
    paths = [f"{PATHS[each['kind']]}/{each['metadata']['name']}" for each in rights]
    assert len(paths) == len(PATHS)
    nodes = [f"{NODES}/{name}" for name in (MINE, OTHER)]
    identities = Identities(kube, tmp_path, namespace="default")
    with contextlib.ExitStack() as left:
        for path in (*paths, *nodes):
            left.callback(delete, kube, path)
        for each in rights:
            kube.create(PATHS[each["kind"]], each)
        for name in (MINE, OTHER):
            kube.create(NODES, {"metadata": {"name": name, "annotations": {"example.com/rack": "7"}}})
        client = identities.rest("solar-charger", MINE)
        left.callback(identities.end)
        wait_for("the policy to be in force", lambda: is_refused(client))
        yield client


def delete(kube: KubeApi, path: str) -> None:
    with contextlib.suppress(NotFoundError):
        kube.delete(path)


def is_refused(client: KubeApi) -> bool:
    try:
        annotate(client, OTHER, {"powertrain.io/available-watts": "1"}, "?dryRun=All")
    except ApiError as error:
        return "annotates that Node only" in str(error)
    return False


def annotate(client: KubeApi, node: str, annotations: Object, more: str = "") -> Object:
    return client.merge_patch(f"{NODES}/{node}{more}", {"metadata": {"annotations": annotations}})


def test_a_charger_writes_the_watts_of_its_own_node_and_nothing_else(charger: KubeApi) -> None:
    watts = {"powertrain.io/available-watts": "12", "powertrain.io/available-watts-at": "2026-01-01T00:00:00Z"}
    assert annotate(charger, MINE, watts)["metadata"]["annotations"].items() >= watts.items()
    with pytest.raises(ApiError, match=rf"403.*the charger on node {MINE} annotates that Node only, not {OTHER}"):
        annotate(charger, OTHER, watts)
    for other in ({"example.com/rack": None}, {"powertrain.io/power-mode": "x"}):
        with pytest.raises(ApiError, match=r"403.*and no other annotation"):
            annotate(charger, MINE, other)
    for change in ({"spec": {"unschedulable": True}}, {"metadata": {"labels": {"power": "grid"}}}):
        with pytest.raises(ApiError, match=r"403.*nothing of a Node but its annotations"):
            charger.merge_patch(f"{NODES}/{MINE}", change)
    with pytest.raises(ApiError, match="403"):
        charger.delete(f"{NODES}/{MINE}")
