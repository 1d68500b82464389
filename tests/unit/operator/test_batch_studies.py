"""Studies: how many samples each batch size needs, from runs of a Job each."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from powertrain.api.v1alpha1 import BatchStudy
from powertrain_operator.study_pods import study_job
from powertrain_operator.training_pods import SDK_PATH, PodSettings

from .batches import of_study, run_ends, several, study, variables, verdicts
from .conftest import Cluster


def test_a_study_runs_every_size_and_seed_and_writes_the_relation(cluster: Cluster) -> None:
    study(cluster)
    assert of_study(cluster)["phase"] == "Running"
    assert variables(cluster, "proxy-b8")["POWERTRAIN_LEARNING_RATE"] == "0.0005"
    assert variables(cluster, "proxy-b8")["POWERTRAIN_TARGET_ACCURACY"] == "0.9"
    for size, seed, samples in ((8, 0, 900), (8, 1, 1100), (32, 0, 2000)):
        run_ends(cluster, size, seed, samples)
    assert of_study(cluster)["message"] == "3 of 4 runs have ended"
    assert verdicts(cluster) == {"Complete": ("False", "RunsPending")}
    run_ends(cluster, 32, 1, 2000)
    study_status = of_study(cluster)
    assert (study_status["phase"], study_status["relation"]) == ("Succeeded", "8: 0.50, 32: 1.00")
    assert [result["mean"] for result in study_status["results"]] == [1000, 2000]


def test_a_job_uses_the_study_as_soon_as_it_has_ended(one_board: Cluster) -> None:
    c = one_board
    several(c, batchEfficiency={"study": "proxy"})
    study(c, seeds=1)
    assert "BatchStudy proxy is Running" in c.status()["message"]
    run_ends(c, 8, 0, 1000)
    run_ends(c, 32, 0, 2000)
    assert c.status()["nodes"][0]["trial"] is True


def test_runs_that_never_reach_the_target_are_named(cluster: Cluster) -> None:
    study(cluster, seeds=1, batchSizes=[4, 8, 32], capSamples=5000)
    run_ends(cluster, 4, 0, 9000)
    run_ends(cluster, 8, 0, 1000)
    run_ends(cluster, 32, 0, 2000)
    study_status = of_study(cluster)
    assert (study_status["phase"], study_status["relation"]) == ("Succeeded", "8: 0.50, 32: 1.00")
    assert "did not reach the target within the cap" in study_status["results"][0]["message"]
    assert verdicts(cluster) == {"Complete": ("True", "Completed"), "Degraded": ("True", "BatchSizesMissing")}


def test_a_size_that_does_not_converge_is_told_while_others_still_run(cluster: Cluster) -> None:
    study(cluster, seeds=1, batchSizes=[4, 8, 32], capSamples=5000)
    run_ends(cluster, 4, 0, 9000)
    assert verdicts(cluster) == {"Complete": ("False", "RunsPending"), "Degraded": ("True", "BatchSizesMissing")}


def test_a_size_with_fewer_seeds_than_asked_for_counts_and_is_told(cluster: Cluster) -> None:
    study(cluster)
    for size, seed in ((8, 0), (8, 1), (32, 0)):
        run_ends(cluster, size, seed, 1000)
    failed = {"type": "Failed", "status": "True", "reason": "FailedIndexes", "message": ""}
    cluster.change("Job", "proxy-b32", "team", status={"conditions": [failed]})
    cluster.settle()
    assert of_study(cluster)["phase"] == "Succeeded"
    assert verdicts(cluster) == {"Complete": ("True", "Completed"), "Degraded": ("True", "RunsFailed")}
    degraded = next(c for c in of_study(cluster)["conditions"] if c["type"] == "Degraded")
    assert "32: 1 of 2 runs failed" in degraded["message"]


def test_a_study_of_one_usable_size_has_failed(cluster: Cluster) -> None:
    study(cluster, seeds=1)
    run_ends(cluster, 8, 0, 1000)
    failed = {"type": "Failed", "status": "True", "reason": "FailedIndexes", "message": ""}
    cluster.change("Job", "proxy-b32", "team", status={"conditions": [failed]})
    cluster.settle()
    study_status = of_study(cluster)
    assert study_status["phase"] == "Failed"
    assert "all 1 runs failed" in study_status["message"]


def test_a_study_s_template_that_the_server_refuses_is_told(cluster: Cluster) -> None:
    cluster.template_error = "spec.template.spec.containers[0].image: Required value"
    study(cluster)
    assert "image: Required value" in of_study(cluster)["message"]
    assert cluster.cache.keys("Job") == []


def job_ends(cluster: Cluster, size: int, kind: str, completed: str = "") -> None:
    """A Job's end is seen; which of its indices have succeeded."""
    at = cluster.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    ended = {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": at}
    cluster.change("Job", f"proxy-b{size}", "team", status={"conditions": [ended], "completedIndexes": completed})
    cluster.settle()


def test_a_job_that_is_seen_to_end_before_its_pods_waits_for_them(cluster: Cluster) -> None:
    study(cluster)
    for seed in (0, 1):
        run_ends(cluster, 8, seed, 1000)
    job_ends(cluster, 32, "Complete", "0-1")
    assert of_study(cluster)["message"] == "2 of 4 runs have ended"
    run_ends(cluster, 32, 0, 2000)
    run_ends(cluster, 32, 1, 2000)
    assert (of_study(cluster)["phase"], of_study(cluster)["relation"]) == ("Succeeded", "8: 0.50, 32: 1.00")
    assert [run["outcome"] for run in of_study(cluster)["runs"]].count("Failed") == 0


def test_a_pod_that_never_tells_is_given_up_after_a_while_and_one_that_failed_at_once(cluster: Cluster) -> None:
    study(cluster)
    for seed in (0, 1):
        run_ends(cluster, 8, seed, 1000)
    job_ends(cluster, 32, "Failed", "1")
    assert of_study(cluster)["message"] == "3 of 4 runs have ended"
    cluster.wait(61)
    assert of_study(cluster)["phase"] == "Failed"
    assert "its pod is gone" in {run.get("reason") for run in of_study(cluster)["runs"]}


STUDY = {
    "metadata": {"name": "proxy", "namespace": "team", "uid": "u"},
    "spec": {
        "batchSizes": [8, 32],
        "targetAccuracy": 0.9,
        "learningRate": {"base": 0.001},
        "template": {"spec": {"containers": [{"name": "train", "image": "example.org/proxy:1"}]}},
    },
}


def pod_of(env: list[dict[str, str]], boards: Sequence[str] = (), **pod: Any) -> dict[str, Any]:
    """The pods of a study whose template sets these variables and fields."""
    body = copy.deepcopy(STUDY)
    body["spec"]["template"]["spec"]["containers"][0]["env"] = env
    body["spec"]["template"]["spec"].update(pod)
    built = study_job(BatchStudy.model_validate(body), 8, PodSettings(), boards)
    return dict(built["spec"]["template"]["spec"])


def test_a_template_can_not_change_what_a_run_stands_for() -> None:
    theirs = {"POWERTRAIN_BATCH_SIZE": "1", "POWERTRAIN_LEARNING_RATE": "9", "POWERTRAIN_SEED": "7", "DATA": "/data"}
    env = pod_of([{"name": name, "value": value} for name, value in theirs.items()])["containers"][0]["env"]
    names = [variable["name"] for variable in env]
    assert len(names) == len(set(names))
    variables = {variable["name"]: variable for variable in env}
    assert variables["POWERTRAIN_BATCH_SIZE"]["value"] == "8"
    assert variables["POWERTRAIN_LEARNING_RATE"]["value"] == "0.0005"
    assert "valueFrom" in variables["POWERTRAIN_SEED"]
    assert variables["DATA"]["value"] == "/data"


def test_the_sdk_comes_before_the_template_s_own_python_path() -> None:
    own = pod_of([{"name": "PYTHONPATH", "value": "/app"}])["containers"][0]["env"]
    assert [v["value"] for v in own if v["name"] == "PYTHONPATH"] == [f"{SDK_PATH}:/app"]
    none = pod_of([])["containers"][0]["env"]
    assert [v["value"] for v in none if v["name"] == "PYTHONPATH"] == [SDK_PATH]


def terms_of(pod: dict[str, Any]) -> list[dict[str, Any]]:
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return list(required["nodeSelectorTerms"])


def unlike(name: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": "NotIn", "values": [name]}


def server(cluster: Cluster, name: str = "server", **spec: Any) -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec, "status": {}}
    cluster.put(body)
    cluster.settle()


def test_runs_keep_off_every_board_whatever_the_template_says() -> None:
    boards = ["orin-2", "orin-1"]
    off = [unlike("orin-1"), unlike("orin-2")]
    assert terms_of(pod_of([], boards, nodeSelector={"powertrain.io/jetson": "true"})) == [{"matchFields": off}]
    rack = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["1"]}]}
    west = {"matchFields": [unlike("west")]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [rack, west]}}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": []}
    pod = pod_of([], boards, affinity={"nodeAffinity": {**required, **preferred}, "podAffinity": {}})
    assert terms_of(pod) == [{**rack, "matchFields": off}, {"matchFields": [unlike("west"), *off]}]
    assert pod["affinity"]["podAffinity"] == {}
    assert "preferredDuringSchedulingIgnoredDuringExecution" in pod["affinity"]["nodeAffinity"]


