"""A PowerPolicy's status: how many nodes it selects."""

from __future__ import annotations

from powertrain.api.base import API_VERSION
from powertrain.api.v1alpha1 import PowerPolicySpec
from powertrain_operator.cache import Cache
from powertrain_operator.observation import Key
from powertrain_operator.plan import ApplyStatus, Context, Plan
from powertrain_operator.policies import selects


def reconcile(cache: Cache, key: Key, context: Context) -> Plan:
    """Return the count, if it is another one."""
    raw = cache.brief("PowerPolicy", key.name)
    if raw is None or raw["metadata"].get("deletionTimestamp"):
        return Plan()
    selector = PowerPolicySpec.model_validate(raw.get("spec") or {}).node_selector
    nodes = [cache.brief("Node", name) for _, _, name in cache.keys("PowerNode")]
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
