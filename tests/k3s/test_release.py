"""The chart on a real k3s, installed, upgraded and removed as the page on installing says."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.node.release import (
    BOARD,
    CHART,
    NAMESPACE,
    READY,
    ROOT,
    SPEED,
    VERSION,
    lasting,
    pods,
    training,
    wait_job,
)

from powertrain.api.resources import POWER_NODES, TRAINING_JOBS
from powertrain_agent.simulate.state import STATE_FILE
from powertrain_devcluster import kubeconfig
from powertrain_devcluster.builds import images
from powertrain_devcluster.connection import connect
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.k3s.cluster import K3sCluster
from powertrain_devcluster.testing.waits import SessionLogs, wait_for
from powertrain_devcluster.tools.helm import Helm
from powertrain_kube import ApiError, KubeApi

from .conftest import IMAGES

Object = dict[str, Any]
SERVER, AGENT = "k3s-server", "k3s-agent"
TAG = "dev"
IMPORTED = f"image.tag={TAG}"
SIMULATED = f"simulate.enabled=true,simulate.timeScale={SPEED}"
SOCKET = "/run/k3s/containerd/containerd.sock"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"


def documented(section: str, verb: str) -> list[str]:
    """Return the arguments of `helm VERB` in a section of the page on installing, with the chart's path here."""
    page = (ROOT / "docs/how-to/install.md").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = page.split(f"\n## {section}\n")[1].split("\n## ")[0].splitlines()
    line = next(line for line in lines if line.strip().startswith(f"helm {verb} "))
    return [str(CHART) if word == "charts/powertrain" else word for word in shlex.split(line)[1:]]


@pytest.fixture
def release(
    helm: Helm, k3s: K3sCluster, kube: KubeApi, kubectl: list[str], session_logs: SessionLogs
) -> Iterator[Helm]:
    """Installed, by this test or by one before it; both boards have reported."""
    if helm.run("status", "powertrain", "--namespace", NAMESPACE, check=False).returncode != 0:
        helm.run(*documented("On k3s, step by step", "install"), *READY, "--set", f"{IMPORTED},{SIMULATED}")
    for node in k3s.nodes:
        wait_for(f"the board of {node}", lambda node=node: kube.get(POWER_NODES.path(node))["status"]["device"])
    yield helm
    look = [*kubectl, "logs", "--namespace", NAMESPACE, "--selector", "app.kubernetes.io/name=powertrain", "--prefix"]
    result = subprocess.run([*look, "--tail=-1"], capture_output=True, text=True, check=False)
    with (session_logs.folder / "release.log").open("a", encoding="utf-8") as log:
        log.write(result.stdout + result.stderr)


def job(namespace: str, name: str, replicas: int) -> Object:
    """Return a training that goes on until it is told to end, with the RuntimeClass that k3s makes."""
    body = training(namespace, name, TAG)
    body["spec"]["workload"]["template"]["spec"]["runtimeClassName"] = "nvidia"
    body["spec"]["placement"] = {"replicas": replicas}
    return body


def settings(k3s: K3sCluster, node: str) -> dict[str, str]:
    """Return every file of a simulated board that can be written, with its text."""
    board = k3s.host_path(node, BOARD)
    paths = json.loads((board / STATE_FILE).read_text(encoding="utf-8"))["requests"]
    # A rate of the memory that is not locked is the kernel's own.
    return {path: (board / path.lstrip("/")).read_text("utf-8") for path in paths if not path.endswith("/emc/rate")}


def training_pods(kube: KubeApi, namespace: str) -> dict[str, Object]:
    running_pods = kube.get(f"/api/v1/namespaces/{namespace}/pods", {"fieldSelector": "status.phase=Running"})["items"]
    return {pod["spec"]["nodeName"]: pod for pod in lasting(running_pods)}


def agent_pod(kube: KubeApi, node: str) -> Object:
    [pod_there] = [pod for pod in lasting(pods(kube, NAMESPACE, component="agent")) if pod["spec"]["nodeName"] == node]
    return pod_there


def steps(kube: KubeApi, path: str) -> dict[str, int]:
    return {each["name"]: each["training"]["steps"] for each in kube.get(path)["status"]["nodes"]}


