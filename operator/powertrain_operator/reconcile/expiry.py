"""When a finished TrainingJob or BatchStudy is deleted: `ttlSecondsAfterFinished` after its end, as for Jobs."""

from __future__ import annotations

from datetime import datetime

from powertrain_operator.node_view import parse_time
from powertrain_operator.observation import Key
from powertrain_operator.plan import Delete, Plan


def expire(key: Key, uid: str, ttl_s: int | None, completed_at: str | None, now: datetime) -> Plan:
    """Return the deletion of an object whose time is over, or when to look again; nothing where no time is set."""
    if ttl_s is None or completed_at is None:
        return Plan()
    left_s = ttl_s - (now - parse_time(completed_at)).total_seconds()
    return Plan(requeue_s=left_s) if left_s > 0 else Plan((Delete(key, uid),))
