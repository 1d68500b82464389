"""A BatchStudy: starts its runs, collects what they report, and writes how many samples each batch size needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from powertrain.api.v1alpha1 import (
    BatchStudy,
    BatchStudyStatus,
    Condition,
    StudyPhase,
    StudyResult,
    StudyRunStatus,
    moment,
    with_condition,
)
from powertrain.batching.study import Outcome, Study, StudyError, StudyRun, mean_needed, run_from_message
from powertrain_operator import names, profiles
from powertrain_operator.attempts import job_condition
from powertrain_operator.fleet import parse_time
from powertrain_operator.plan import Action, Announce, ApplyStatus, CheckTemplate, Context, Create, Plan
from powertrain_operator.sighting import Key
from powertrain_operator.study_pods import BATCH_SIZE, INDEX, study_job, study_job_name, study_spec
from powertrain_operator.world import World

Object = dict[str, Any]
COMPLETE, DEGRADED = "Complete", "Degraded"
# Pods of a Job that is over are seen within seconds; one that was deleted at once never is.
GRACE_S = 60.0
OVER = (StudyPhase.SUCCEEDED, StudyPhase.FAILED)


def reconcile(world: World, key: Key, context: Context) -> Plan:
    """Return what brings a study one step further."""
    raw = world.get("BatchStudy", key.name, key.namespace)
    if raw is None or raw["metadata"].get("deletionTimestamp"):
        return Plan()  # its Jobs are owned by it and go with it
    study = BatchStudy.model_validate(raw)
    if study.status.phase in OVER:
        return Plan()
    try:
        known = collected(world, study, context.now)
    except StudyError as error:
        return _written(study, _refused(study, "InvalidStudy", str(error), context), [], "Warning", "InvalidStudy")
    check = CheckTemplate(
        f"{study.metadata['uid']}/{profiles.template_hash(study.spec.template)}",
        study_job(study, study.spec.batch_sizes[0], context.settings.pods),
    )
    words = world.verdict(check.key)
    if words is None and not study.status.phase:
        return Plan((check,), job_uid=study.metadata["uid"])
    if words:
        refused = _refused(study, "InvalidTemplate", f"template: {words}", context)
        return _written(study, refused, [], "Warning", "InvalidTemplate")
    return _progress(world, study, known, context)


def _progress(world: World, study: BatchStudy, known: Study, context: Context) -> Plan:
    namespace, name = study.metadata["namespace"], study.metadata["name"]
    missing = [
        size
        for size in study.spec.batch_sizes
        if world.brief("Job", study_job_name(name, size), namespace) is None and not _all_known(known, size)
    ]
    actions: list[Action] = [Create(study_job(study, size, context.settings.pods)) for size in missing]
    done, total = len(known.runs), len(study.spec.batch_sizes) * study.spec.seeds
    status = _results(study, known).model_copy(
        update={"phase": StudyPhase.RUNNING, "message": f"{done} of {total} runs have ended"}
    )
    if not known.complete:
        conditions = _shortfalls(study, known, context)
        conditions = _condition(conditions, COMPLETE, False, "RunsPending", status.message, study, context)
        status = status.model_copy(update={"conditions": conditions})
        plan = _written(study, status, actions, "Normal", "StudyStarted" if missing else "")
        return replace(plan, requeue_s=GRACE_S)
    return _ended(study, known, status, context)


def _ended(study: BatchStudy, known: Study, status: BatchStudyStatus, context: Context) -> Plan:
    missing = known.missing()
    usable = [size for size in study.spec.batch_sizes if size not in missing]
    words = _listed(missing)
    good = len(usable) >= 2
    message = f"r of {len(usable)} of {len(study.spec.batch_sizes)} batch sizes" + (f" ({words})" if words else "")
    conditions = _shortfalls(study, known, context)
    reason = "Completed" if good else "TooFewBatchSizes"
    conditions = _condition(conditions, COMPLETE, good, reason, message, study, context)
    phase = StudyPhase.SUCCEEDED if good else StudyPhase.FAILED
    final = {"phase": phase, "message": message[:1024], "completed_at": moment(context.now), "conditions": conditions}
    kind = "Normal" if good and not missing else "Warning"
    return _written(study, status.model_copy(update=final), [], kind, "StudyCompleted" if good else "TooFewBatchSizes")


def _shortfalls(study: BatchStudy, known: Study, context: Context) -> tuple[Condition, ...]:
    """Judge what is not as it should be: sizes without a value, and sizes with fewer seeds than asked for.

    As long as runs are under way only those that have ended count.
    """
    begun = {run.batch_size for run in known.runs}
    lost = {size: why for size, why in known.missing().items() if size in begun}
    few = known.partial()
    if not known.complete and not lost and not few:
        return study.status.conditions
    reason = "BatchSizesMissing" if lost else "RunsFailed" if few else "AllFound"
    words = _listed({**few, **lost})
    return _condition(study.status.conditions, DEGRADED, bool(lost or few), reason, words, study, context)


def _condition(
    conditions: tuple[Condition, ...],
    type_: str,
    holds: bool,
    reason: str,
    message: str,
    study: BatchStudy,
    context: Context,
) -> tuple[Condition, ...]:
    generation = study.metadata.get("generation")
    return with_condition(conditions, type_, holds, reason, message, at=context.now, generation=generation)


def _listed(reasons: Mapping[int, str]) -> str:
    return "; ".join(f"{size}: {why}" for size, why in sorted(reasons.items()))


def collected(world: World, study: BatchStudy, now: datetime) -> Study:
    """Return the study with every run that has ended: those written down, and those whose pods tell."""
    known = Study(study_spec(study))
    for run in study.status.runs:
        known = known.add(StudyRun(run.batch_size, run.seed, run.outcome, run.samples, reason=run.reason))
    recorded = {(run.batch_size, run.seed) for run in known.runs if run.outcome is not Outcome.FAILED}
    for pod in world.labelled("Pod", names.JOB_UID, study.metadata["uid"]):
        told = _run(pod, study.spec.cap_samples)
        if told is not None and (told.batch_size, told.seed) not in recorded:
            known = known.add(told)
    return _with_lost(world, study, known, now)


def _run(pod: Object, cap_samples: int) -> StudyRun | None:
    """Return the run of a pod that is over; one that failed counts only when its Job has given the index up."""
    labels, status = pod["metadata"].get("labels") or {}, pod.get("status") or {}
    if status.get("phase") != "Succeeded" or INDEX not in labels or BATCH_SIZE not in labels:
        return None
    ended = [(c.get("state") or {}).get("terminated") or {} for c in status.get("containerStatuses") or []]
    message = next((str(each["message"]) for each in ended if each.get("message")), "")
    return run_from_message(int(labels[BATCH_SIZE]), int(labels[INDEX]), message, 0, cap_samples)


def _with_lost(world: World, study: BatchStudy, known: Study, now: datetime) -> Study:
    """Add what Jobs that are over never told: indices that failed for good, and pods that are gone.

    The end of a Job may be seen before that of its pods: an index that has succeeded gets a while to tell.
    """
    namespace, name = study.metadata["namespace"], study.metadata["name"]
    for size in study.spec.batch_sizes:
        job = world.brief("Job", study_job_name(name, size), namespace)
        failed, over = job_condition(job, "Failed"), job_condition(job, "Complete")
        ended = failed or over
        if job is None or ended is None:
            continue
        seen = {run.seed for run in known.runs if run.batch_size == size}
        if now - parse_time(ended.get("lastTransitionTime") or moment(now)) < timedelta(seconds=GRACE_S):
            seen |= _indices((job.get("status") or {}).get("completedIndexes") or "")
        for seed in set(range(study.spec.seeds)) - seen:
            known = known.add(StudyRun(size, seed, Outcome.FAILED, reason=_last_word(world, study, size, seed)))
    return known


def _indices(text: str) -> set[int]:
    """Return what a Job writes as `0-2,5`."""
    ranges = [part.partition("-") for part in text.split(",") if part]
    return {index for first, _, last in ranges for index in range(int(first), int(last or first) + 1)}


def _last_word(world: World, study: BatchStudy, size: int, seed: int) -> str:
    for pod in world.labelled("Pod", names.JOB_UID, study.metadata["uid"]):
        labels = pod["metadata"].get("labels") or {}
        if (labels.get(BATCH_SIZE), labels.get(INDEX)) == (str(size), str(seed)):
            for container in (pod.get("status") or {}).get("containerStatuses") or []:
                ended = (container.get("state") or {}).get("terminated") or {}
                if ended.get("exitCode"):
                    return f"exit code {ended['exitCode']}: {ended.get('message', '')}".strip(": ")[:256]
    return "its pod is gone"


def _all_known(known: Study, size: int) -> bool:
    return sum(run.batch_size == size for run in known.runs) == known.spec.seeds


def _results(study: BatchStudy, known: Study) -> BatchStudyStatus:
    """Return the status with what is known so far."""
    missing, means = known.missing(), mean_needed(known)
    relation = known.relation() if means else None
    results = tuple(
        StudyResult(
            batch_size=size,
            mean=means.get(size),
            relative=round(relation.r[size], 4) if relation and size in relation.r else None,
            relative_spread=round(relation.spread[size], 4) if relation and size in relation.spread else None,
            message=missing.get(size, "")[:512],
        )
        for size in study.spec.batch_sizes
    )
    runs = tuple(
        StudyRunStatus(
            batch_size=run.batch_size, seed=run.seed, outcome=run.outcome, samples=run.samples, reason=run.reason[:256]
        )
        for run in known.runs
    )
    shown = ", ".join(f"{r.batch_size}: {r.relative:.2f}" for r in results if r.relative is not None)
    return study.status.model_copy(update={"results": results, "runs": runs, "relation": shown[:512]})


def _refused(study: BatchStudy, reason: str, message: str, context: Context) -> BatchStudyStatus:
    conditions = _condition(study.status.conditions, COMPLETE, False, reason, message, study, context)
    changes = {"phase": StudyPhase.PENDING, "message": message[:1024], "conditions": conditions}
    return study.status.model_copy(update=changes)


def _written(study: BatchStudy, status: BatchStudyStatus, actions: list[Action], kind: str, reason: str) -> Plan:
    """Return the plan that writes a status, if it is news, and says so."""
    status = status.model_copy(update={"observed_generation": study.metadata.get("generation")})
    metadata = {name: study.metadata.get(name, "") for name in ("name", "namespace", "uid")}
    reference: Object = {"apiVersion": study.api_version, "kind": study.kind, "metadata": metadata}
    if status != study.status:
        actions = [ApplyStatus({**reference, "status": status.wire()}, uid=metadata["uid"]), *actions]
        if reason:
            actions.append(Announce(reference, "Warning" if kind == "Warning" else "Normal", reason, status.message))
    return Plan(tuple(actions), job_uid=metadata["uid"])