def end(kube: KubeApi, kubectl: list[str], path: str, namespace: str, name: str) -> None:
    """Tell every replica to end, and wait for the job's end and for its boards."""
    for pod in training_pods(kube, namespace).values():
        inside = [*kubectl, "exec", "--namespace", namespace, pod["metadata"]["name"], "--"]
        subprocess.run([*inside, "touch", f"{BOARD}/{name}"], check=True, capture_output=True)
    finished_job = wait_job(kube, path, "Succeeded", "Failed")
    assert finished_job["status"]["phase"] == "Succeeded", finished_job["status"]
    for node in (each["name"] for each in finished_job["status"]["nodes"]):
        wait_for(
            f"{node} to be restored",
            lambda node=node: kube.get(POWER_NODES.path(node))["status"]["session"]["restored"],
        )


def kill_agent(k3s: K3sCluster, node: str) -> None:
    """End the container of our agent at once, as the kernel's out-of-memory killer would."""
    crictl = ("crictl", "--runtime-endpoint", f"unix://{SOCKET}")
    [container] = k3s.run(node, *crictl, "ps", "--quiet", "--name", "^agent$").split()
    k3s.run(node, *crictl, "stop", "--timeout", "0", container)


def restart_server(k3s: K3sCluster, kube: KubeApi) -> None:
    """Kill the k3s server; return when the one that follows it answers."""
    before = k3s.k3s_pid(SERVER)
    k3s.kill_k3s(SERVER)

    def follows() -> bool:
        try:
            return k3s.k3s_pid(SERVER) != before and kube.text("/readyz") == "ok"
        except (ClusterError, ApiError):
            return False

    wait_for("the k3s server to be back", follows, deadline_s=120)


def upgrade(k3s: K3sCluster, kube: KubeApi, release: Helm) -> None:
    """Upgrade the release to images of another tag, as the page on installing says; both agents are replaced."""
    ctr = ("ctr", "--address", SOCKET, "--namespace", "k8s.io")
    for node in k3s.nodes:
        for name in IMAGES:
            reference = f"docker.io/library/{images.recipe(name).reference}"
            k3s.run(node, *ctr, "images", "tag", "--force", reference, reference.replace(f":{TAG}", f":{VERSION}"))
    before = {agent_pod(kube, node)["metadata"]["uid"] for node in k3s.nodes}
    release.run(*documented("Upgrade", "upgrade"), *READY, "--set", f"image.tag={VERSION}")
    assert not before & {agent_pod(kube, node)["metadata"]["uid"] for node in k3s.nodes}


def logged(kubectl: list[str], pod: Object) -> list[Object]:
    look = [*kubectl, "logs", "--namespace", NAMESPACE, pod["metadata"]["name"]]
    result = subprocess.run(look, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in result.splitlines() if line.startswith("{")]


@pytest.mark.timeout(400)
def test_a_training_on_both_nodes_survives_a_killed_agent_a_restarted_server_and_an_upgrade(
    k3s: K3sCluster, kube: KubeApi, kubectl: list[str], release: Helm, test_namespace: str
) -> None:
    path = TRAINING_JOBS.path("both", test_namespace)
    original = {node: settings(k3s, node) for node in k3s.nodes}
    kube.create(TRAINING_JOBS.path(namespace=test_namespace), job(test_namespace, "both", replicas=2))
    wait_job(kube, path, "Running")
    running = training_pods(kube, test_namespace)
    assert set(running) == {SERVER, AGENT}
    for node, pod in running.items():
        assert settings(k3s, node) != original[node]
        uid = pod["metadata"]["uid"]
        assert k3s.host_path(node, f"/var/lib/kubelet/pods/{uid}").is_dir()
        groups = k3s.run(node, "find", "/sys/fs/cgroup", "-type", "d", "-path", "*/kubepods*", "-name", f"*pod{uid}*")
        assert groups, f"no control group of {uid} below kubepods"

    kill_agent(k3s, AGENT)
    again = wait_for(
        "the agent's container to be started again",
        lambda: agent_pod(kube, AGENT),
        lambda pod: (
            pod["status"]["containerStatuses"][0]["restartCount"] == 1
            and pod["status"]["containerStatuses"][0]["ready"]
        ),
        60,
    )
    hold_lines = wait_for(
        "the agent to hold", lambda: [line for line in logged(kubectl, again) if line["event"] == "hold"]
    )
    assert hold_lines[0]["reason"] == "a pod of the session is on the host"

    restart_server(k3s, kube)
    upgrade(k3s, kube, release)
    before = steps(kube, path)
    wait_for(
        "both to go on", lambda: steps(kube, path), lambda now: all(now[node] > before[node] for node in before), 60
    )
    after = {node: pod["metadata"]["uid"] for node, pod in training_pods(kube, test_namespace).items()}
    assert after == {node: pod["metadata"]["uid"] for node, pod in running.items()}
    end(kube, kubectl, path, test_namespace, "both")
    assert {node: settings(k3s, node) for node in k3s.nodes} == original


