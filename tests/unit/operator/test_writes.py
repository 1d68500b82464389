"""What one job costs the API server: the operator's writes while a recorded agent serves it, from apply to restore."""

from __future__ import annotations

import collections
from typing import Any

import pytest
from benchmarks.many_nodes.agents import AgentReplay
from benchmarks.many_nodes.recording import load

from .conftest import Cluster

Object = dict[str, Any]
TICK_S = 0.5
TRAINING_S = 30.0


class RecordedAgentCluster:
    """A cluster whose one agent answers as it was recorded."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, recording = cluster, load()["orin-agx"]
        self._agent = AgentReplay("orin-1", recording, speed=1.0)
        cluster.board()

    def serve(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(int(seconds / TICK_S)):
            now = self._cluster.now
            self._agent.told(self._cluster.get("PowerNode", "orin-1").get("spec") or {}, now.timestamp(), now)
            body = self._agent.take(now.timestamp(), now)
            if body is not None:
                self._cluster.put({**self._cluster.get("PowerNode", "orin-1"), "status": body["status"]})
            self._cluster.settle()
            self._cluster.wait(TICK_S)

    def begin(self) -> None:
        """Let the pod run and its training begin."""
        self._cluster.pod("job-0-1")
        self._agent.training(self._cluster.session()["uid"], self._cluster.now.timestamp())


@pytest.fixture
def writes(cluster: Cluster) -> collections.Counter[str]:
    """Return the writes for a job that trains for half a minute, all kinds, Events included."""
    played = RecordedAgentCluster(cluster)
    played.serve(2.0)
    cluster.writes.clear()
    cluster.events.clear()
    cluster.submit()
    played.serve(2.0)
    played.begin()
    played.serve(TRAINING_S)
    cluster.ends("job-0-1")
    played.serve(15.0)
    assert (cluster.status()["phase"], cluster.session()) == ("Succeeded", {})
    return collections.Counter(cluster.writes) + collections.Counter({"Event": len(cluster.events)})


def test_a_job_of_half_a_minute_costs_a_bounded_number_of_writes(writes: collections.Counter[str]) -> None:
    counted = {name: count for name, count in writes.items() if not name.startswith("CheckTemplate")}
    assert counted["Create Job"] == 1
    assert counted["Apply TrainingJob"] == 2, "finalizer on, finalizer off"
    assert counted["Apply PowerNode"] <= 4, "envelope, its pods, the release, no envelope"
    assert counted["Apply Node"] <= 3, "job, budget and the chosen mode, another one, nothing"
    assert counted["ApplyStatus TrainingJob"] <= 9, "verdicts and the Job at once, the rest every 5 or 10 s"
    assert counted["Event"] <= 4, "claimed, chosen, completed, restored"
    assert sum(counted.values()) <= 25, counted


def test_a_new_job_has_its_board_after_two_writes_and_the_board_its_envelope_with_the_third(one_board: Cluster) -> None:
    c = one_board
    c.submit("first")
    c.running("first-0-1")
    c.ends("first-0-1")
    c.restores()
    c.writes.clear()
    c.submit("second")
    assert c.writes[:3] == ["Apply TrainingJob", "ApplyStatus TrainingJob", "Apply PowerNode"]
    assert (c.condition("Admitted", "second"), c.status("second")["where"]) == (("True", "Accepted"), "orin-1")
    assert c.job("second")["metadata"]["finalizers"] == ["powertrain.io/restore"]


def test_a_template_is_checked_once_for_all_jobs_that_have_it(one_board: Cluster) -> None:
    c = one_board
    for name in ("first", "second", "third"):
        c.submit(name)
    assert c.writes.count("CheckTemplate Job") == 1
    assert [c.status(name)["phase"] for name in ("first", "second", "third")] == ["Pending", "Queued", "Queued"]
    c.submit("other", workload={"template": {"spec": {"containers": [{"name": "train", "image": "example.org/b:1"}]}}})
    c.submit("labelled", profiling={"reuse": False})
    assert c.writes.count("CheckTemplate Job") == 2


def test_profiles_that_are_known_are_renewed_once_a_job(one_board: Cluster) -> None:
    c = one_board
    for name in ("first", "second"):
        c.writes.clear()
        c.submit(name, workload={"name": "same"})
        c.running(f"{name}-0-1")
        c.chooses(profiling={"measured": 3, "seconds": 20.0})
        c.ends(f"{name}-0-1")
        c.restores()
    assert [write for write in c.writes if write.endswith("PowerProfile")] == ["Apply PowerProfile"]


def status_writes(cluster: Cluster) -> int:
    return cluster.writes.count("ApplyStatus TrainingJob")


def test_verdicts_are_written_at_once_details_and_figures_wait(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    before = status_writes(c)
    c.chooses(training={"steps": 260, "samples": 4160})
    c.wait(9.0)
    assert (status_writes(c), c.status()["nodes"][0]["training"]["steps"]) == (before, 250), "figures wait for 10 s"
    c.wait(1.5)
    assert c.status()["nodes"][0]["training"]["steps"] == 260
    c.chooses(reason="Check", message="check another mode")
    c.wait(4.0)
    assert c.status()["nodes"][0]["reason"] == "Chosen", "what is tried waits for 5 s"
    c.wait(1.5)
    assert c.status()["nodes"][0]["reason"] == "Check"
    c.chooses(conditions=[c.condition_of("BudgetReachable", "False", "BudgetUnreachable")])
    assert c.condition("BudgetMet") == ("False", "BudgetUnreachable"), "a verdict does not"


def test_a_pod_that_is_over_makes_no_other_envelope_and_leaves_it_when_another_one_comes(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    generation, pod_uids = c.session()["generation"], c.session()["podUIDs"]
    c.pod("job-0-1", "Failed")
    assert (c.session()["generation"], c.session()["podUIDs"]) == (generation, pod_uids)
    c.remove("Pod", "job-0-1-pod", "team")
    c.pod("job-0-1")
    again = c.get("Pod", "job-0-1-pod", "team")["metadata"]["uid"]
    assert (c.session()["generation"], c.session()["podUIDs"]) == (generation + 1, [again])
