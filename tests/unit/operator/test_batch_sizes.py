"""Several batch sizes: each is profiled on its own, the best pair trains."""

from __future__ import annotations

from math import log
from typing import Any

import pytest

from powertrain_operator.reconcile.queue import QUEUE

from .batches import measured, profiled, run_ends, several, study, variables
from .conftest import MODES, Cluster


def test_sizes_are_profiled_one_after_the_other_and_the_best_pair_trains(one_board: Cluster) -> None:
    c = one_board
    several(c)
    node = c.status()["nodes"][0]
    assert (node["batchSize"], node["trial"], c.session()["plan"]["when"]) == (32, True, "Offline")
    profiled(c, 1, [0.8, 0.25], 32)
    node = c.status()["nodes"][0]
    assert (c.status()["attempt"], node["batchSize"], node["trial"]) == (2, 8, True)
    assert c.session()["prior"]["others"][0]["batchSize"] == 32, "what was learnt at one size teaches the next"
    assert c.session()["plan"]["maxModes"] == 8
    profiled(c, 2, [0.4, 0.1], 8)
    batch, node = c.status()["batch"], c.status()["nodes"][0]
    # 0.1 s / 8 × 0.5 against 0.25 s / 32 × 1.
    assert (node["batchSize"], node["trial"], batch["chosen"]) == (8, False, 8)
    assert batch["timeAgainstLargest"] == 0.8
    assert c.session()["prior"]["match"] == "Exact"
    assert variables(c, "job-0-3")["POWERTRAIN_BATCH_SIZE"] == "8"
    assert variables(c, "job-0-3")["POWERTRAIN_LEARNING_RATE"] == "0.0005"
    c.running("job-0-3")
    c.ends("job-0-3")
    c.restores()
    assert c.status()["phase"] == "Succeeded"


def test_a_size_that_does_not_fit_into_the_memory_is_out_and_the_others_go_on(one_board: Cluster) -> None:
    c = one_board
    several(c)
    c.opens()
    c.ends("job-0-1", "Failed", "OOMKilled")
    c.restores()
    sizes = {each["batchSize"]: each for each in c.status()["batch"]["sizes"]}
    assert sizes[32]["state"] == "Excluded"
    assert "OOMKilled" in sizes[32]["reason"]
    assert c.status()["nodes"][0]["batchSize"] == 8


def test_a_job_whose_trials_all_fail_trains_with_its_smallest_size_and_stops_nobody(one_board: Cluster) -> None:
    c = one_board
    several(c)
    c.wait(1)
    c.submit("other")
    for attempt in (1, 2):
        c.opens()
        c.ends(f"job-0-{attempt}", "Failed", "OOMKilled")
        c.restores()
    node, batch = c.status()["nodes"][0], c.status()["batch"]
    assert (node["batchSize"], node["trial"]) == (8, False)
    assert "no batch size could be profiled" in batch["reason"]
    assert "OOMKilled" in batch["reason"]
    c.opens()
    c.ends("job-0-3", "Failed", "OOMKilled")
    c.restores()
    assert c.status()["phase"] == "Failed"
    assert c.status("other")["nodes"][0]["holds"] is True


def test_a_job_that_can_not_be_decided_is_told_and_the_next_one_gets_its_node(one_board: Cluster) -> None:
    c = one_board
    study(c, seeds=1)
    run_ends(c, 8, 0, 1000)
    run_ends(c, 32, 0, 2000)
    c.change("Node", "orin-1", spec={"unschedulable": True})
    several(c, batchEfficiency={"study": "proxy"})
    c.submit("other")
    # The job was admitted with its study; at the queue's next look it is gone.
    c.remove("BatchStudy", "proxy", "team")
    c.change("Node", "orin-1", spec={"unschedulable": False})
    c.reconcile(QUEUE)
    assert "there is no BatchStudy proxy" in c.event_message("BatchSizeUndecided")
    assert c.status("other")["nodes"][0]["holds"] is True
    assert not c.status()["nodes"]


def test_a_trial_without_a_step_signal_ends(one_board: Cluster) -> None:
    c = one_board
    several(c)
    c.opens()
    c.pod("job-0-1")
    silent = [c.condition_of("StepSignal", "False", "NoStepSignal")]
    c.report(phase="Running", gateOpen=True, verified=True, mode=MODES["slow"], conditions=silent)
    c.restores()
    sizes = {each["batchSize"]: each for each in c.status()["batch"]["sizes"]}
    assert sizes[32]["state"] == "Excluded"
    assert "no steps" in sizes[32]["reason"]
    assert c.status()["nodes"][0]["batchSize"] == 8


