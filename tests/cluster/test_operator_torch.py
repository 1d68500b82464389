"""The whole with PyTorch: networks fine-tuned by an agent, and a training that knows nothing of PowerTrain."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from powertrain_devcluster.testing.waits import SessionLogs, wait_for

from .training_cluster import NAMESPACE, TrainingCluster, at_once, gate_stays_closed, open_training_cluster

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(find_spec("torch") is None, reason="needs the nn extra (torch)"),
]
# As many as the first paper profiles.
MODES = 50
STEPS = 100_000
SCRIPT = """\
import time, torch
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
end = time.monotonic() + 40
while time.monotonic() < end:
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def cluster(
    cluster_binaries: dict[str, Path], session_logs: SessionLogs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TrainingCluster]:
    logs, boards = session_logs.folder / "torch", {"orin-1": "orin-agx", "orin-2": "orin-agx"}
    with open_training_cluster(cluster_binaries, tmp_path_factory.mktemp("torch"), logs, boards, 10.0) as opened:
        yield opened


@pytest.mark.timeout(1200)
def test_networks_are_tuned_by_the_agent_and_an_unmodified_script_is_governed(cluster: TrainingCluster) -> None:
    at_once(partial(networks_are_tuned, cluster, "orin-1"), partial(an_unmodified_script, cluster, "orin-2"))


def networks_are_tuned(cluster: TrainingCluster, board: str) -> None:
    before = cluster.attributes(board)
    job = cluster.job("tuned", board, steps=STEPS, profiling={"strategy": "powertrain", "maxModes": MODES})
    with cluster.sampling(board) as sampler:
        gate_stays_closed(cluster, job, board)
        job.reaches("Running", 720.0)
        job.delete()
        job.wait_until_gone()
    sampler.keeps(30.0)
    (profile,) = cluster.profiles("resnet18")
    spec = profile["spec"]
    assert spec["strategy"] == "powertrain"
    assert spec["reference"]
    assert spec["referenceVersion"]
    assert spec["validationError"]["timePercent"] >= 0
    assert spec["validationError"]["powerPercent"] >= 0
    # A visit that had to be left early has shown a mode's power, not its time.
    early = len(spec["samples"].get("early", {}).get("cores", ()))
    assert profile["status"]["measured"] + early >= MODES
    cluster.is_free(board, before)


def an_unmodified_script(cluster: TrainingCluster, board: str) -> None:
    before = cluster.attributes(board)
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    cluster.rest.create(
        path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"train.py": SCRIPT}}
    )
    container = {
        "name": "train",
        "image": "example.org/pytorch:2",
        "command": ["python3", "/code/train.py"],
        "volumeMounts": [{"name": "code", "mountPath": "/code"}],
    }
    template = {"spec": {"containers": [container], "volumes": [{"name": "code", "configMap": {"name": "code"}}]}}
    job = cluster.job("script", board, "plain", template=template, profiling={"maxModes": 2})
    with cluster.sampling(board) as sampler:
        gate_stays_closed(cluster, job, board)
        job.reaches("Profiling")
        assert board in job.judged("UsesGPU", "False", "OnCPU")
        wait_for("the mode on the Node", lambda: len(cluster.annotations(board)), lambda count: count == 3)
        wait_for(
            "the mode on the board", lambda: cluster.mode(board), lambda mode: mode == cluster.session(board)["mode"]
        )
        assert job.reaches("Succeeded")["nodes"][0]["training"]["steps"] > 0
        job.released()
    sampler.keeps(30.0)
    assert job.condition("Degraded") == ("False", "Healthy")
    cluster.is_free(board, before)
