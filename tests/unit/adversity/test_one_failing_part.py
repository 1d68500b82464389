"""An exception in one object's part of the operator's work: that object shows it, and nobody else is held up."""

from __future__ import annotations

import json
from typing import Any

from powertrain_kube import InvalidError
from powertrain_operator.cache import Cache, Change
from powertrain_operator.observation import Key, observation_of
from powertrain_operator.plan import Context, Plan
from powertrain_operator.reconcile.failure import failure_actions
from powertrain_operator.resources import RESOURCE_BY_KIND
from powertrain_operator.runtime.messages import ObjectUpdate
from powertrain_operator.runtime.metrics import FAILING
from powertrain_operator.trouble import Parts

from ..operator.conftest import Cluster
from ..operator.fakes import WorkerHarness

Object = dict[str, Any]
JOB = Key("TrainingJob", "team", "job")
PATH = "/apis/powertrain.io/v1alpha1/namespaces/team/trainingjobs/job"


def unreadable(cluster: Cluster, name: str = "bad", **metadata: Any) -> None:
    """A job as a server that knows no bound for counts would have stored it."""
    spec = {"constraints": {"powerWatts": 30}, "workload": {"batchSizes": [16], "epochs": 1e30, "template": {}}}
    body = {"apiVersion": "powertrain.io/v1alpha1", "kind": "TrainingJob", "spec": spec}
    cluster.put({**body, "metadata": {"name": name, "namespace": "team", "generation": 1, **metadata}})
    cluster.settle()


def test_a_job_that_can_not_be_read_is_told_so_and_the_next_one_gets_its_node() -> None:
    cluster = Cluster()
    cluster.goes_on = True
    cluster.board("orin-1")
    unreadable(cluster)
    cluster.submit("good")
    assert cluster.status("good")["where"] == "orin-1"
    assert cluster.condition("Degraded", "bad") == ("True", "ReconcileFailed")
    assert "epochs" in cluster.status("bad")["message"]
    assert cluster.event_message("ReconcileFailed").startswith(
        "the operator fails to reconcile this object and retries: Validation"
    )
    assert cluster.cache.troubled() == [Key("TrainingJob", "team", "bad")]


def test_a_job_that_can_not_be_read_can_be_deleted() -> None:
    cluster = Cluster()
    cluster.goes_on = True
    unreadable(cluster, finalizers=["powertrain.io/restore"])
    cluster.delete("bad")
    assert cluster.cache.get("TrainingJob", "bad", "team") is None
    assert cluster.cache.troubled() == []


def test_a_job_that_holds_a_board_and_can_not_be_read_any_more_lets_go_of_it_in_time() -> None:
    cluster = Cluster()
    cluster.goes_on = True
    cluster.board("orin-1")
    cluster.submit()
    cluster.running()
    body = cluster.job()
    body["spec"]["workload"]["epochs"] = 1e30
    cluster.put(body)
    cluster.settle()
    assert cluster.condition("Degraded") == ("True", "ReconcileFailed")
    cluster.delete()
    assert cluster.status()["nodes"][0]["holds"]
    cluster.wait(121.0)
    assert cluster.cache.get("TrainingJob", "job", "team") is None
    cluster.restores()
    assert cluster.session() == {}
    cluster.submit("next")
    assert cluster.status("next")["where"] == "orin-1"


def test_the_word_that_a_reconcile_fails_goes_when_it_fails_no_more() -> None:
    cluster = Cluster()
    cluster.goes_on = True
    cluster.board("orin-1")
    unreadable(cluster)
    body = cluster.job("bad")
    body["spec"]["workload"] |= {"epochs": 3, "template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}
    body["metadata"]["generation"] += 1
    cluster.put(body)
    cluster.settle()
    assert cluster.condition("Degraded", "bad") == ("False", "Healthy")
    assert cluster.status("bad")["where"] == "orin-1"
    assert cluster.cache.troubled() == []


class Reconcilers:
    """A shared reconcile in which one job's part fails, and a job's own reconcile that does as it is told."""

    def __init__(self) -> None:
        self.part: Exception | None = None
        self.own: Exception | None = None

    def shared(self, cache: Cache, key: Key, context: Context) -> Plan:
        parts = Parts()
        with parts.of(JOB):
            if self.part is not None:
                raise self.part
        return Plan(troubles=parts.troubles)

    def job(self, cache: Cache, key: Key, context: Context) -> Plan:
        if self.own is not None:
            raise self.own
        return Plan()


def rig(reconcilers: Reconcilers) -> WorkerHarness:
    harness = WorkerHarness(
        {"Queue": reconcilers.shared, "TrainingJob": reconcilers.job}, lambda cache, change: _both(change)
    )
    harness.worker._failure_actions = failure_actions
    harness.listed()
    metadata = {"name": "job", "namespace": "team", "generation": 1}
    body = harness.api.put(PATH, {"apiVersion": "powertrain.io/v1alpha1", "kind": "TrainingJob", "metadata": metadata})
    harness.worker.inbox.put(ObjectUpdate(observation_of(RESOURCE_BY_KIND["TrainingJob"], body), "watch"))
    return harness


def _both(change: Change) -> list[Key]:
    return [Key("Queue", "", "queue"), JOB]


def settle(harness: WorkerHarness) -> None:
    while harness.worker.turn():
        pass


def test_a_failing_part_is_a_metric_and_a_line_of_the_log_until_it_is_over() -> None:
    reconcilers = Reconcilers()
    reconcilers.part = TypeError("one job's value")
    harness = rig(reconcilers)
    settle(harness)
    labels = {"kind": "TrainingJob", "namespace": "team", "name": "job"}
    samples = harness.worker.metrics.registry.get_sample_value
    assert samples(FAILING, labels) == 1.0
    assert harness.metric("powertrain_reconcile_errors_total", kind="TrainingJob", error="PartFailed") >= 1.0
    lines = [json.loads(line) for line in harness.lines.getvalue().splitlines()]
    [line] = [line for line in lines if line["event"] == "trouble"]
    assert (line["key"], line["source"]) == ("TrainingJob team/job", "Queue queue")
    assert "one job's value" in line["reason"]
    assert "one job's value" in harness.worker.cache.trouble(JOB)
    reconcilers.part = None
    harness.worker._queue.add(Key("Queue", "", "queue"), harness.clock())
    settle(harness)
    assert samples(FAILING, labels) is None


def test_a_status_that_the_server_refuses_is_told_in_one_that_it_takes() -> None:
    reconcilers = Reconcilers()
    reconcilers.own = InvalidError("PATCH: 422 status.eta: Invalid value", "status.eta: Invalid value", 422)
    harness = rig(reconcilers)
    settle(harness)
    [condition] = harness.api.objects[PATH]["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Degraded", "True", "ReconcileFailed")
    assert "status.eta: Invalid value" in condition["message"]
    assert harness.api.objects[PATH]["status"]["phase"] == "Pending"
    assert [path for verb, path in harness.api.calls if "events" in path], "an Event says so too"


def test_an_object_that_nobody_can_place_among_the_others_does_not_end_the_worker() -> None:
    reconcilers = Reconcilers()
    harness = rig(reconcilers)
    harness.worker._affected = lambda cache, change: (_ for _ in ()).throw(KeyError("odd"))
    settle(harness)
    assert harness.metric("powertrain_reconcile_errors_total", kind="TrainingJob", error="KeyError") == 1.0
    assert harness.worker.problem() == ""