def test_a_trial_whose_training_ends_early_counts_with_what_it_has_measured(one_board: Cluster) -> None:
    c = one_board
    several(c)
    c.opens()
    c.pod("job-0-1")
    fields = {"phase": "Profiling", "gateOpen": True, "verified": True, "mode": MODES["slow"], "reason": "Profiling"}
    c.report(**fields, profiling={"measured": 2, "seconds": 12.0}, result=measured([0.8, 0.25], 32))
    assert "stopping" not in c.status()
    c.ends("job-0-1")
    c.restores()
    sizes = {each["batchSize"]: each["state"] for each in c.status()["batch"]["sizes"]}
    assert sizes == {8: "Pending", 32: "Profiled"}
    assert (c.status()["attempt"], c.status()["nodes"][0]["batchSize"]) == (2, 8)


def test_a_trial_whose_training_ends_before_a_mode_is_measured_is_out(one_board: Cluster) -> None:
    c = one_board
    several(c)
    c.opens()
    c.ends("job-0-1")
    c.restores()
    sizes = {each["batchSize"]: each for each in c.status()["batch"]["sizes"]}
    assert sizes[32]["state"] == "Excluded"
    assert sizes[32]["reason"] == "batch size 32: the training ended before a mode was measured"


def test_a_size_without_a_value_of_r_is_not_profiled(one_board: Cluster) -> None:
    c = one_board
    several(c, batchSizes=[8, 32, 64])
    assert c.status()["nodes"][0]["batchSize"] == 32
    sizes = {each["batchSize"]: each for each in c.status()["batch"]["sizes"]}
    assert sizes[64]["state"] == "Pending"
    assert "outside the studied batch sizes" in sizes[64]["reason"]


VALUES_OF_FIVE = [{"batchSize": size, "relative": 1.0} for size in (4, 8, 16, 32, 64)]


@pytest.mark.parametrize(
    ("strategy", "order"),
    [("transfer", [64, 4, 8, 16, 32]), ("auto", [64, 4, 8, 16, 32]), ("staircase", [64, 32, 16, 8, 4])],
)
def test_sizes_are_tried_in_the_order_that_teaches_the_strategy_most(
    one_board: Cluster, strategy: str, order: list[int]
) -> None:
    c = one_board
    workload = {"name": "resnet", "batchSizes": [16, 64, 4, 8, 32], "batchEfficiency": {"values": VALUES_OF_FIVE}}
    c.submit(workload=workload, profiling={"strategy": strategy})
    tried, taught = [], []
    for attempt in range(1, 6):
        tried.append(c.status()["nodes"][0]["batchSize"])
        taught.append([each["batchSize"] for each in c.session().get("prior", {}).get("others", [])])
        profiled(c, attempt, [0.8, 0.25], tried[-1])
    assert tried == order
    # The nearest sizes come first: an envelope has room for only so many.
    distances = [abs(log(size / order[-1])) for size in taught[-1]]
    assert (sorted(taught[-1]), distances) == (sorted(order[:-1]), sorted(distances))


def test_a_second_job_of_the_same_kind_needs_no_trial(one_board: Cluster) -> None:
    c = one_board
    several(c)
    profiled(c, 1, [0.8, 0.25], 32)
    profiled(c, 2, [0.4, 0.1], 8)
    c.delete()
    c.restores()
    several(c)
    node = c.status()["nodes"][0]
    assert (node["batchSize"], node["trial"]) == (8, False)


def test_a_job_waits_for_its_study(one_board: Cluster) -> None:
    c = one_board
    several(c, batchEfficiency={"study": "proxy"})
    assert c.condition("Admitted") == ("False", "NoBatchRelation")
    assert "there is no BatchStudy proxy" in c.status()["message"]


def test_a_job_that_is_profiled_offline_has_a_run_of_its_own_before_the_training(one_board: Cluster) -> None:
    c = one_board
    c.submit(workload={"name": "resnet"}, profiling={"when": "Offline"})
    assert c.status()["nodes"][0]["trial"] is True
    profiled(c, 1, [0.8, 0.25], 16)
    assert (c.status()["attempt"], c.status()["nodes"][0]["trial"]) == (2, False)
    assert c.session()["prior"]["match"] == "Exact"


def test_an_offline_run_that_fails_leaves_the_profiling_to_the_training(one_board: Cluster) -> None:
    c = one_board
    c.submit(workload={"name": "resnet"}, profiling={"when": "Offline"})
    c.opens()
    c.ends("job-0-1", "Failed", "crashed")
    c.restores()
    assert (c.status()["attempt"], c.status()["nodes"][0]["trial"]) == (2, False)


# The check of the tables over batch sizes.


