"""What goes wrong around a TrainingJob: operators, agents, nodes, pods and people; the end is always the same."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from powertrain.api.resources import POWER_NODES, TRAINING_JOBS
from powertrain_devcluster.connection import follow
from powertrain_devcluster.process import Child
from powertrain_devcluster.testing.waits import SessionLogs, restart_api_server, wait_for
from powertrain_kube import NotFoundError

from .forgetful_proxy import ForgetfulProxy
from .training_cluster import (
    NAMESPACE,
    OFTEN_S,
    PATIENCE_S,
    Job,
    TrainingCluster,
    at_once,
    manifest,
    open_training_cluster,
)

BOARDS = dict.fromkeys(("orin-1", "orin-2", "orin-3", "orin-4"), "orin-agx")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/powertrain-system/leases/operator.powertrain.io"
KILLS = 12


@pytest.fixture(scope="module")
def cluster(
    cluster_binaries: dict[str, Path], session_logs: SessionLogs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TrainingCluster]:
    logs = session_logs.folder / "faults"
    with open_training_cluster(cluster_binaries, tmp_path_factory.mktemp("faults"), logs, BOARDS, 10.0) as opened:
        yield opened


# The operator


class JobsSeen:
    """Counts every Job that was ever made, by name: a second one of a name would be a second training."""

    def __init__(self, cluster: TrainingCluster) -> None:
        self._cluster = cluster
        self._path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
        self._version = str(cluster.rest.get(self._path)["metadata"]["resourceVersion"])
        self._stop = threading.Event()
        self.creations: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._stop.is_set():
            for event in follow(self._cluster.rest, self._path, self._version):
                self._version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] == "ADDED":
                    self.creations[event["object"]["metadata"]["name"]] += 1

    def end(self) -> Counter[str]:
        self._stop.set()
        while self._thread.is_alive():
            self._cluster.rest.interrupt()
            self._thread.join(0.1)
        return self.creations


def kill_operator(cluster: TrainingCluster) -> None:
    """Kill it as kill -9 does; its Lease is taken away, which fifteen seconds would have done."""
    assert cluster.fleet.operator is not None
    cluster.fleet.operator.kill()
    with contextlib.suppress(NotFoundError):
        cluster.rest.delete(LEASE)


def live_for(cluster: TrainingCluster, writes: int) -> None:
    """Let an operator live for so many writes, or until it has had nothing to write for a while."""
    log = cluster.fleet.logs / "operator.log"
    begin = log.stat().st_size
    cluster.fleet.start_operator()
    end_s = time.monotonic() + 20.0

    def written() -> list[str]:
        with log.open(encoding="utf-8") as lines:
            lines.seek(begin)
            return [line for line in lines if '"event": "write"' in line]

    def enough(lines: list[str]) -> bool:
        return len(lines) >= writes or time.monotonic() > end_s

    # Often, so that it is killed right after the write that was meant.
    wait_for("the operator to write", written, enough, 25.0, every_s=OFTEN_S)
    kill_operator(cluster)


@pytest.mark.timeout(900)
def test_an_operator_that_is_killed_after_any_of_its_writes_loses_and_doubles_nothing(cluster: TrainingCluster) -> None:
    before = {board: cluster.attributes(board) for board in BOARDS}
    jobs_seen = JobsSeen(cluster)
    kill_operator(cluster)
    ends = cluster.job("ends", "orin-1", steps=1500)
    deleted, paused = cluster.job("deleted", "orin-2"), cluster.job("paused", "orin-3")
    for number, writes in zip(range(KILLS), itertools.cycle([1, 2, 3]), strict=False):
        live_for(cluster, writes)
        if number == KILLS // 2:
            deleted.delete()
            paused.edit(suspend=True)
    cluster.fleet.start_operator()
    ends.reaches("Succeeded")
    ends.released()
    deleted.wait_until_gone()
    paused.reaches("Suspended")
    for board in ("orin-1", "orin-2", "orin-3"):
        cluster.is_free(board, before[board])
    paused.delete()
    paused.wait_until_gone()
    job_names = jobs_seen.end()
    assert job_names["ends-0-1"] == 1
    assert [name for name, count in job_names.items() if count > 1] == []
    assert ends.status()["attempt"] == 1
    assert ends.event_note("Restored") == "every board has its original settings again"


def as_a_deployment_would(cluster: TrainingCluster, operator: Child) -> Child:
    """An operator that has lost its Lease ends by itself and is started again."""
    return operator if operator.alive else cluster.fleet.start_operator()


@pytest.mark.timeout(900)
def test_an_api_server_that_restarts_and_a_second_operator_change_nothing_for_a_running_job(
    cluster: TrainingCluster,
) -> None:
    board = "orin-1"
    before = cluster.attributes(board)
    job = cluster.job("steady", board)
    job.reaches("Running")
    pods = [pod["metadata"]["uid"] for pod in job.pods()]
    restart_api_server(cluster.plane, lambda: None)
    assert cluster.fleet.operator is not None
    first = as_a_deployment_would(cluster, cluster.fleet.operator)
    second = cluster.fleet.start_operator()
    assert cluster.steady_w(board) <= 30.0, "the agent guards without the API server"
    job.edit(constraints={"powerWatts": 18})
    wait_for("a mode within 18 W", lambda: cluster.steady_w(board), lambda watts: watts <= 18.0, PATIENCE_S)
    assert (job.status()["attempt"], len(job.jobs())) == (1, 1)
    assert [pod["metadata"]["uid"] for pod in job.pods()] == pods
    first.popen.terminate()
    assert first.popen.wait(timeout=30) == 0
    job.delete()
    job.wait_until_gone()
    cluster.is_free(board, before)
    assert second.alive


@pytest.mark.timeout(900)
def test_watches_that_end_with_a_forgotten_version_lose_nothing(cluster: TrainingCluster, tmp_path: Path) -> None:
    before = {board: cluster.attributes(board) for board in ("orin-1", "orin-2", "orin-3")}
    kill_operator(cluster)
    with ForgetfulProxy(cluster.plane.kubeconfig, tmp_path) as proxy:
        operator = cluster.fleet.start_operator("--kubeconfig", str(proxy.kubeconfig))
        edited, deleted = cluster.job("edited", "orin-1"), cluster.job("deleted", "orin-2")
        edited.reaches("Running")
        deleted.reaches("Running")
        pods = [pod["metadata"]["uid"] for pod in edited.pods()]
        with proxy.forgetting():
            edited.edit(constraints={"powerWatts": 18})
            deleted.delete()
            late = cluster.job("late", "orin-3", steps=500)
        wait_for("a mode within 18 W", lambda: cluster.steady_w("orin-1"), lambda watts: watts <= 18.0, PATIENCE_S)
        deleted.wait_until_gone()
        late.reaches("Succeeded")
        late.released()
        forgotten_names = {path.split("?")[0].rpartition("/")[2] for path in proxy.forgotten}
        assert {"trainingjobs", "powernodes", "jobs", "pods", "nodes", "leases"} <= forgotten_names
        assert operator.alive, "it is still the same operator"
        assert (edited.status()["attempt"], [pod["metadata"]["uid"] for pod in edited.pods()]) == (1, pods)
        edited.delete()
        edited.wait_until_gone()
        for board, attributes in before.items():
            cluster.is_free(board, attributes)
        kill_operator(cluster)
    cluster.fleet.start_operator()


# Everything else


@pytest.mark.timeout(900)
def test_agents_nodes_pods_and_people_that_fail(cluster: TrainingCluster) -> None:
    at_once(
        partial(an_agent_is_killed, cluster, "orin-1"),
        partial(a_node_is_drained_and_then_deleted, cluster, "orin-2"),
        partial(a_node_falls_silent, cluster, "orin-3"),
        partial(an_image_a_power_node_and_a_finalizer, cluster, "orin-4"),
    )


def an_agent_is_killed(cluster: TrainingCluster, board: str) -> None:
    before = cluster.attributes(board)
    job = cluster.job("survivor", board, profiling={"reuse": False})
    job.wait("two modes", lambda s: s["nodes"][0]["profiling"]["measured"] >= 2)
    cluster.fleet.agents[board].kill()
    measured = cluster.session(board)["profiling"]["measured"]
    held_mode = cluster.mode(board)
    cluster.fleet.start_agent(board)
    wait_for(
        "the agent to be back", lambda: cluster.session(board)["message"], lambda words: "is back" in words or words
    )
    assert cluster.session(board)["profiling"]["measured"] >= measured, f"measured modes are lost (held {held_mode})"
    job.reaches("Running")
    assert (job.status()["attempt"], len(job.jobs())) == (1, 1)
    cluster.fleet.agents[board].kill()
    job.delete()
    wait_for("the pods to be gone", job.pods, lambda pods: not pods, PATIENCE_S)
    cluster.fleet.start_agent(board)
    job.wait_until_gone()
    cluster.is_free(board, before)


def a_node_is_drained_and_then_deleted(cluster: TrainingCluster, board: str) -> None:
    before = cluster.attributes(board)
    job = cluster.job("drained", board)
    job.reaches("Running")
    cluster.kubectl("drain", board, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=30s")
    job.reaches("WaitingForNode")
    assert job.event_note("NodeDrained") == f"node {board} was drained"
    cluster.is_free(board, before)
    job.wait("its words", lambda status: "waits for its own node to return" in status["message"])
    cluster.kubectl("uncordon", board)
    status = job.reaches("Running")
    assert status["attempt"] == 2
    cluster.rest.delete(f"/api/v1/nodes/{board}")
    job.reaches("WaitingForNode")
    assert job.event_note("NodeLost") == f"node {board} was deleted"
    job.delete()
    job.wait_until_gone()
    wait_for(
        "the board to be as it was found",
        lambda: cluster.attributes(board),
        lambda attributes: attributes == before,
        PATIENCE_S,
    )


def a_node_falls_silent(cluster: TrainingCluster, board: str) -> None:
    before = cluster.attributes(board)
    job = cluster.job("lost", board)
    job.reaches("Running")
    cluster.fleet.nodes.set_heartbeat(board, False)
    assert f"{board} is NotReady" in job.judged("Degraded", "True", "NodeLost")
    assert job.status()["phase"] == "WaitingForNode"
    cluster.fleet.nodes.set_heartbeat(board, True)
    job.judged("Degraded", "False", "Healthy")
    assert job.reaches("Running")["attempt"] == 1
    job.delete()
    job.wait_until_gone()
    cluster.is_free(board, before)


def an_image_a_power_node_and_a_finalizer(cluster: TrainingCluster, board: str) -> None:
    before = cluster.attributes(board)
    template = {"spec": {"containers": [{"name": "train", "image": "example.org/missing:1"}]}}
    unpullable = cluster.job("unpullable", board, "imageless", template=template)
    assert "ErrImageNeverPull" in unpullable.judged("Degraded", "True", "ContainerWaiting")
    assert "example.org/missing:1" in unpullable.event_note("ContainerWaiting")
    unpullable.delete()
    unpullable.wait_until_gone()
    cluster.is_free(board, before)
    a_pod_that_no_node_has_room_for(cluster, board)
    a_namespace_that_refuses_the_session_s_volume(cluster, board)
    cluster.is_free(board, before)
    a_power_node_is_deleted_in_a_session(cluster, board)
    cluster.is_free(board, before)
    a_finalizer_is_removed_by_hand(cluster, board)
    cluster.is_free(board, before)


def a_pod_that_no_node_has_room_for(cluster: TrainingCluster, board: str) -> None:
    container = {"name": "train", "image": "example.org/train:1", "resources": {"requests": {"cpu": "1000"}}}
    job = cluster.job("giant", board, "roomless", template={"spec": {"containers": [container]}})
    message = job.wait("the scheduler's words", lambda status: "Unschedulable" in status["message"])["message"]
    assert message.startswith(f"{board}: Unschedulable: ")
    assert "Insufficient cpu" in message
    assert cluster.session(board).get("phase") != "Profiling"
    job.delete()
    job.wait_until_gone()


def a_namespace_that_refuses_the_session_s_volume(cluster: TrainingCluster, board: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    metadata = {"name": "strict", "labels": labels}
    cluster.rest.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    body = manifest("refused", board)
    body["metadata"]["namespace"] = "strict"
    cluster.rest.create(TRAINING_JOBS.path(namespace="strict"), body)
    job = Job(cluster, "refused", "strict")
    job.wait(
        "why there is no pod", lambda status: "its Job creates no pod: the Pod Security level" in status["message"]
    )
    assert job.pods() == []
    job.delete()
    job.wait_until_gone()


def a_power_node_is_deleted_in_a_session(cluster: TrainingCluster, board: str) -> None:
    job = cluster.job("orphan", board)
    job.reaches("Running")
    uid, session = cluster.power_node(board)["metadata"]["uid"], cluster.envelope(board)["uid"]
    cluster.rest.delete(POWER_NODES.path(board))
    wait_for(
        "another PowerNode", lambda: cluster.power_node(board), lambda power_node: power_node["metadata"]["uid"] != uid
    )
    wait_for(
        "the same session",
        lambda: cluster.session(board),
        lambda reported_session: reported_session.get("uid") == session,
        PATIENCE_S,
    )
    assert job.reaches("Running")["attempt"] == 1
    job.delete()
    with contextlib.suppress(NotFoundError):
        job.edit(constraints={"powerWatts": 50}, suspend=True)
    job.wait_until_gone()


def a_finalizer_is_removed_by_hand(cluster: TrainingCluster, board: str) -> None:
    job = cluster.job("careless", board)
    job.reaches("Running")
    job.delete()
    with contextlib.suppress(NotFoundError):
        cluster.rest.merge_patch(job.path, {"metadata": {"finalizers": None}})
    job.wait_until_gone(20.0)
    wait_for("its pods to be collected", Job(cluster, "careless").pods, lambda pods: not pods, PATIENCE_S)