def test_a_study_that_fits_no_node_says_so_until_one_does(one_board: Cluster) -> None:
    c = one_board
    server(c, "tainted", taints=[{"key": "gpu", "value": "", "effect": "NoSchedule"}])
    study(c)
    assert verdicts(c)["Placeable"] == ("False", "NoNodeFits")
    message = of_study(c)["message"]
    assert "orin-1: a board, which takes TrainingJobs only; tainted: taint gpu=:NoSchedule is not tolerated" in message
    server(c)
    assert verdicts(c)["Placeable"] == ("True", "NodesFit")
    assert of_study(c)["message"] == "0 of 4 runs have ended"


def test_a_run_leaves_a_node_that_becomes_a_board(cluster: Cluster) -> None:
    c = cluster
    server(c)
    server(c, "orin-1")
    study(c)
    first = c.get("Job", "proxy-b8", "team")["metadata"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "proxy-b8", "uid": first["uid"]}
    metadata = {"name": "run", "namespace": "team", "labels": first["labels"], "ownerReferences": [reference]}
    spec, status = {"nodeName": "orin-1"}, {"phase": "Running"}
    c.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
    c.settle()
    assert c.get("Job", "proxy-b8", "team")["metadata"]["uid"] == first["uid"], "nobody's board"
    c.board("orin-1")
    assert c.get("Job", "proxy-b8", "team")["metadata"]["uid"] != first["uid"]
    assert c.cache.get("Pod", "run", "team") is None


def test_a_study_that_names_a_board_is_refused(one_board: Cluster) -> None:
    spec = {"containers": [{"name": "train", "image": "example.org/proxy:1"}], "nodeName": "orin-1"}
    study(one_board, template={"spec": spec})
    assert verdicts(one_board)["Complete"] == ("False", "InvalidTemplate")
    assert "spec.nodeName orin-1 is a board" in of_study(one_board)["message"]
    assert one_board.created_jobs == []


def test_runs_keep_away_from_boards_unless_the_template_says_where_they_run() -> None:
    required = pod_of([])["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    expression = required["nodeSelectorTerms"][0]["matchExpressions"][0]
    assert expression == {"key": "powertrain.io/jetson", "operator": "NotIn", "values": ["true"]}
    assert "affinity" not in pod_of([], nodeSelector={"pool": "train"})
