"""What grows without end is deleted: profiles that newer ones have replaced, and jobs and studies that are over."""

from __future__ import annotations

from typing import Any

from powertrain_operator.cache import Change
from powertrain_operator.observation import Key
from powertrain_operator.reconcilers import affected_keys

from .batches import run_ends, study
from .conftest import DEVICE, Cluster


def profile(cluster: Cluster, number: int, workload: str = "resnet", **spec: Any) -> None:
    """A profile of one template more, measured a minute later than the one before."""
    measured = {"templateHash": f"hash-{number}", "measuredAt": f"2026-06-01T12:{number:02}:00Z", "batchSize": 16}
    metadata = {"name": f"{workload}-{number}", "namespace": spec.pop("namespace", "team")}
    body = {"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerProfile", "metadata": metadata}
    cluster.put({**body, "spec": {"workload": workload, "device": DEVICE, **measured, **spec}})
    cluster.settle()


def profiles(cluster: Cluster) -> list[str]:
    return sorted(each["metadata"]["name"] for each in cluster.cache.each("PowerProfile"))


def test_the_newest_profiles_of_a_workload_and_board_are_kept(cluster: Cluster) -> None:
    for number in range(8):
        profile(cluster, number)
    assert profiles(cluster) == [f"resnet-{number}" for number in range(3, 8)]


def test_other_workloads_sizes_boards_and_namespaces_count_by_themselves(cluster: Cluster) -> None:
    others = ({"workload": "bert"}, {"batchSize": 32}, {"device": {**DEVICE, "module": "p3767"}}, {"namespace": "lab"})
    for number in range(5):
        profile(cluster, number)
    for number, other in enumerate(others, 5):
        profile(cluster, number, **other)
    assert len(profiles(cluster)) == 9


def test_an_upgrade_of_the_boards_software_makes_no_second_group(cluster: Cluster) -> None:
    for number in range(6):
        profile(cluster, number, device={**DEVICE, "l4t": f"36.{number}", "tables": f"t{number}"})
    assert len(profiles(cluster)) == 5


def test_a_profile_that_is_used_counts_as_new(cluster: Cluster) -> None:
    for number in range(5):
        profile(cluster, number)
    cluster.change("PowerProfile", "resnet-0", "team", status={"lastUsedAt": "2026-06-01T12:59:00Z"})
    profile(cluster, 5)
    assert profiles(cluster) == ["resnet-0", "resnet-2", "resnet-3", "resnet-4", "resnet-5"]


def test_the_profile_of_a_job_that_is_not_over_is_kept(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    [name] = profiles(c)
    own = c.get("PowerProfile", name, "team")["spec"]
    for number in range(5):
        profile(c, number + 10, own["workload"], device=own["device"])
    assert len(profiles(c)) == 6
    c.ends("job-0-1")
    c.restores()
    assert len(profiles(c)) == 5


def test_a_new_profile_asks_for_the_others_of_its_workload(cluster: Cluster) -> None:
    profile(cluster, 1)
    profile(cluster, 2)
    profile(cluster, 3, "bert")
    key = Key("PowerProfile", "team", "resnet-2")
    keys = list(affected_keys(cluster.cache, Change(key, None, cluster.get("PowerProfile", "resnet-2", "team"))))
    assert set(keys) == {key, Key("PowerProfile", "team", "resnet-1")}


def test_a_finished_job_is_deleted_after_its_time(one_board: Cluster) -> None:
    c = one_board
    c.submit(ttlSecondsAfterFinished=60)
    c.running()
    c.ends("job-0-1")
    c.restores()
    c.wait(59)
    assert c.status()["phase"] == "Succeeded"
    c.wait(2)
    assert c.cache.get("TrainingJob", "job", "team") is None
    assert c.cache.get("Job", "job-0-1", "team") is None


def test_a_job_that_still_holds_its_board_is_not_deleted(one_board: Cluster) -> None:
    c = one_board
    c.submit(ttlSecondsAfterFinished=0)
    c.running()
    c.ends("job-0-1")
    c.wait(60)
    assert c.status()["phase"] == "Succeeded"
    c.restores()
    assert c.cache.get("TrainingJob", "job", "team") is None


def test_a_finished_study_is_deleted_after_its_time(cluster: Cluster) -> None:
    study(cluster, seeds=1, ttlSecondsAfterFinished=60)
    run_ends(cluster, 8, 0, 1000)
    run_ends(cluster, 32, 0, 2000)
    cluster.wait(59)
    assert cluster.cache.get("BatchStudy", "proxy", "team") is not None
    cluster.wait(2)
    assert cluster.cache.get("BatchStudy", "proxy", "team") is None


def test_without_a_time_what_is_over_stays(one_board: Cluster) -> None:
    c = one_board
    c.submit()
    c.running()
    c.ends("job-0-1")
    c.restores()
    c.wait(1_000_000)
    assert c.status()["phase"] == "Succeeded"
