"""A BatchStudy: starts its runs, collects what they report, and writes how many samples each batch size needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from powertrain.api.v1alpha1 import (
    BatchStudy,
    BatchStudySpec,
    BatchStudyStatus,
    Condition,
    StudyPhase,
    StudyResult,
    StudyRunStatus,
    find,
    moment,
    with_condition,
)
from powertrain.batching.study import Outcome, Study, StudyError, StudyRun, mean_needed, run_from_message
from powertrain_operator.attempts import job_condition, living
from powertrain_operator.cache import ASK_AGAIN_S, Cache
from powertrain_operator.lookup import owned_by, pods_of
from powertrain_operator.node_view import parse_time
from powertrain_operator.observation import Key
from powertrain_operator.plan import Action, Announce, ApplyStatus, CheckTemplate, Context, Create, Delete, Plan
from powertrain_operator.profiles import matching
from powertrain_operator.reconcile.expiry import expire
from powertrain_operator.study_nodes import why_nowhere
from powertrain_operator.study_pods import BATCH_SIZE, INDEX, study_job, study_job_name, study_spec
from powertrain_operator.templates import TemplateError
from powertrain_operator.trouble import RECONCILE_FAILED

Object = dict[str, Any]
COMPLETE, DEGRADED, PLACEABLE = "Complete", "Degraded", "Placeable"
# Pods of a Job that is over are seen within seconds; one that was deleted at once never is.
GRACE_S = 60.0
OVER = (StudyPhase.SUCCEEDED, StudyPhase.FAILED)


def reconcile(cache: Cache, key: Key, context: Context) -> Plan:
    """Return what brings a study one step further."""
    raw = cache.get("BatchStudy", key.name, key.namespace)
    if raw is None or raw["metadata"].get("deletionTimestamp"):
        return Plan()  # its Jobs are owned by it and go with it
    study = BatchStudy.model_validate(raw)
    degraded = find(study.status.conditions, DEGRADED)
    if degraded is not None and degraded.reason == RECONCILE_FAILED and not cache.trouble(key):
        conditions = _condition(study.status.conditions, DEGRADED, False, "Healthy", "", study, context)
        return _plan_with_status(study, study.status.model_copy(update={"conditions": conditions}), [], "Normal", "")
    if study.status.phase in OVER:
        ttl_s = study.spec.ttl_seconds_after_finished
        return expire(key, study.metadata["uid"], ttl_s, study.status.completed_at, context.now)
    try:
        progress = collected(cache, study, context.now)
    except StudyError as error:
        return _plan_with_status(
            study, _rejected_status(study, "InvalidStudy", str(error), context), [], "Warning", "InvalidStudy"
        )
    return _checked(cache, study, context) or _progress(cache, study, progress, context)


def _checked(cache: Cache, study: BatchStudy, context: Context) -> Plan | None:
    """Return what a study that has not begun needs first: the server's answer about its template, and a good one."""
    observation = cache.observation(Key("BatchStudy", study.metadata["namespace"], study.metadata["name"]))
    if observation is not None and observation.excess is not None:
        return _plan_with_status(
            study, _rejected_status(study, *observation.excess, context), [], "Warning", observation.excess.reason
        )
    try:
        first = study_job(study, study.spec.batch_sizes[0], context.settings.pods)
    except TemplateError as error:
        status = _rejected_status(study, "InvalidTemplate", f"template.{error}", context)
        return _plan_with_status(study, status, [], "Warning", "InvalidTemplate")
    check = CheckTemplate(f"{study.metadata['uid']}/{matching.template_hash(study.spec.template)}", first)
    words = cache.answer(check.key, context.monotonic_s)
    if words is None and study.status.phase is not StudyPhase.RUNNING:
        return Plan((check,), job_uid=study.metadata["uid"])
    if not words:
        return None
    # A quota, a webhook or a right may let it pass later.
    status = _rejected_status(study, "InvalidTemplate", f"template: {words}", context)
    return replace(_plan_with_status(study, status, [], "Warning", "InvalidTemplate"), requeue_s=ASK_AGAIN_S)


