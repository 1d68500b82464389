"""Batch sizes in a cluster: a study finds how many samples each needs, and a job chooses one together with its mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from powertrain.api.resources import BATCH_STUDIES, POWER_PROFILES, TRAINING_JOBS
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.fleet import Fleet, FleetSettings
from powertrain_devcluster.testing.waits import wait_for
from powertrain_kube import KubeApi

API = "powertrain.io/v1alpha1"
# A training without a framework: small batches need fewer samples, as in most of the second paper's studies.
PROXY = """
import powertrain_sdk as powertrain
size = powertrain.batch_size(8)
for _ in range({8: 100, 32: 50}[size]):
    powertrain.step()
powertrain.reached(0.95)
"""


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    boards = {"batch-orin": "orin-agx"}
    settings = FleetSettings(
        boards,
        time_scale=30.0,
        namespace="batch-system",
        # Another release of these tests may have ended just now.
        operator_options=["--cluster-lease", "batch-system"],
        servers=["batch-server"],
    )
    root, env = tmp_path_factory.mktemp("batch"), control_plane.environment()
    with Fleet(control_plane.kubeconfig, settings, root, logs=control_plane.logs, env=env) as running:
        yield running


def study(namespace: str) -> dict[str, Any]:
    container = {"name": "train", "image": "example.org/proxy:1", "command": ["python3", "-c", PROXY]}
    return {
        "apiVersion": API,
        "kind": "BatchStudy",
        "metadata": {"name": "proxy", "namespace": namespace},
        "spec": {
            "batchSizes": [8, 32],
            "seeds": 2,
            "parallelism": 2,
            "targetAccuracy": 0.9,
            "learningRate": {"base": 0.001, "atBatchSize": 32},
            "template": {"spec": {"containers": [container]}},
        },
    }


def job(namespace: str) -> dict[str, Any]:
    container = {
        "name": "train",
        "image": "powertrain-agent:0.1.0",
        "command": ["powertrain-simtrain", "resnet18", "--steps", "4000"],
        "env": [{"name": "POWERTRAIN_SIM_ROOT", "value": "/board"}],
        "volumeMounts": [{"name": "board", "mountPath": "/board"}],
    }
    board = {"name": "board", "hostPath": {"path": "/var/lib/powertrain/simulated"}}
    return {
        "apiVersion": API,
        "kind": "TrainingJob",
        "metadata": {"name": "resnet", "namespace": namespace},
        "spec": {
            "constraints": {"powerWatts": 30},
            "profiling": {"maxModes": 6},
            "placement": {"nodeSelector": {"kubernetes.io/hostname": "batch-orin"}},
            "workload": {
                "batchSizes": [8, 32],
                "batchEfficiency": {"study": "proxy"},
                "learningRate": {"base": 0.001, "atBatchSize": 32},
                "template": {"spec": {"containers": [container], "volumes": [board]}},
            },
        },
    }


@pytest.mark.usefixtures("fleet")
def test_a_study_serves_a_job_that_profiles_two_sizes_and_trains_with_the_better_one(
    kube: KubeApi, test_namespace: str
) -> None:
    path = TRAINING_JOBS.path("resnet", test_namespace)
    kube.create(TRAINING_JOBS.path(namespace=test_namespace), job(test_namespace))
    waiting = wait_for("the verdict", lambda: kube.get(path)["status"]["message"])
    assert "there is no BatchStudy proxy" in waiting
    kube.create(BATCH_STUDIES.path(namespace=test_namespace), study(test_namespace))
    study_status = wait_for(
        "the study",
        lambda: kube.get(BATCH_STUDIES.path("proxy", test_namespace))["status"],
        lambda status: status.get("completedAt"),
        90.0,
    )
    assert (study_status["phase"], study_status["relation"]) == ("Succeeded", "8: 0.50, 32: 1.00")
    job_status = wait_for("the job", lambda: kube.get(path)["status"], lambda status: status.get("completedAt"), 240.0)
    assert job_status["phase"] == "Succeeded", job_status
    batch = job_status["batch"]
    assert {size["state"] for size in batch["sizes"]} == {"Profiled"}
    assert batch["chosen"] in (8, 32)
    assert batch["timeAgainstLargest"] <= 1.0
    assert job_status["attempt"] == 3, "one trial per size, then the training"
    sizes = {each["spec"]["batchSize"] for each in kube.get(POWER_PROFILES.path(namespace=test_namespace))["items"]}
    assert sizes == {8, 32}