def trained(cluster: Cluster) -> None:
    """Both sizes are profiled, the job trains with 8, and a minute passes."""
    several(cluster, batchSizeChange="AtRestart")
    profiled(cluster, 1, [0.8, 0.25], 32)
    profiled(cluster, 2, [0.4, 0.1], 8)
    cluster.opens()
    cluster.pod("job-0-3")
    cluster.chooses(result=measured([0.4, 0.1], 8))
    cluster.wait(60)


def revisits(cluster: Cluster, steps: list[float], watts: list[float]) -> None:
    """The agent has measured a few points again and corrected all that it knows of its own batch size."""
    result = measured(steps, 8)
    result["samples"]["powerWatts"] = watts
    cluster.chooses(result=result, profiling={"measured": 2, "seconds": 30.0, "corrections": 1})


def profile(cluster: Cluster, size: int) -> dict[str, Any]:
    profiles = [cluster.get("PowerProfile", key.name, "team")["spec"] for key in cluster.cache.keys("PowerProfile")]
    return next(spec for spec in profiles if spec["batchSize"] == size)


def test_a_uniform_shift_at_one_size_moves_the_profiles_of_the_others(one_board: Cluster) -> None:
    c = one_board
    trained(c)
    revisits(c, [0.48, 0.12], [14.0, 28.0])
    assert profile(c, 8)["samples"]["stepSeconds"] == "0.48 0.12"
    moved = profile(c, 32)
    assert moved["samples"]["stepSeconds"] == "0.96 0.3"
    assert (moved["corrected"]["batchSize"], moved["corrected"]["timeFactor"]) == (8, 1.2)
    assert moved["corrected"]["stale"] is False
    assert "batch sizes 32 are corrected" in c.event_message("OtherBatchSizesCorrected")
    c.delete()
    c.restores()
    several(c)
    node = c.status()["nodes"][0]
    assert (node["batchSize"], node["trial"]) == (8, False), "what all share changes no choice"


def test_a_change_between_modes_at_one_size_has_the_others_profiled_again(one_board: Cluster) -> None:
    c = one_board
    trained(c)
    revisits(c, [0.4, 0.2], [14.0, 28.0])
    assert profile(c, 32)["corrected"]["stale"] is True
    assert 0.25 < float(profile(c, 32)["samples"]["stepSeconds"].split()[1]) <= 0.5
    assert "only a starting point until they are measured again" in c.event_message("OtherBatchSizesStale")
    c.edit(suspend=True)
    c.remove("Pod", "job-0-3-pod", "team")
    c.settle()
    c.restores()
    c.edit(suspend=False)
    node, sizes = c.status()["nodes"][0], {each["batchSize"]: each for each in c.status()["batch"]["sizes"]}
    assert (node["batchSize"], node["trial"]) == (32, True)
    assert (sizes[32]["state"], sizes[8]["state"]) == ("Pending", "Profiled")
    assert "a check at batch size 8" in sizes[32]["reason"]
    prior = c.session()["prior"]
    assert (prior["match"], prior["others"][0]["batchSize"]) == ("Warm", 8)
    profiled(c, 4, [0.8, 0.25], 32)
    assert "corrected" not in profile(c, 32)
    assert profile(c, 8)["samples"]["stepSeconds"] == "0.4 0.2", "a trial corrects nobody else"
    # 0.2 s / 8 × 0.5 against 0.25 s / 32 × 1.
    assert (c.status()["nodes"][0]["batchSize"], c.status()["nodes"][0]["trial"]) == (32, False)


def test_factors_of_several_checks_add_up(one_board: Cluster) -> None:
    c = one_board
    trained(c)
    revisits(c, [0.48, 0.12], [14.0, 28.0])
    c.wait(60)
    c.chooses(result=measured([0.576, 0.144], 8), profiling={"measured": 2, "seconds": 60.0, "corrections": 2})
    moved = profile(c, 32)
    assert moved["samples"]["stepSeconds"] == "1.152 0.36"
    assert moved["corrected"]["timeFactor"] == 1.44


def test_a_check_that_finds_noise_changes_nothing(one_board: Cluster) -> None:
    c = one_board
    trained(c)
    revisits(c, [0.402, 0.101], [14.1, 28.1])
    assert "corrected" not in profile(c, 32)
    assert "OtherBatchSizesCorrected" not in c.reasons()


def test_what_was_measured_after_the_table_that_is_checked_is_left_alone(one_board: Cluster) -> None:
    c = one_board
    trained(c)
    name = next(key.name for key in c.cache.keys("PowerProfile") if "-b32-" in key.name)
    c.change("PowerProfile", name, "team", spec={"measuredAt": "2026-06-01T12:00:30Z"})
    revisits(c, [0.48, 0.12], [14.0, 28.0])
    assert "corrected" not in profile(c, 32)
