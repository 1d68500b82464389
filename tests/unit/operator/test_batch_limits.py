"""Several batch sizes under a limit that is edited or varies: which size trains."""

from __future__ import annotations

from typing import Any

import pytest

from .batches import measured, profiled, several
from .conftest import MODES, Cluster

NIGHT = [{"from": "22:00", "to": "06:00", "watts": 15}]


def resumed(cluster: Cluster, **spec: Any) -> None:
    """Suspend the running job, change it, and let it go on."""
    cluster.edit(suspend=True)
    cluster.restores()
    cluster.edit(suspend=False, **spec)


def hungry(cluster: Cluster) -> None:
    """Batch size 32 is fast and takes at least 22 W, batch size 8 is slow and takes 14 W."""
    result = measured([0.8, 0.1], 32)
    result["samples"]["powerWatts"] = [22.0, 28.0]
    cluster.opens()
    cluster.pod("job-0-1")
    cluster.chooses(result=result)
    cluster.restores()
    profiled(cluster, 2, [0.4, 0.2], 8)
    cluster.opens()
    cluster.pod("job-0-3")
    steps = {8: [0.4, 0.2], 32: [0.8, 0.1]}
    size = cluster.status()["nodes"][0]["batchSize"]
    cluster.chooses(result=measured(steps[size], size))


def sizes(cluster: Cluster) -> dict[int, dict[str, Any]]:
    return {each["batchSize"]: each for each in cluster.status()["batch"]["sizes"]}


def test_a_size_that_a_limit_put_out_is_back_when_the_limit_is_raised(one_board: Cluster) -> None:
    c = one_board
    several(c, watts=20, batchSizeChange="AtRestart")
    hungry(c)
    assert c.status()["batch"]["chosen"] == 8
    assert sizes(c)[32]["state"] == "Profiled"
    assert "no mode keeps the limits" in sizes(c)[32]["reason"]
    resumed(c, constraints={"powerWatts": 30})
    # 0.1 s / 32 × 1 against 0.2 s / 8 × 0.5.
    assert (c.status()["nodes"][0]["batchSize"], c.status()["batch"]["chosen"]) == (32, 32)
    assert sizes(c)[32]["reason"] == ""


def test_a_restart_at_another_limit_keeps_the_size_if_it_must_not_change(one_board: Cluster) -> None:
    c = one_board
    several(c, watts=20, batchSizeChange="Never")
    hungry(c)
    resumed(c, constraints={"powerWatts": 30})
    node = c.status()["nodes"][0]
    assert (node["batchSize"], node["trial"], c.status()["batch"]["chosen"]) == (8, False, 8)


def test_a_size_without_a_mode_at_the_lowest_entry_of_the_schedule_is_out(one_board: Cluster) -> None:
    c = one_board
    several(c, schedule=NIGHT)
    hungry(c)
    assert c.status()["batch"]["chosen"] == 8
    assert "at 15 W, the schedule's lowest" in sizes(c)[32]["reason"]


def test_where_no_size_keeps_the_lowest_entry_the_best_of_the_base_budget_waits_through_it(one_board: Cluster) -> None:
    c = one_board
    several(c, schedule=[{**NIGHT[0], "watts": 10}])
    hungry(c)
    assert c.status()["batch"]["chosen"] == 32


@pytest.mark.parametrize("trial", [False, True])
def test_a_budget_that_is_too_low_for_a_while_ends_no_job(one_board: Cluster, trial: bool) -> None:
    c = one_board
    c.submit(workload={"name": "resnet"}, profiling={"when": "Offline" if trial else "Online"})
    c.opens()
    c.pod("job-0-1")
    waiting = c.condition_of("BudgetReachable", "False", "WaitingForBudget")
    c.report(phase="Running", gateOpen=True, verified=True, mode=MODES["slow"], reason="Guard", conditions=[waiting])
    c.wait(120)
    assert c.status()["phase"] == "Running"
    assert c.condition("BudgetMet") == ("False", "WaitingForBudget")
    c.chooses()
    assert c.condition("BudgetMet") == ("True", "Kept")


def test_an_entry_of_the_schedule_does_not_raise_the_limit_of_a_node(cluster: Cluster) -> None:
    c = cluster
    c.board(labels={"supply": "weak"})
    override = {"nodeSelector": {"supply": "weak"}, "constraints": {"powerWatts": 18}}
    entries = [{"from": "22:00", "watts": 40}, {"from": "06:00", "watts": 15}]
    c.submit(constraints={"powerWatts": 30, "powerSchedule": entries}, placement={"overrides": [override]})
    assert c.session()["limits"]["powerWatts"] == 18
    assert [entry["watts"] for entry in c.session()["schedule"]] == [18, 15]
