"""Questions that every reconcile asks of the world: jobs as models, boards with their policies, who holds a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from powertrain.api.v1alpha1 import JobNode, PowerPolicySpec, TrainingJob
from powertrain_operator import names
from powertrain_operator.fleet import Board, parse_time
from powertrain_operator.plan import Context
from powertrain_operator.policies import site_policy
from powertrain_operator.world import World

Object = dict[str, Any]
# An agent renews its Lease every 10 s; three missed renewals are more than a busy API server.
AGENT_SILENT_S = 40.0


def training_job(world: World, namespace: str, name: str) -> TrainingJob | None:
    """Return a TrainingJob as a whole."""
    return world.read(TrainingJob, "TrainingJob", name, namespace)


def study_of(world: World, job: TrainingJob) -> Object | None:
    """Return the BatchStudy that a job names."""
    efficiency = job.spec.workload.batch_efficiency
    if efficiency is None or efficiency.study is None:
        return None
    return world.brief("BatchStudy", efficiency.study, job.metadata["namespace"])


def training_pods(world: World, job_uid: str) -> list[Object]:
    """Return the pods of a TrainingJob, of every attempt, oldest first."""
    pods = world.labelled("Pod", names.JOB_UID, job_uid)
    return sorted(pods, key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]))


def board(world: World, name: str, context: Context) -> Board:
    """Return a board by its node's name; what is not there of it is None."""
    return _board(world, name, context, list(policies(world)))


def boards(world: World, context: Context) -> dict[str, Board]:
    """Return every board that has a PowerNode."""
    specs = list(policies(world))
    return {key.name: _board(world, key.name, context, specs) for key in world.keys("PowerNode")}


def _board(world: World, name: str, context: Context, specs: list[tuple[str, PowerPolicySpec]]) -> Board:
    node = world.brief("Node", name)
    labels = (node or {}).get("metadata", {}).get("labels") or {}
    # By our own clock: that of a board may be years off.
    heard_s = world.changed_s("Lease", context.settings.namespace, name)
    silent = heard_s is None or context.monotonic_s - heard_s > AGENT_SILENT_S
    unheard = not silent and not _heard(world, name, context)
    return Board(name, node, world.brief("PowerNode", name), silent, site_policy(specs, labels), unheard)


def _heard(world: World, name: str, context: Context) -> bool:
    """Say whether an agent was seen to live: its Lease was renewed or made since we look, not only found."""
    namespace = context.settings.namespace
    if world.versions_seen("Lease", namespace, name) > 1:
        return True
    made = (world.brief("Lease", name, namespace) or {}).get("metadata", {}).get("creationTimestamp")
    return bool(made) and abs((context.now - parse_time(made)).total_seconds()) < AGENT_SILENT_S


def silent_agents_s(world: World, namespace: str, now_s: float, began_s: float) -> dict[str, float]:
    """Return for how long agents have been silent, those that are; one never heard of counts from when we began."""
    heard_s = {key.name: world.changed_s("Lease", namespace, key.name) or began_s for key in world.keys("PowerNode")}
    return {name: now_s - at_s for name, at_s in heard_s.items() if now_s - at_s > AGENT_SILENT_S}


def policies(world: World) -> Iterator[tuple[str, PowerPolicySpec]]:
    """Return the site's policies by name."""
    for raw in world.each("PowerPolicy"):
        yield raw["metadata"]["name"], PowerPolicySpec.model_validate(raw.get("spec") or {})


def holders(world: World) -> dict[str, str]:
    """Return which nodes are held, and by which job (namespace/name)."""
    held = {}
    for raw in world.each("TrainingJob"):
        for node in (raw.get("status") or {}).get("nodes") or []:
            if node.get("holds"):
                held[node["name"]] = f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"
    return held


def holder(world: World, node_name: str) -> tuple[TrainingJob, JobNode] | None:
    """Return the job that holds a node, and its entry for that node."""
    for raw in world.holding("TrainingJob", node_name):
        job = training_job(world, raw["metadata"]["namespace"], raw["metadata"]["name"])
        if job is not None:
            return job, next(n for n in job.status.nodes if n.name == node_name)
    return None
