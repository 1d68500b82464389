"""What the operator knows of the cluster: newer wins, deletions stay, lookups follow, heavy parts are packed."""

from __future__ import annotations

import copy
import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powertrain.api.resources import RESOURCES
from powertrain.api.v1alpha1 import TrainingJob
from powertrain_operator.cache import Cache
from powertrain_operator.observation import Key, Observation, observation_of
from powertrain_operator.resources import (
    JOB,
    JOB_UID_LABEL,
    LEASE,
    NODE,
    OURS,
    POD,
    RESOURCE_BY_KIND,
    ResourceType,
    resource_of,
)

POWER_NODE = RESOURCE_BY_KIND["PowerNode"]


def body(name: str = "a", version: int = 1, uid: str = "u", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "resourceVersion": str(version), "uid": uid, **fields.pop("metadata", {})}
    return {"metadata": metadata, **fields}


def pod(name: str = "p", version: int = 1, **fields: Any) -> Observation:
    metadata = {"namespace": "team", **fields.pop("metadata", {})}
    return observation_of(POD, body(name, version, metadata=metadata, **fields))


def node(version: int, **fields: Any) -> Observation:
    return observation_of(POWER_NODE, body("jetson", version, **fields))


def test_what_is_seen_says_what_it_is_even_out_of_a_list() -> None:
    observation = node(3)
    assert (observation.key, observation.version, observation.uid) == (Key("PowerNode", "", "jetson"), 3, "u")
    assert (observation.brief["apiVersion"], observation.brief["kind"]) == ("powertrain.io/v1alpha1", "PowerNode")


def test_of_a_pod_only_what_matters_is_kept() -> None:
    spec = {"nodeName": "jetson", "containers": [{"name": "x"}]}
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{…}", "mine": "1"}
    metadata = {"managedFields": [{}], "labels": {"a": "b"}, "annotations": annotations}
    brief = pod(spec=spec, status={"phase": "Running"}, metadata=metadata).brief
    assert (brief["spec"], brief["status"]) == ({"nodeName": "jetson"}, {"phase": "Running"})
    assert brief["metadata"]["annotations"] == {"mine": "1"}
    assert "managedFields" not in brief["metadata"]


def test_heavy_parts_are_only_in_the_whole() -> None:
    result = {"strategy": "transfer", "samples": {"step": [1.5, 2.5]}, "front": {"watts": [3]}}
    wire = body(
        "jetson", 1, spec={"session": {"uid": "s", "prior": {"x": [1]}}}, status={"session": {"result": result}}
    )
    cache = Cache()
    cache.put(observation_of(POWER_NODE, copy.deepcopy(wire)))
    brief = cache.brief("PowerNode", "jetson")
    assert brief is not None
    assert brief["spec"]["session"] == {"uid": "s"}
    assert brief["status"]["session"]["result"] == {"strategy": "transfer"}
    whole = cache.get("PowerNode", "jetson")
    assert whole is not None
    assert {name: whole[name] for name in wire} == wire
    assert brief["spec"]["session"] == {"uid": "s"}


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda part: st.dictionaries(st.text(), part) | st.lists(part))
)
def test_packing_loses_nothing(prior: Any) -> None:
    wire = body("jetson", 1, spec={"session": {"prior": prior}})
    whole = observation_of(POWER_NODE, copy.deepcopy(wire)).whole()
    expected = {"session": {"prior": prior}} if prior is not None else {"session": {}}
    assert json.dumps(whole["spec"], sort_keys=True) == json.dumps(expected, sort_keys=True)


def test_an_older_version_never_replaces_a_newer_one() -> None:
    cache = Cache()
    first = cache.put(node(5, spec={"release": "new"}))
    assert first is not None
    assert first.before is None
    assert cache.put(node(4, spec={"release": "old"})) is None
    assert cache.put(node(5)) is None
    assert cache.brief("PowerNode", "jetson") == first.after
    second = cache.put(node(6))
    assert second is not None
    assert second.before == first.after


def test_what_was_deleted_does_not_come_back_with_a_late_answer() -> None:
    cache = Cache()
    cache.put(node(5))
    change = cache.remove(Key("PowerNode", "", "jetson"), 7)
    assert change is not None
    assert change.after is None
    assert cache.put(node(6)) is None
    assert cache.brief("PowerNode", "jetson") is None
    again = cache.put(node(8))
    assert again is not None
    assert again.before is None


def test_a_deletion_that_is_older_than_what_is_known_is_of_another_object() -> None:
    cache = Cache()
    cache.put(node(9))
    assert cache.remove(Key("PowerNode", "", "jetson"), 8) is None
    assert cache.brief("PowerNode", "jetson") is not None


def test_a_full_list_prunes_what_it_does_not_show_but_not_what_is_newer() -> None:
    cache = Cache()
    for name, version in (("listed", 3), ("missed", 4), ("newer", 12)):
        cache.put(pod(name, version))
    changes = cache.prune("Pod", {Key("Pod", "team", "listed")}, 10)
    assert [change.key.name for change in changes] == ["missed"]
    assert {key.name for key in cache.keys("Pod")} == {"listed", "newer"}


