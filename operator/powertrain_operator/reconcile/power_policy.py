"""A PowerPolicy's status: how many nodes it selects."""

from __future__ import annotations

from powertrain.api.base import API_VERSION
from powertrain.api.v1alpha1 import PowerPolicySpec
from powertrain_operator.plan import ApplyStatus, Context, Plan
from powertrain_operator.policies import selects
from powertrain_operator.sighting import Key
from powertrain_operator.world import World


def reconcile(world: World, key: Key, context: Context) -> Plan:
    """Return the count, if it is another one."""
    raw = world.brief("PowerPolicy", key.name)
    if raw is None or raw["metadata"].get("deletionTimestamp"):
        return Plan()
    selector = PowerPolicySpec.model_validate(raw.get("spec") or {}).node_selector
    nodes = [world.brief("Node", name) for _, _, name in world.keys("PowerNode")]
    count = sum(selects(selector, node["metadata"].get("labels") or {}) for node in nodes if node is not None)
    if (raw.get("status") or {}).get("nodes") == count:
        return Plan()
    body = {
        "apiVersion": API_VERSION,
        "kind": "PowerPolicy",
        "metadata": {"name": key.name},
        "status": {"nodes": count},
    }
    return Plan((ApplyStatus(body, uid=raw["metadata"]["uid"]),))
