"""A site's floor: it reaches the agent, the highest of several counts, and a limit below its power is not admitted."""

from __future__ import annotations

from typing import Any

from powertrain.api.v1alpha1 import ModeFloor, PowerPolicySpec, TrainingJob
from powertrain_operator.budgets.needs import needs_of
from powertrain_operator.lookup import node_view
from powertrain_operator.plan import Context
from powertrain_operator.policies import site_policy

from .conftest import Cluster
from .test_profiles import finished

LOW, HIGH = "12c_729600_114750000_665600000", "12c_1036800_522750000_2133000000"


def floor(cluster: Cluster, **min_mode: Any) -> None:
    body = {"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerPolicy", "metadata": {"name": "inference"}}
    cluster.put({**body, "spec": {"minMode": min_mode or {"gpuHz": 500000000}}})
    cluster.settle()


def sampled(cluster: Cluster, power_w: float, mode: str = HIGH) -> None:
    """Let the profile hold one sample more, of this mode, and the agent say that it is its lowest."""
    (key,) = cluster.cache.keys("PowerProfile")
    cores, cpu, gpu, emc = (int(part.rstrip("c")) for part in mode.split("_"))
    samples = {
        "axes": {"cores": [cores], "cpuKHz": [cpu], "gpuHz": [gpu], "emcHz": [emc]},
        "cores": [0],
        "cpu": [0],
        "gpu": [0],
        "emc": [0],
        "batchSize": 16,
        "stepSeconds": "0.5",
        "powerWatts": str(power_w),
    }
    cluster.change("PowerProfile", key.name, "team", spec={"samples": samples})
    cluster.change("PowerNode", "orin-1", status={"capabilities": {"lowestMode": HIGH}})
    cluster.settle()


def test_the_floor_reaches_the_agent(one_board: Cluster) -> None:
    floor(one_board, cpuKHz=1000000, gpuHz=500000000)
    one_board.submit()
    policy = one_board.get("PowerNode", "orin-1")["spec"]["policy"]
    assert policy["minMode"] == {"cpuKHz": 1000000, "gpuHz": 500000000}


def test_of_several_floors_the_highest_clocks_count() -> None:
    specs = [{"minMode": {"gpuHz": 5, "emcHz": 7}}, {"minMode": {"gpuHz": 9}}, {}]
    policies = [(f"p{place}", PowerPolicySpec.model_validate(spec)) for place, spec in enumerate(specs)]
    assert site_policy(policies, {}).node.min_mode == ModeFloor(gpu_hz=9, emc_hz=7)
    assert site_policy(policies[2:], {}).node.min_mode is None


def test_a_limit_below_the_floors_power_is_not_admitted_and_the_message_says_what_is(one_board: Cluster) -> None:
    c = one_board
    finished(c)
    floor(c)
    sampled(c, power_w=21.4)
    c.submit("low", workload={"name": "mobilenet"}, constraints={"powerWatts": 15})
    assert c.status("low")["phase"] == "WaitingForNode"
    assert (
        "its minMode (gpuHz 500000000) takes 21.4 W with this job and the limit is 15 W" in c.status("low")["message"]
    )
    assert "set powerWatts to at least 21.4" in c.event_message("WaitingForNode")
    c.edit("low", constraints={"powerWatts": 22})
    assert c.session()["limits"]["powerWatts"] == 22


def test_other_jobs_pass_one_that_the_floor_keeps_away(one_board: Cluster) -> None:
    c = one_board
    finished(c)
    floor(c)
    sampled(c, power_w=21.4)
    c.submit("low", workload={"name": "mobilenet"}, constraints={"powerWatts": 15})
    c.submit("other", workload={"name": "mobilenet"}, constraints={"powerWatts": 30})
    assert c.session()["job"]["name"] == "other"


def test_a_lowest_mode_that_nobody_measured_keeps_no_job_away(one_board: Cluster) -> None:
    c = one_board
    finished(c)
    floor(c)
    sampled(c, power_w=21.4, mode=LOW)
    c.submit("low", workload={"name": "mobilenet"}, constraints={"powerWatts": 15})
    assert c.session()["job"]["name"] == "low"


def test_shares_are_planned_with_the_points_of_a_front_that_the_floor_allows(one_board: Cluster) -> None:
    c = one_board
    finished(c)
    (key,) = c.cache.keys("PowerProfile")
    front = {
        "axes": {"cores": [12], "cpuKHz": [729600, 1036800], "gpuHz": [114750000, 522750000], "emcHz": [2133000000]},
        "cores": [0, 0],
        "cpu": [1, 0],
        "gpu": [1, 0],
        "emc": [0, 0],
        "stepSeconds": "0.2 0.5",
        "stepStdSeconds": "0.01 0.01",
        "powerWatts": "28.0 14.0",
        "powerStdWatts": "0.5 0.5",
    }
    c.change("PowerProfile", key.name, "team", spec={"front": front})
    c.settle()
    assert planned_w(c) == [14.0, 28.0]
    floor(c)
    assert planned_w(c) == [28.0]


def planned_w(cluster: Cluster) -> list[float]:
    job = cluster.cache.read(TrainingJob, "TrainingJob", "job", "team")
    assert job is not None
    view = node_view(cluster.cache, "orin-1", Context(cluster.now, cluster.now.timestamp(), cluster.settings))
    return [float(watts) for watts in needs_of(cluster.cache, job, view, priority=0).demand.watts]