def _progress(cache: Cache, study: BatchStudy, progress: Study, context: Context) -> Plan:
    boards = frozenset(key.name for key in cache.keys("PowerNode"))
    missing = [
        size for size in study.spec.batch_sizes if _job(cache, study, size) is None and not _all_known(progress, size)
    ]
    actions = _off_boards(cache, study, boards)
    pinned = (study.spec.template.get("spec") or {}).get("nodeName")
    if pinned in boards:
        words = (
            f"template: spec.nodeName {pinned} is a board, which takes TrainingJobs only: name another node, or none"
        )
        return _plan_with_status(
            study, _rejected_status(study, "InvalidTemplate", words, context), actions, "Warning", "InvalidTemplate"
        )
    actions += [Create(study_job(study, size, context.settings.pods, boards)) for size in missing]
    finished_runs, total = len(progress.runs), len(study.spec.batch_sizes) * study.spec.seeds
    status = _results(study, progress).model_copy(
        update={"phase": StudyPhase.RUNNING, "message": f"{finished_runs} of {total} runs have ended"}
    )
    if not progress.complete:
        nowhere = why_nowhere(study.spec.template, cache.each("Node"), boards)
        conditions = _shortfalls(study, progress, context)
        conditions = _condition(conditions, COMPLETE, False, "RunsPending", status.message, study, context)
        if nowhere or find(conditions, PLACEABLE) is not None:
            reason = "NoNodeFits" if nowhere else "NodesFit"
            conditions = _condition(conditions, PLACEABLE, not nowhere, reason, nowhere[:1024], study, context)
        message = nowhere[:1024] or status.message
        status = status.model_copy(update={"conditions": conditions, "message": message})
        plan = _plan_with_status(study, status, actions, "Normal", "StudyStarted" if missing else "")
        return replace(plan, requeue_s=GRACE_S)
    return _ended(study, progress, status, context)


def _off_boards(cache: Cache, study: BatchStudy, boards: frozenset[str]) -> list[Action]:
    """Return the Jobs that have a pod on a board: it joined after its Job was made. They are made again without it."""
    deletions: list[Action] = []
    for size in study.spec.batch_sizes:
        job = _job(cache, study, size)
        if job is None or job["metadata"].get("deletionTimestamp"):
            continue
        metadata = job["metadata"]
        pods = living(pods_of(cache, metadata["namespace"], [metadata["uid"]]))
        if any((pod.get("spec") or {}).get("nodeName") in boards for pod in pods):
            deletions.append(Delete(Key("Job", metadata["namespace"], metadata["name"]), metadata["uid"]))
    return deletions


def _ended(study: BatchStudy, progress: Study, status: BatchStudyStatus, context: Context) -> Plan:
    missing = progress.missing()
    usable = [size for size in study.spec.batch_sizes if size not in missing]
    words = _listed(missing)
    good = len(usable) >= 2
    message = f"r of {len(usable)} of {len(study.spec.batch_sizes)} batch sizes" + (f" ({words})" if words else "")
    conditions = _shortfalls(study, progress, context)
    reason = "Completed" if good else "TooFewBatchSizes"
    conditions = _condition(conditions, COMPLETE, good, reason, message, study, context)
    phase = StudyPhase.SUCCEEDED if good else StudyPhase.FAILED
    final = {"phase": phase, "message": message[:1024], "completed_at": moment(context.now), "conditions": conditions}
    kind = "Normal" if good and not missing else "Warning"
    return _plan_with_status(
        study, status.model_copy(update=final), [], kind, "StudyCompleted" if good else "TooFewBatchSizes"
    )


def _shortfalls(study: BatchStudy, progress: Study, context: Context) -> tuple[Condition, ...]:
    """Judge what is not as it should be: sizes without a value, and sizes with fewer seeds than asked for.

    As long as runs are under way only those that have ended count.
    """
    begun_sizes = {run.batch_size for run in progress.runs}
    missing = {size: why for size, why in progress.missing().items() if size in begun_sizes}
    few = progress.partial()
    if not progress.complete and not missing and not few:
        return study.status.conditions
    reason = "BatchSizesMissing" if missing else "RunsFailed" if few else "AllFound"
    words = _listed({**few, **missing})
    return _condition(study.status.conditions, DEGRADED, bool(missing or few), reason, words, study, context)


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


def collected(cache: Cache, study: BatchStudy, now: datetime) -> Study:
    """Return the study with every run that has ended: those written down, and those whose pods tell."""
    progress = Study(study_spec(study))
    for run in study.status.runs:
        progress = progress.add(StudyRun(run.batch_size, run.seed, run.outcome, run.samples, reason=run.reason))
    recorded = {(run.batch_size, run.seed) for run in progress.runs if run.outcome is not Outcome.FAILED}
    for pod in _pods(cache, study):
        reported_run = _run(pod, study.spec)
        if reported_run is not None and (reported_run.batch_size, reported_run.seed) not in recorded:
            progress = progress.add(reported_run)
    return _with_lost(cache, study, progress, now)


def _job(cache: Cache, study: BatchStudy, size: int) -> Object | None:
    """Return the study's Job of a batch size; one that only has its name is somebody else's."""
    job = cache.brief("Job", study_job_name(study.metadata["name"], size), study.metadata["namespace"])
    return job if owned_by(job, study.metadata["uid"]) else None


def _pods(cache: Cache, study: BatchStudy) -> list[Object]:
    """Return the pods of the study's Jobs, for each index the newest: labels can be copied, and say nothing."""
    jobs = [job["metadata"]["uid"] for size in study.spec.batch_sizes if (job := _job(cache, study, size)) is not None]
    newest = {(_labels(pod).get(BATCH_SIZE), _labels(pod).get(INDEX)): pod for pod in _ended_last(cache, study, jobs)}
    return list(newest.values())


