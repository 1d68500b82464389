"""How a job with nodes is doing: its phase, and what is wrong with a replica, the most serious problem first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from powertrain.api.v1alpha1 import Coupling, JobPhase, Phase, TrainingJob
from powertrain_operator.attempts import ReplicaView, report_problem
from powertrain_operator.reconcile.conditions import trouble


def replica_problem(view: ReplicaView, name_holder: str, now: datetime) -> tuple[str, str] | None:
    """Return what is wrong with a replica, as reason and message; None if nothing is."""
    name = view.node.name
    if view.board.not_ready():
        return "NodeLost", f"{name} is NotReady; if its agent still runs, it holds the mode"
    if view.board.silent:
        return "AgentSilent", f"the agent of {name} is silent: the last mode stays, but nobody guards the budget"
    if view.report is not None and view.report.phase is Phase.REFUSED:
        return "VersionSkew" if "VersionSkew" in view.report.message else "EnvelopeRefused", view.report.message
    unreadable = report_problem(view)
    if unreadable:
        return "ReportUnreadable", f"the report of the agent of {name} can't be read: {unreadable}"
    if name_holder:
        return "NameTaken", f"{name}: {name_holder}"
    parked = view.parked(now)
    if parked:
        return "PodPending", f"the agent restored {name} because the pod does not start: {parked}"
    stuck = view.stuck()
    if stuck:
        return "ContainerWaiting", f"{name}: {stuck}"
    problem = trouble(view.report)
    return None if problem is None else (problem[0], f"{name}: {problem[1]}")


def running_phase(job: TrainingJob, views: Sequence[ReplicaView], now: datetime) -> JobPhase:
    """Return the phase of a job that has its nodes."""
    reports = [view.report for view in views]
    if any(view.parked(now) for view in views):
        return JobPhase.WAITING_FOR_NODE
    if any(view.board.not_ready() for view in views):
        return JobPhase.WAITING_FOR_NODE
    phases = [report.phase if report is not None else None for report in reports]
    if Phase.PROFILING in phases:
        return JobPhase.PROFILING
    starts = [
        phase in (Phase.RUNNING, Phase.HOLDING) or view.complete for phase, view in zip(phases, views, strict=True)
    ]
    if all(starts):
        return JobPhase.RUNNING
    # A synchronous job's boards wait for the one that profiles.
    coupled = job.spec.placement.coupling is Coupling.SYNCHRONOUS
    return JobPhase.PROFILING if coupled and any(starts) else JobPhase.PENDING
