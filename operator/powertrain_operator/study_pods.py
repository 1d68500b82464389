"""Builds what runs a batch study: one Indexed Job per batch size, an index per seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from powertrain.api.base import API_VERSION
from powertrain.api.v1alpha1 import BatchStudy
from powertrain.batching.study import StudySpec
from powertrain_operator import names, templates
from powertrain_operator.study_nodes import keep_off
from powertrain_operator.training_pods import (
    GATE_RESOURCES,
    GATE_SECURITY,
    SDK_DIR,
    SDK_PATH,
    SDK_VOLUME,
    PodSettings,
    with_sdk,
)

Object = dict[str, Any]
INDEX = "batch.kubernetes.io/job-completion-index"
BATCH_SIZE = "powertrain.io/batch-size"
TERMINATION_LOG = "/dev/termination-log"
# Variables that make a run this run are replaced in silence: the same template serves a study and a job.
RESERVED = templates.Reserved(frozenset({SDK_VOLUME}), frozenset({SDK_VOLUME}), frozenset())


def study_job_name(name: str, batch_size: int) -> str:
    """Return the name of the Job of one batch size."""
    return f"{name}-b{batch_size}"


def study_spec(study: BatchStudy) -> StudySpec:
    """Return the study as the core knows it."""
    spec, rate = study.spec, study.spec.learning_rate
    return StudySpec(
        name=study.metadata["name"],
        batch_sizes=spec.batch_sizes,
        seeds=spec.seeds,
        target_accuracy=spec.target_accuracy,
        learning_rate=rate.base,
        at_batch_size=rate.at_batch_size or max(spec.batch_sizes),
        scaling=rate.scaling,
        max_samples=spec.cap_samples,
        unit_samples=spec.unit_samples,
        data_samples=spec.dataset_samples,
    )


def study_job(study: BatchStudy, batch_size: int, settings: PodSettings, boards: Iterable[str] = ()) -> Object:
    """Return the Job of one batch size: every run has the same weights and optimizer, and a seed of its own.

    No run goes to one of the `boards`. Raises TemplateError where nothing can be built on the template.
    """
    metadata, spec = study.metadata, study.spec
    labels = {names.JOB_UID: metadata["uid"], BATCH_SIZE: str(batch_size)}
    template = templates.read(spec.template, RESERVED)
    theirs = template.setdefault("metadata", {})
    theirs["labels"] = {**(theirs.get("labels") or {}), **labels}
    pod = template.setdefault("spec", {})
    pod["restartPolicy"] = "Never"  # what backoffLimitPerIndex asks for
    _add_sdk(pod, settings)
    values = study_spec(study).environment(batch_size, 0)
    del values["POWERTRAIN_SEED"]
    if spec.weights is not None:
        values["POWERTRAIN_WEIGHTS"] = spec.weights
    keep_off(pod, boards)
    for container in pod.get("containers") or []:
        container["env"] = _environment(container.get("env") or [], values)
        container.setdefault("volumeMounts", []).append({"name": SDK_VOLUME, "mountPath": SDK_DIR, "readOnly": True})
    reference = {"apiVersion": API_VERSION, "kind": study.kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": study_job_name(metadata["name"], batch_size),
            "namespace": metadata["namespace"],
            "labels": {**(metadata.get("labels") or {}), **labels},
            "ownerReferences": [{**reference, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "completionMode": "Indexed",
            "completions": spec.seeds,
            "parallelism": min(spec.parallelism, spec.seeds),
            "backoffLimitPerIndex": spec.backoff_limit,
            "template": template,
        },
    }


def _add_sdk(pod: Object, settings: PodSettings) -> None:
    pod.setdefault("volumes", []).append({"name": SDK_VOLUME, "emptyDir": {}})
    install = {
        "name": "powertrain-sdk",
        "image": settings.gate_image,
        "imagePullPolicy": settings.gate_pull_policy,
        "command": ["python3", "-m", "powertrain_sdk.install", SDK_DIR],
        "volumeMounts": [{"name": SDK_VOLUME, "mountPath": SDK_DIR}],
        "resources": GATE_RESOURCES,
        "securityContext": GATE_SECURITY,
    }
    pod["initContainers"] = [install, *(pod.get("initContainers") or [])]


def _environment(theirs: list[Object], values: Mapping[str, str]) -> list[Object]:
    """Return the variables of a container. What makes a run this run of this study is not the template's to say."""
    seed = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
    run_values = {**values, "POWERTRAIN_TERMINATION_LOG": TERMINATION_LOG}
    ours: list[Object] = [{"name": name, "value": value} for name, value in run_values.items()]
    ours.append({"name": "POWERTRAIN_SEED", "valueFrom": seed})
    own_names = {variable["name"] for variable in ours}
    user_variables = with_sdk([variable for variable in theirs if variable["name"] not in own_names])
    if not any(variable["name"] == "PYTHONPATH" for variable in user_variables):
        ours.append({"name": "PYTHONPATH", "value": SDK_PATH})
    return [*ours, *user_variables]
