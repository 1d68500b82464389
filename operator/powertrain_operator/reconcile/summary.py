"""A TrainingJob's status from what its agents report: nodes, watts, progress, time left, energy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from powertrain.api.samples import short
from powertrain.api.v1alpha1 import JobNode, JobProgress, Phase, Reason, TrainingJob, TrainingJobStatus, moment
from powertrain.objectives import Work
from powertrain_operator.attempts import ReplicaView
from powertrain_operator.fleet import parse_time
from powertrain_operator.reconcile.verdicts import is_expected, is_quiet

PREPARING = "the boards prepare a safe mode"


def summarised(job: TrainingJob, views: Sequence[ReplicaView], now: datetime) -> TrainingJobStatus:
    """Return the job's status with every figure that follows from the reports."""
    nodes = tuple(node_status(view) for view in views)
    watts = [n.observed.power_watts for n in nodes if n.observed is not None and n.observed.power_watts is not None]
    energy_j = job.status.earlier_joules + sum(node.energy_joules for node in nodes)
    progress, left_s = _progress(job, nodes)
    if job.status.stopping is not None:
        left_s = None  # the attempt is over: nothing is left to wait for
    return job.status.model_copy(
        update={
            "nodes": nodes,
            "where": ",".join(node.name for node in nodes if node.holds)[:1024],
            "power_watts": short(sum(watts)) if watts else None,
            "energy_joules": short(energy_j, 6),
            "progress": progress,
            "eta": None if left_s is None else _eta(job.status.eta, now, left_s),
            "remaining": "" if left_s is None else human(left_s),
        }
    )


def decided(status: TrainingJobStatus) -> TrainingJobStatus:
    """Return the status without figures: what is left is written at once when it changes, figures can wait."""
    no_figures = {"observed": None, "training": None, "energy_joules": 0.0, "profile": None}
    return status.model_copy(
        update={
            "nodes": tuple(node.model_copy(update=no_figures) for node in status.nodes),
            "power_watts": None,
            "energy_joules": 0.0,
            "progress": None,
            "eta": None,
            "remaining": "",
        }
    )


def settled(status: TrainingJobStatus) -> TrainingJobStatus:
    """Return the status without figures and details: what somebody waits for, or is worth an Event."""
    details = {"message", "phase", "mode", "predicted", "runner_up", "reason", "profiling", "violations"}
    plain = {name: JobNode.model_fields[name].get_default() for name in details | {"limit_watts"}}
    # Whoever changed a limit, or broke one, waits for the mode that follows from it.
    told_at_once = (Reason.SCHEDULE, Reason.GUARD)
    bare = decided(status)
    verdicts = (c for c in bare.conditions if not is_quiet(c) and not is_expected(c))
    return bare.model_copy(
        update={
            "message": "" if status.message in (PREPARING, told(status.nodes)) else status.message,
            "nodes": tuple(
                node.model_copy(update={**plain, "mode": node.mode if node.reason in told_at_once else None})
                for node in bare.nodes
            ),
            "conditions": tuple((c.type, c.status, c.reason) for c in verdicts),
        }
    )


def still_waiting(status: TrainingJobStatus, before: TrainingJobStatus) -> TrainingJobStatus:
    """Return the status with pods that wait no longer as if they still did: that is told with what comes of it."""
    since = {node.session: node.waiting_since for node in before.nodes}
    nodes = tuple(
        node.model_copy(update={"waiting_since": node.waiting_since or since.get(node.session)})
        for node in status.nodes
    )
    return status.model_copy(update={"nodes": nodes})


def told(nodes: Sequence[JobNode]) -> str:
    """Return what the boards say, in their words."""
    return "; ".join(f"{node.name}: {node.message}" for node in nodes if node.message)[:1024]


def node_status(view: ReplicaView) -> JobNode:
    """Return a replica's entry with what its agent reports; without a report the last known stays."""
    report = view.report
    if report is None:
        return view.node
    counted = {
        "phase": report.phase.value,
        "training": report.training,
        "energy_joules": short(report.energy_joules, 6),
        "violations": report.violations,
    }
    # What a board does once its pods are over says nothing about the job.
    if report.phase is Phase.ENDED or (view.pods and not view.alive):
        return view.node.model_copy(update=counted)
    return view.node.model_copy(
        update={
            **counted,
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
    told = [node for node in nodes if node.training is not None]
    if not told or len(told) < len(nodes):
        return None, None
    workload = job.spec.workload
    samples = sum(node.training.samples for node in told if node.training)
    epochs = [node.training.epoch for node in told if node.training and node.training.epoch is not None]
    shares, lefts = [], []
    for node in told:
        work = Work(node.batch_size or workload.batch_sizes[0], workload.samples_per_epoch, workload.epochs)
        if work.steps is None or node.training is None:
            continue
        shares.append(min(1.0, node.training.steps / work.steps))
        step_s = _step_s(node)
        if step_s is not None:
            lefts.append(max(0, work.steps - node.training.steps) * step_s)
    percent = round(100.0 * min(shares), 1) if len(shares) == len(told) else None
    left_s = max(lefts) if len(lefts) == len(told) else None
    return JobProgress(samples=samples, epoch=min(epochs, default=None), percent=percent), left_s


def _eta(before: str | None, now: datetime, left_s: float) -> str:
    """Return when the end is expected; a forecast that moves by seconds is not worth a write."""
    fresh = now + timedelta(seconds=left_s)
    if before is not None and abs((parse_time(before) - fresh).total_seconds()) < max(30.0, 0.05 * left_s):
        return before
    return moment(fresh)


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
