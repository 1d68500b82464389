"""A real kubelet that runs short of memory: the training goes, the agent that guards it stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.node.release import CHART, NAMESPACE, VERSION, pods

from powertrain_devcluster.builds import binaries, images, prepare
from powertrain_devcluster.connection import connect
from powertrain_devcluster.errors import MissingToolError
from powertrain_devcluster.node.node import NodeCluster, NodePrograms
from powertrain_devcluster.testing.waits import SessionLogs, wait_for
from powertrain_devcluster.tools.helm import Helm

Object = dict[str, Any]
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PODS = "/api/v1/namespaces/default/pods"
# More than any machine has available: the kubelet is short of memory from the beginning.
ALWAYS_SHORT = "99.9%"


@pytest.fixture
def short_of_memory(
    node_programs: NodePrograms, session_logs: SessionLogs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeCluster]:
    logs = session_logs.folder / "short-of-memory"
    root = tmp_path_factory.mktemp("short-of-memory")
    with NodeCluster(node_programs, root, logs=logs, evict_below=ALWAYS_SHORT) as cluster:
        yield cluster


def important_training(node: str) -> Object:
    """Return a pod that a kubelet evicts late: it has a priority, and uses less than it requests."""
    resources = {"cpu": "10m", "memory": "128Mi"}
    container = {
        "name": "train",
        "image": f"powertrain-agent:{VERSION}",
        "imagePullPolicy": "Never",
        "command": ["sleep", "1000"],
        "resources": {"requests": resources, "limits": resources},
    }
    spec = {"nodeName": node, "priorityClassName": "important", "terminationGracePeriodSeconds": 1}
    return {"metadata": {"name": "training"}, "spec": spec | {"restartPolicy": "Never", "containers": [container]}}


def is_spared(kubelet_log: Path, pod: str) -> bool:
    """Say whether the kubelet came to evict a pod, and refused to."""
    lines = kubelet_log.read_text(encoding="utf-8").splitlines()
    return any("cannot evict a critical pod" in line and pod in line for line in lines)


@pytest.mark.timeout(240)
def test_under_memory_pressure_the_training_goes_and_the_agent_stays(
    short_of_memory: NodeCluster, agent_archive: Path, tmp_path: Path
) -> None:
    try:
        helm = Helm(binaries.helm(prepare.Ready()), tmp_path, short_of_memory.kubeconfig)
    except MissingToolError as error:
        pytest.skip(str(error))
    reference = images.recipe("agent").reference
    short_of_memory.import_image(agent_archive)
    short_of_memory.tag_image(reference, reference.replace(f":{images.TAG}", f":{VERSION}"))
    values = "image.local=true,simulate.enabled=true"
    helm.run("install", "powertrain", str(CHART), "--namespace", NAMESPACE, "--create-namespace", "--set", values)
    kube = connect(short_of_memory.kubeconfig)
    [agent] = wait_for(
        "the agent to run",
        lambda: pods(kube, NAMESPACE, component="agent"),
        lambda pods_now: [each["status"]["phase"] for each in pods_now] == ["Running"],
        90,
    )
    name = agent["metadata"]["name"]
    wait_for("the kubelet to spare the agent", lambda: is_spared(short_of_memory.logs / "kubelet.log", name), bool, 60)
    kube.create(CLASSES, {"metadata": {"name": "important"}, "value": 1_000_000})
    wait_for("an account for the training", lambda: kube.get("/api/v1/namespaces/default/serviceaccounts/default"))
    kube.create(PODS, important_training(short_of_memory.nodes[0]))
    ended_pod = wait_for(
        "the training's end", lambda: kube.get(f"{PODS}/training")["status"], lambda s: s.get("reason") == "Evicted", 90
    )
    assert "low on resource: memory" in ended_pod["message"]
    [after] = pods(kube, NAMESPACE, component="agent")
    assert (after["metadata"]["uid"], after["status"]["phase"]) == (agent["metadata"]["uid"], "Running")
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    kube.close()
