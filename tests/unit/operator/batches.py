"""Steps that tests of several batch sizes share: jobs, what was measured, and studies that end."""

from __future__ import annotations

import json
from typing import Any

from .conftest import SAMPLES, Cluster

VALUES = [{"batchSize": 8, "relative": 0.5}, {"batchSize": 32, "relative": 1.0}]


def several(cluster: Cluster, watts: float = 30, schedule: list[dict[str, Any]] | None = None, **workload: Any) -> None:
    """A user applies a job with two batch sizes."""
    fields = {"batchSizes": [8, 32], "batchEfficiency": {"values": VALUES}, "name": "resnet", **workload}
    rate = {"base": 0.001, "atBatchSize": 32, "scaling": "Sqrt"}
    constraints = {"powerWatts": watts, "powerSchedule": schedule or []}
    cluster.submit(constraints=constraints, workload={**fields, "learningRate": rate})


def measured(steps: list[float], batch_size: int) -> dict[str, Any]:
    return {"strategy": "transfer", "samples": {**SAMPLES, "batchSize": batch_size, "stepSeconds": steps}, "front": {}}


def profiled(cluster: Cluster, attempt: int, steps: list[float], batch_size: int) -> None:
    """A trial measures its batch size and ends."""
    job = f"job-0-{attempt}"
    cluster.opens()
    cluster.pod(job)
    cluster.chooses(result=measured(steps, batch_size))
    cluster.restores()


def variables(cluster: Cluster, job: str) -> dict[str, str]:
    """What the containers of the Job were given, as the operator built it."""
    return next(values for name, values in cluster.environments.items() if name == job)


def study(cluster: Cluster, **spec: Any) -> None:
    template = {"spec": {"containers": [{"name": "train", "image": "example.org/proxy:1"}]}}
    rate = {"base": 0.001, "atBatchSize": 32, "scaling": "Sqrt"}
    full = {
        "batchSizes": [8, 32],
        "seeds": 2,
        "targetAccuracy": 0.9,
        "learningRate": rate,
        "template": template,
        **spec,
    }
    metadata = {"name": "proxy", "namespace": "team", "generation": 1}
    cluster.put({"apiVersion": "powertrain.io/v1alpha1", "kind": "BatchStudy", "metadata": metadata, "spec": full})
    cluster.settle()


def run_ends(cluster: Cluster, size: int, seed: int, samples: int | None) -> None:
    """A run's pod succeeds; its last message is what the SDK writes when the target is reached."""
    owner = cluster.get("Job", f"proxy-b{size}", "team")["metadata"]
    message = "" if samples is None else json.dumps({"accuracy": 0.91, "samples": samples, "seconds": 1.0})
    labels = {**owner["labels"], "batch.kubernetes.io/job-completion-index": str(seed)}
    ended = {"name": "train", "state": {"terminated": {"exitCode": 0, "message": message}}}
    job = cluster.get("Job", f"proxy-b{size}", "team")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"proxy-b{size}", "uid": job["metadata"]["uid"]}
    metadata = {"name": f"proxy-b{size}-{seed}", "namespace": "team", "labels": labels, "ownerReferences": [owner]}
    status = {"phase": "Succeeded", "containerStatuses": [ended]}
    cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})
    cluster.settle()


def of_study(cluster: Cluster) -> dict[str, Any]:
    return dict(cluster.get("BatchStudy", "proxy", "team")["status"])


def verdicts(cluster: Cluster) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in of_study(cluster)["conditions"]}
