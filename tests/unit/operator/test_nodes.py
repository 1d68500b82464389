"""Nodes that come, go, drain, fall silent or speak another version, and who gets which of them."""

from __future__ import annotations

from typing import Any

import pytest

from powertrain_operator.cache import Change
from powertrain_operator.observation import Key
from powertrain_operator.reconcilers import affected_keys

from .conftest import MODES, Cluster


def names_of(cluster: Cluster, job: str = "job") -> list[str]:
    return [node["name"] for node in cluster.status(job).get("nodes", []) if node["holds"]]


def test_two_jobs_for_one_node_run_one_after_the_other(one_board: Cluster) -> None:
    c = one_board
    c.submit("first")
    c.submit("second")
    assert names_of(c, "first") == ["orin-1"]
    assert (c.status("second")["phase"], c.status("second")["message"]) == (
        "Queued",
        "waits for its turn: orin-1 by team/first",
    )
    c.wait(60)
    assert c.reasons().count("Queued") == 1, "the first got its node at once, the second says it once"
    assert c.event_message("Queued") == "waits for its turn: orin-1 by team/first"
    c.running("first-0-1")
    c.ends("first-0-1")
    assert names_of(c, "second") == [], "the board is not restored yet"
    c.restores()
    assert names_of(c, "second") == ["orin-1"]


def test_an_older_job_that_needs_two_nodes_is_not_starved_by_younger_ones(one_board: Cluster) -> None:
    c = one_board
    c.board("orin-2")
    c.submit("busy")
    c.submit("pair", placement={"replicas": 2})
    c.submit("late")
    assert (names_of(c, "busy"), names_of(c, "pair"), names_of(c, "late")) == (["orin-1"], [], [])
    c.running("busy-0-1")
    c.ends("busy-0-1")
    c.restores()
    assert (sorted(names_of(c, "pair")), names_of(c, "late")) == (["orin-1", "orin-2"], [])


def test_a_job_that_can_never_run_here_keeps_nothing_from_others(one_board: Cluster) -> None:
    c = one_board
    c.submit("dreamer", placement={"replicas": 5})
    c.submit("modest")
    assert c.status("dreamer")["phase"] == "WaitingForNode"
    assert "needs 5 nodes, 1 could run it" in c.status("dreamer")["message"]
    assert names_of(c, "modest") == ["orin-1"]


def test_replicas_know_each_other_and_have_limits_of_their_own(cluster: Cluster) -> None:
    c = cluster
    c.board("orin-1", {"board": "orin"})
    c.board("nano-1", {"board": "nano"}, module="p3767")
    override = {"nodeSelector": {"board": "nano"}, "constraints": {"powerWatts": 8}}
    c.submit(placement={"replicas": 2, "overrides": [override]})
    limits = {name: c.session(name)["limits"]["powerWatts"] for name in ("orin-1", "nano-1")}
    assert limits == {"orin-1": 30, "nano-1": 8}


def test_synchronous_boards_profile_one_at_a_time(cluster: Cluster) -> None:
    c = cluster
    c.board("orin-1")
    c.board("orin-2")
    c.submit(placement={"replicas": 2, "coupling": "Synchronous"})

    def holding() -> list[bool]:
        return [c.session(name)["plan"]["hold"] for name in ("orin-1", "orin-2")]

    def answer() -> None:
        for name in ("orin-1", "orin-2"):
            c.amends(name)

    assert holding() == [False, True]
    c.running("job-0-1", "orin-1")
    assert holding() == [True, True], "the first has not said yet that it holds still"
    c.amends("orin-1")
    assert holding() == [True, False]
    assert c.status()["phase"] == "Profiling"
    c.running("job-1-1", "orin-2")
    answer()
    assert c.status()["phase"] == "Running"
    for _ in range(4):  # each has its turn, and they never have it together
        before = holding()
        assert sorted(before) == [False, True]
        c.wait(120)
        assert holding() == [True, True]
        answer()
        assert holding() == before[::-1]
    c.edit(constraints={"powerWatts": 40})
    tries = ("orin-1", "orin-2")[holding().index(False)]
    c.report(tries, phase="Profiling", gateOpen=True, verified=True, mode=MODES["slow"], reason="Profiling")
    c.wait(600)
    assert holding() == [name != tries for name in ("orin-1", "orin-2")], "it keeps its turn until it has chosen"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"spec": {"unschedulable": True}}, "cordoned"),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, "NotReady"),
        ({"spec": {"taints": [{"key": "gpu", "value": "x", "effect": "NoSchedule"}]}}, "taint gpu=x:NoSchedule"),
        ({"metadata": {"labels": {"powertrain.io/ignore": "true"}}}, "powertrain.io/ignore is set"),
    ],
)
def test_a_node_that_should_not_be_used_is_not_and_the_job_says_why(
    one_board: Cluster, change: dict[str, Any], why: str
) -> None:
    one_board.change("Node", "orin-1", **change)
    one_board.submit()
    assert one_board.status()["phase"] == "WaitingForNode"
    assert why in one_board.status()["message"]
    one_board.wait(60)
    assert why in one_board.event_message("WaitingForNode")
    assert one_board.reasons().count("WaitingForNode") == 1


