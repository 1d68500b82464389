"""Pods and Jobs of others with copied labels: they hold no board, stand in for no Job, and tell a study nothing."""

from __future__ import annotations

from typing import Any

import pytest

from powertrain_operator import names
from powertrain_operator.attempts import MOST_PODS

from ..operator.batches import study
from ..operator.conftest import Cluster

Object = dict[str, Any]


def foreign(cluster: Cluster, namespace: str, owner: Object | None, uid: str, name: str = "stranger") -> None:
    """A running pod with the labels of the first attempt of a job."""
    labels = {names.JOB_UID: uid, names.JOB_NAME: "job", names.REPLICA: "0", names.ATTEMPT: "1"}
    metadata = {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner] if owner else []}
    gates = [{"name": "powertrain-gate", "state": {"running": {}}}]
    status = {"phase": "Running", "initContainerStatuses": gates}
    cluster.put(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "orin-1"}, "status": status}
    )
    cluster.settle()


def owners(cluster: Cluster) -> list[tuple[str, Object | None]]:
    """Where a stranger's pod may lie, and what it may say of its owner."""
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "job-0-1", "controller": True}
    cases = [("team", None), ("elsewhere", None), ("team", {**reference, "uid": "made-up"})]
    if cluster.created_jobs:
        cases.append(("elsewhere", {**reference, "uid": cluster.get("Job", "job-0-1", "team")["metadata"]["uid"]}))
    return cases


@pytest.fixture
def cluster() -> Cluster:
    new_cluster = Cluster()
    new_cluster.board("orin-1")
    return new_cluster


@pytest.mark.parametrize("which", range(4))
def test_a_finished_job_gives_its_board_back_whoever_copies_its_labels(cluster: Cluster, which: int) -> None:
    cluster.submit()
    cluster.running()
    namespace, owner = owners(cluster)[which]
    foreign(cluster, namespace, owner, cluster.job()["metadata"]["uid"])
    pod_uids = cluster.session()["podUIDs"]
    assert pod_uids == [cluster.get("Pod", "job-0-1-pod", "team")["metadata"]["uid"]]
    cluster.ends("job-0-1")
    assert cluster.get("PowerNode", "orin-1")["spec"]["release"]
    cluster.restores()
    assert (cluster.status()["phase"], cluster.session()) == ("Succeeded", {})


@pytest.mark.parametrize("which", range(3))
def test_a_pod_that_comes_before_the_job_does_not_keep_it_from_being_made(cluster: Cluster, which: int) -> None:
    cluster.silence()
    cluster.wait(120.0)
    cluster.submit()
    assert not cluster.created_jobs
    namespace, owner = owners(cluster)[which]
    foreign(cluster, namespace, owner, cluster.job()["metadata"]["uid"])
    cluster.change("Lease", "orin-1", "powertrain-system", metadata={"annotations": {"dead": ""}})
    cluster.wait(10.0)
    assert [job.split()[1] for job in cluster.created_jobs] == ["job-0-1"]


def test_a_job_with_our_name_and_labels_that_we_do_not_own_is_a_stranger_s(cluster: Cluster) -> None:
    cluster.silence()
    cluster.wait(120.0)
    cluster.submit()
    uid = cluster.job()["metadata"]["uid"]
    labels = {names.JOB_UID: uid, names.REPLICA: "0", names.ATTEMPT: "1"}
    metadata = {"name": "job-0-1", "namespace": "team", "labels": labels, "ownerReferences": [{"uid": "made-up"}]}
    cluster.put({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {}, "status": {}})
    cluster.change("Lease", "orin-1", "powertrain-system", metadata={"annotations": {"dead": ""}})
    cluster.wait(10.0)
    assert cluster.condition("Degraded") == ("True", "NameTaken")


def test_the_pod_of_a_job_that_was_deleted_still_holds_its_board(cluster: Cluster) -> None:
    cluster.submit()
    cluster.running()
    cluster.change("Pod", "job-0-1-pod", "team", metadata={"annotations": {"stuck": "yes"}})
    cluster.remove("Job", "job-0-1", "team")
    cluster.settle()
    assert cluster.status()["nodes"][0]["jobUID"]
    assert "release" not in cluster.get("PowerNode", "orin-1")["spec"]
    cluster.remove("Pod", "job-0-1-pod", "team")
    cluster.settle()
    assert cluster.get("PowerNode", "orin-1")["spec"]["release"]


def test_however_many_pods_say_that_they_are_a_job_s_the_agent_is_told_of_a_few(cluster: Cluster) -> None:
    cluster.submit()
    cluster.running()
    job = cluster.get("Job", "job-0-1", "team")["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job-0-1", "uid": job["uid"]}
    cluster.wait(5.0)
    for number in range(80):
        foreign(cluster, "team", owner, cluster.job()["metadata"]["uid"], f"stranger-{number}")
    pod_uids = cluster.session()["podUIDs"]
    assert len(pod_uids) == MOST_PODS
    assert cluster.get("Pod", "job-0-1-pod", "team")["metadata"]["uid"] in pod_uids


@pytest.mark.parametrize("namespace", ["team", "elsewhere"])
def test_a_study_hears_the_pods_of_its_own_jobs_alone(cluster: Cluster, namespace: str) -> None:
    study(cluster)
    uid = cluster.get("BatchStudy", "proxy", "team")["metadata"]["uid"]
    size = cluster.get("BatchStudy", "proxy", "team")["spec"]["batchSizes"][0]
    labels = {names.JOB_UID: uid, "powertrain.io/batch-size": str(size)}
    labels["batch.kubernetes.io/job-completion-index"] = "0"
    ended = {"name": "train", "state": {"terminated": {"exitCode": 0, "message": '{"samples": 1}'}}}
    status = {"phase": "Succeeded", "containerStatuses": [ended]}
    metadata = {"name": "stranger", "namespace": namespace, "labels": labels, "ownerReferences": [{"uid": "made-up"}]}
    cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})
    cluster.settle()
    assert not cluster.get("BatchStudy", "proxy", "team")["status"].get("runs")
