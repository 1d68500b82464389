"""Questions that every reconcile asks of the cache: jobs as models, boards with their policies, who holds a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from powertrain.api.v1alpha1 import JobNode, PowerPolicySpec, TrainingJob
from powertrain_operator.cache import Cache
from powertrain_operator.node_view import NodeView, parse_time
from powertrain_operator.observation import Key
from powertrain_operator.plan import Context
from powertrain_operator.policies import site_policy
from powertrain_operator.supply import supply

Object = dict[str, Any]
# An agent renews its Lease every 10 s; three missed renewals are more than a busy API server.
AGENT_SILENT_S = 40.0


def find_training_job(cache: Cache, namespace: str, name: str) -> TrainingJob | None:
    """Return a TrainingJob as a whole."""
    return cache.read(TrainingJob, "TrainingJob", name, namespace)


def study_of(cache: Cache, job: TrainingJob) -> Object | None:
    """Return the BatchStudy that a job names."""
    efficiency = job.spec.workload.batch_efficiency
    if efficiency is None or efficiency.study is None:
        return None
    return cache.brief("BatchStudy", efficiency.study, job.metadata["namespace"])


def owned_by(body: Object | None, uid: str) -> bool:
    """Say whether an object is there and has an owner of this uid; labels can be copied, and say nothing."""
    return any(owner["uid"] == uid for owner in ((body or {}).get("metadata") or {}).get("ownerReferences") or ())


def pods_of(cache: Cache, namespace: str, job_uids: Iterable[str], pod_uids: Iterable[str] = ()) -> list[Object]:
    """Return the pods of these Jobs and those of these uids, in this namespace alone, oldest first."""
    owned_pods = [pod for uid in job_uids if uid for pod in cache.owned("Pod", uid)]
    owned_pods += [pod for uid in pod_uids if (pod := cache.by_uid("Pod", uid)) is not None]
    pods = {pod["metadata"]["uid"]: pod for pod in owned_pods if pod["metadata"]["namespace"] == namespace}
    return sorted(
        pods.values(), key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"])
    )


def node_view(cache: Cache, name: str, context: Context) -> NodeView:
    """Return a board by its node's name; what is not there of it is None."""
    return _node_view(cache, name, context, list(policies(cache)))


def node_views(cache: Cache, context: Context) -> dict[str, NodeView]:
    """Return every board that has a PowerNode."""
    specs = list(policies(cache))
    return {key.name: _node_view(cache, key.name, context, specs) for key in cache.keys("PowerNode")}


def _node_view(cache: Cache, name: str, context: Context, specs: list[tuple[str, PowerPolicySpec]]) -> NodeView:
    node = cache.brief("Node", name)
    metadata = (node or {}).get("metadata", {})
    labels = metadata.get("labels") or {}
    # By our own clock: that of a board may be years off.
    heard_s = cache.changed_s("Lease", context.settings.namespace, name)
    silent = heard_s is None or context.monotonic_s - heard_s > AGENT_SILENT_S
    unheard = not silent and not _lease_renewed(cache, name, context)
    power_supply = supply(metadata.get("annotations") or {}, context.now)
    return NodeView(
        name, node, cache.brief("PowerNode", name), silent, site_policy(specs, labels), unheard, power_supply
    )


def _lease_renewed(cache: Cache, name: str, context: Context) -> bool:
    """Say whether an agent was seen to live: its Lease was renewed or made since we look, not only found."""
    namespace = context.settings.namespace
    if cache.versions_seen("Lease", namespace, name) > 1:
        return True
    creation_time = (cache.brief("Lease", name, namespace) or {}).get("metadata", {}).get("creationTimestamp")
    return bool(creation_time) and abs((context.now - parse_time(creation_time)).total_seconds()) < AGENT_SILENT_S


def silent_agents_s(cache: Cache, namespace: str, now_s: float, began_s: float) -> dict[str, float]:
    """Return for how long agents have been silent, those that are; one never heard of counts from when we began."""
    heard_s = {key.name: cache.changed_s("Lease", namespace, key.name) or began_s for key in cache.keys("PowerNode")}
    return {name: now_s - at_s for name, at_s in heard_s.items() if now_s - at_s > AGENT_SILENT_S}


def policies(cache: Cache) -> Iterator[tuple[str, PowerPolicySpec]]:
    """Return the site's policies by name."""
    for raw in cache.each("PowerPolicy"):
        yield raw["metadata"]["name"], PowerPolicySpec.model_validate(raw.get("spec") or {})


def holders(cache: Cache) -> dict[str, str]:
    """Return which nodes are held, and by which job (namespace/name)."""
    holder_of = {}
    for raw in cache.each("TrainingJob"):
        for node in (raw.get("status") or {}).get("nodes") or []:
            if node.get("holds"):
                holder_of[node["name"]] = f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"
    return holder_of


def key_of(job: TrainingJob) -> Key:
    """Return the key of a TrainingJob."""
    return Key("TrainingJob", job.metadata["namespace"], job.metadata["name"])


def holder_key(cache: Cache, node_name: str) -> Key | None:
    """Return the key of the job that holds a node, without reading the job."""
    for raw in cache.holding("TrainingJob", node_name):
        return Key("TrainingJob", raw["metadata"]["namespace"], raw["metadata"]["name"])
    return None


def holder(cache: Cache, node_name: str) -> tuple[TrainingJob, JobNode] | None:
    """Return the job that holds a node, and its entry for that node."""
    for raw in cache.holding("TrainingJob", node_name):
        job = find_training_job(cache, raw["metadata"]["namespace"], raw["metadata"]["name"])
        if job is not None:
            return job, next(n for n in job.status.nodes if n.name == node_name)
    return None
