"""Admission: whether a TrainingJob can run at all, by what the API server's rules can't see, and what that writes.

This is the only place that decides it. A job's own reconcile writes the result; the queue asks here too, so that a new
job can get its nodes with the same write.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from powertrain import strategies
from powertrain.api.v1alpha1 import TrainingJob, TrainingJobStatus, find, moment
from powertrain.batching import RelationError
from powertrain_operator import lookup
from powertrain_operator.batch_sizes import relation_for
from powertrain_operator.cache import Cache
from powertrain_operator.plan import CheckTemplate, Context
from powertrain_operator.profiles.matching import template_hash
from powertrain_operator.reconcile.conditions import ADMITTED, Conditions
from powertrain_operator.templates import TemplateError
from powertrain_operator.training_pods import Replica, build_job, session_uid

ACCEPTED = ("Accepted", "the template was accepted by the API server")


@dataclass(frozen=True)
class Admission:
    """Whether a job is admitted and why; None: not known yet, the server is asked first and nothing is written."""

    admitted: bool | None
    reason: str = ""
    message: str = ""
    ask: CheckTemplate | None = None


def validate(cache: Cache, job: TrainingJob, context: Context) -> Admission:
    """Return whether a job is admitted."""
    observation = cache.observation(lookup.key_of(job))
    if observation is not None and observation.excess is not None:
        return Admission(False, *observation.excess)
    try:
        ZoneInfo(job.spec.constraints.time_zone)
    except (KeyError, ValueError, OSError):
        words = f"constraints.timeZone {job.spec.constraints.time_zone!r} is unknown; write one such as Europe/Berlin"
        return Admission(False, "InvalidTimeZone", words)
    strategy = job.spec.profiling.strategy
    if strategy != "auto" and strategy not in strategies.names():
        choices = ", ".join(["auto", *strategies.names()])
        return Admission(False, "UnknownStrategy", f"profiling.strategy {strategy!r} is unknown; known: {choices}")
    if len(job.spec.workload.batch_sizes) > 1:
        try:
            relation_for(job, lookup.study_of(cache, job))
        except RelationError as error:
            return Admission(False, "NoBatchRelation", f"workload.batchEfficiency: {error}")
    return _template(cache, job, context)


def _template(cache: Cache, job: TrainingJob, context: Context) -> Admission:
    uid, hashed = job.metadata["uid"], template_hash(job.spec.workload.template)
    # Jobs come again and again with the same template; what the server says depends on that and on the namespace, and
    # on the labels, which Kueue and admission policies look at.
    labels = json.dumps(job.metadata.get("labels") or {}, sort_keys=True)
    automatic = job.spec.workload.instrumentation.value
    key = f"{job.metadata['namespace']}/{hashed}/{automatic}/{labels}"
    words = cache.answer(key, context.monotonic_s)
    if words is None:
        if job.status.template_hash == hashed:
            return Admission(True, *ACCEPTED)  # it was checked before the operator was started anew
        replicas = job.spec.placement.replicas
        first = Replica(0, replicas, 0, "any-node", session_uid(uid, 0, 0), job.spec.workload.batch_sizes[0])
        try:
            body = build_job(job, first, context.settings.pods)
        except TemplateError as error:
            return Admission(False, "InvalidTemplate", f"workload.template.{error}")
        return Admission(None, ask=CheckTemplate(key, body))
    if words:
        return Admission(False, "InvalidTemplate", f"workload.template: {words}")
    return Admission(True, *ACCEPTED)


def is_admissible(cache: Cache, job: TrainingJob, context: Context) -> bool:
    """Say whether a job is new and nothing speaks against it: it can have its nodes with the write that admits it."""
    if find(job.status.conditions, ADMITTED) is not None or job.spec.suspend or job.metadata.get("deletionTimestamp"):
        return False
    return validate(cache, job, context).admitted is True


def admitted_status(job: TrainingJob, conditions: Conditions, context: Context) -> TrainingJobStatus:
    """Return the status of an admitted job: as it is, or with what its admission would have written."""
    if find(job.status.conditions, ADMITTED) is not None:
        return job.status
    conditions.set(ADMITTED, True, *ACCEPTED)
    return job.status.model_copy(
        update={
            "conditions": conditions.conditions,
            "observed_generation": job.metadata.get("generation"),
            "template_hash": template_hash(job.spec.workload.template),
            "queued_at": moment(context.now),
        }
    )
