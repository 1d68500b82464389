"""A PowerProfile's end: of each workload, batch size and kind of board the newest ones are kept."""

from __future__ import annotations

from typing import Any

from powertrain_operator.cache import Cache
from powertrain_operator.observation import Key
from powertrain_operator.plan import Context, Delete, Plan

Object = dict[str, Any]
# What of a board stays as it is through upgrades of its software, which make all older profiles only a start.
_HARDWARE = ("module", "tpcMask", "corePolicy", "totalRail")


def reconcile(cache: Cache, key: Key, context: Context) -> Plan:
    """Return the deletion of a profile that enough newer ones have replaced, unless a job that is not over uses it."""
    mine = cache.brief("PowerProfile", key.name, key.namespace)
    if mine is None or mine["metadata"].get("deletionTimestamp"):
        return Plan()
    newer = [
        other
        for other in cache.each("PowerProfile")
        if other["metadata"]["namespace"] == key.namespace
        and _group(other) == _group(mine)
        and _age(other) > _age(mine)
    ]
    if len(newer) < context.settings.profiles_kept or _is_used(cache, mine):
        return Plan()
    return Plan((Delete(key, mine["metadata"]["uid"]),))


def _group(profile: Object) -> tuple[object, ...]:
    spec = profile.get("spec") or {}
    device = spec.get("device") or {}
    hardware = tuple(device.get(name) for name in _HARDWARE)
    return profile["metadata"]["namespace"], spec.get("workload"), spec.get("batchSize"), hardware


def _age(profile: Object) -> tuple[str, str]:
    """Return when a profile was measured or used last; moments in UTC sort as texts."""
    spec, status = profile.get("spec") or {}, profile.get("status") or {}
    return max(spec.get("measuredAt") or "", status.get("lastUsedAt") or ""), profile["metadata"]["name"]


def _is_used(cache: Cache, profile: Object) -> bool:
    """Say whether a job of the profile's template is not over, or still has a board that reports to it."""
    template_hash, namespace = (profile.get("spec") or {}).get("templateHash"), profile["metadata"]["namespace"]
    jobs = (job for job in cache.each("TrainingJob") if job["metadata"]["namespace"] == namespace)
    states = [status for job in jobs if (status := job.get("status") or {}).get("templateHash") == template_hash]
    return any(
        not status.get("completedAt") or any(node.get("holds") for node in status.get("nodes") or ())
        for status in states
    )
