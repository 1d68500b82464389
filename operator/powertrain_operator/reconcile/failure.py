"""An object whose own reconcile fails: what is still done for it, without reading more of it than its status."""

from __future__ import annotations

from datetime import datetime, timedelta

from powertrain.api.conditions import Condition, with_condition
from powertrain.api.v1alpha1 import JobPhase
from powertrain_operator import names
from powertrain_operator.cache import Cache
from powertrain_operator.node_view import parse_time
from powertrain_operator.observation import Key
from powertrain_operator.plan import Action, Announce, Apply, ApplyStatus, Context
from powertrain_operator.profiles.matching import Object
from powertrain_operator.reconcile.conditions import DEGRADED
from powertrain_operator.reconcile.stopping import RESTORE_S
from powertrain_operator.trouble import RECONCILE_FAILED

# These have conditions, and people who look at them.
_WITH_STATUS = ("TrainingJob", "BatchStudy")


def failure_actions(cache: Cache, key: Key, words: str, context: Context) -> tuple[Action, ...]:
    """Return what says in an object's status and in an Event that its reconcile fails, and lets go of a deleted one."""
    failing = cache.brief(key.kind, key.name, key.namespace) if key.kind in _WITH_STATUS else None
    if failing is None:
        return ()
    metadata = {name: failing["metadata"].get(name, "") for name in ("name", "namespace", "uid")}
    about: Object = {"apiVersion": failing["apiVersion"], "kind": failing["kind"], "metadata": metadata}
    return (*_failure_status(failing, about, words, context), *_let_go(failing, about, context.now))


def _failure_status(failing: Object, about: Object, words: str, context: Context) -> tuple[Action, ...]:
    status = failing.get("status") or {}
    before = tuple(Condition.model_validate(each) for each in status.get("conditions") or ())
    generation = failing["metadata"].get("generation")
    after = with_condition(before, DEGRADED, True, RECONCILE_FAILED, words, at=context.now, generation=generation)
    if after == before:
        return ()
    changes = {"phase": status.get("phase") or JobPhase.PENDING.value, "message": words[:1024]}
    body = {**about, "status": {**status, **changes, "conditions": [condition.wire() for condition in after]}}
    return ApplyStatus(body, uid=about["metadata"]["uid"]), Announce(about, "Warning", RECONCILE_FAILED, words)


def _let_go(failing: Object, about: Object, now: datetime) -> tuple[Action, ...]:
    """Remove the finalizer of a deleted object that holds no board, or that had its time to give its boards back.

    A board that is held by nobody is released by its own reconcile.
    """
    metadata, nodes = failing["metadata"], (failing.get("status") or {}).get("nodes") or []
    deleted = metadata.get("deletionTimestamp")
    if not deleted or names.FINALIZER not in (metadata.get("finalizers") or []):
        return ()
    late = now - parse_time(deleted) > timedelta(seconds=RESTORE_S)
    if not late and any(node.get("holds") for node in nodes):
        return ()
    return (Apply({**about, "metadata": {**about["metadata"], "finalizers": []}}, uid=metadata["uid"]),)
