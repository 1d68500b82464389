"""An operator process with one small reconciler, for tests of the runtime: PowerNodes get an annotation and a Job."""

from __future__ import annotations

import sys

from powertrain_operator.cache import Cache
from powertrain_operator.main import run
from powertrain_operator.observation import Key
from powertrain_operator.plan import Action, Announce, Apply, Context, Create, Plan
from powertrain_operator.reconcilers import affected_keys
from powertrain_operator.resources import JOB_UID_LABEL

SEEN = "powertrain.io/seen"


def reconcile(cache: Cache, key: Key, context: Context) -> Plan:
    """Copy `spec.release` into an annotation; a release that names a namespace asks for a Job there."""
    cached_object = cache.brief(key.kind, key.name, key.namespace)
    if cached_object is None or cached_object["metadata"].get("deletionTimestamp"):
        return Plan()
    uid, release = cached_object["metadata"]["uid"], (cached_object.get("spec") or {}).get("release", "nothing")
    identity = {"apiVersion": cached_object["apiVersion"], "kind": cached_object["kind"]}
    actions: list[Action] = [Apply({**identity, "metadata": {"name": key.name, "annotations": {SEEN: release}}}, uid)]
    if release.startswith("test-"):
        actions.append(Create(job(release, key.name, uid)))
    actions.append(Announce(cached_object, "Normal", "Seen", f"saw {release}"))
    return Plan(tuple(actions), job_uid=uid)


def job(namespace: str, name: str, uid: str) -> dict[str, object]:
    container = {"name": "train", "image": "none"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": {JOB_UID_LABEL: uid}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


if __name__ == "__main__":
    run(sys.argv[1:], {"PowerNode": reconcile}, affected_keys)
