"""What the planner is asked: everything it must know of a session, as one request."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from zlib import crc32

from powertrain import ModeSpace
from powertrain.api.v1alpha1 import SessionSpec
from powertrain.exploring import MeanRules
from powertrain.objectives import ASSUMED_PEAK_FACTOR, Limits, Work
from powertrain.profiling.history import History, ModeReport, peak_factor
from powertrain.profiling.problem import Aim, Problem
from powertrain.samples import Sample
from powertrain_agent.planning.messages import SHIPPED_ONLY, PlanRequest, Question

NOISE = 0.005  # of a measured mode whose own is not known
AUTO = "auto"
NO_POWER_W = 0.001  # a site without power: limits of the core lie above zero, and no mode keeps this one either


def plan_request(
    question: Question,
    spec: SessionSpec,
    space: ModeSpace,
    reports: Sequence[ModeReport],
    *,
    power_w: float | None,
    explore_w: float | None,
    hard_limit_w: float | None = None,
    rules: MeanRules | None = None,
    strategy: str,
    device: str | None,
    descending_only: bool,
    extra_modes: int = 0,
    references: tuple[str, ...] = SHIPPED_ONLY,
) -> PlanRequest:
    """Return a request with everything the planner must know; with `rules` a ledger keeps the limit of tried modes."""
    power_w, explore_w = _above_zero(power_w), _above_zero(explore_w)
    work, limits = spec.workload, spec.limits.core_limits(power_w, hard_limit_w)
    elsewhere = _elsewhere(spec)
    trial_limits = Limits(power_w=explore_w, power_statistic=limits.power_statistic, hard_limit_w=hard_limit_w)
    problem = Problem(
        space,
        aim=Aim(spec.plan.aim.value),
        objective=spec.objective,
        limits=limits,
        work=Work(work.batch_size, work.samples_per_epoch, work.epochs),
        risk=spec.risk,
        explore_limit_w=_tried_mean_w(trial_limits, History.of(space, reports, NOISE), elsewhere),
        explore_risk=spec.explore_risk,
        max_modes=spec.plan.max_modes,
        noise=NOISE,
        device=device,
        descending_only=descending_only,
        elsewhere=elsewhere,
        rules=rules,
        # The same after a restart, another for the next session: repeated jobs do not all try the same random modes.
        seed=crc32(spec.uid.encode()),
    )
    strategy = "transfer" if strategy == AUTO else strategy
    return PlanRequest(question, problem, strategy, tuple(reports), extra_modes, references)


def _tried_mean_w(trial_limits: Limits, history: History, elsewhere: Sequence[Sample]) -> float | None:
    """Return the limit of tried modes as a mean: readings lie above it by what was seen of this workload at worst."""
    peaks = max([*map(peak_factor, elsewhere), history.peak_factor.max(initial=ASSUMED_PEAK_FACTOR)])
    mean_w = float(trial_limits.mean_power_w(peaks))
    return mean_w if isfinite(mean_w) else None


def _above_zero(power_w: float | None) -> float | None:
    return None if power_w is None else max(power_w, NO_POWER_W)


def _elsewhere(spec: SessionSpec) -> tuple[Sample, ...]:
    """Return what a profile knows of other batch sizes of the workload."""
    others = spec.prior.others if spec.prior is not None else ()
    samples = (sample for columns in others for sample in columns.samples())
    return tuple(s for s in samples if not s.unsafe and s.batch_size != spec.workload.batch_size)
