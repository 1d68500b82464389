"""Which keys a change asks for, and what comes first when much is due: everything that a job's start waits for."""

from __future__ import annotations

from typing import Any

from powertrain_operator.cache import Change
from powertrain_operator.observation import Key
from powertrain_operator.plan import ApplyStatus, Context, Rank
from powertrain_operator.reconcile.queue import QUEUE
from powertrain_operator.reconcilers import RECONCILERS, affected_keys, rank_of
from powertrain_operator.settings import Settings

from .batches import several
from .conftest import Cluster, merged

Object = dict[str, Any]

JOB, BOARD = Key("TrainingJob", "team", "job"), Key("PowerNode", "", "orin-1")


def test_the_queue_comes_first(cluster: Cluster) -> None:
    assert rank_of(cluster.cache, QUEUE) is Rank.START


def test_a_job_comes_first_while_it_waits_and_then_while_it_starts_and_ends(one_board: Cluster) -> None:
    c = one_board
    metadata = {"name": "job", "namespace": "team", "generation": 1}
    c.put({"apiVersion": "powertrain.io/v1alpha1", "kind": "TrainingJob", "metadata": metadata, "spec": {}})
    assert rank_of(c.cache, JOB) is Rank.START, "new"
    c.change("TrainingJob", "job", "team", status={"phase": "Queued"})
    assert rank_of(c.cache, JOB) is Rank.REST, "it is told that it waits"
    c.remove("TrainingJob", "job", "team")
    assert rank_of(c.cache, JOB) is Rank.REST, "gone"
    c.submit()
    assert rank_of(c.cache, JOB) is Rank.END, "claimed"
    c.running()
    assert rank_of(c.cache, JOB) is Rank.REST, "running"
    ended = {"type": "Complete", "status": "True"}
    c.change("Job", "job-0-1", "team", status={"conditions": [ended]})
    assert rank_of(c.cache, JOB) is Rank.END, "its training has ended"
    c.settle()
    assert c.status()["stopping"] == "Completed"
    assert rank_of(c.cache, JOB) is Rank.END, "its board is given back"
    c.ends("job-0-1")
    c.restores()
    assert rank_of(c.cache, JOB) is Rank.REST, "over"


def test_a_board_comes_first_while_it_is_given_away_and_then_while_it_is_given_back(one_board: Cluster) -> None:
    c = one_board
    assert rank_of(c.cache, BOARD) is Rank.REST
    c.submit()
    assert rank_of(c.cache, BOARD) is Rank.REST, "it has its envelope"
    power_node = c.get("PowerNode", "orin-1")
    c.put({**power_node, "spec": {}})
    assert rank_of(c.cache, BOARD) is Rank.START, "it has none yet"
    c.settle()
    c.running()
    assert rank_of(c.cache, BOARD) is Rank.REST, "running"
    c.ends("job-0-1")
    assert rank_of(c.cache, BOARD) is Rank.END, "to be released"
    c.restores()
    assert rank_of(c.cache, BOARD) is Rank.REST, "free"
    assert rank_of(c.cache, Key("PowerNode", "", "gone")) is Rank.REST


def change(before: Object, **parts: Any) -> Change:
    after = merged(before, parts)
    return Change(
        Key(before["kind"], before["metadata"].get("namespace", ""), before["metadata"]["name"]), before, after
    )


def keys_after(cluster: Cluster, kind: str, name: str, namespace: str = "", **parts: Any) -> set[str]:
    """Which keys are looked at again when an object changes in this way."""
    return {str(key) for key in affected_keys(cluster.cache, change(cluster.get(kind, name, namespace), **parts))}


def test_a_board_s_figures_are_for_its_job_alone(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    figures = {"figures": {"watts": 12.0}, "session": {"energyJoules": 900.0, "training": {"steps": 999}}}
    assert keys_after(c, "PowerNode", "orin-1", status=figures) == {"TrainingJob team/job"}
    mode = {"session": {"mode": "other"}}
    assert keys_after(c, "PowerNode", "orin-1", status=mode) == {"TrainingJob team/job", "PowerNode orin-1"}


def test_a_job_s_figures_are_no_news_for_its_boards(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    assert keys_after(c, "TrainingJob", "job", "team", status={"energyJoules": 1.0}) == {"TrainingJob team/job"}
    assert "PowerNode orin-1" in keys_after(c, "TrainingJob", "job", "team", status={"stopping": "Completed"})
    assert "PowerNode orin-1" in keys_after(c, "TrainingJob", "job", "team", metadata={"generation": 2})


def test_a_pod_and_a_job_are_looked_at_when_something_is_said_that_somebody_reads(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    name, both = c.pod_name("job-0-1"), {"TrainingJob team/job", "PowerNode orin-1"}
    ready = {"type": "Ready", "status": "True"}
    assert keys_after(c, "Pod", name, "team", metadata={"finalizers": []}) == set()
    assert keys_after(c, "Pod", name, "team", status={"podIP": "10.0.0.1", "conditions": [ready]}) == set()
    assert keys_after(c, "Pod", name, "team", status={"phase": "Succeeded"}) == both
    assert keys_after(c, "Pod", name, "team", status={"conditions": [{**ready, "status": "False"}]}) == both
    assert keys_after(c, "Job", "job-0-1", "team", status={"active": 1, "ready": 1}) == set()
    assert (
        keys_after(c, "Job", "job-0-1", "team", status={"conditions": [{"type": "Complete", "status": "True"}]}) == both
    )
    assert keys_after(c, "Job", "job-0-1", "team", metadata={"deletionTimestamp": "2026-06-01T12:00:00Z"}) == both


def test_a_profile_is_what_a_trial_waits_for(one_board: Cluster) -> None:
    c = one_board
    c.submit("plain")
    c.running("plain-0-1")
    profile_name = next(iter(c.cache.each("PowerProfile")))["metadata"]["name"]
    assert keys_after(c, "PowerProfile", profile_name, "team", status={"uses": 7}) == set()
    c.ends("plain-0-1")
    c.restores()
    several(c)
    assert keys_after(c, "PowerProfile", profile_name, "team", status={"uses": 7}) == {"TrainingJob team/job"}


def test_of_many_jobs_that_come_at_once_a_few_get_their_boards_before_the_next_ones_do(cluster: Cluster) -> None:
    c = cluster
    for number in range(6):
        c.board(f"orin-{number}")
    c.submit("first")
    settle, c.settle = c.settle, lambda rounds=0: None  # type: ignore[method-assign, assignment]
    for number in range(5):
        c.wait(1.0)
        c.submit(f"next-{number}")
    plan = RECONCILERS["Queue"](c.cache, QUEUE, Context(c.now, c.now.timestamp(), Settings()))
    claimed = [action.body["metadata"]["name"] for action in plan.actions if isinstance(action, ApplyStatus)]
    assert (claimed, plan.requeue_s) == (["next-0", "next-1", "next-2", "next-3"], 0.0), "the oldest first"
    settle()
    assert len({c.status(f"next-{number}")["where"] for number in range(5)} | {c.status("first")["where"]}) == 6


def test_a_job_that_is_refused_for_its_size_comes_after_those_that_can_start(cluster: Cluster) -> None:
    cluster.board()
    cluster.submit("large", workload={"template": {"data": "x" * 100_000}})
    assert rank_of(cluster.cache, Key("TrainingJob", "team", "large")) is Rank.REST
    assert "finalizers" not in cluster.job("large")["metadata"], "it has nothing to give back"
