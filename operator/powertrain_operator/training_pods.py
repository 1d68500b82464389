"""Builds what runs a training: one batch/v1 Job per replica and attempt, with the gate, and a Service for its peers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from powertrain import __version__
from powertrain.api.base import API_VERSION
from powertrain.api.v1alpha1 import Instrumentation, TrainingJob
from powertrain.batching.learning_rate import scaled_learning_rate
from powertrain_operator import names, templates

Object = dict[str, Any]
SESSION_DIR = "/run/powertrain"
SDK_DIR = "/opt/powertrain-sdk"
SDK_PATH = f"{SDK_DIR}/powertrain_sdk/auto"
GATE = "powertrain-gate"
SESSION_VOLUME, SDK_VOLUME = "powertrain-session", "powertrain-sdk"
# What a template can't use: with our volume it could mount the session's folder read-write, with our variables it could
# send its steps to another session.
RESERVED = templates.Reserved(
    volumes=frozenset({SESSION_VOLUME, SDK_VOLUME}),
    containers=frozenset({GATE, SDK_VOLUME}),
    variables=frozenset(
        f"POWERTRAIN_{name}"
        for name in (
            *("SESSION_DIR", "SESSION_UID", "BOOT_ID", "BATCH_SIZE", "LEARNING_RATE", "EPOCHS"),
            *("REPLICA", "REPLICAS", "ATTEMPT", "PEERS"),
        )
    ),
)
# The gate copies some kilobytes and then looks for a file five times a second.
GATE_RESOURCES = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}}
GATE_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


@dataclass(frozen=True)
class PodSettings:
    """What the cluster, not the job, decides about training pods."""

    gate_image: str = f"powertrain-init:{__version__}"
    gate_pull_policy: str = "IfNotPresent"
    # Where the agents keep a directory per session on their host.
    sessions_path: str = "/var/lib/powertrain/sessions"


@dataclass(frozen=True)
class Replica:
    """One Job: which replica of how many, on which node, in which session, with which batch size."""

    number: int
    replicas: int
    attempt: int
    node: str
    session: str
    batch_size: int
    # Only profiles its batch size: a pod that fails is not tried again, it may not fit into the memory.
    trial: bool = False


def session_uid(job_uid: str, replica: int, attempt: int) -> str:
    """Return the identity of a session: the same however often it is computed."""
    return f"{job_uid}-{replica}-{attempt}"


def of_session(uid: str) -> tuple[str, str, str]:
    """Return the TrainingJob's uid, the replica and the attempt that a session's identity is made of."""
    rest, _, attempt = uid.rpartition("-")
    job_uid, _, replica = rest.rpartition("-")
    return job_uid, replica, attempt


def job_name(name: str, replica: int, attempt: int) -> str:
    """Return the name of the Job of a replica and attempt."""
    return f"{name}-{replica}-{attempt}"


def build_job(job: TrainingJob, replica: Replica, settings: PodSettings) -> Object:
    """Return the Job of one replica and attempt; the user's template is in it as it was written.

    Raises TemplateError where nothing can be built on the template.
    """
    metadata = job.metadata
    template = templates.read(job.spec.workload.template, RESERVED)
    labels = {
        names.JOB_UID: metadata["uid"],
        names.JOB_NAME: metadata["name"],
        names.REPLICA: str(replica.number),
        names.ATTEMPT: str(replica.attempt),
    }
    theirs = template.setdefault("metadata", {})
    theirs["labels"] = {**(theirs.get("labels") or {}), **labels}
    spec = template.setdefault("spec", {})
    spec.setdefault("restartPolicy", "Never")
    _pin(spec, replica.node)
    _add_gate(spec, job, replica, settings)
    if replica.replicas > 1:
        spec.setdefault("hostname", job_name(metadata["name"], replica.number, replica.attempt))
        spec.setdefault("subdomain", peers_name(job))
    # Of a drain or a preemption the training is innocent; the API knows this rule for pods that are not restarted only.
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    policy = {"podFailurePolicy": {"rules": rules}} if spec["restartPolicy"] == "Never" else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(metadata["name"], replica.number, replica.attempt),
            "namespace": metadata["namespace"],
            # What Kueue looks for (its queue, its priority) stands on the TrainingJob and belongs on the Job.
            "labels": {**(metadata.get("labels") or {}), **labels},
            "ownerReferences": [owner(job)],
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 0 if replica.trial else job.spec.workload.backoff_limit,
            "podReplacementPolicy": "Failed",
            **policy,
            "template": template,
        },
    }


def peers_name(job: TrainingJob) -> str:
    """Return the name of the Service: with a part of the uid, as a user's own Service may have the job's name."""
    return f"{job.metadata['name']}-{job.metadata['uid'][:8]}"


def peers_service(job: TrainingJob) -> Object:
    """Return the headless Service by which replicas find each other, also before they are ready."""
    metadata = job.metadata
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": peers_name(job),
            "namespace": metadata["namespace"],
            "labels": {names.JOB_UID: metadata["uid"], names.JOB_NAME: metadata["name"]},
            "ownerReferences": [owner(job)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.JOB_UID: metadata["uid"]},
        },
    }


def owner(job: TrainingJob) -> Object:
    """Return the reference that makes what is built go with its TrainingJob."""
    return {
        "apiVersion": API_VERSION,
        "kind": job.kind,
        "name": job.metadata["name"],
        "uid": job.metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def environment(job: TrainingJob, replica: Replica) -> dict[str, str]:
    """Return the variables that every container of a replica gets."""
    name, workload = job.metadata["name"], job.spec.workload
    values = {
        "POWERTRAIN_SESSION_DIR": SESSION_DIR,
        "POWERTRAIN_SESSION_UID": replica.session,
        "POWERTRAIN_BATCH_SIZE": str(replica.batch_size),
        "POWERTRAIN_REPLICA": str(replica.number),
        "POWERTRAIN_REPLICAS": str(replica.replicas),
        "POWERTRAIN_ATTEMPT": str(replica.attempt),
    }
    if workload.learning_rate is not None:
        rate = workload.learning_rate
        at = rate.at_batch_size or replica.batch_size
        scaled = scaled_learning_rate(rate.base, at, replica.batch_size, rate.scaling)
        values["POWERTRAIN_LEARNING_RATE"] = f"{scaled:.6g}"
    if workload.epochs is not None:
        values["POWERTRAIN_EPOCHS"] = str(workload.epochs)
    if replica.replicas > 1:
        hosts = (job_name(name, number, replica.attempt) for number in range(replica.replicas))
        values["POWERTRAIN_PEERS"] = ",".join(f"{host}.{peers_name(job)}" for host in hosts)
    return values


def _pin(spec: Object, node: str) -> None:
    """Require the node, whatever else the user's affinity asks for."""
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    # Terms are alternatives: each of the user's has to name the node, and without any there is one that does.
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchFields": [*(term.get("matchFields") or []), only]} for term in terms
    ]


