"""The worker: news become keys, keys become plans, plans are done; one bad key troubles no other."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from powertrain_kube import AwayError, InvalidError, Object
from powertrain_operator.cache import Cache, Change, taken_name_key
from powertrain_operator.observation import Key, Observation, observation_of
from powertrain_operator.plan import Action, Announce, Apply, CheckTemplate, Context, Create, Delete, Plan
from powertrain_operator.reconcilers import affected_keys
from powertrain_operator.resources import RESOURCE_BY_KIND
from powertrain_operator.runtime.background import BackgroundQueue, send_all
from powertrain_operator.runtime.lease import LeaseLostError
from powertrain_operator.runtime.messages import (
    BackgroundWrite,
    ListCompletion,
    ObjectDeletion,
    ObjectUpdate,
    Source,
    WriteResult,
)
from powertrain_operator.runtime.metrics import SILENT

from .fakes import WorkerHarness

NODE = RESOURCE_BY_KIND["PowerNode"]
PATH = "/apis/powertrain.io/v1alpha1/powernodes"


def seen(name: str, version: int = 1, **fields: Any) -> Observation:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), **fields.pop("metadata", {})}
    return observation_of(NODE, {"metadata": metadata, **fields})


def tell(rig: WorkerHarness, observation: Observation, source: Source = "watch") -> None:
    rig.worker.inbox.put(ObjectUpdate(observation, source))


class Recording:
    """A reconciler that returns what it is told to, and knows what it was asked."""

    def __init__(self, *plans: Plan | Exception) -> None:
        self.plans = list(plans)
        self.asked: list[str] = []

    def __call__(self, cache: Cache, key: Key, context: Context) -> Plan:
        self.asked.append(key.name)
        plan = self.plans.pop(0) if self.plans else Plan()
        if isinstance(plan, Exception):
            raise plan
        return plan


def rig(reconciler: Any, **settings: Any) -> WorkerHarness:
    made = WorkerHarness({"PowerNode": reconciler}, **settings)
    made.listed()
    made.worker.turn()
    return made


def apply(name: str, **fields: Any) -> Apply:
    return Apply({"apiVersion": NODE.api_version, "kind": NODE.name, "metadata": {"name": name}, **fields})


def test_nothing_is_decided_before_every_kind_was_listed() -> None:
    reconciler = Recording()
    one = WorkerHarness({"PowerNode": reconciler})
    tell(one, seen("a"), "list")
    assert not one.worker.turn()
    one.worker.inbox.put(ListCompletion("PowerNode", frozenset({Key("PowerNode", "", "a")}), 1))
    assert not one.worker.turn()
    for kind in one.worker.cache.kinds:
        if kind != "PowerNode":
            one.worker.inbox.put(ListCompletion(kind, frozenset(), 1))
    assert one.worker.turn()
    assert reconciler.asked == ["a"]


def test_many_news_of_one_object_are_one_reconcile() -> None:
    reconciler = Recording()
    one = rig(reconciler)
    for version in range(1, 10):
        tell(one, seen("a", version))
    assert one.worker.turn()
    assert not one.worker.turn()
    assert reconciler.asked == ["a"]


def test_what_changes_elsewhere_within_a_pause_is_one_look_and_its_own_change_waits_for_none() -> None:
    reconciler = Recording()
    one = WorkerHarness(
        {"PowerNode": reconciler}, lambda cache, change: [Key("PowerNode", "", "all")], {"PowerNode": 0.25}
    )
    one.listed()
    one.worker.turn()
    for number in range(5):
        tell(one, seen(f"board-{number}"))
    assert not one.worker.turn()
    one.clock.s += 0.25
    assert one.worker.turn()
    assert not one.worker.turn()
    tell(one, seen("all"))
    assert one.worker.turn()
    assert reconciler.asked == ["all", "all"]


def test_a_deletion_is_looked_at_too() -> None:
    reconciler = Recording()
    one = rig(reconciler)
    tell(one, seen("a"))
    one.worker.turn()
    one.worker.inbox.put(ObjectDeletion(Key("PowerNode", "", "a"), 2))
    one.worker.turn()
    assert reconciler.asked == ["a", "a"]
    assert one.worker.cache.brief("PowerNode", "a") is None


def test_an_exception_in_one_key_is_logged_and_tried_again_and_stops_no_other() -> None:
    def reconcile(cache: Cache, key: Key, context: Context) -> Plan:
        if key.name == "bad":
            raise KeyError("oops")
        return Plan((apply(key.name),))

    one = rig(reconcile)
    tell(one, seen("bad"))
    tell(one, seen("good"))
    one.worker.turn()
    one.worker.turn()
    assert one.api.calls == [("apply", f"{PATH}/good")]
    (line,) = [json.loads(text) for text in one.lines.getvalue().splitlines() if "failed" in text]
    assert (line["key"], line["uid"], line["error"]) == ("PowerNode bad", "uid-bad", "KeyError")
    assert one.metric("powertrain_reconcile_errors_total", kind="PowerNode", error="KeyError") == 1
    one.clock.s += 0.5
    while one.worker.turn():
        pass
    assert one.metric("powertrain_reconcile_errors_total", kind="PowerNode", error="KeyError") == 2


def test_the_first_action_that_fails_ends_the_plan() -> None:
    reconciler = Recording(Plan((apply("a"), apply("b"))))
    one = rig(reconciler)
    one.api.failing = AwayError("nobody answers")
    tell(one, seen("a"))
    one.worker.turn()
    one.api.failing = None
    assert one.api.calls == []
    one.clock.s += 1.0
    assert one.worker.turn()
    assert reconciler.asked == ["a", "a"]


def test_a_plan_can_ask_to_be_looked_at_again() -> None:
    reconciler = Recording(Plan(requeue_s=30.0))
    one = rig(reconciler)
    tell(one, seen("a"))
    one.worker.turn()
    one.clock.s += 29.9
    assert not one.worker.turn()
    one.clock.s += 0.2
    assert one.worker.turn()


def test_a_full_list_has_every_key_looked_at_again() -> None:
    reconciler = Recording()
    one = rig(reconciler)
    for name in "ab":
        tell(one, seen(name))
    one.worker.turn()
    one.worker.turn()
    one.worker.inbox.put(ListCompletion("PowerNode", frozenset({Key("PowerNode", "", "a")}), 5))
    one.worker.turn()
    one.clock.s += 30.0
    while one.worker.turn():
        pass
    assert sorted(reconciler.asked) == ["a", "a", "b", "b"]  # b because it is gone
    assert one.worker.cache.keys("PowerNode") == [Key("PowerNode", "", "a")]


def test_without_the_lease_nothing_is_written_and_the_worker_ends() -> None:
    one = rig(Recording(Plan((apply("a"),))))
    one.may_act.append(LeaseLostError("lost"))
    tell(one, seen("a"))
    with pytest.raises(LeaseLostError):
        one.worker.turn()
    assert one.api.calls == []


@pytest.mark.parametrize(
    "action",
    [
        Announce({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}, "Normal", "R", "m"),
        CheckTemplate("k", {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "t"}}),
        Delete(Key("PowerNode", "", "a"), "u"),
    ],
)
def test_every_kind_of_write_needs_the_lease(action: Action) -> None:
    one = rig(Recording(Plan((action,))))
    one.may_act.append(LeaseLostError("lost"))
    tell(one, seen("a"))
    with pytest.raises(LeaseLostError):
        one.worker.turn()
    assert one.api.calls == []


def test_an_own_write_is_known_at_once_and_not_repeated() -> None:
    plans = [Plan((apply("a", spec={"release": "s"}),))] * 3
    one = rig(Recording(*plans))
    one.api.put(f"{PATH}/a", {"apiVersion": NODE.api_version, "kind": NODE.name, "metadata": {"name": "a", "uid": "u"}})
    tell(one, seen("a", metadata={"uid": "u"}))
    while one.worker.turn():
        pass
    known = one.worker.cache.brief("PowerNode", "a")
    assert known is not None
    assert known["spec"] == {"release": "s"}
    assert [verb for verb, _ in one.api.calls] == ["apply"]
    assert one.metric("powertrain_api_writes_skipped_total", kind="PowerNode") == 1


def test_a_field_that_another_hand_changed_is_written_again() -> None:
    one = rig(lambda cache, key, context: Plan((apply("a", spec={"release": "s"}),)))
    tell(one, seen("a", metadata={"uid": "u"}))
    while one.worker.turn():
        pass
    tell(
        one,
        seen(
            "a",
            one.api.version + 1,
            metadata={"uid": one.api.objects[f"{PATH}/a"]["metadata"]["uid"]},
            spec={"release": "x"},
        ),
    )
    while one.worker.turn():
        pass
    assert [verb for verb, _ in one.api.calls] == ["apply", "apply"]


def test_the_servers_words_about_a_template_reach_the_next_reconcile() -> None:
    words: list[str | None] = []
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "team"}}

    def reconcile(cache: Cache, key: Key, context: Context) -> Plan:
        words.append(cache.answer("hash"))
        return Plan((CheckTemplate("hash", job),) if words[-1] is None else ())

    one = rig(reconcile)
    tell(one, seen("a"))
    one.api.failing = InvalidError("POST …: 422 no such field", "no such field", 422)
    while one.worker.turn():
        pass
    assert words == [None, "no such field"]


@pytest.mark.parametrize("owner", ["ours", "theirs"])
def test_a_name_that_is_taken_is_known_to_the_next_reconcile(owner: str) -> None:
    words: list[str | None] = []
    key = Key("Job", "team", "j")
    labels = {"powertrain.io/training-job-uid": owner}
    path = "/apis/batch/v1/namespaces/team/jobs/j"

    def job(uid: str) -> Object:
        metadata = {"name": "j", "namespace": "team", "labels": labels, "ownerReferences": [{"uid": uid}]}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}

    def reconcile(cache: Cache, asked: Key, context: Context) -> Plan:
        words.append(cache.answer(taken_name_key(key), context.monotonic_s))
        return Plan((Create(job("ours")),) if len(words) == 1 else ())

    one = rig(reconcile)
    one.api.put(path, job(owner))
    tell(one, seen("a"))
    while one.worker.turn():
        pass
    told = None if owner == "ours" else "there is a Job team/j already that belongs to somebody else"
    assert words[0] is None
    assert (words[1] or "").startswith(told or "")
    assert (words[1] is None) == (told is None)


# Health.


def test_a_watch_that_does_not_show_an_own_write_is_stale() -> None:
    one = rig(Recording(Plan((apply("a", spec={"release": "s"}),))))
    tell(one, seen("a"))
    while one.worker.turn():
        pass
    assert one.worker.problem() == ""
    one.clock.s += 61.0
    one.worker.turn()
    assert one.worker.problem() == "the watch of PowerNode is 61 s behind"
    tell(one, seen("a", one.api.version))
    one.worker.turn()
    assert one.worker.problem() == ""


def test_a_worker_that_hangs_and_a_key_that_waits_are_named() -> None:
    one = rig(Recording(), queue_stale_s=30.0)
    for name in "ab":
        tell(one, seen(name))
    one.worker.turn()
    one.clock.s += 61.0
    assert one.worker.problem() == "worker silent for 61 s; a key is due for 61 s"
    assert one.metric("powertrain_queue_oldest_seconds") == 61.0
    one.worker.turn()
    assert one.worker.problem() == ""


def test_jobs_are_counted_by_phase() -> None:
    one = WorkerHarness()

    def job(phase: str | None) -> Object:
        return {"status": {"phase": phase}} if phase else {}

    key = Key("TrainingJob", "team", "a")
    for before, after in ((None, job(None)), (job(None), job("Running"))):
        one.worker.metrics.changed(Change(key, before, after))
    assert one.metric("powertrain_jobs", phase="Running") == 1
    assert one.metric("powertrain_jobs", phase="Pending") == 0
    one.worker.metrics.changed(Change(key, job("Running"), None))
    assert one.metric("powertrain_jobs", phase="Running") == 0


def test_an_agent_that_renews_no_lease_shows_until_it_is_heard_of_again() -> None:
    one = rig(Recording())

    def renew(version: int) -> None:
        metadata = {"name": "a", "namespace": one.settings.namespace, "uid": "l", "resourceVersion": str(version)}
        tell(one, observation_of(RESOURCE_BY_KIND["Lease"], {"metadata": metadata, "spec": {}}))
        one.worker.turn()

    for name in ("a", "never"):
        tell(one, seen(name))
    one.clock.s += 35.0
    renew(2)
    assert [one.metric(SILENT, node=name) for name in ("a", "never")] == [0.0, 0.0]
    one.clock.s += 10.0
    assert [one.metric(SILENT, node=name) for name in ("a", "never")] == [0.0, 45.0]
    one.clock.s += 35.0
    assert [one.metric(SILENT, node=name) for name in ("a", "never")] == [45.0, 80.0]
    renew(3)
    assert one.metric(SILENT, node="a") == 0.0


# Who is looked at after a change.


def keys(change: Change, cache: Cache | None = None) -> set[Key]:
    return set(affected_keys(cache or Cache(), change))


def test_a_renewed_lease_is_no_news_but_a_new_one_is() -> None:
    lease, body = Key("Lease", "system", "jetson"), {"metadata": {"name": "jetson"}}
    named = {"name": "jetson", "namespace": "system"}
    assert keys(Change(lease, body, body)) == set()
    assert Key("PowerNode", "", "jetson") in keys(Change(lease, None, body))
    assert Key("PowerNode", "", "jetson") in keys(Change(lease, body, None))
    cache = Cache()
    for version in (1, 2):
        cache.put(observation_of(RESOURCE_BY_KIND["Lease"], {"metadata": {**named, "resourceVersion": str(version)}}))
    assert Key("PowerNode", "", "jetson") in keys(Change(lease, body, body), cache), "the first sign of life is"


def test_the_job_of_a_session_is_looked_at() -> None:
    node = seen("jetson", spec={"session": {"job": {"namespace": "team", "name": "lstm"}}})
    assert Key("TrainingJob", "team", "lstm") in keys(Change(node.key, node.brief, None))


def beside(name: str, **fields: Any) -> Apply:
    return replace(apply(name, **fields), background=True)


def test_what_nobody_waits_for_comes_after_the_rest_and_once_at_a_time() -> None:
    plan = Plan((beside("a", spec={"n": 1}), apply("b")))
    one = rig(lambda cache, key, context: plan if key.name == "a" else Plan())
    writes: list[BackgroundWrite] = []
    one.worker.run_background_write = writes.append
    for version in (1, 2):
        tell(one, seen("a", version))
        while one.worker.turn():
            pass
    assert [path for _, path in one.api.calls] == [f"{PATH}/b"], "the second apply of b changes nothing"
    assert [write.actions for write in writes] == [(beside("a", spec={"n": 1}),)], "it is under way"
    one.worker.inbox.put(send_all(writes[0], one.worker.gateway.send))
    assert one.worker.turn(), "more was wanted meanwhile"
    assert len(writes) == 1, "the answer is known, so that nothing is left to do"


def test_a_background_write_ends_with_its_first_failure_and_its_key_is_tried_again() -> None:
    reconciler = Recording(Plan((beside("a", spec={"n": 1}), beside("b"))))
    one = rig(reconciler)
    writes: list[BackgroundWrite] = []
    one.worker.run_background_write = writes.append
    tell(one, seen("a"))
    one.worker.turn()
    one.api.failing = AwayError("no answer")
    result = send_all(writes[0], one.worker.gateway.send)
    assert (result.answers, str(result.error)) == ((), "no answer")
    one.api.failing = None
    one.worker.inbox.put(result)
    assert not one.worker.turn(), "not at once"
    assert one.worker.metrics.registry.get_sample_value(
        "powertrain_reconcile_errors_total", {"kind": "PowerNode", "error": "AwayError"}
    )
    one.clock.s += 1.0
    assert one.worker.turn()
    assert reconciler.asked == ["a", "a"]


def test_a_background_queue_handles_what_waits_before_it_ends() -> None:
    told: list[WriteResult] = []
    waiting = BackgroundQueue[BackgroundWrite](lambda write: told.append(send_all(write, lambda action: action.body)))
    writes = [BackgroundWrite(Key("PowerNode", "", name), "", (beside(name),)) for name in "ab"]
    for write in writes:
        waiting.put(write)
    stop = threading.Event()
    stop.set()
    waiting.run(stop)
    assert told == [WriteResult(write, (write.actions[0].body,)) for write in writes]