def test_lookups_follow_owner_and_label() -> None:
    cache = Cache()
    labels = {JOB_UID_LABEL: "job-1", "app": "x"}
    owned = {"labels": labels, "ownerReferences": [{"uid": "owner-1"}]}
    cache.put(pod("p", 1, metadata=owned))
    for bodies in (cache.owned("Pod", "owner-1"), cache.labelled("Pod", JOB_UID_LABEL, "job-1")):
        assert [each["metadata"]["name"] for each in bodies] == ["p"]
    assert cache.by_uid("Pod", "u") is not None
    cache.put(pod("p", 2, metadata={"labels": {JOB_UID_LABEL: "job-2"}}))
    assert (cache.owned("Pod", "owner-1"), cache.labelled("Pod", JOB_UID_LABEL, "job-1")) == ([], [])
    assert len(cache.labelled("Pod", JOB_UID_LABEL, "job-2")) == 1
    cache.remove(Key("Pod", "team", "p"), 3)
    assert (cache.labelled("Pod", JOB_UID_LABEL, "job-2"), cache.by_uid("Pod", "u")) == ([], None)
    assert not cache._tags


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 20), st.sampled_from(["j1", "j2"]), st.booleans())))
def test_in_whatever_order_news_come_the_newest_counts(news: list[tuple[str, int, str, bool]]) -> None:
    cache = Cache()
    # A version stands for one thing only.
    deliveries = list({(name, version): (job, is_gone) for name, version, job, is_gone in news}.items())
    for (name, version), (job, is_gone) in deliveries:
        if is_gone:
            cache.remove(Key("Pod", "team", name), version)
        else:
            cache.put(pod(name, version, metadata={"labels": {JOB_UID_LABEL: job}}))
    for name in "ab":
        newest = max((item for item in deliveries if item[0][0] == name), key=lambda item: item[0][1], default=None)
        cached_object = cache.brief("Pod", name, "team")
        if newest is None or newest[1][1]:
            assert cached_object is None
        else:
            assert cached_object is not None
            assert cached_object["metadata"]["labels"] == {JOB_UID_LABEL: newest[1][0]}
            assert cached_object in cache.labelled("Pod", JOB_UID_LABEL, newest[1][0])


def test_when_an_object_changed_is_told_by_our_own_clock() -> None:
    cache = Cache()
    cache.put(node(1), 10.0)
    cache.put(node(1), 20.0)
    assert cache.changed_s("PowerNode", "", "jetson") == 10.0
    cache.put(node(2), 30.0)
    assert cache.changed_s("PowerNode", "", "jetson") == 30.0
    cache.remove(Key("PowerNode", "", "jetson"), 3)
    assert cache.changed_s("PowerNode", "", "jetson") is None


def test_verdicts_are_kept_by_key() -> None:
    cache = Cache()
    assert cache.answer("k") is None
    cache.note_answer("k", "no such field")
    assert cache.answer("k") == "no such field"


def test_what_was_refused_is_asked_again_after_a_minute_what_was_accepted_after_ten() -> None:
    cache = Cache()
    cache.note_answer("no", "exceeded quota", 100.0)
    cache.note_answer("yes", "", 100.0)
    assert (cache.answer("no", 159.0), cache.answer("no", 160.0)) == ("exceeded quota", None)
    assert (cache.answer("yes", 699.0), cache.answer("yes", 700.0)) == ("", None)


def test_a_kind_that_is_not_watched_is_named() -> None:
    with pytest.raises(ValueError, match="no kind 'Secret' is watched; watched are TrainingJob"):
        Cache().get("Secret", "", "x")


# The table of kinds.


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (JOB, "/apis/batch/v1/namespaces/team/jobs/x/status"),
        (POD, "/api/v1/namespaces/team/pods/x/status"),
        (NODE, "/api/v1/nodes/x/status"),
    ],
)
def test_paths(kind: ResourceType, path: str) -> None:
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
        resource_of({"apiVersion": "v1", "kind": "Secret"})


def test_a_model_is_read_once_per_version_and_forgotten_with_its_object() -> None:
    cache, job = Cache(), RESOURCE_BY_KIND["TrainingJob"]
    workload = {"batchSizes": [16], "template": {"spec": {"containers": []}}}
    for version, watts in ((1, 20), (2, 30)):
        spec = {"constraints": {"powerWatts": watts}, "workload": workload}
        cache.put(observation_of(job, body("a", version, metadata={"namespace": "team"}, spec=copy.deepcopy(spec))))
        first = cache.read(TrainingJob, "TrainingJob", "a", "team")
        assert first is not None
        assert (first.spec.constraints.power_watts, first.spec.workload.template) == (watts, workload["template"])
        assert cache.read(TrainingJob, "TrainingJob", "a", "team") is first
    cache.remove(Key("TrainingJob", "team", "a"), 3)
    assert cache.read(TrainingJob, "TrainingJob", "a", "team") is None


def test_who_holds_a_node_is_looked_up_by_the_node() -> None:
    cache, job = Cache(), RESOURCE_BY_KIND["TrainingJob"]
    for version, holds in ((1, True), (2, False)):
        nodes = [{"name": "n", "holds": holds}]
        cache.put(observation_of(job, body("a", version, metadata={"namespace": "team"}, status={"nodes": nodes})))
        assert [each["metadata"]["name"] for each in cache.holding("TrainingJob", "n")] == (["a"] if holds else [])


def test_what_is_kept_packed_or_bounded_is_a_field_of_its_kind() -> None:
    models = {resource.kind: resource.model for resource in RESOURCES}
    for kind in OURS:
        for path in (*kind.heavy, *kind.bounded):
            model: Any = models[kind.name]
            for step in path:
                fields = {field.alias or name: field for name, field in model.model_fields.items()}
                assert step in fields, f"{kind.name} has no {'.'.join(path)}"
                parts = [fields[step].annotation, *get_args(fields[step].annotation)]
                model = next((each for each in parts if hasattr(each, "model_fields")), None)
