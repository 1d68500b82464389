"""Which PowerProfiles the cache holds for a job, and which of them fits a node and a batch size."""

from __future__ import annotations

from pydantic import ValidationError

from powertrain.api.v1alpha1 import DeviceInfo, PowerProfile, PowerProfileSpec, PriorMatch, TrainingJob
from powertrain_operator.cache import Cache
from powertrain_operator.node_view import NodeView
from powertrain_operator.profiles.matching import Object, ProfileKey, ProfileMatch, StoredProfile, find, template_hash


def workload_name(job: TrainingJob) -> str:
    """Return what profiles of the job are found by."""
    return job.spec.workload.name or str(job.metadata["name"])


def profile_for(cache: Cache, job: TrainingJob, board: NodeView, batch_size: int | None = None) -> ProfileMatch:
    """Return what is stored about the job's workload on a board, at its first batch size unless another is named."""
    size = batch_size or job.spec.workload.batch_sizes[0]
    return find(profiles_of(cache, job), profile_key(job, board, size))


def profiled_sizes(cache: Cache, job: TrainingJob, board: NodeView) -> dict[int, PowerProfileSpec]:
    """Return what was measured of the very same job on the very same kind of board, by batch size."""
    matches = {size: profile_for(cache, job, board, size) for size in job.spec.workload.batch_sizes}
    return {
        size: each.spec
        for size, each in matches.items()
        if each.spec is not None and each.prior is not None and each.prior.match is PriorMatch.EXACT
    }


def profile_key(job: TrainingJob, board: NodeView, batch_size: int) -> ProfileKey:
    """Return what a profile of the job on a board is found by: of a running job, by the template it began with."""
    return ProfileKey(
        job.metadata["namespace"],
        workload_name(job),
        batch_size,
        job.status.template_hash or template_hash(job.spec.workload.template),
        DeviceInfo.model_validate(board.status.get("device") or {}),
    )


def profiles_of(cache: Cache, job: TrainingJob) -> list[StoredProfile]:
    """Return the profiles of the job's workload in its namespace."""
    namespace, name = job.metadata["namespace"], workload_name(job)
    return [
        _stored_profile(cache, raw["metadata"])
        for raw in cache.each("PowerProfile")
        if raw["metadata"]["namespace"] == namespace and (raw.get("spec") or {}).get("workload") == name
    ]


def _stored_profile(cache: Cache, metadata: Object) -> StoredProfile:
    name, uid = str(metadata["name"]), str(metadata["uid"])
    try:
        profile = cache.read(PowerProfile, "PowerProfile", name, metadata["namespace"])
    except ValidationError as error:
        return StoredProfile(name, uid, None, error.errors()[0]["msg"])
    return StoredProfile(name, uid, profile.spec if profile else None)
