"""A TrainingJob's life on a real API server, with agents on simulated boards: from apply to a restored board."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from powertrain_devcluster.testing.waits import SessionLogs, wait_for

from .training_cluster import (
    NAMESPACE,
    OFTEN_S,
    PATIENCE_S,
    Job,
    Object,
    TrainingCluster,
    at_once,
    gate_stays_closed,
    open_training_cluster,
)

BOARDS = {"orin-1": "orin-agx", "orin-2": "orin-agx", "orin-3": "orin-agx", "orin-4": "orin-agx", "nano-1": "orin-nano"}
# Five boards share a small machine: a tenth of a second without a turn is a second of theirs.
TIME_SCALE = 10.0
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/mobilenet-v3.yaml"
# What "within seconds" means for a new limit: an edit, a watch, a write, a watch, and a mode.
SECONDS = 20.0


@pytest.fixture(scope="module")
def cluster(
    cluster_binaries: dict[str, Path], session_logs: SessionLogs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TrainingCluster]:
    logs = session_logs.folder / "life"
    with open_training_cluster(cluster_binaries, tmp_path_factory.mktemp("life"), logs, BOARDS, TIME_SCALE) as opened:
        yield opened


@pytest.mark.timeout(900)
def test_the_first_example_from_apply_to_a_restored_board(cluster: TrainingCluster) -> None:
    """As it stands, on whatever board the operator finds best."""
    before = {board: cluster.attributes(board) for board in BOARDS}
    cluster.kubectl("apply", "-f", str(EXAMPLE))
    job = Job(cluster, "mobilenet-v3")
    board = job.wait("a board", lambda status: status.get("where"))["where"]
    with cluster.sampling(board) as sampler:
        gate_stays_closed(cluster, job, board)
        job.reaches("Profiling")
        wait_for(
            "the budget on the Node",
            lambda: cluster.annotations(board).get("powertrain.io/power-budget-watts"),
            lambda watts: watts == "30",
        )
        running = job.reaches("Running")
        chosen = running["nodes"][0]["mode"]
        wait_for(
            "the mode on the board", lambda: cluster.mode(board), lambda mode: mode == cluster.session(board)["mode"]
        )
        assert cluster.session(board)["verified"]
        wait_for(
            "the Node's annotations", lambda: cluster.annotations(board), lambda annotations: len(annotations) == 3
        )
        assert cluster.annotations(board)["powertrain.io/training-job"] == f"{NAMESPACE}/mobilenet-v3"
        job.reaches("Succeeded")
        job.released()
    sampler.keeps(30.0)
    cluster.is_free(board, before[board])
    the_end_is_told(cluster, job, chosen)


@pytest.mark.timeout(900)
def test_jobs_that_are_edited_suspended_governed_and_hopeless(cluster: TrainingCluster) -> None:
    at_once(
        partial(what_peaks_may_reach, cluster, "orin-4"),
        partial(a_budget_is_lowered_and_raised, cluster, "orin-1"),
        partial(suspended_resumed_and_deleted, cluster, "orin-2"),
        partial(the_site_gives_less, cluster, "orin-3"),
        partial(no_mode_keeps_the_budget, cluster, "nano-1"),
    )


def the_end_is_told(cluster: TrainingCluster, job: Job, chosen: str) -> None:
    status = job.status()
    assert status["nodes"][0]["mode"]
    assert status["nodes"][0]["violations"] == 0
    verdicts = {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}
    assert verdicts == {
        "Admitted": ("True", "Accepted"),
        "BudgetMet": ("True", "Kept"),
        "Complete": ("True", "Completed"),
        "Degraded": ("False", "Healthy"),
        "LimitedByPolicy": ("False", "WithinPolicy"),
        "ModeApplied": ("True", "Verified"),
        "Profiled": ("True", "Chosen"),
    }
    order = ["NodesClaimed", "Profiling", "Chosen", "Completed", "Restored"]
    assert [reason for reason in job.reasons() if reason in order] == order
    (profile,) = cluster.profiles("mobilenet-v3")
    assert (profile["spec"]["strategy"], profile["spec"]["device"]["name"]) == ("transfer", "orin-agx")
    assert profile["status"]["measured"] >= 4
    assert profile["metadata"]["name"] == status["nodes"][0]["profile"]
    assert status["energyJoules"] > 0
    assert status["progress"]["percent"] == 100
    assert chosen


def a_budget_is_lowered_and_raised(cluster: TrainingCluster, board: str) -> None:
    job = cluster.job("edited", board)
    job.reaches("Running")
    job.edit(constraints={"powerWatts": 18})
    wait_for("a mode within 18 W", lambda: cluster.steady_w(board), lambda watts: watts <= 18.0, SECONDS)
    job.reaches("Running")
    wait_for("the annotation", lambda: cluster.annotations(board)["powertrain.io/power-budget-watts"], "18".__eq__)
    measured = cluster.session(board)["profiling"]["measured"]
    job.edit(constraints={"powerWatts": 40})
    wait_for("more than 18 W", lambda: cluster.steady_w(board), lambda watts: 18.0 < watts <= 40.0, SECONDS)
    job.wait("an extension", lambda s: s["nodes"][0]["profiling"]["measured"] > measured)
    job.delete()
    job.wait_until_gone()


def suspended_resumed_and_deleted(cluster: TrainingCluster, board: str) -> None:
    before = cluster.attributes(board)
    job = cluster.job("paused", board, "resnet18-inference")
    job.reaches("Running")
    first_s = profiling_s(cluster, board)
    job.edit(suspend=True)
    job.reaches("Suspended")
    cluster.is_free(board, before)
    assert (job.jobs(), job.pods()) == ([], [])
    job.edit(suspend=False)
    job.reaches("Running")
    assert job.status()["attempt"] == 2
    assert [each["metadata"]["name"] for each in job.jobs()] == ["paused-0-2"]
    assert cluster.envelope(board)["prior"]["match"] == "Exact"
    wait_for("the word on its profile", lambda: any("reused after a check" in event["note"] for event in job.events()))
    assert profiling_s(cluster, board) < first_s / 2, "a stored profile is checked, not made anew"
    job.delete()
    job.wait_until_gone()
    cluster.is_free(board, before)
    assert "Restored" in job.reasons()


def profiling_s(cluster: TrainingCluster, board: str) -> float:
    return float(cluster.session(board)["profiling"]["seconds"])


def the_site_gives_less(cluster: TrainingCluster, board: str) -> None:
    path = "/apis/powertrain.io/v1alpha1/powerpolicies"
    body = {"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerPolicy", "metadata": {"name": "site"}}
    selector = {"nodeSelector": {"kubernetes.io/hostname": board}}
    cluster.rest.create(path, {**body, "spec": {**selector, "maxWatts": 28}})
    job = cluster.job("governed", board)
    assert f"{board}: powerWatts 30 → 28 W" in job.judged("LimitedByPolicy", "True", "PolicyIsLower")
    job.reaches("Running")
    cluster.rest.merge_patch(f"{path}/site", {"spec": {"maxWatts": 20}})
    wait_for("a mode within 20 W", lambda: cluster.steady_w(board), lambda watts: watts <= 20.0, SECONDS)
    assert job.wait("the limit", lambda s: s["nodes"][0]["limitWatts"] == 20)
    wait_for("the count", lambda: cluster.rest.get(f"{path}/site")["status"]["nodes"], lambda nodes: nodes == 1)
    cluster.rest.delete(f"{path}/site")
    job.judged("LimitedByPolicy", "False", "WithinPolicy")
    wait_for("the budget again", lambda: cluster.steady_w(board), lambda watts: 20.0 < watts <= 30.0)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    annotations = {"powertrain.io/available-watts": "16", "powertrain.io/available-watts-at": now}
    cluster.rest.strategic_patch(f"/api/v1/nodes/{board}", {"metadata": {"annotations": annotations}})
    wait_for(
        "the envelope", lambda: cluster.envelope(board)["availableWatts"]["watts"], lambda watts: watts == 16, SECONDS
    )
    wait_for("a mode within 16 W", lambda: cluster.steady_w(board), lambda watts: watts <= 16.0, SECONDS)
    annotations["powertrain.io/available-watts"] = "0"
    cluster.rest.strategic_patch(f"/api/v1/nodes/{board}", {"metadata": {"annotations": annotations}})
    job.wait("the end of the attempt", lambda s: s["phase"] == "WaitingForNode" and "no power" in s["message"])
    annotations["powertrain.io/available-watts"] = "40"
    cluster.rest.strategic_patch(f"/api/v1/nodes/{board}", {"metadata": {"annotations": annotations}})
    job.wait("the next attempt", lambda s: s["attempt"] == 2 and s["phase"] in ("Pending", "Profiling", "Running"))
    job.delete()
    job.wait_until_gone()


def what_peaks_may_reach(cluster: TrainingCluster, board: str) -> None:
    """The site gives more while modes are tried; then the peak counts, and no reading may be above the hard limit."""
    before = cluster.attributes(board)
    limits = {"powerWatts": 22, "powerStatistic": "Peak", "hardLimitWatts": 34}
    job = cluster.job("peaks", board, "lstm", constraints=limits, profiling={"maxModes": 6, "maxWatts": 30})
    job.reaches("Profiling")
    session_limits = cluster.envelope(board)["limits"]
    assert [session_limits[name] for name in ("powerWatts", "exploreWatts", "hardLimitWatts")] == [22, 30, 34]
    assert session_limits["powerStatistic"] == "Peak"
    job.reaches("Running")
    first_steps = steps(job.status())
    with cluster.sampling(board) as sampler:
        job.wait("some training", lambda status: steps(status) > first_steps + 200)
    job.delete()
    job.wait_until_gone()
    readings = [watts for looks in sampler.stretches for _, watts in looks]
    assert readings
    assert max(readings) <= 22.0, "the chosen mode's peak is within the budget"
    cluster.is_free(board, before)
    (profile,) = cluster.profiles("lstm")
    assert max(map(float, profile["spec"]["samples"]["powerWatts"].split())) <= 30.0


def steps(status: Object) -> int:
    return int(status["nodes"][0]["training"]["steps"])


def no_mode_keeps_the_budget(cluster: TrainingCluster, board: str) -> None:
    before = cluster.attributes(board)
    job = cluster.job("hopeless", board, constraints={"powerWatts": 3.2})
    condition = job.judged("BudgetMet", "False", "BudgetUnreachable")
    assert f"{board}: " in condition
    assert "closest" in condition
    assert " W" in condition
    assert "closest" in job.event_note("BudgetUnreachable")
    job.delete()
    job.wait_until_gone()
    idle = cluster.job("dreaming", board, constraints={"powerWatts": 1.0})
    assert "closest" in idle.judged("BudgetMet", "False", "BudgetUnreachable")
    idle.delete()
    idle.wait_until_gone()
    cluster.is_free(board, before)


@pytest.mark.timeout(900)
def test_replicas_have_boards_limits_and_turns_of_their_own(cluster: TrainingCluster) -> None:
    at_once(partial(unlike_boards, cluster), partial(synchronous_boards, cluster))


def unlike_boards(cluster: TrainingCluster) -> None:
    override = {"nodeSelector": {"powertrain.io/device": "orin-nano"}, "constraints": {"powerWatts": 8}}
    cluster.rest.strategic_patch("/api/v1/nodes/orin-1", {"metadata": {"labels": {"group": "mixed"}}})
    cluster.rest.strategic_patch("/api/v1/nodes/nano-1", {"metadata": {"labels": {"group": "mixed"}}})
    placement = {"nodeSelector": {"group": "mixed"}, "replicas": 2, "overrides": [override]}
    job = cluster.job("pair", placement=placement)
    status = job.reaches("Running")
    limits = {node["name"]: node["limitWatts"] for node in status["nodes"]}
    assert limits == {"orin-1": 30, "nano-1": 8}
    assert (cluster.steady_w("orin-1") <= 30, cluster.steady_w("nano-1") <= 8) == (True, True)
    assert sorted(status["where"].split(",")) == ["nano-1", "orin-1"]
    env = [environment(pod) for pod in job.pods()]
    assert {each["POWERTRAIN_REPLICA"] for each in env} == {"0", "1"}
    service = f"pair-{job.get()['metadata']['uid'][:8]}"
    assert {each["POWERTRAIN_PEERS"] for each in env} == {f"pair-0-1.{service},pair-1-1.{service}"}
    assert cluster.rest.get(f"/api/v1/namespaces/{NAMESPACE}/services/{service}")["spec"]["clusterIP"] == "None"
    job.delete()
    job.wait_until_gone()


def environment(pod: Object) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}


def synchronous_boards(cluster: TrainingCluster) -> None:
    for board in ("orin-2", "orin-3"):
        cluster.rest.strategic_patch(f"/api/v1/nodes/{board}", {"metadata": {"labels": {"group": "coupled"}}})
    placement = {"nodeSelector": {"group": "coupled"}, "replicas": 2, "coupling": "Synchronous"}
    job = cluster.job("coupled", placement=placement, profiling={"maxModes": 3, "reuse": False})
    together: list[tuple[str, ...]] = []

    def read() -> Object:
        phases = [cluster.session(board).get("phase", "") for board in ("orin-2", "orin-3")]
        together.append(tuple(phases))
        return job.status()

    wait_for("both to run", read, lambda status: status.get("phase") == "Running", PATIENCE_S, every_s=OFTEN_S)
    assert ("Profiling", "Profiling") not in together
    assert {phases.index("Profiling") for phases in together if "Profiling" in phases} == {0, 1}
    job.delete()
    job.wait_until_gone()
