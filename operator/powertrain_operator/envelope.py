"""The envelope: what an agent is told about one job on its node, and when it counts as another one."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from powertrain.api.session import MAX_OTHERS
from powertrain.api.v1alpha1 import (
    PROTOCOL,
    AvailableWatts,
    JobReference,
    PlanAim,
    Prior,
    PriorMatch,
    Samples,
    SessionPlan,
    SessionSpec,
    SessionWorkload,
    TrainingJob,
    When,
)
from powertrain.objectives import Work
from powertrain.strategies.auto import recommend
from powertrain_operator.limits import NodeLimits
from powertrain_operator.node_view import NodeView
from powertrain_operator.profiles import matching
from powertrain_operator.profiles.lookup import workload_name
from powertrain_operator.profiles.matching import ProfileMatch

AUTO = "auto"
# Once another batch size was profiled, these are enough: most of what a board does depends on the mode alone.
TRIAL_MODES = 8


@dataclass(frozen=True)
class Order:
    """What is decided about a session before its envelope is written."""

    uid: str
    batch_size: int
    pods: tuple[str, ...]
    limits: NodeLimits
    hold: bool = False
    trial: bool = False
    others: tuple[Samples, ...] = ()


def envelope(
    job: TrainingJob, board: NodeView, order: Order, match: ProfileMatch, current: SessionSpec | None
) -> SessionSpec:
    """Return the envelope of a session; what was told already keeps its generation, a change gets the next one."""
    running = current if current is not None and current.uid == order.uid else None
    spec, workload = job.spec, job.spec.workload
    # What a session began with stays: its own result must not come back to it as a prior.
    prior = running.prior if running else _prior(job, order, match)
    fresh = SessionSpec(
        protocol=PROTOCOL,
        uid=order.uid,
        generation=running.generation if running else 1,
        job=JobReference(namespace=job.metadata["namespace"], name=job.metadata["name"]),
        pod_uids=order.pods,
        objective=spec.objective,
        risk=spec.risk,
        explore_risk=spec.profiling.explore_risk,
        limits=order.limits.limits,
        schedule=order.limits.schedule,
        time_zone=spec.constraints.time_zone,
        available_watts=_available_watts(board, running),
        workload=SessionWorkload(
            name=workload_name(job),
            batch_size=order.batch_size,
            samples_per_epoch=workload.samples_per_epoch,
            epochs=workload.epochs,
            instrumentation=workload.instrumentation,
        ),
        plan=_plan(job, board, order, match, running, prior),
        prior=prior,
    )
    if running is None or fresh == running:
        return fresh
    return fresh.model_copy(update={"generation": running.generation + 1})


def _prior(job: TrainingJob, order: Order, match: ProfileMatch) -> Prior | None:
    prior = match.prior if job.spec.profiling.reuse else None
    if not order.others:
        return prior
    # There is room for a few: the nearest sizes teach most.
    nearest = sorted(order.others, key=lambda samples: abs(log(samples.batch_size / order.batch_size)))
    return (prior or Prior()).model_copy(update={"others": tuple(nearest[:MAX_OTHERS])})


def _plan(
    job: TrainingJob,
    board: NodeView,
    order: Order,
    match: ProfileMatch,
    running: SessionSpec | None,
    prior: Prior | None,
) -> SessionPlan:
    profiling = job.spec.profiling
    strategy, max_modes = profiling.strategy, profiling.max_modes
    if running is not None:
        strategy, max_modes = running.plan.strategy, running.plan.max_modes
    elif strategy == AUTO:
        strategy, max_modes = _recommended(job, board, order, match, prior)
    if running is None and order.trial and order.others:
        max_modes = min(max_modes or TRIAL_MODES, TRIAL_MODES)
    return SessionPlan(
        strategy=strategy,
        # A share changes while the job runs, as a schedule's entries do.
        aim=PlanAim.FRONT if job.spec.constraints.power_schedule or board.spec.get("shares") else PlanAim.BUDGET,
        max_modes=max_modes,
        when=When.OFFLINE if order.trial else profiling.when,
        validate_every_seconds=profiling.validate_every_seconds,
        caution=profiling.caution,
        hold=order.hold,
    )


def _recommended(
    job: TrainingJob, board: NodeView, order: Order, match: ProfileMatch, prior: Prior | None
) -> tuple[str, int | None]:
    workload = job.spec.workload
    strategies = (board.status.get("capabilities") or {}).get("strategies") or []
    advice = recommend(
        workload.recurrence,
        workload.changes,
        expected_seconds(job, order.limits.limits.power_watts, order.batch_size, match),
        has_profile=prior is not None and prior.match is PriorMatch.EXACT,
        has_torch="nn" in strategies,
    )
    return advice.strategy, job.spec.profiling.max_modes or advice.max_modes


def expected_seconds(job: TrainingJob, limit_w: float | None, batch_size: int, match: ProfileMatch) -> float | None:
    """Return how long the training should take by a profile of it, None where nothing is known."""
    if match.spec is None:
        return None
    work = Work(batch_size, job.spec.workload.samples_per_epoch, job.spec.workload.epochs)
    step_s = matching.fastest_step_s(match.spec, limit_w)
    return None if step_s is None or work.steps is None else step_s * work.steps


def _available_watts(board: NodeView, running: SessionSpec | None) -> AvailableWatts | None:
    """Return what the site can deliver; what it fails to say in the same way as before is no news."""
    supply, before = board.supply, running.available_watts if running else None
    if supply is not None and before is not None and supply.problem is not None and supply.problem == before.problem:
        return before
    return supply