def test_the_token_of_one_nodes_agent_writes_nothing_of_the_other_node(
    kube: KubeApi, kubectl: list[str], release: Helm, tmp_path: Path
) -> None:
    pod = agent_pod(kube, AGENT)["metadata"]["name"]
    inside = [*kubectl, "exec", "--namespace", NAMESPACE, pod, "--", "python3", "-c", f"print(open({TOKEN!r}).read())"]
    token = subprocess.run(inside, check=True, capture_output=True, text=True).stdout.strip()
    config = tmp_path / "kubeconfig"
    config.write_text(kubeconfig.render("agent", kube.server, kube.ca_file, {"token": token}), encoding="utf-8")
    agent = connect(config)
    patch: Object = {"status": {}}
    try:
        agent.merge_patch(f"{POWER_NODES.path(AGENT)}/status", patch)
        with pytest.raises(ApiError, match=rf"403.*agent of node {AGENT} writes .* only, not powernodes {SERVER}"):
            agent.merge_patch(f"{POWER_NODES.path(SERVER)}/status", patch)
    finally:
        agent.close()


@pytest.mark.timeout(400)
def test_a_drained_node_gives_its_board_back_and_the_training_goes_on_with_the_other_one(
    k3s: K3sCluster, kube: KubeApi, kubectl: list[str], release: Helm, test_namespace: str
) -> None:
    path = TRAINING_JOBS.path("moved", test_namespace)
    original = {node: settings(k3s, node) for node in k3s.nodes}
    body = job(test_namespace, "moved", replicas=1)
    body["spec"]["placement"]["allowMove"] = True
    body["spec"]["backoffLimit"] = 0
    kube.create(TRAINING_JOBS.path(namespace=test_namespace), body)
    wait_job(kube, path, "Running")
    [first] = training_pods(kube, test_namespace)
    [other] = set(k3s.nodes) - {first}
    drain = [*kubectl, "drain", first, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=100s"]
    try:
        subprocess.run(drain, check=True, capture_output=True, text=True)
        wait_for(
            "the training on the other node", lambda: set(training_pods(kube, test_namespace)), {other}.__eq__, 120
        )
        wait_for("the board to be as before", lambda: settings(k3s, first), original[first].__eq__, 60)
        wait_job(kube, path, "Running")
        end(kube, kubectl, path, test_namespace, "moved")
    finally:
        subprocess.run([*kubectl, "uncordon", first], check=True, capture_output=True)
    assert {node: settings(k3s, node) for node in k3s.nodes} == original


def test_k3s_has_the_runtime_class_so_that_the_chart_must_not_make_it(kube: KubeApi, release: Helm) -> None:
    assert kube.get("/apis/node.k8s.io/v1/runtimeclasses/nvidia")["handler"] == "nvidia"
    refused = release.run(
        *documented("Upgrade", "upgrade"), "--dry-run=server", "--set", "runtimeClass.create=true", check=False
    )
    assert refused.returncode != 0
    assert 'RuntimeClass "nvidia"' in refused.stderr


def test_an_uninstall_gives_both_boards_back_and_leaves_nothing_of_ours(
    k3s: K3sCluster, kube: KubeApi, release: Helm
) -> None:
    original = {node: settings(k3s, node) for node in k3s.nodes}
    release.run(*documented("Uninstall", "uninstall"), *READY)
    assert {node: settings(k3s, node) for node in k3s.nodes} == original
    assert kube.get(POWER_NODES.path())["items"] == []
    for node in kube.get("/api/v1/nodes")["items"]:
        marks = {**node["metadata"].get("annotations", {}), **node["metadata"].get("labels", {})}
        assert not [key for key in marks if key.startswith("powertrain.io/")]
    wait_for("our pods to go", lambda: pods(kube, NAMESPACE, name="powertrain"), lambda left: left == [], 60)
    assert kube.get("/apis/node.k8s.io/v1/runtimeclasses/nvidia")["handler"] == "nvidia"
