"""Trials: a mode is visited, the guard on. Gives a visit what it needs, and records what it found."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from powertrain import PowerMode
from powertrain.api.v1alpha1 import Phase, Reason
from powertrain.profiling.history import ModeReport
from powertrain_agent.governing.budget_guard import GuardAction
from powertrain_agent.governing.candidates import excess, point_of, rest_point
from powertrain_agent.governing.commands import WindowEnded
from powertrain_agent.governing.lowering import go_back
from powertrain_agent.governing.mean_visit import Hold, MeanVisit
from powertrain_agent.governing.measurement_window import Verdict, WindowOutcome
from powertrain_agent.governing.states import Trial
from powertrain_agent.governing.turn import Turn, windows_to_come
from powertrain_agent.governing.visit import Look, Need, Purpose, Terms, Visit
from powertrain_agent.telemetry import Reading

REASONS = {Purpose.CHECK: Reason.CHECK, Purpose.DRIFT: Reason.DRIFT, Purpose.CLIMB: Reason.NO_STEP_SIGNAL}
UNRECORDED = (Purpose.DRIFT, Purpose.CLIMB)  # visits that record nothing by themselves; what is unsafe is never lost
UNCONFIRMED = "did not keep its distance to the limit while it was held"
T = TypeVar("T", bound=Trial)


def visit_to(
    turn: Turn, mode: PowerMode, purpose: Purpose, expected_step_s: float | None = None, upper_w: float | None = None
) -> Visit:
    """Plan a visit under the limits of this moment; `upper_w` is what the mode draws at most, by the planner."""
    settings, limits = turn.settings, turn.limits
    terms = Terms(
        limits.explore_w,
        [p.mode for p in turn.record.proven_points() if limits.ceiling_of(limits.explore_w).holds(p, 0.0)],
        turn.spec.workload.batch_size,
        purpose is not Purpose.CLIMB,
        settings.period_s,
        settings.rules,
        _mean_visit(turn, mode, purpose, upper_w),
    )
    return Visit(mode, purpose, terms, turn.now_s, expected_step_s, turn.session.latest_step_s)


def _mean_visit(turn: Turn, mode: PowerMode, purpose: Purpose, upper_w: float | None) -> MeanVisit | None:
    """Return the terms of the ledger; None where every reading counts.

    Nothing is known of a climb's modes but what another workload took, and of some modes nothing at all.
    """
    if not turn.by_ledger or purpose is Purpose.CLIMB:
        return None
    watch, rest, point = turn.watch, rest_point(turn), point_of(turn, mode)
    rest_w = watch.ledgers.level_w if rest is None else rest.power_w
    if upper_w is None and point is not None:
        upper_w = excess(turn) * (point.power_w + watch.ledgers.rules.plan_sigmas * point.power_std_w)
    if upper_w is None and mode not in (turn.record.mode, turn.record.start):
        return None
    rules, hold = watch.ledgers.rules, None
    if purpose is Purpose.CONFIRM:
        hold = Hold(rules.confirm_s, windows_to_come(turn))
    rest_mode = turn.record.start if rest is None else rest.mode
    return MeanVisit(watch, rest_mode, rest_w, rest_w if upper_w is None else upper_w, hold)


async def set_out(turn: Turn, state: T, why: str) -> T:
    """Begin a trial; what follows depends on its state."""
    visit = state.visit
    turn.session.is_trying = True
    turn.set_guard()
    turn.drift.expect(None)
    reason = REASONS.get(visit.purpose, Reason.PROFILING)
    turn.say(reason, f"{visit.purpose.value} {visit.target.human}: {why}", mode=str(visit.target))
    await _begin(turn, visit)
    return state


async def take_reading(turn: Turn, visit: Visit, reading: Reading, action: GuardAction) -> None:
    """Let a visit take a reading; it ends when the guard acts."""
    guard, limit_w = turn.guard, visit.limit_w
    if not visit.has_begun:
        # Where every reading counts, this one counts against a higher mode; the guard ends what stays above.
        if visit.mean is not None or limit_w is None or reading.power_w <= limit_w:
            await _begin(turn, visit)
    elif visit.mean is not None:
        await give(turn, visit, visit.power(reading, turn.facts.planner_busy, turn.session.periods))
    elif not guard.settling or limit_w is None or reading.power_w <= limit_w:
        await give(turn, visit, visit.power(reading, turn.facts.planner_busy))
        # else it shows the mode before, which was left for it
    if action is GuardAction.LOWER:
        visit.abort(f"the guard: {guard.mean_w:.2f} W over the window, {reading.power_w:.2f} W now", turn.now_s)


async def give(turn: Turn, visit: Visit, need: Need) -> None:
    """Give a visit what it needs, until it needs nothing more."""
    while need is not None:
        if isinstance(need, Look):
            inspection = await turn.inspect(visit.target if need.clocks else None, need.health)
            need = visit.looked(inspection.off_clock, inspection.health, turn.now_s, turn.facts.planner_busy)
        else:
            applied = await turn.apply(need)
            need = visit.applied(applied.ok, applied.reason, turn.now_s, turn.facts.planner_busy)


async def end(turn: Turn, visit: Visit, outcome: WindowOutcome) -> None:
    """Leave a visit that has ended: go back where nothing was measured, and say what came of it."""
    turn.session.is_trying = False
    turn.record.profiling_s += turn.now_s - visit.started_s
    turn.do(WindowEnded(outcome.verdict, outcome.seconds))
    if outcome.verdict is not Verdict.MEASURED:
        await go_back(turn, outcome)
    turn.set_guard()
    turn.learn_load()
    sample = outcome.sample
    figures = {"powerWatts": round(sample.power_w, 2), "stepSeconds": round(sample.step_s, 5)} if sample else {}
    text = f"{visit.purpose.value} {visit.target.human} {outcome.verdict.value.lower()}: {outcome.reason}"
    turn.say(turn.record.reason, text, mode=str(visit.target), thrownAway=visit.rejected, **figures)
    if visit.purpose in UNRECORDED and outcome.verdict is Verdict.UNSAFE:
        note(turn, visit, outcome)


def note(turn: Turn, visit: Visit, outcome: WindowOutcome) -> None:
    """Record what a visit found."""
    record, sample = turn.record, outcome.sample_with_errors
    if sample is not None:
        report = ModeReport(
            sample.mode,
            visit.target,
            sample,
            outcome.noise,
            power_noise=outcome.power_noise,
            left_early=outcome.verdict is Verdict.LEFT,
        )
        record.fresh.add(sample.mode)
        turn.session.learn([report])
    elif outcome.power_only is not None:
        report = ModeReport(visit.target, visit.target, power_only=outcome.power_only, left_early=True)
    elif visit.purpose is Purpose.CONFIRM and visit.mean is not None:
        return  # it was measured before, and whether it kept the limit is recorded by whoever held it
    else:
        report = ModeReport(visit.target, visit.target, failure=outcome.reason)
    record.reports.append(report)
    turn.save()


async def _begin(turn: Turn, visit: Visit) -> None:
    """Set out once the power is down again: trials that break the limit must not add up to a mean above it.

    A ledger says when; until then the board rests.
    """
    if turn.guard.recovering:
        return
    board, mean = turn.session.board, visit.mean
    if mean is not None and visit.target != turn.record.mode and not mean.has_room:
        if turn.now_s - visit.started_s > mean.watch.patience_s:
            visit.abort("no window has room for it, even after a rest", turn.now_s)
        else:
            await turn.apply_unless_set(mean.rest)
        return
    await give(turn, visit, visit.begin(turn.record.mode, board.space, board.descending_only, turn.now_s))


def demote_prior(turn: Turn) -> None:
    """Let samples of the profile teach weakly from now on: it does not fit this board or job."""
    record, noise = turn.record, turn.settings.warm_noise
    record.reports = [r if r.mode in record.fresh else replace(r, noise=noise) for r in record.reports]


def forget_confirmations(turn: Turn) -> None:
    """Let modes that failed under another limit be chosen again."""
    record = turn.record
    record.reports = [report for report in record.reports if report.failure != UNCONFIRMED]
    turn.session.failed_confirmations = 0


async def rest_if_due(turn: Turn) -> None:
    """Go to rest while the next mode is planned, if the present one would break a window after all."""
    if not turn.by_ledger or turn.record.phase is not Phase.PROFILING:
        return
    rest = rest_point(turn)
    if rest is not None and rest.mode != turn.record.mode and turn.watch.must_leave(rest.power_w):
        await turn.apply(rest.mode)
