"""What the operator knows of the cluster: newer wins, deletions stay, lookups follow, heavy parts are packed."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powertrain.api.v1alpha1 import TrainingJob
from powertrain_operator.kinds import JOB, JOB_UID_LABEL, KINDS, LEASE, NODE, POD, Kind, kind_of
from powertrain_operator.sighting import Key, Sighting, sight
from powertrain_operator.world import World

POWER_NODE = KINDS["PowerNode"]


def body(name: str = "a", version: int = 1, uid: str = "u", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "resourceVersion": str(version), "uid": uid, **fields.pop("metadata", {})}
    return {"metadata": metadata, **fields}


def pod(name: str = "p", version: int = 1, **fields: Any) -> Sighting:
    metadata = {"namespace": "team", **fields.pop("metadata", {})}
    return sight(POD, body(name, version, metadata=metadata, **fields))


def node(version: int, **fields: Any) -> Sighting:
    return sight(POWER_NODE, body("jetson", version, **fields))


def test_what_is_seen_says_what_it_is_even_out_of_a_list() -> None:
    seen = node(3)
    assert (seen.key, seen.version, seen.uid) == (Key("PowerNode", "", "jetson"), 3, "u")
    assert (seen.brief["apiVersion"], seen.brief["kind"]) == ("powertrain.io/v1alpha1", "PowerNode")


def test_of_a_pod_only_what_matters_is_kept() -> None:
    spec = {"nodeName": "jetson", "containers": [{"name": "x"}]}
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{…}", "mine": "1"}
    metadata = {"managedFields": [{}], "labels": {"a": "b"}, "annotations": annotations}
    seen = pod(spec=spec, status={"phase": "Running"}, metadata=metadata).brief
    assert (seen["spec"], seen["status"]) == ({"nodeName": "jetson"}, {"phase": "Running"})
    assert seen["metadata"]["annotations"] == {"mine": "1"}
    assert "managedFields" not in seen["metadata"]


def test_heavy_parts_are_only_in_the_whole() -> None:
    result = {"strategy": "transfer", "samples": {"step": [1.5, 2.5]}, "front": {"watts": [3]}}
    wire = body(
        "jetson", 1, spec={"session": {"uid": "s", "prior": {"x": [1]}}}, status={"session": {"result": result}}
    )
    world = World()
    world.put(sight(POWER_NODE, copy.deepcopy(wire)))
    brief = world.brief("PowerNode", "jetson")
    assert brief is not None
    assert brief["spec"]["session"] == {"uid": "s"}
    assert brief["status"]["session"]["result"] == {"strategy": "transfer"}
    whole = world.get("PowerNode", "jetson")
    assert whole is not None
    assert {name: whole[name] for name in wire} == wire
    assert brief["spec"]["session"] == {"uid": "s"}


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda part: st.dictionaries(st.text(), part) | st.lists(part))
)
def test_packing_loses_nothing(prior: Any) -> None:
    wire = body("jetson", 1, spec={"session": {"prior": prior}})
    whole = sight(POWER_NODE, copy.deepcopy(wire)).whole()
    expected = {"session": {"prior": prior}} if prior is not None else {"session": {}}
    assert json.dumps(whole["spec"], sort_keys=True) == json.dumps(expected, sort_keys=True)


def test_an_older_version_never_replaces_a_newer_one() -> None:
    world = World()
    first = world.put(node(5, spec={"release": "new"}))
    assert first is not None
    assert first.before is None
    assert world.put(node(4, spec={"release": "old"})) is None
    assert world.put(node(5)) is None
    assert world.brief("PowerNode", "jetson") == first.after
    second = world.put(node(6))
    assert second is not None
    assert second.before == first.after


def test_what_was_deleted_does_not_come_back_with_a_late_answer() -> None:
    world = World()
    world.put(node(5))
    gone = world.remove(Key("PowerNode", "", "jetson"), 7)
    assert gone is not None
    assert gone.after is None
    assert world.put(node(6)) is None
    assert world.brief("PowerNode", "jetson") is None
    again = world.put(node(8))
    assert again is not None
    assert again.before is None


def test_a_deletion_that_is_older_than_what_is_known_is_of_another_object() -> None:
    world = World()
    world.put(node(9))
    assert world.remove(Key("PowerNode", "", "jetson"), 8) is None
    assert world.brief("PowerNode", "jetson") is not None


def test_a_full_list_prunes_what_it_does_not_show_but_not_what_is_newer() -> None:
    world = World()
    for name, version in (("listed", 3), ("missed", 4), ("newer", 12)):
        world.put(pod(name, version))
    gone = world.prune("Pod", {Key("Pod", "team", "listed")}, 10)
    assert [change.key.name for change in gone] == ["missed"]
    assert {key.name for key in world.keys("Pod")} == {"listed", "newer"}


def test_lookups_follow_owner_and_label() -> None:
    world = World()
    labels = {JOB_UID_LABEL: "job-1", "app": "x"}
    owned = {"labels": labels, "ownerReferences": [{"uid": "owner-1"}]}
    world.put(pod("p", 1, metadata=owned))
    for found in (world.owned("Pod", "owner-1"), world.labelled("Pod", JOB_UID_LABEL, "job-1")):
        assert [each["metadata"]["name"] for each in found] == ["p"]
    assert world.by_uid("Pod", "u") is not None
    world.put(pod("p", 2, metadata={"labels": {JOB_UID_LABEL: "job-2"}}))
    assert (world.owned("Pod", "owner-1"), world.labelled("Pod", JOB_UID_LABEL, "job-1")) == ([], [])
    assert len(world.labelled("Pod", JOB_UID_LABEL, "job-2")) == 1
    world.remove(Key("Pod", "team", "p"), 3)
    assert (world.labelled("Pod", JOB_UID_LABEL, "job-2"), world.by_uid("Pod", "u")) == ([], None)
    assert not world._tags


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 20), st.sampled_from(["j1", "j2"]), st.booleans())))
def test_in_whatever_order_news_come_the_newest_counts(news: list[tuple[str, int, str, bool]]) -> None:
    world = World()
    # A version stands for one thing only.
    told = list({(name, version): (job, gone) for name, version, job, gone in news}.items())
    for (name, version), (job, gone) in told:
        if gone:
            world.remove(Key("Pod", "team", name), version)
        else:
            world.put(pod(name, version, metadata={"labels": {JOB_UID_LABEL: job}}))
    for name in "ab":
        newest = max((item for item in told if item[0][0] == name), key=lambda item: item[0][1], default=None)
        found = world.brief("Pod", name, "team")
        if newest is None or newest[1][1]:
            assert found is None
        else:
            assert found is not None
            assert found["metadata"]["labels"] == {JOB_UID_LABEL: newest[1][0]}
            assert found in world.labelled("Pod", JOB_UID_LABEL, newest[1][0])


def test_when_an_object_changed_is_told_by_our_own_clock() -> None:
    world = World()
    world.put(node(1), 10.0)
    world.put(node(1), 20.0)
    assert world.changed_s("PowerNode", "", "jetson") == 10.0
    world.put(node(2), 30.0)
    assert world.changed_s("PowerNode", "", "jetson") == 30.0
    world.remove(Key("PowerNode", "", "jetson"), 3)
    assert world.changed_s("PowerNode", "", "jetson") is None


def test_verdicts_are_kept_by_key() -> None:
    world = World()
    assert world.verdict("k") is None
    world.judge("k", "no such field")
    assert world.verdict("k") == "no such field"


def test_what_was_refused_is_asked_again_after_a_minute_what_was_accepted_after_ten() -> None:
    world = World()
    world.judge("no", "exceeded quota", 100.0)
    world.judge("yes", "", 100.0)
    assert (world.verdict("no", 159.0), world.verdict("no", 160.0)) == ("exceeded quota", None)
    assert (world.verdict("yes", 699.0), world.verdict("yes", 700.0)) == ("", None)


def test_a_kind_that_is_not_watched_is_named() -> None:
    with pytest.raises(ValueError, match="no kind 'Secret' is watched; watched are TrainingJob"):
        World().get("Secret", "", "x")


# The table of kinds.


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (JOB, "/apis/batch/v1/namespaces/team/jobs/x/status"),
        (POD, "/api/v1/namespaces/team/pods/x/status"),
        (NODE, "/api/v1/nodes/x/status"),
    ],
)
def test_paths(kind: Kind, path: str) -> None:
    assert kind.path("team", "x", "status") == path


def test_only_what_a_watch_would_show_counts_as_watched() -> None:
    mine = {"metadata": {"labels": {JOB_UID_LABEL: "u"}, "namespace": "team"}}
    agents = {"metadata": {"labels": dict(LEASE.labels or {}), "namespace": "system"}}
    assert JOB.watches(mine, "system")
    assert not JOB.watches({"metadata": {}}, "system")
    assert LEASE.watches(agents, "system")
    assert not LEASE.watches(agents, "elsewhere")
    assert LEASE.selector == "app.kubernetes.io/name=powertrain,app.kubernetes.io/component=agent"


def test_an_unknown_kind_can_not_be_written() -> None:
    with pytest.raises(ValueError, match="the operator knows no v1 Secret; it knows"):
        kind_of({"apiVersion": "v1", "kind": "Secret"})


def test_a_model_is_read_once_per_version_and_forgotten_with_its_object() -> None:
    world, job = World(), KINDS["TrainingJob"]
    workload = {"batchSizes": [16], "template": {"spec": {"containers": []}}}
    for version, watts in ((1, 20), (2, 30)):
        spec = {"constraints": {"powerWatts": watts}, "workload": workload}
        world.put(sight(job, body("a", version, metadata={"namespace": "team"}, spec=copy.deepcopy(spec))))
        first = world.read(TrainingJob, "TrainingJob", "a", "team")
        assert first is not None
        assert (first.spec.constraints.power_watts, first.spec.workload.template) == (watts, workload["template"])
        assert world.read(TrainingJob, "TrainingJob", "a", "team") is first
    world.remove(Key("TrainingJob", "team", "a"), 3)
    assert world.read(TrainingJob, "TrainingJob", "a", "team") is None


def test_who_holds_a_node_is_looked_up_by_the_node() -> None:
    world, job = World(), KINDS["TrainingJob"]
    for version, holds in ((1, True), (2, False)):
        nodes = [{"name": "n", "holds": holds}]
        world.put(sight(job, body("a", version, metadata={"namespace": "team"}, status={"nodes": nodes})))
        assert [each["metadata"]["name"] for each in world.holding("TrainingJob", "n")] == (["a"] if holds else [])