def test_a_taint_that_the_template_tolerates_is_no_obstacle(one_board: Cluster) -> None:
    c = one_board
    c.change("Node", "orin-1", spec={"taints": [{"key": "gpu", "value": "x", "effect": "NoSchedule"}]})
    toleration = {"key": "gpu", "operator": "Exists"}
    pod = {"containers": [{"name": "a", "image": "b"}], "tolerations": [toleration]}
    c.submit(workload={"template": {"spec": pod}})
    assert names_of(c) == ["orin-1"]


def test_an_agent_of_another_version_gets_no_new_session(one_board: Cluster) -> None:
    c = one_board
    c.change("PowerNode", "orin-1", status={"agent": {"protocol": 7}})
    c.submit()
    assert "VersionSkew: its agent speaks protocol 7" in c.status()["message"]
    assert "VersionSkew: its agent speaks protocol 7" in c.event_message("WaitingForNode")


def test_a_silent_agent_gets_no_new_job_and_degrades_a_running_one(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.silence()
    c.wait(60)
    assert (c.status()["phase"], c.condition("Degraded")) == ("Running", ("True", "AgentSilent"))
    c.submit("next", placement={"nodeSelector": {}})
    assert "its agent is silent" in c.status("next")["message"]


def test_an_agent_whose_lease_was_only_found_gets_no_new_job_until_it_is_heard(one_board: Cluster) -> None:
    c = one_board
    c.wait(3600)
    lease = c.get("Lease", "orin-1", "powertrain-system")
    c.remove("Lease", "orin-1", "powertrain-system")
    c.put(lease)  # an operator that was started anew finds it in its first list
    c.submit()
    assert (names_of(c), c.status()["phase"]) == ([], "Queued"), "that is decided within a renewal"
    c.wait(10)
    assert names_of(c) == ["orin-1"]


def test_a_running_job_is_not_degraded_by_an_operator_that_was_started_anew(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.wait(3600)
    lease = c.get("Lease", "orin-1", "powertrain-system")
    c.remove("Lease", "orin-1", "powertrain-system")
    c.put(lease)
    c.settle()
    assert c.condition("Degraded") == ("False", "Healthy")


def test_a_drained_node_ends_the_attempt_and_the_job_waits_for_it(one_board: Cluster) -> None:
    c = one_board
    c.board("orin-2")
    c.submit()
    node = names_of(c)[0]
    c.running("job-0-1", node)
    c.change("Node", node, spec={"unschedulable": True})
    c.settle()
    assert c.status()["phase"] == "Running", "cordoned alone changes nothing for a running pod"
    c.remove("Pod", "job-0-1-pod", "team")
    c.settle()
    c.restores(node)
    assert (c.status()["phase"], c.session(node)) == ("WaitingForNode", {})
    assert "waits for its own node to return" in c.status()["message"]
    c.change("Node", node, spec={"unschedulable": False})
    c.settle()
    assert (names_of(c), c.status()["attempt"]) == ([node], 2)


def test_a_drained_job_that_may_move_goes_elsewhere(one_board: Cluster) -> None:
    c = one_board
    c.board("orin-2")
    c.submit(placement={"allowMove": True})
    node = names_of(c)[0]
    c.running("job-0-1", node)
    c.change("Node", node, spec={"unschedulable": True})
    c.remove("Pod", "job-0-1-pod", "team")
    c.settle()
    c.restores(node)
    assert names_of(c) == [{"orin-1": "orin-2", "orin-2": "orin-1"}[node]]
    assert c.event_message("NodeDrained") == f"node {node} was drained"


def test_a_training_that_ends_on_a_cordoned_node_is_over_not_drained(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.change("Node", "orin-1", spec={"unschedulable": True})
    c.pod("job-0-1", "Succeeded")
    assert c.reasons().count("NodeDrained") == 0, "its Job says so a moment later"
    c.ends("job-0-1")
    assert c.status()["phase"] == "Succeeded"


def test_an_evicted_pod_on_a_cordoned_node_is_a_drain(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.change("Node", "orin-1", spec={"unschedulable": True})
    c.pod("job-0-1", "Failed", conditions=[{"type": "DisruptionTarget", "status": "True"}])
    assert c.event_message("NodeDrained") == "node orin-1 was drained"


@pytest.mark.parametrize("trial", [False, True])
def test_a_drain_is_no_failure_even_without_another_try(one_board: Cluster, trial: bool) -> None:
    c = one_board
    c.submit(workload={"backoffLimit": 0}, profiling={"when": "Offline" if trial else "Online"})
    c.opens()
    c.pod("job-0-1")
    c.change("Node", "orin-1", spec={"unschedulable": True})
    evicted = {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    c.change("Pod", "job-0-1-pod", "team", status=evicted)
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    c.change("Job", "job-0-1", "team", status={"conditions": [failed]})
    c.settle()
    assert c.event_message("NodeDrained") == "node orin-1 was drained"
    assert c.status()["phase"] == "WaitingForNode"
    assert "Failed" not in c.reasons()
    assert c.condition("Complete") == ("", "")


def test_a_failure_on_a_cordoned_node_is_a_failure(one_board: Cluster) -> None:
    c = one_board
    c.submit(workload={"backoffLimit": 0})
    c.running()
    c.change("Node", "orin-1", spec={"unschedulable": True})
    c.ends("job-0-1", "Failed", "Job has reached the specified backoff limit")
    assert c.condition("Complete") == ("False", "BackoffLimitExceeded")


def test_a_pod_that_outlives_its_deleted_job_keeps_its_mode_until_it_ends(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.change("Pod", "job-0-1-pod", "team", metadata={"annotations": {"stuck": "yes"}})
    c.delete()
    c.wait(130)
    assert c.cache.get("TrainingJob", "job", "team") is None
    assert c.event_message("RestorePending") == (
        "orin-1 is not restored after 120 s; its pods still run; it is released when they have ended"
    )
    assert c.get("PowerNode", "orin-1")["spec"].get("release") is None
    c.submit("next")
    assert not c.status("next").get("nodes")
    c.remove("Pod", "job-0-1-pod", "team")
    c.settle()
    assert c.get("PowerNode", "orin-1")["spec"]["release"] == c.session()["uid"]


def test_a_node_whose_agent_left_with_its_power_node_keeps_no_annotation(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.silence()
    c.wait(60)
    c.remove("PowerNode", "orin-1")
    c.delete()
    assert c.annotations() == {}


def test_a_lost_node_is_waited_for_unless_the_job_may_move(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    lost = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-06-01T12:00:00Z"}
    c.change("Node", "orin-1", status={"conditions": [lost]})
    c.wait(400)
    assert (c.status()["phase"], c.condition("Degraded")) == ("WaitingForNode", ("True", "NodeLost"))
    assert c.status()["attempt"] == 1


def test_a_lost_node_is_left_by_a_job_that_may_move_and_its_release_stays_pending(one_board: Cluster) -> None:
    c = one_board
    c.submit(placement={"allowMove": True})
    c.running()
    c.board("orin-2")
    c.change("Pod", "job-0-1-pod", "team", metadata={"annotations": {"stuck": "yes"}})
    lost = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-06-01T12:00:00Z"}
    c.change("Node", "orin-1", status={"conditions": [lost]})
    c.wait(310)
    c.wait(130)
    assert names_of(c) == ["orin-2"]
    assert "orin-1 is not restored" in c.event_message("RestorePending")
    assert c.session("orin-1")["uid"].endswith("-0-1")


def test_a_deleted_node_ends_the_attempt(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    for kind in ("Node", "PowerNode"):
        c.remove(kind, "orin-1")
    c.remove("Pod", "job-0-1-pod", "team")
    c.settle()
    assert c.status()["phase"] == "WaitingForNode"
    assert c.event_message("NodeLost") == "node orin-1 was deleted"


def test_a_job_that_waits_for_its_node_may_be_allowed_to_move(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.change("Node", "orin-1", spec={"unschedulable": True})
    c.remove("Pod", "job-0-1-pod", "team")
    c.settle()
    c.restores()
    c.board("orin-2")
    assert names_of(c) == []
    c.edit(placement={"allowMove": True})
    assert names_of(c) == ["orin-2"]


@pytest.mark.parametrize("move", [False, True])
def test_a_node_that_is_renamed_is_another_one(one_board: Cluster, move: bool) -> None:
    c = one_board
    c.submit(placement={"allowMove": move})
    c.running()
    for kind in ("Node", "PowerNode"):
        c.remove(kind, "orin-1")
    c.remove("Lease", "orin-1", "powertrain-system")
    c.remove("Pod", "job-0-1-pod", "team")
    c.board("jetson-1")
    assert c.event_message("NodeLost") == "node orin-1 was deleted"
    if move:
        assert (names_of(c), c.status()["attempt"]) == (["jetson-1"], 2)
        return
    assert (names_of(c), c.status()["phase"]) == ([], "WaitingForNode")
    assert "orin-1 (there is no such node); with placement.allowMove it may use another one" in c.status()["message"]
    c.edit(placement={"allowMove": True})
    assert names_of(c) == ["jetson-1"]


def test_a_pod_that_never_starts_gives_the_board_back_and_keeps_its_place(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.opens()
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    c.pod("job-0-1", "Pending", gate=False, containerStatuses=[{"name": "train", "state": waiting}])
    assert c.status()["message"] == "orin-1: ImagePullBackOff: no such image"
    c.wait(301)
    assert c.get("PowerNode", "orin-1")["spec"]["release"] == c.session()["uid"]
    assert (c.status()["phase"], c.condition("Degraded")) == ("WaitingForNode", ("True", "PodPending"))
    c.restores()
    assert names_of(c) == ["orin-1"]
    c.pod("job-0-1", "Pending", gate=True)
    assert "release" not in c.get("PowerNode", "orin-1")["spec"], "the gate runs: the session is opened again"


def test_a_job_that_its_queue_holds_back_gives_the_board_back_until_it_is_admitted(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.opens()
    c.change("Job", "job-0-1", "team", spec={"suspend": True})
    c.settle()
    assert "its queue has not admitted it yet" in c.status()["message"]
    c.wait(301)
    assert c.get("PowerNode", "orin-1")["spec"]["release"] == c.session()["uid"]
    c.restores()
    c.change("Job", "job-0-1", "team", spec={"suspend": False})
    c.pod("job-0-1")
    assert "release" not in c.get("PowerNode", "orin-1")["spec"]


def test_a_pod_that_is_tried_again_late_is_not_parked_at_once(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.wait(3600)
    c.pod("job-0-1", "Failed")
    c.remove("Pod", "job-0-1-pod", "team")
    c.pod("job-0-1", "Pending", gate=False)
    assert "release" not in c.get("PowerNode", "orin-1")["spec"], "it has waited for no time"
    c.wait(301)
    assert c.get("PowerNode", "orin-1")["spec"]["release"] == c.session()["uid"]


def test_a_job_between_two_tries_is_not_parked(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.wait(3600)
    c.pod("job-0-1", "Failed")
    c.wait(40)
    assert "release" not in c.get("PowerNode", "orin-1")["spec"]
    c.pod("job-0-1", number=2)
    c.wait(3600)
    c.remove("Pod", "job-0-1-pod-2", "team")  # by hand
    c.settle()
    assert "release" not in c.get("PowerNode", "orin-1")["spec"]
    assert c.condition("Degraded") == ("False", "Healthy")


def test_a_job_that_can_make_no_pod_gives_the_board_back_and_says_why(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.opens()
    c.wait(5)
    assert "no pod" not in c.status()["message"]
    c.wait(20)
    assert "its Job creates no pod: the Pod Security level" in c.status()["message"]
    c.wait(280)
    assert c.get("PowerNode", "orin-1")["spec"]["release"] == c.session()["uid"]
    assert (c.status()["phase"], c.condition("Degraded")) == ("WaitingForNode", ("True", "PodPending"))
    assert "the Pod Security level of the namespace" in c.event_message("PodPending")
    c.restores()
    assert names_of(c) == ["orin-1"]
    c.pod("job-0-1", "Pending", gate=True)
    assert "release" not in c.get("PowerNode", "orin-1")["spec"], "the namespace was mended"


def test_a_job_that_its_queue_takes_back_late_is_not_parked_at_once(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.wait(3600)
    c.remove("Pod", "job-0-1-pod", "team")
    c.change("Job", "job-0-1", "team", spec={"suspend": True})
    c.settle()
    assert "release" not in c.get("PowerNode", "orin-1")["spec"]
    c.wait(16)
    assert c.get("PowerNode", "orin-1")["spec"]["release"] == c.session()["uid"]
    assert (c.status()["phase"], c.condition("Degraded")) == ("WaitingForNode", ("True", "PodPending"))


def test_a_preempted_job_keeps_its_board_until_its_pod_has_ended(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.change("Job", "job-0-1", "team", spec={"suspend": True})
    c.wait(60)
    assert "release" not in c.get("PowerNode", "orin-1")["spec"], "the pod still trains"


def test_a_training_image_that_can_not_be_pulled_is_told_at_once_and_its_open_gate_is_never_left_alone(
    one_board: Cluster,
) -> None:
    c = one_board
    c.submit()
    c.opens()
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    c.pod("job-0-1", "Pending", containerStatuses=[{"name": "train", "state": waiting}])
    assert c.status()["message"] == "orin-1: ImagePullBackOff: no such image"
    assert c.condition("Degraded") == ("True", "ContainerWaiting")
    assert c.event_message("ContainerWaiting") == "orin-1: ImagePullBackOff: no such image"
    c.wait(301)
    assert "release" not in c.get("PowerNode", "orin-1")["spec"], "the gate is passed: the training may start any time"
    c.pod("job-0-1", "Running", containerStatuses=[{"name": "train", "state": {"running": {}}}])
    assert c.condition("Degraded") == ("False", "Healthy")


def test_a_policy_lowers_a_job_and_says_so(cluster: Cluster) -> None:
    c = cluster
    policy = {"maxWatts": 20, "hardMaxWatts": 25, "hardMaxAmps": 2.5}
    c.put({"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerPolicy", "metadata": {"name": "site"}, "spec": policy})
    c.board()
    c.submit()
    limits = c.session()["limits"]
    assert (limits["powerWatts"], limits["hardLimitWatts"], limits["hardLimitAmps"]) == (20, 25, 2.5)
    assert "exploreWatts" not in limits, "modes are tried within the budget of the moment"
    assert c.condition("LimitedByPolicy") == ("True", "PolicyIsLower")
    assert "powerWatts 30 → 20 W" in c.event_message("PolicyIsLower")
    assert c.get("PowerNode", "orin-1")["spec"]["policy"]["maxWatts"] == 20
    assert c.get("PowerPolicy", "site")["status"]["nodes"] == 1


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ({"disabled": True}, "PowerPolicy site disables the node"),
        ({"observeOnly": True}, "PowerPolicy site lets agents only observe the node (observeOnly)"),
        ({"allowedNamespaces": ["other"]}, "policy allows only namespaces: other"),
    ],
)
def test_a_policy_may_keep_jobs_away(cluster: Cluster, policy: dict[str, Any], why: str) -> None:
    c = cluster
    c.put({"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerPolicy", "metadata": {"name": "site"}, "spec": policy})
    c.board()
    c.submit()
    assert why in c.status()["message"]


def test_a_board_whose_agent_only_observes_takes_no_job_until_it_steers(cluster: Cluster) -> None:
    c = cluster
    c.board()
    agent = c.get("PowerNode", "orin-1")["status"]["agent"]
    c.change("PowerNode", "orin-1", status={"agent": agent | {"observes": True}})
    c.submit()
    assert "orin-1: its agent only observes (the chart's agent.mode is Observe)" in c.status()["message"]
    assert c.session() == {}
    c.change("PowerNode", "orin-1", status={"agent": agent | {"observes": False}})
    c.settle()
    assert c.session()


def test_available_watts_reach_the_envelope(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    written = {"powertrain.io/available-watts": "12.5", "powertrain.io/available-watts-at": "2026-06-01T12:00:00Z"}
    c.change("Node", "orin-1", metadata={"annotations": written})
    c.settle()
    assert c.session()["availableWatts"] == {"watts": 12.5, "observedAt": "2026-06-01T12:00:00Z"}


def test_a_session_whose_job_is_gone_is_released_and_forgotten(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.remove("TrainingJob", "job", "team")  # somebody removed the finalizer by hand
    for key in (*c.cache.keys("Job"), *c.cache.keys("Pod")):
        c.remove(key.kind, key.name, key.namespace)
    c.settle()
    assert c.get("PowerNode", "orin-1")["spec"]["release"] == c.session()["uid"]
    c.restores()
    assert c.session() == {}


def test_a_request_to_restore_does_not_take_a_board_from_a_running_job(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.change("PowerNode", "orin-1", metadata={"annotations": {"powertrain.io/release-requested": "now"}})
    c.settle()
    assert "held by TrainingJob team/job" in c.event_message("RestoreRefused")
    assert c.status()["nodes"][0]["mode"] == MODES["fast"]


def request_restore(c: Cluster) -> None:
    c.change("PowerNode", "orin-1", metadata={"annotations": {"powertrain.io/release-requested": "now"}})
    c.settle()


def test_a_request_to_restore_releases_a_session_that_only_the_agent_still_has(one_board: Cluster) -> None:
    c = one_board
    session = {"uid": "gone-0-1", "observedGeneration": 3, "protocol": 1, "phase": "Running", "restored": False}
    c.change("PowerNode", "orin-1", status={"session": session})
    c.settle()
    assert "release" not in c.get("PowerNode", "orin-1")["spec"]
    request_restore(c)
    assert c.get("PowerNode", "orin-1")["spec"]["release"] == "gone-0-1"
    c.change("PowerNode", "orin-1", status={"session": {"restored": True}})
    c.settle()
    assert "release" not in c.get("PowerNode", "orin-1")["spec"]


def test_a_request_to_restore_waits_for_pods_that_outlive_their_job(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.change("Pod", "job-0-1-pod", "team", metadata={"annotations": {"stuck": "yes"}})
    c.delete()
    c.wait(130)
    request_restore(c)
    assert "team/job-0-1-pod" in c.event_message("RestoreRefused")
    assert c.get("PowerNode", "orin-1")["spec"].get("release") is None
    c.remove("Pod", "job-0-1-pod", "team")
    c.settle()
    assert c.get("PowerNode", "orin-1")["spec"]["release"] == c.session()["uid"]


def test_what_happens_to_a_node_is_news_for_the_job_that_holds_it(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    node = c.get("Node", "orin-1")
    keys = set(affected_keys(c.cache, Change(Key("Node", "", "orin-1"), node, None)))
    assert Key("TrainingJob", "team", "job") in keys


def test_the_annotations_of_a_node_go_in_one_write(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.ends("job-0-1")
    before = c.writes.count("Apply Node")
    c.restores()
    assert c.writes.count("Apply Node") - before == 1
    assert c.annotations() == {}
