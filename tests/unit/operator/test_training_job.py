"""The life of a TrainingJob, from apply to restore, as its user and the boards see it."""

from __future__ import annotations

from typing import Any

import pytest

from powertrain.api.v1alpha1 import TrainingJob
from powertrain_kube import AwayError
from powertrain_operator import names
from powertrain_operator.cache import Change
from powertrain_operator.observation import Key
from powertrain_operator.plan import Delete
from powertrain_operator.reconcilers import affected_keys
from powertrain_operator.training_pods import PodSettings, Replica, build_job

from .conftest import MODES, Cluster

ANNOTATIONS = {"powertrain.io/training-job", "powertrain.io/power-budget-watts", "powertrain.io/power-mode"}


def env(container: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in container["env"]}


def test_a_joined_agent_gets_a_power_node_that_its_node_owns(cluster: Cluster) -> None:
    cluster.board()
    power_node = cluster.get("PowerNode", "orin-1")
    assert power_node["metadata"]["ownerReferences"][0]["uid"] == cluster.get("Node", "orin-1")["metadata"]["uid"]


def test_from_apply_to_restore(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    assert (c.status()["phase"], c.status()["where"], c.status()["attempt"]) == ("Pending", "orin-1", 1)
    assert c.session()["limits"]["powerWatts"] == 30
    assert c.job()["metadata"]["finalizers"] == ["powertrain.io/restore"]
    c.opens()
    c.wait(5.0)
    assert c.condition("ModeApplied") == ("True", "Verified"), "told with what follows, or after five seconds"
    c.pod("job-0-1")
    assert c.session()["podUIDs"] == [c.get("Pod", "job-0-1-pod", "team")["metadata"]["uid"]]
    c.report(phase="Profiling", gateOpen=True, verified=True, mode=MODES["slow"], reason="Profiling")
    assert (c.status()["phase"], c.condition("Profiled")) == ("Profiling", ("False", "Profiling"))
    c.chooses()
    status = c.status()
    assert (status["phase"], c.condition("Profiled"), c.condition("BudgetMet")) == (
        "Running",
        ("True", "Chosen"),
        ("True", "Kept"),
    )
    assert (status["powerWatts"], status["progress"]["percent"], status["remaining"]) == (28.5, 25.0, "75s")
    assert status["nodes"][0]["mode"] == MODES["fast"]
    assert c.annotations() == {
        "powertrain.io/training-job": "team/job",
        "powertrain.io/power-budget-watts": "30",
        "powertrain.io/power-mode": MODES["fast"],
    }
    c.ends("job-0-1")
    assert (c.status()["phase"], c.get("PowerNode", "orin-1")["spec"]["release"]) == ("Succeeded", c.session()["uid"])
    c.restores()
    assert c.condition("Complete") == ("True", "Completed")
    assert not ANNOTATIONS & set(c.annotations())
    assert c.session() == {}
    assert not c.job()["metadata"].get("finalizers")
    assert c.status()["nodes"][0]["mode"] == MODES["fast"], "what was chosen stays readable after the end"
    assert c.reasons() == ["NodesClaimed", "Profiling", "Chosen", "Completed", "Restored"]


def test_what_every_job_comes_to_is_an_event_only_after_it_was_otherwise(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    assert {"Verified", "Kept", "Accepted"} & set(c.reasons()) == set()
    c.chooses(conditions=[c.condition_of("BudgetReachable", "False", "BudgetUnreachable")])
    c.chooses()
    c.chooses(verified=False)
    assert c.condition("ModeApplied") == ("False", "NotVerified"), "a verdict that turns bad is written at once"
    c.chooses()
    words = ("BudgetUnreachable", "Kept", "NotVerified", "Verified")
    assert [reason for reason in c.reasons() if reason in words] == list(words)


def test_a_training_on_the_cpu_is_a_condition_and_a_warning(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    assert [condition for condition in c.status()["conditions"] if condition["type"] == "UsesGPU"] == [], (
        "nobody has said so"
    )
    c.chooses(conditions=[c.condition_of("UsesGPU", "True", "OnGPU")])
    c.wait(5.0)
    assert (c.condition("UsesGPU"), "OnGPU" in c.reasons()) == (("True", "OnGPU"), False)
    c.chooses(conditions=[c.condition_of("UsesGPU", "False", "OnCPU")])
    assert c.condition("UsesGPU") == ("False", "OnCPU")
    assert "the training on orin-1 computes on the CPU: set `runtimeClassName: nvidia`" in c.event_message("OnCPU")
    c.chooses(conditions=[c.condition_of("UsesGPU", "True", "OnGPU")])
    assert c.reasons()[-1] == "OnGPU"
    c.chooses(conditions=[])
    c.wait(5.0)
    assert [condition for condition in c.status()["conditions"] if condition["type"] == "UsesGPU"] == [], (
        "of a training before"
    )


def test_the_job_waits_for_the_envelope_and_pins_its_pod_behind_the_gate(one_board: Cluster) -> None:
    c = one_board
    written: list[str] = []
    c.submit()
    written += c.writes
    assert written.index("Apply PowerNode") < len(written) - written[::-1].index("Create Job") - 1
    job = c.status()["nodes"][0]
    assert job["session"] == c.session()["uid"]


def test_reconciling_again_writes_nothing(one_board: Cluster) -> None:
    one_board.submit()
    one_board.running()
    before = list(one_board.writes)
    one_board.settle()
    assert one_board.writes == before


def test_a_restarted_operator_goes_on_without_a_second_job(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    jobs = c.cache.keys("Job")
    c.cache._answers.clear()  # what only lived in the process's memory
    c.settle()
    assert (c.cache.keys("Job"), c.status()["attempt"]) == (jobs, 1)


def test_a_budget_that_is_edited_reaches_the_agent_as_the_next_generation(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    generation = c.session()["generation"]
    c.edit(constraints={"powerWatts": 20})
    assert (c.session()["limits"]["powerWatts"], c.session()["generation"]) == (20, generation + 1)


def test_suspend_restores_the_board_and_resume_is_the_next_attempt(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.edit(suspend=True)
    assert c.status()["phase"] == "Suspended"
    assert c.cache.keys("Job") == []
    c.restores()
    assert c.session() == {}
    c.edit(suspend=False)
    assert (c.status()["phase"], c.status()["attempt"]) == ("Pending", 2)
    assert c.session()["uid"].endswith("-0-2")
    assert c.status()["energyJoules"] == 700.0, "energy of the first attempt is kept"


def test_deletion_is_ordered_pods_then_release_then_restored_then_the_finalizer(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.change("Pod", "job-0-1-pod", "team", metadata={"annotations": {"stuck": "yes"}})
    c.delete()
    assert c.cache.keys("Job") == []
    assert "release" not in c.get("PowerNode", "orin-1")["spec"], "a pod still runs"
    c.remove("Pod", "job-0-1-pod", "team")
    c.settle()
    assert c.get("PowerNode", "orin-1")["spec"]["release"] == c.session()["uid"]
    assert c.job()["metadata"]["finalizers"]
    c.restores()
    assert c.cache.get("TrainingJob", "job", "team") is None
    assert c.session() == {}


def test_a_deletion_is_not_held_up_for_ever_by_a_board_that_does_not_answer(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.delete()
    c.wait(130)
    assert c.cache.get("TrainingJob", "job", "team") is None
    assert "orin-1 is not restored after 120 s" in c.event_message("RestorePending")
    assert "Restored" not in c.reasons()
    assert c.get("PowerNode", "orin-1")["spec"]["release"] == c.session()["uid"], "the release request stays pending"
    c.restores()
    assert c.session() == {}


def test_an_edit_during_deletion_changes_nothing(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.change("Pod", "job-0-1-pod", "team", metadata={"annotations": {"stuck": "yes"}})
    c.delete()
    assert "EditIgnored" not in c.reasons()
    c.edit(constraints={"powerWatts": 50}, suspend=True)
    c.wait(30)
    assert c.reasons().count("EditIgnored") == 1
    c.remove("Pod", "job-0-1-pod", "team")
    c.settle()
    c.restores()
    assert c.cache.get("TrainingJob", "job", "team") is None


def test_a_job_that_fails_says_why_and_gives_its_board_back(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.ends("job-0-1", "Failed", "Job has reached the specified backoff limit")
    assert (c.status()["phase"], c.condition("Complete")) == ("Failed", ("False", "BackoffLimitExceeded"))
    assert "backoff limit" in c.status()["message"]
    c.restores()
    assert c.session() == {}


def test_a_budget_that_no_mode_keeps_ends_the_job_and_names_the_closest(one_board: Cluster) -> None:
    c = one_board
    c.submit(constraints={"powerWatts": 5})
    c.opens()
    c.pod("job-0-1")
    closest = "closest: 4 cores at 11.8 W"
    broken = {
        "type": "BudgetReachable",
        "status": "False",
        "reason": "BudgetUnreachable",
        "message": closest,
        "lastTransitionTime": "2026-06-01T12:00:00Z",
    }
    c.report(phase="Running", gateOpen=True, verified=True, mode=MODES["slow"], reason="Guard", conditions=[broken])
    assert c.condition("BudgetMet") == ("False", "BudgetUnreachable")
    assert c.status()["phase"] == "Running", "a load of somebody else's may pass"
    c.wait(170)
    assert c.status()["phase"] == "Running"
    c.wait(10)
    assert (c.status()["phase"], c.condition("Complete")) == ("Failed", ("False", "BudgetUnreachable"))
    assert closest in c.event_message("BudgetUnreachable")


def test_limits_that_are_edited_are_judged_anew(one_board: Cluster) -> None:
    c = one_board
    c.submit(constraints={"powerWatts": 5})
    c.running()
    broken = [c.condition_of("BudgetReachable", "False", "BudgetUnreachable")]
    c.chooses(conditions=broken)
    c.wait(170)
    c.edit(constraints={"powerWatts": 30})
    c.wait(3600)
    assert c.status()["phase"] == "Running", "the agent has not seen the new limits"
    c.chooses(conditions=broken)  # it has, and still says what it said before
    c.wait(170)
    assert c.status()["phase"] == "Running"
    c.report(phase="Profiling", gateOpen=True, verified=True, mode=MODES["slow"], conditions=broken)
    c.wait(300)
    assert c.status()["phase"] == "Profiling", "it still tries"
    c.chooses(conditions=broken)
    c.wait(181)
    assert c.status()["phase"] == "Failed"


@pytest.mark.parametrize("years", [-3, 3])
def test_a_board_whose_clock_is_years_off_has_as_long_as_any_other(one_board: Cluster, years: int) -> None:
    c = one_board
    c.submit()
    c.running()
    there = c.condition_of("BudgetReachable", "False", "BudgetUnreachable")
    there["lastTransitionTime"] = f"{2026 + years}-06-01T12:00:00Z"
    c.chooses(conditions=[there])
    c.wait(170)
    assert c.status()["phase"] == "Running"
    c.wait(15)
    assert c.status()["phase"] == "Failed"


def test_a_load_that_passes_ends_no_job(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    for _ in range(3):
        c.chooses(conditions=[c.condition_of("BudgetReachable", "False", "BudgetUnreachable")])
        c.wait(120)
        c.chooses()
        c.wait(30)
    assert (c.status()["phase"], c.condition("BudgetMet")) == ("Running", ("True", "Kept"))


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        ({"constraints": {"timeZone": "Mars/Olympus"}}, "InvalidTimeZone", "Europe/Berlin"),
        ({"profiling": {"strategy": "magic"}}, "UnknownStrategy", "transfer"),
        ({"workload": {"template": {"spec": {"x": "y" * 70000}}}}, "TemplateTooLarge", "65536"),
    ],
)
def test_what_the_schema_can_not_see_is_said_before_anything_starts(
    one_board: Cluster, spec: dict[str, Any], reason: str, words: str
) -> None:
    one_board.submit(**spec)
    assert (one_board.status()["phase"], one_board.condition("Admitted")) == ("Pending", ("False", reason))
    assert words in one_board.status()["message"]
    assert one_board.cache.keys("Job") == []


def test_a_template_that_the_server_refuses_is_told_even_while_queued_and_can_be_mended(cluster: Cluster) -> None:
    cluster.template_error = "spec.template.spec.containers[0].image: Required value"
    cluster.submit()
    assert cluster.condition("Admitted") == ("False", "InvalidTemplate")
    assert "image: Required value" in cluster.status()["message"]
    cluster.template_error = ""
    cluster.edit(workload={"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}})
    assert cluster.condition("Admitted") == ("True", "Accepted")


def test_a_template_that_was_refused_is_checked_again_by_itself(one_board: Cluster) -> None:
    c = one_board
    c.template_error = "admission webhook is not there yet"
    c.submit()
    assert c.condition("Admitted") == ("False", "InvalidTemplate")
    c.template_error = ""
    c.wait(30)
    assert c.condition("Admitted") == ("False", "InvalidTemplate")
    c.wait(31)
    assert (c.condition("Admitted"), c.status()["where"]) == (("True", "Accepted"), "orin-1")


def test_the_figures_of_an_ended_job_stay_as_they_were_at_its_end(one_board: Cluster) -> None:
    one_board.submit()
    one_board.running()
    one_board.ends("job-0-1")
    one_board.restores()
    one_board.wait(60)
    status = one_board.status()
    assert (status["phase"], status["energyJoules"]) == ("Succeeded", 700.0)
    assert (status["remaining"], status.get("eta"), status.get("powerWatts")) == ("", None, None)


def test_energy_of_a_suspended_attempt_counts_once(one_board: Cluster) -> None:
    one_board.submit()
    one_board.running()
    one_board.edit(suspend=True)
    one_board.restores()
    one_board.wait(60)
    assert one_board.status()["energyJoules"] == 700.0
    one_board.edit(suspend=False)
    one_board.running("job-0-2")
    assert one_board.status()["energyJoules"] == 1400.0


def test_a_template_that_is_edited_while_the_job_runs_holds_from_the_next_attempt(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    (profile,) = c.cache.keys("PowerProfile")
    changed = {"template": {"spec": {"containers": [{"name": "train", "image": "example.org/train:2"}]}}}
    c.edit(workload=changed)
    c.chooses(profiling={"measured": 3, "seconds": 14.0})
    assert c.condition("Admitted") == ("True", "HoldsFromNextAttempt")
    assert c.reasons().count("HoldsFromNextAttempt") == 1
    assert c.cache.keys("PowerProfile") == [profile], "what runs was measured with the template it began with"
    c.edit(suspend=True)
    c.restores()
    c.edit(suspend=False)
    assert c.condition("Admitted") == ("True", "Accepted")
    assert c.session()["prior"]["match"] == "Warm"
    job = c.get("PowerNode", "orin-1")["spec"]["session"]
    assert job["uid"].endswith("-0-2")


def test_the_budget_can_be_edited_without_another_word_about_the_template(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.edit(constraints={"powerWatts": 20})
    admitted = next(condition for condition in c.status()["conditions"] if condition["type"] == "Admitted")
    assert (admitted["reason"], admitted["observedGeneration"]) == ("Accepted", 2)
    assert "Accepted" not in c.reasons()


def test_a_job_of_an_old_name_waits_for_the_collection_of_the_earlier_one(one_board: Cluster) -> None:
    c = one_board
    c.collects_late = True
    c.submit()
    c.running()
    c.ends("job-0-1")
    c.restores()
    c.delete()
    old = c.get("Job", "job-0-1", "team")["metadata"]["uid"]
    c.submit()
    assert (c.status()["phase"], c.condition("Complete")) == ("Pending", ("", ""))
    assert "Job job-0-1 of an earlier TrainingJob with this name is deleted" in c.status()["message"]
    c.collect_garbage()
    c.settle()
    assert c.get("Job", "job-0-1", "team")["metadata"]["uid"] != old
    c.running()
    assert c.status()["phase"] == "Running"


def test_the_collection_of_an_old_job_is_news_for_a_new_one_of_its_name(one_board: Cluster) -> None:
    one_board.submit()
    old = one_board.get("Job", "job-0-1", "team")
    old["metadata"]["labels"][names.JOB_UID] = "other"
    keys = set(affected_keys(one_board.cache, Change(Key("Job", "team", "job-0-1"), old, None)))
    assert Key("TrainingJob", "team", "job") in keys


def test_a_name_that_somebody_else_has_is_told_and_tried_again(one_board: Cluster) -> None:
    c = one_board
    c.foreign_jobs.add("job-0-1")
    c.submit()
    assert c.condition("Degraded") == ("True", "NameTaken")
    assert "somebody else's" in c.status()["message"]
    c.foreign_jobs.clear()
    c.wait(61)
    assert (len(c.cache.keys("Job")), c.condition("Degraded")) == (1, ("False", "Healthy"))


@pytest.mark.parametrize("lives_on", [True, False])
def test_a_job_that_was_deleted_is_not_made_again_beside_its_pod(one_board: Cluster, lives_on: bool) -> None:
    c = one_board
    c.submit()
    c.running()
    if lives_on:
        c.change("Pod", "job-0-1-pod", "team", metadata={"annotations": {"stuck": "yes"}})
    c.remove("Job", "job-0-1", "team")
    c.collect_garbage()
    c.settle()
    assert [name.split()[1] for name in c.created_jobs] == ["job-0-1"]
    assert c.event_message("JobDeleted") == "the Job of replica 0 on orin-1 was deleted"
    if lives_on:
        assert c.get("PowerNode", "orin-1")["spec"].get("release") is None, "its pod still trains"
        c.remove("Pod", "job-0-1-pod", "team")
        c.settle()
    c.restores()
    assert [name.split()[1] for name in c.created_jobs] == ["job-0-1", "job-0-2"]
    assert c.status()["attempt"] == 2


def test_a_finished_job_that_is_tidied_away_stays_finished(cluster: Cluster) -> None:
    c = cluster
    c.board("orin-1")
    c.board("orin-2")
    c.submit(placement={"replicas": 2})
    for replica, board in enumerate(c.status()["where"].split(",")):
        c.running(f"job-{replica}-1", board)
    c.ends("job-0-1")
    c.remove("Job", "job-0-1", "team")
    c.collect_garbage()
    c.settle()
    assert c.status()["phase"] == "Running"
    c.ends("job-1-1")
    assert c.status()["phase"] == "Succeeded"


def built(restart_policy: str | None = None, **placement: Any) -> dict[str, Any]:
    """The Job of a replica, as it is made."""
    pod = {"containers": [{"name": "a", "image": "b"}], **({"restartPolicy": restart_policy} if restart_policy else {})}
    spec = {"workload": {"batchSizes": [16], "template": {"spec": pod}}, "placement": placement}
    metadata = {"name": "job", "namespace": "team", "uid": "0a1b2c3d-4e5f"}
    job = TrainingJob.model_validate({"metadata": metadata, "spec": spec})
    replicas = placement.get("replicas", 1)
    return build_job(job, Replica(0, replicas, 1, "orin-1", "session", 16), PodSettings())


@pytest.mark.parametrize(("policy", "ignores"), [(None, True), ("Never", True), ("OnFailure", False)])
def test_a_disruption_counts_against_no_backoff(policy: str | None, ignores: bool) -> None:
    assert ("podFailurePolicy" in built(policy)["spec"]) == ignores


def test_replicas_meet_at_a_service_that_no_user_s_own_can_be() -> None:
    template = built(replicas=2)["spec"]["template"]["spec"]
    assert template["subdomain"] == "job-0a1b2c3d"
    assert env(template["containers"][0])["POWERTRAIN_PEERS"] == "job-0-1.job-0a1b2c3d,job-1-1.job-0a1b2c3d"


def test_what_was_decided_is_told_even_if_what_follows_from_it_fails(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.failing = Delete
    with pytest.raises(AwayError):
        c.edit(suspend=True)
    c.failing = None
    c.settle()
    assert c.cache.keys("Job") == []
    assert c.reasons().count("Suspended") == 1