def _add_gate(spec: Object, job: TrainingJob, replica: Replica, settings: PodSettings) -> None:
    automatic = job.spec.workload.instrumentation is Instrumentation.AUTO
    values = environment(job, replica)
    host_path = {"path": f"{settings.sessions_path}/{replica.session}", "type": "DirectoryOrCreate"}
    spec.setdefault("volumes", []).append({"name": SESSION_VOLUME, "hostPath": host_path})
    mounts = [{"name": SESSION_VOLUME, "mountPath": SESSION_DIR, "readOnly": True}]
    gate_mounts, command = list(mounts), ["python3", "-m", "powertrain_sdk.gate", "--timeout", "0"]
    if automatic:
        spec["volumes"].append({"name": SDK_VOLUME, "emptyDir": {}})
        gate_mounts.append({"name": SDK_VOLUME, "mountPath": SDK_DIR})
        command += ["--install", SDK_DIR]
        mounts.append({"name": SDK_VOLUME, "mountPath": SDK_DIR, "readOnly": True})
    gate = {
        "name": GATE,
        "image": settings.gate_image,
        "imagePullPolicy": settings.gate_pull_policy,
        "command": command,
        "env": [{"name": key, "value": value} for key, value in values.items()],
        "volumeMounts": gate_mounts,
        "resources": GATE_RESOURCES,
        "securityContext": GATE_SECURITY,
    }
    # First: the user's own init containers may already compute.
    spec["initContainers"] = [gate, *(spec.get("initContainers") or [])]
    for container in [*spec["initContainers"][1:], *(spec.get("containers") or [])]:
        _instrument(container, values, mounts, automatic)


def _instrument(container: Object, values: Mapping[str, str], mounts: list[Object], automatic: bool) -> None:
    """Give a container the session's directory and variables, before those that the user set."""
    env = list(container.get("env") or [])
    ours = [{"name": key, "value": value} for key, value in values.items()]
    container["env"] = [*ours, *(with_sdk(env) if automatic else env)]
    if automatic and all(variable["name"] != "PYTHONPATH" for variable in env):
        container["env"].append({"name": "PYTHONPATH", "value": SDK_PATH})
    container["volumeMounts"] = [*(container.get("volumeMounts") or []), *mounts]


def with_sdk(env: list[Object]) -> list[Object]:
    """Put the SDK before the user's own PYTHONPATH; one that comes from elsewhere is left alone."""
    return [
        {**variable, "value": f"{SDK_PATH}:{variable['value']}"}
        if variable["name"] == "PYTHONPATH" and variable.get("value")
        else variable
        for variable in env
    ]
