"""Several batch sizes: which one an attempt tries, and which one trains in the end."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from powertrain.api.v1alpha1 import (
    BatchSizeChange,
    BatchSizeState,
    BatchSizeStatus,
    BatchStatus,
    BatchStudyStatus,
    PowerProfileSpec,
    StudyPhase,
    TrainingJob,
)
from powertrain.batching import BatchChoice, BatchProfile, Relation, RelationError, choose_batch
from powertrain.objectives import ASSUMED_PEAK_FACTOR, Work
from powertrain.prediction import Prediction
from powertrain_operator.limits import NodeLimits
from powertrain_operator.policies import least

Object = dict[str, Any]
# What a measured mode is worth without its own spread.
NOISE = 0.01
STAIRCASE = "staircase"


@dataclass(frozen=True)
class Decision:
    """The batch size of the next attempt, whether it is only a trial, and what the status says about the choice."""

    batch_size: int
    trial: bool = False
    status: BatchStatus | None = None


def relation_for(job: TrainingJob, study: Object | None) -> Relation:
    """Return how many samples each size needs, from the job itself or its study; RelationError says what is missing."""
    efficiency = job.spec.workload.batch_efficiency
    if efficiency is None:
        raise RelationError("workload.batchEfficiency is missing")
    if efficiency.study is None:
        return Relation({each.batch_size: each.relative for each in efficiency.values})
    if study is None:
        raise RelationError(f"there is no BatchStudy {efficiency.study} in this namespace")
    status = BatchStudyStatus.model_validate(study.get("status") or {})
    if status.phase is not StudyPhase.SUCCEEDED:
        raise RelationError(f"BatchStudy {efficiency.study} is {(status.phase or StudyPhase.PENDING).value}")
    ratios = {r.batch_size: r.relative for r in status.results if r.relative}
    spread = {r.batch_size: r.relative_spread for r in status.results if r.relative and r.relative_spread is not None}
    return Relation(ratios, spread, {r.batch_size: r.message for r in status.results if not r.relative})


def decide(
    job: TrainingJob,
    relation: Relation,
    profiles: dict[int, PowerProfileSpec],
    node_limits: NodeLimits,
    problems: Mapping[int, str] | None = None,
) -> Decision:
    """Return the size to try next, or the one to train with.

    `problems`: why what is stored of a size does not count as its profile.
    """
    before, sizes = job.status.batch or BatchStatus(), job.spec.workload.batch_sizes
    if job.spec.workload.batch_size_change is BatchSizeChange.NEVER and before.chosen is not None:
        return Decision(before.chosen, False, before)
    failed = {s.batch_size: s.reason for s in before.sizes if s.state is BatchSizeState.EXCLUDED}
    failed = {size: why for size, why in failed.items() if size not in profiles}
    out = {**_unrelated(relation, sizes), **failed}
    usable = [size for size in sizes if size not in out]
    untried = [size for size in _trial_order(usable, job.spec.profiling.strategy) if size not in profiles]
    if untried:
        status = _status(job, profiles, {**(problems or {}), **out}, failed, None)
        return Decision(untried[0], True, status.model_copy(update={"reason": "sizes are being profiled"}))
    if not profiles:
        words = "; ".join(f"{size}: {why}" for size, why in sorted(out.items()))
        reason = f"no batch size could be profiled, so the smallest trains ({words})"
        status = _status(job, profiles, out, failed, None)
        return Decision(min(sizes), False, status.model_copy(update={"reason": reason[:1024]}))
    choice = choose(job, relation, profiles, node_limits, out)
    status = _status(job, profiles, choice.excluded, failed, choice)
    return Decision(choice.best.batch_size if choice.best else min(sizes), False, status)


def _trial_order(sizes: Iterable[int], strategy: str) -> list[int]:
    """Return the sizes as they are tried: the largest first, because it is the one that memory may refuse.

    The staircase goes on downward; what predicts between sizes learns most from the two ends.
    """
    ascending = sorted(sizes)
    return ascending[::-1] if strategy == STAIRCASE else [*ascending[-1:], *ascending[:-1]]


def _unrelated(relation: Relation, sizes: Iterable[int]) -> dict[int, str]:
    """Return the sizes of which nobody knows how many samples they need, with the reason: they are never chosen."""
    reasons = {}
    for size in sizes:
        try:
            relation.at(size)
        except RelationError as error:
            reasons[size] = str(error)
    return reasons


def choose(
    job: TrainingJob,
    relation: Relation,
    profiles: dict[int, PowerProfileSpec],
    node_limits: NodeLimits,
    excluded: Mapping[int, str],
) -> BatchChoice:
    """Return the choice among measured modes of measured sizes; nothing is extrapolated.

    A size that keeps the budget but not the schedule's lowest entry would have to stand still through that one: it is
    out, as long as another size keeps both.
    """
    work = Work(1, job.spec.workload.samples_per_epoch, job.spec.workload.epochs)
    measured = [_profile(size, spec) for size, spec in sorted(profiles.items())]

    def under(power_w: float | None, out: Mapping[int, str]) -> BatchChoice:
        limits = node_limits.limits.core_limits(power_w, node_limits.limits.hard_limit_watts)
        return choose_batch(measured, relation, job.spec.objective, limits, work, job.spec.risk, out)

    base_w = node_limits.limits.power_watts
    lowest_w = least((base_w, *(entry.watts for entry in node_limits.schedule)))
    if lowest_w != base_w:
        tight = under(lowest_w, excluded)
        if tight.best is not None:
            lacking = {size: why for size, why in tight.excluded.items() if size not in excluded}
            excluded = {
                **excluded,
                **{size: f"at {lowest_w:g} W, the schedule's lowest: {why}" for size, why in lacking.items()},
            }
    return under(base_w, excluded)


def _profile(size: int, spec: PowerProfileSpec) -> BatchProfile:
    """Return the latest sample of each mode; those that were left above the limit are no choice."""
    rows = list({sample.mode: sample for sample in spec.samples.samples()}.values())
    step_s, power_w = np.array([row.step_s for row in rows]), np.array([row.power_w for row in rows])
    peaks = np.array([row.power_peak_w or row.power_w * ASSUMED_PEAK_FACTOR for row in rows])
    return BatchProfile(
        size,
        Prediction(step_s, NOISE * step_s, power_w, NOISE * power_w),
        np.maximum(1.0, peaks / power_w),
        np.array([not row.unsafe for row in rows], dtype=np.bool_),
    )


def _status(
    job: TrainingJob,
    profiles: dict[int, PowerProfileSpec],
    reasons: Mapping[int, str],
    failed: Container[int],
    choice: BatchChoice | None,
) -> BatchStatus:
    """Return what is told size by size; only one whose trial failed is excluded for good."""
    times = {c.batch_size: c.time for c in choice.candidates} if choice else {}
    largest = choice.largest.time if choice and choice.largest else None
    sizes = tuple(
        BatchSizeStatus(
            batch_size=size,
            state=BatchSizeState.EXCLUDED
            if size in failed
            else BatchSizeState.PROFILED
            if size in profiles
            else BatchSizeState.PENDING,
            reason=reasons.get(size, "")[:512],
            relative_time=round(times[size] / largest, 4) if largest and size in times else None,
        )
        for size in job.spec.workload.batch_sizes
    )
    if choice is None:
        return BatchStatus(sizes=sizes)
    return BatchStatus(
        chosen=choice.best.batch_size if choice.best else None,
        time_against_largest=round(choice.time_against_largest, 4) if choice.time_against_largest else None,
        reason=choice.reason[:1024],
        sizes=sizes,
    )


def excluded(status: BatchStatus | None, sizes: tuple[int, ...], size: int, reason: str) -> BatchStatus:
    """Return the status with one size out."""
    size_status = {each.batch_size: each for each in (status.sizes if status else ())}
    size_status[size] = BatchSizeStatus(batch_size=size, state=BatchSizeState.EXCLUDED, reason=reason[:512])
    rows = tuple(size_status.get(each, BatchSizeStatus(batch_size=each)) for each in sizes)
    return (status or BatchStatus()).model_copy(update={"sizes": rows})
