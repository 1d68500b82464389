"""What a charge controller may do with its PowerBudget, tried with a real token of the role that the chart makes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from powertrain.api.resources import POWER_BUDGETS
from powertrain_devcluster.testing.waits import wait_for
from powertrain_devcluster.tools.helm import Helm
from powertrain_kube import ApiError, KubeApi, NotFoundError

from .conftest import Identities, Object, by_kind, render

MINE, OTHER, ACCOUNT = "shed-3", "shed-4", "charger"
VALUES = (
    "--set",
    f"chargeControllers[0].budget={MINE},chargeControllers[0].serviceAccount={ACCOUNT},"
    "chargeControllers[0].namespace=default",
)
RBAC = "/apis/rbac.authorization.k8s.io/v1"
WATTS = {"powertrain.io/available-watts": "55", "powertrain.io/available-watts-at": "2026-06-01T12:00:00Z"}
BATTERY = {"powertrain.io/battery-percent": "37", "powertrain.io/battery-percent-at": "2026-06-01T12:00:00Z"}


@pytest.fixture
def charger(release: str, helm: Helm, kube: KubeApi, tmp_path: Path) -> Iterator[KubeApi]:
    """A client with the token of a charge controller; two PowerBudgets are there."""
    rendered = render(helm, *VALUES, "--set", "image.local=true")
    named = [each for each in rendered if "charge-controller-" in each["metadata"]["name"]]
    (role,), (binding,) = by_kind(named, "ClusterRole"), by_kind(named, "ClusterRoleBinding")
    identities = Identities(kube, tmp_path, namespace="default")
    with contextlib.ExitStack() as left:
        for path, body in (
            (f"{RBAC}/clusterroles", role),
            (f"{RBAC}/clusterrolebindings", binding),
            ("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": ACCOUNT}}),
            (POWER_BUDGETS.path(), budget(MINE)),
            (POWER_BUDGETS.path(), budget(OTHER)),
        ):
            left.callback(delete, kube, f"{path}/{body['metadata']['name']}")
            kube.create(path, body)
        client = identities.rest(ACCOUNT)
        left.callback(identities.end)
        wait_for("the role to be in force", lambda: is_allowed(client))
        yield client


def budget(name: str) -> Object:
    return {
        "apiVersion": "powertrain.io/v1alpha1",
        "kind": "PowerBudget",
        "metadata": {"name": name, "annotations": {"example.com/circuit": "7"}},
        "spec": {"nodeSelector": {"circuit": name}, "watts": 90},
    }


def delete(kube: KubeApi, path: str) -> None:
    with contextlib.suppress(NotFoundError):
        kube.delete(path)


def is_allowed(client: KubeApi) -> bool:
    try:
        client.get(POWER_BUDGETS.path(MINE))
    except ApiError:
        return False
    return True


def annotate(client: KubeApi, annotations: Object, name: str = MINE) -> Object:
    return client.merge_patch(POWER_BUDGETS.path(name), {"metadata": {"annotations": annotations}})


def test_a_charge_controller_annotates_its_own_budget(charger: KubeApi) -> None:
    for figures in (WATTS, BATTERY, {"powertrain.io/available-watts": "0"}):
        assert annotate(charger, figures)["metadata"]["annotations"].items() >= figures.items()
    assert annotate(charger, {"powertrain.io/available-watts": None})["spec"]["watts"] == 90


def test_it_changes_nothing_else_of_it(charger: KubeApi) -> None:
    refused: list[Object] = [
        {"spec": {"watts": 500}},
        {"spec": {"nodeSelector": {"circuit": None}}},
        {"spec": {"reserveWatts": 1}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.com/held"]}},
    ]
    for body in refused:
        with pytest.raises(ApiError, match=r"403.*changes nothing of a PowerBudget but its annotations"):
            charger.merge_patch(POWER_BUDGETS.path(MINE), body)
    for other in ({"example.com/circuit": None}, {"example.com/circuit": "8"}, {"powertrain.io/other": "1"}):
        with pytest.raises(ApiError, match=r"403.*no other annotation"):
            annotate(charger, other)
    with pytest.raises(ApiError, match=r"403.*nothing of a PowerBudget but"):
        charger.merge_patch(POWER_BUDGETS.path(MINE), {"metadata": {"annotations": WATTS}, "spec": {"watts": 500}})


def test_it_touches_no_other_object(charger: KubeApi) -> None:
    for attempt in (
        lambda: annotate(charger, WATTS, OTHER),
        lambda: charger.get(POWER_BUDGETS.path(OTHER)),
        lambda: charger.get(POWER_BUDGETS.path()),
        lambda: charger.delete(POWER_BUDGETS.path(MINE)),
        lambda: charger.create(POWER_BUDGETS.path(), budget("new")),
        lambda: charger.merge_patch(POWER_BUDGETS.path(MINE, subresource="status"), {"status": {"capWatts": 500}}),
    ):
        with pytest.raises(ApiError, match="403"):
            attempt()


def test_an_administrator_changes_the_spec_as_before(charger: KubeApi, kube: KubeApi) -> None:
    assert kube.merge_patch(POWER_BUDGETS.path(MINE), {"spec": {"watts": 60}})["spec"]["watts"] == 60


def test_without_the_policy_no_role_is_made(helm: Helm) -> None:
    with pytest.raises(Exception, match=r"chargeControllers needs rbac.create and admissionPolicies.enabled"):
        render(helm, *VALUES, "--set", "image.local=true,admissionPolicies.enabled=false")
