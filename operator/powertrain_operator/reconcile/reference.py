"""What every write about a TrainingJob begins with: which job it is, and its finalizer."""

from __future__ import annotations

from powertrain.api.v1alpha1 import TrainingJob
from powertrain_operator import names
from powertrain_operator.plan import Apply
from powertrain_operator.profiles.matching import Object


def reference(job: TrainingJob) -> Object:
    """Return the job's identity, as a body to be written or as what an Event is about."""
    metadata = {name: job.metadata.get(name, "") for name in ("name", "namespace", "uid")}
    return {"apiVersion": job.api_version, "kind": job.kind, "metadata": metadata}


def finalizer(job: TrainingJob, present: bool) -> list[Apply]:
    """Return the write of the finalizer, if it is not as it is wanted; one that is being deleted can't get any."""
    has = names.FINALIZER in (job.metadata.get("finalizers") or [])
    if has == present or (present and job.metadata.get("deletionTimestamp")):
        return []
    body = reference(job)
    body["metadata"]["finalizers"] = [names.FINALIZER] if present else []
    return [Apply(body, uid=job.metadata["uid"])]
