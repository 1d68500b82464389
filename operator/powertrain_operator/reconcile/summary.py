"""A TrainingJob's status from what its agents report: nodes, watts, progress, time left, energy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from math import isfinite

from powertrain.api.base import DETAIL, FIGURE, MOST_COUNTED, defaults_of
from powertrain.api.samples import short
from powertrain.api.v1alpha1 import JobNode, JobProgress, Phase, Reason, TrainingJob, TrainingJobStatus, moment
from powertrain.objectives import Work
from powertrain_operator.attempts import ReplicaView
from powertrain_operator.node_view import parse_time
from powertrain_operator.reconcile.conditions import is_expected, is_quiet

PREPARING = "the boards prepare a safe mode"
# No forecast reaches farther than a hundred years: it would say nothing, and datetime ends with the year 9999.
FARTHEST_S = 100 * 365.25 * 86400


def with_figures(job: TrainingJob, views: Sequence[ReplicaView], now: datetime) -> TrainingJobStatus:
    """Return the job's status with every figure that follows from the reports."""
    nodes = tuple(node_status(view) for view in views)
    watts = [n.observed.power_watts for n in nodes if n.observed is not None and n.observed.power_watts is not None]
    energy_j = _sum([job.status.earlier_joules, *(node.energy_joules for node in nodes)])
    watts_now = _sum(watts) if watts else None
    progress, left_s = _progress(job, nodes)
    if job.status.stopping is not None:
        left_s = None  # the attempt is over: nothing is left to wait for
    return job.status.model_copy(
        update={
            "nodes": nodes,
            "where": ",".join(node.name for node in nodes if node.holds)[:1024],
            "power_watts": None if watts_now is None else short(watts_now),
            "energy_joules": job.status.energy_joules if energy_j is None else short(energy_j, 6),
            "progress": progress,
            "eta": None if left_s is None else _eta(job.status.eta, now, left_s),
            "remaining": "" if left_s is None else human(left_s),
        }
    )


def without_figures(status: TrainingJobStatus) -> TrainingJobStatus:
    """Return the status without figures: what is left is written at once when it changes, figures can wait."""
    no_figures = defaults_of(JobNode, FIGURE)
    nodes = tuple(node.model_copy(update=no_figures) for node in status.nodes)
    return status.model_copy(update={**defaults_of(TrainingJobStatus, FIGURE), "nodes": nodes})


def without_details(status: TrainingJobStatus) -> TrainingJobStatus:
    """Return the status without figures and details: what somebody waits for, or is worth an Event."""
    plain = defaults_of(JobNode, DETAIL)
    # Whoever changed a limit, or broke one, waits for the mode that follows from it.
    told_at_once = (Reason.SCHEDULE, Reason.GUARD)
    bare = without_figures(status)
    verdicts = (c for c in bare.conditions if not is_quiet(c) and not is_expected(c))
    return bare.model_copy(
        update={
            "message": "" if status.message in (PREPARING, agent_messages(status.nodes)) else status.message,
            "nodes": tuple(
                node.model_copy(update={**plain, "mode": node.mode if node.reason in told_at_once else None})
                for node in bare.nodes
            ),
            "conditions": tuple((c.type, c.status, c.reason) for c in verdicts),
        }
    )


def with_pods_waiting(status: TrainingJobStatus, before: TrainingJobStatus) -> TrainingJobStatus:
    """Return the status with pods that wait no longer as if they still did: that is told with what comes of it."""
    since = {node.session: node.waiting_since for node in before.nodes}
    nodes = tuple(
        node.model_copy(update={"waiting_since": node.waiting_since or since.get(node.session)})
        for node in status.nodes
    )
    return status.model_copy(update={"nodes": nodes})


def agent_messages(nodes: Sequence[JobNode]) -> str:
    """Return what the boards say, in their words."""
    return "; ".join(f"{node.name}: {node.message}" for node in nodes if node.message)[:1024]


def node_status(view: ReplicaView) -> JobNode:
    """Return a replica's entry with what its agent reports; without a report the last known stays."""
    report = view.report
    if report is None:
        return view.node
    figures = {
        "phase": report.phase.value,
        "training": report.training,
        "energy_joules": short(report.energy_joules, 6),
        "violations": report.violations,
    }
    # What a board does once its pods are over says nothing about the job.
    if report.phase is Phase.ENDED or (view.pods and not view.alive):
        return view.node.model_copy(update=figures)
    return view.node.model_copy(
        update={
            **figures,
            "mode": report.mode,
            "predicted": report.predicted,
            "observed": report.observed,
            "runner_up": report.runner_up,
            "reason": report.reason,
            "message": report.message,
            "profiling": report.profiling,
        }
    )


def _progress(job: TrainingJob, nodes: Sequence[JobNode]) -> tuple[JobProgress | None, float | None]:
    """Return how far the slowest replica is, and how long it will still take."""
    training = [node for node in nodes if node.training is not None]
    if not training or len(training) < len(nodes):
        return None, None
    workload = job.spec.workload
    samples = sum(node.training.samples for node in training if node.training)
    epochs = [node.training.epoch for node in training if node.training and node.training.epoch is not None]
    shares, lefts = [], []
    for node in training:
        work = Work(node.batch_size or workload.batch_sizes[0], workload.samples_per_epoch, workload.epochs)
        if work.steps is None or node.training is None:
            continue
        shares.append(min(work.steps, node.training.steps) / work.steps)
        lefts.append(_left_s(work.steps - node.training.steps, _step_s(node)))
    percent = round(100.0 * min(shares), 1) if len(shares) == len(training) else None
    times_left = [left_s for left_s in lefts if left_s is not None]
    left_s = max(times_left) if len(times_left) == len(training) else None
    epoch = min((min(epoch, MOST_COUNTED) for epoch in epochs), default=None)
    return JobProgress(samples=min(samples, MOST_COUNTED), epoch=epoch, percent=percent), left_s


def _left_s(steps: int, step_s: float | None) -> float | None:
    """Return how long so many steps take, None where nothing sensible can be said."""
    if step_s is None or step_s > FARTHEST_S:
        return None
    left_s = step_s * min(max(0, steps), MOST_COUNTED)
    return left_s if left_s <= FARTHEST_S else None


def _eta(before: str | None, now: datetime, left_s: float) -> str:
    """Return when the end is expected; a forecast that moves by seconds is not worth a write."""
    fresh = now + timedelta(seconds=left_s)
    if before is not None and abs((parse_time(before) - fresh).total_seconds()) < max(30.0, 0.05 * left_s):
        return before
    return moment(fresh)


def _sum(values: Iterable[float]) -> float | None:
    """Return a sum, None if it is no number that JSON can carry."""
    total = sum(values)
    return total if isfinite(total) else None


def _step_s(node: JobNode) -> float | None:
    """Return the step time to reckon with: the chosen mode's, else what is seen now."""
    for figures in (node.predicted, node.observed):
        if figures is not None and figures.step_seconds:
            return figures.step_seconds
    return None


def human(seconds: float) -> str:
    """Return a duration as kubectl writes ages."""
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if seconds < 120:
        return f"{seconds:.0f}s"
    if minutes < 120:
        return f"{minutes:.0f}m"
    return f"{hours:.0f}h" if hours < 48 else f"{days:.0f}d"
