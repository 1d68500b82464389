"""Trials: a mode is visited, the guard on. Gives a visit what it needs, and records what it found."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from powertrain import PowerMode
from powertrain.api.v1alpha1 import Reason
from powertrain.profiling.history import ModeReport
from powertrain_agent.governing.commands import WindowEnded
from powertrain_agent.governing.guard import GuardAction
from powertrain_agent.governing.lowering import go_back
from powertrain_agent.governing.states import Trial
from powertrain_agent.governing.turn import Turn
from powertrain_agent.governing.visit import Look, Need, Purpose, Terms, Visit
from powertrain_agent.governing.windows import Verdict, WindowOutcome
from powertrain_agent.telemetry import Reading

REASONS = {Purpose.CHECK: Reason.CHECK, Purpose.DRIFT: Reason.DRIFT, Purpose.CLIMB: Reason.NO_STEP_SIGNAL}
UNRECORDED = (Purpose.DRIFT, Purpose.CLIMB)  # visits that record nothing by themselves; what is unsafe is never lost
T = TypeVar("T", bound=Trial)


def visit_to(turn: Turn, mode: PowerMode, purpose: Purpose, expected_step_s: float | None = None) -> Visit:
    """Plan a visit under the limits of this moment."""
    settings, limits = turn.settings, turn.limits
    terms = Terms(
        limits.explore_w,
        [p.mode for p in turn.record.proven_points() if limits.ceiling_of(limits.explore_w).holds(p, 0.0)],
        turn.spec.workload.batch_size,
        purpose is not Purpose.CLIMB,
        settings.period_s,
        settings.rules,
    )
    return Visit(mode, purpose, terms, turn.now_s, expected_step_s, turn.session.latest_step_s)


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
    if not visit.begun:
        await _begin(turn, visit)
    elif not guard.settling or limit_w is None or reading.power_w <= limit_w:
        await give(turn, visit, visit.power(reading, turn.facts.planner_busy))
        # else it shows the mode before, which was left for it
    if action is GuardAction.LOWER:
        visit.abort(f"the guard: {guard.mean_w:.2f} W over the window, {reading.power_w:.2f} W now", turn.now_s)


async def give(turn: Turn, visit: Visit, need: Need) -> None:
    """Give a visit what it needs, until it needs nothing more."""
    while need is not None:
        if isinstance(need, Look):
            seen = await turn.inspect(visit.target if need.clocks else None, need.health)
            need = visit.looked(seen.off_clock, seen.health, turn.now_s, turn.facts.planner_busy)
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
    sample = outcome.sample
    figures = {"powerWatts": round(sample.power_w, 2), "stepSeconds": round(sample.step_s, 5)} if sample else {}
    text = f"{visit.purpose.value} {visit.target.human} {outcome.verdict.value.lower()}: {outcome.reason}"
    turn.say(turn.record.reason, text, mode=str(visit.target), thrownAway=visit.rejected, **figures)
    if visit.purpose in UNRECORDED and outcome.verdict is Verdict.UNSAFE:
        note(turn, visit, outcome)


def note(turn: Turn, visit: Visit, outcome: WindowOutcome) -> None:
    """Record what a visit found."""
    record = turn.record
    if outcome.sample is not None:
        report = ModeReport(outcome.sample.mode, visit.target, outcome.sample, outcome.noise)
        record.fresh.add(outcome.sample.mode)
        turn.session.learn([report])
    else:
        report = ModeReport(visit.target, visit.target, failure=outcome.reason)
    record.reports.append(report)
    turn.save()


async def _begin(turn: Turn, visit: Visit) -> None:
    """Set out once the power is down again: trials that break the limit must not add up to a mean above it."""
    if turn.guard.recovering:
        return
    board = turn.session.board
    await give(turn, visit, visit.begin(turn.record.mode, board.space, board.descending_only, turn.now_s))


def demote_prior(turn: Turn) -> None:
    """Let samples of the profile teach weakly from now on: it does not fit this board or job."""
    record, noise = turn.record, turn.settings.warm_noise
    record.reports = [r if r.mode in record.fresh else replace(r, noise=noise) for r in record.reports]
