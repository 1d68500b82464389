"""What a site says it can deliver: 0 W and nonsense end a job in an orderly way, and never mean "no limit"."""

from __future__ import annotations

from typing import Any

import pytest

from powertrain.api.v1alpha1 import NodePolicy, PowerPolicySpec, TrainingJobSpec
from powertrain_operator.limits import limits_for
from powertrain_operator.policies import site_policy
from powertrain_operator.supply import supply

from .conftest import NOW, Cluster

WATTS, AT = "powertrain.io/available-watts", "powertrain.io/available-watts-at"
THEN = "2026-06-01T12:00:00Z"
UNREADABLE: list[dict[str, str | None]] = [
    {WATTS: "12W", AT: THEN},
    {WATTS: "-3", AT: THEN},
    {WATTS: "nan", AT: THEN},
    {WATTS: "inf", AT: THEN},
    {WATTS: "-inf", AT: THEN},
    {WATTS: "1e999", AT: THEN},
    {WATTS: "", AT: THEN},
    {WATTS: "12.5", AT: None},
    {WATTS: "12.5", AT: "noon"},
    {WATTS: "12.5", AT: "2026-06-01T12:00:00"},
    {WATTS: "12.5", AT: "0001-01-01T00:00:00+14:00"},
]


def tell(cluster: Cluster, annotations: dict[str, str | None], node: str = "orin-1") -> None:
    body = cluster.get("Node", node)
    all_annotations = {**(body["metadata"].get("annotations") or {}), **annotations}
    body["metadata"]["annotations"] = {name: value for name, value in all_annotations.items() if value is not None}
    cluster.put(body)
    cluster.settle()


def policy(cluster: Cluster, **spec: Any) -> None:
    cluster.put(
        {"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerPolicy", "metadata": {"name": "site"}, "spec": spec}
    )
    cluster.settle()


@pytest.mark.parametrize("annotations", UNREADABLE, ids=str)
def test_what_cannot_be_read_is_no_power(annotations: dict[str, str | None]) -> None:
    result = supply({name: value for name, value in annotations.items() if value is not None}, NOW)
    assert result is not None
    assert result.watts == 0
    assert result.problem is not None
    assert "write" in result.problem, "the message says what is right"


@pytest.mark.parametrize("text", ["0", "0.0", "-0", "5e-324"])
def test_no_power_that_is_said_rightly_is_no_problem(text: str) -> None:
    result = supply({WATTS: text, AT: THEN}, NOW)
    assert result is not None
    assert (result.watts, result.problem) == (float(text), None)


def test_without_the_annotation_nothing_is_said() -> None:
    assert supply({AT: THEN}, NOW) is None


@pytest.mark.parametrize("annotations", [{WATTS: "0", AT: THEN}, {WATTS: "12W", AT: THEN}, {WATTS: "12.5"}], ids=str)
def test_a_job_without_power_ends_in_an_orderly_way_and_resumes_by_itself(
    one_board: Cluster, annotations: dict[str, str | None]
) -> None:
    c = one_board
    c.submit()
    c.running()
    tell(c, annotations)
    assert c.status()["stopping"] == "Unpowered"
    assert c.session()["availableWatts"]["watts"] == 0, "until its pods are gone the agent keeps the lowest mode"
    assert c.cache.get("Job", "job-0-1", "team") is None
    c.restores()
    assert (c.status()["phase"], c.status().get("stopping")) == ("WaitingForNode", None)
    assert "no power" in c.status()["message"]
    tell(c, {WATTS: "40", AT: THEN})
    assert (c.status()["attempt"], c.status()["phase"]) == (2, "Pending")
    assert "job-0-2" in c.created_jobs[-1]


def test_the_lowest_mode_is_kept_where_the_policy_says_so(one_board: Cluster) -> None:
    c = one_board
    policy(c, whenUnpowered="LowestMode")
    c.submit()
    c.running()
    tell(c, {WATTS: "0", AT: THEN})
    assert c.status().get("stopping") is None
    assert c.session()["availableWatts"] == {"watts": 0, "observedAt": THEN}


def test_a_node_whose_supply_cannot_be_read_says_so(one_board: Cluster) -> None:
    c = one_board
    tell(c, {WATTS: "12W", AT: THEN})
    event = next(event for event in c.events if event.reason == "AvailableWattsUnreadable")
    assert (event.type, event.regarding["kind"], event.regarding["metadata"]["name"]) == ("Warning", "Node", "orin-1")
    assert "'12W' is not a number of watts; write a plain number" in event.message


def test_an_unreadable_supply_changes_the_envelope_once(one_board: Cluster) -> None:
    c = one_board
    policy(c, whenUnpowered="LowestMode")
    c.submit()
    c.running()
    tell(c, {WATTS: "12W", AT: THEN})
    generation = c.session()["generation"]
    c.wait(600)
    assert c.session()["generation"] == generation


def test_the_stricter_of_several_policies_counts_for_windows_and_for_no_power() -> None:
    policies = [
        (
            "a",
            PowerPolicySpec.model_validate({"maxWatts": 30, "guardWindowSeconds": 10, "whenUnpowered": "LowestMode"}),
        ),
        ("b", PowerPolicySpec.model_validate({"maxWatts": 40, "guardWindowSeconds": 5})),
        ("c", PowerPolicySpec.model_validate({"guardWindowSeconds": 1})),
    ]
    policy = site_policy(policies, {})
    assert (policy.node.max_watts, policy.node.guard_window_seconds, policy.suspends_unpowered) == (30, 5, True)
    assert not site_policy(policies[:1], {}).suspends_unpowered


def test_a_stored_window_above_the_maximum_is_shortened() -> None:
    spec = {
        "constraints": {"powerWatts": 30, "guardWindowSeconds": 86_400},
        "workload": {"batchSizes": [16], "template": {}},
    }
    limits = limits_for(TrainingJobSpec.model_validate(spec), {}, NodePolicy(max_watts=30)).limits
    assert limits.guard_window_seconds == 60