def _ended_last(cache: Cache, study: BatchStudy, jobs: Sequence[str]) -> list[Object]:
    """Return the pods by age, those that have succeeded after the others."""
    pods = pods_of(cache, study.metadata["namespace"], jobs)
    return sorted(pods, key=lambda pod: (pod.get("status") or {}).get("phase") == "Succeeded")


def _labels(pod: Object) -> Mapping[str, str]:
    return pod["metadata"].get("labels") or {}


def _run(pod: Object, spec: BatchStudySpec) -> StudyRun | None:
    """Return the run of a pod that is over; one that failed counts only when its Job has given the index up."""
    labels, status = _labels(pod), pod.get("status") or {}
    sizes, seeds = {str(size) for size in spec.batch_sizes}, {str(seed) for seed in range(spec.seeds)}
    if status.get("phase") != "Succeeded" or labels.get(INDEX) not in seeds or labels.get(BATCH_SIZE) not in sizes:
        return None
    ended = [(c.get("state") or {}).get("terminated") or {} for c in status.get("containerStatuses") or []]
    message = next((str(each["message"]) for each in ended if each.get("message")), "")
    return run_from_message(int(labels[BATCH_SIZE]), int(labels[INDEX]), message, 0, spec.cap_samples)


def _with_lost(cache: Cache, study: BatchStudy, progress: Study, now: datetime) -> Study:
    """Add what Jobs that are over never told: indices that failed for good, and pods that are gone.

    The end of a Job may be seen before that of its pods: an index that has succeeded gets a while to tell.
    """
    for size in study.spec.batch_sizes:
        job = _job(cache, study, size)
        failed, over = job_condition(job, "Failed"), job_condition(job, "Complete")
        ended = failed or over
        if job is None or ended is None:
            continue
        seeds = {run.seed for run in progress.runs if run.batch_size == size}
        if now - parse_time(ended.get("lastTransitionTime") or moment(now)) < timedelta(seconds=GRACE_S):
            seeds |= _indices((job.get("status") or {}).get("completedIndexes") or "")
        for seed in set(range(study.spec.seeds)) - seeds:
            progress = progress.add(StudyRun(size, seed, Outcome.FAILED, reason=_last_word(cache, study, size, seed)))
    return progress


def _indices(text: str) -> set[int]:
    """Return what a Job writes as `0-2,5`."""
    ranges = [part.partition("-") for part in text.split(",") if part]
    return {index for first, _, last in ranges for index in range(int(first), int(last or first) + 1)}


def _last_word(cache: Cache, study: BatchStudy, size: int, seed: int) -> str:
    for pod in _pods(cache, study):
        labels = _labels(pod)
        if (labels.get(BATCH_SIZE), labels.get(INDEX)) == (str(size), str(seed)):
            for container in (pod.get("status") or {}).get("containerStatuses") or []:
                ended = (container.get("state") or {}).get("terminated") or {}
                if ended.get("exitCode"):
                    return f"exit code {ended['exitCode']}: {ended.get('message', '')}".strip(": ")[:256]
    return "its pod is gone"


def _all_known(progress: Study, size: int) -> bool:
    return sum(run.batch_size == size for run in progress.runs) == progress.spec.seeds


def _results(study: BatchStudy, progress: Study) -> BatchStudyStatus:
    """Return the status with what is known so far."""
    missing, means = progress.missing(), mean_needed(progress)
    relation = progress.relation() if means else None
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
        for run in progress.runs
    )
    ratios = ", ".join(f"{r.batch_size}: {r.relative:.2f}" for r in results if r.relative is not None)
    return study.status.model_copy(update={"results": results, "runs": runs, "relation": ratios[:512]})


def _rejected_status(study: BatchStudy, reason: str, message: str, context: Context) -> BatchStudyStatus:
    conditions = _condition(study.status.conditions, COMPLETE, False, reason, message, study, context)
    changes = {"phase": StudyPhase.PENDING, "message": message[:1024], "conditions": conditions}
    return study.status.model_copy(update=changes)


def _plan_with_status(
    study: BatchStudy, status: BatchStudyStatus, actions: list[Action], kind: str, reason: str
) -> Plan:
    """Return the plan that writes a status, if it is news, and says so."""
    status = status.model_copy(update={"observed_generation": study.metadata.get("generation")})
    metadata = {name: study.metadata.get(name, "") for name in ("name", "namespace", "uid")}
    reference: Object = {"apiVersion": study.api_version, "kind": study.kind, "metadata": metadata}
    if status != study.status:
        actions = [ApplyStatus({**reference, "status": status.wire()}, uid=metadata["uid"]), *actions]
        if reason:
            actions.append(Announce(reference, "Warning" if kind == "Warning" else "Normal", reason, status.message))
    return Plan(tuple(actions), job_uid=metadata["uid"])
