"""Whether a TrainingJob can be honoured at all: what the API server's rules can't see."""

from __future__ import annotations

import json
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from powertrain import strategies
from powertrain.api.v1alpha1 import TrainingJob
from powertrain.batching import RelationError
from powertrain_operator import lookup, profiles
from powertrain_operator.batch_sizes import relation_for
from powertrain_operator.plan import CheckTemplate, Context
from powertrain_operator.training_pods import Replica, session_uid, training_job
from powertrain_operator.world import World

MAX_TEMPLATE_BYTES = 64 * 1024
ACCEPTED = ("Accepted", "the template was accepted by the API server")


@dataclass(frozen=True)
class Verdict:
    """Whether a job is admitted (None: not known yet), why, and what to ask the server first."""

    admitted: bool | None
    reason: str
    message: str
    ask: CheckTemplate | None = None


def judge(world: World, job: TrainingJob, context: Context) -> Verdict:
    """Return the verdict on a job."""
    size = len(json.dumps(job.spec.workload.template).encode())
    if size > MAX_TEMPLATE_BYTES:
        large = f"workload.template has {size} bytes, at most {MAX_TEMPLATE_BYTES} are kept: move data to a ConfigMap"
        return Verdict(False, "TemplateTooLarge", large)
    try:
        ZoneInfo(job.spec.constraints.time_zone)
    except (KeyError, ValueError, OSError):
        words = f"constraints.timeZone {job.spec.constraints.time_zone!r} is unknown; write one such as Europe/Berlin"
        return Verdict(False, "InvalidTimeZone", words)
    strategy = job.spec.profiling.strategy
    if strategy != "auto" and strategy not in strategies.names():
        known = ", ".join(["auto", *strategies.names()])
        return Verdict(False, "UnknownStrategy", f"profiling.strategy {strategy!r} is unknown; known: {known}")
    if len(job.spec.workload.batch_sizes) > 1:
        try:
            relation_for(job, lookup.study_of(world, job))
        except RelationError as error:
            return Verdict(False, "NoBatchRelation", f"workload.batchEfficiency: {error}")
    return _template(world, job, context)


def _template(world: World, job: TrainingJob, context: Context) -> Verdict:
    uid, hashed = job.metadata["uid"], profiles.template_hash(job.spec.workload.template)
    # Jobs come again and again with the same template; what the server says depends on that and on the namespace, and
    # on the labels, which Kueue and admission policies look at.
    labels = json.dumps(job.metadata.get("labels") or {}, sort_keys=True)
    automatic = job.spec.workload.instrumentation.value
    key = f"{job.metadata['namespace']}/{hashed}/{automatic}/{labels}"
    words = world.verdict(key, context.monotonic_s)
    if words is None:
        if job.status.template_hash == hashed:
            return Verdict(True, *ACCEPTED)  # it was checked before the operator was started anew
        replicas = job.spec.placement.replicas
        first = Replica(0, replicas, 0, "any-node", session_uid(uid, 0, 0), job.spec.workload.batch_sizes[0])
        return Verdict(
            None,
            "Checking",
            "the template is being checked",
            CheckTemplate(key, training_job(job, first, context.settings.pods)),
        )
    if words:
        return Verdict(False, "InvalidTemplate", f"workload.template: {words}")
    return Verdict(True, *ACCEPTED)
