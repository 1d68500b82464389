"""Takes objects from lists and watches: one that can't be read is named in the log, and the others go on."""

from __future__ import annotations

from powertrain_kube import Log, Object
from powertrain_operator.observation import Observation, observation_of
from powertrain_operator.resources import ResourceType


def take(kind: ResourceType, body: Object, log: Log) -> Observation | None:
    """Return an object as it is kept, None if it can't be read: it is then as if it did not exist."""
    metadata = body.get("metadata") or {}
    where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    try:
        return observation_of(kind, body)
    except Exception as error:
        log("unreadable", key=f"{kind.name} {where}", reason=f"{type(error).__name__}: {error}"[:500])
        return None
