"""Profiling: asks the planner, takes its answers, and goes on from each measured mode."""

from __future__ import annotations

from powertrain.api.v1alpha1 import Phase, PriorMatch, Reason
from powertrain.profiling.history import ModeReport
from powertrain_agent.governing import choosing, climbing_without_steps, trials
from powertrain_agent.governing.candidates import point_of, safe_mode
from powertrain_agent.governing.commands import GuardLowered
from powertrain_agent.governing.lowering import stay_down
from powertrain_agent.governing.measurement_window import Verdict, WindowOutcome
from powertrain_agent.governing.states import Checking, Climbing, Confirming, Planning, Profiling, Running
from powertrain_agent.governing.turn import PROFILED, Turn
from powertrain_agent.governing.visit import Purpose
from powertrain_agent.planning.front import Point, fastest_within
from powertrain_agent.planning.messages import PlanAnswer, PlanFailure, Planned, Question

THOROUGH = ("auto", "transfer")  # learn from every sample in milliseconds; networks would be trained anew for minutes
STEP_LOWER = "; a step lower, because it broke the limit"
FALLBACK = "transfer"


def begin(turn: Turn) -> Planning:
    """Begin with what is known: nothing, a profile that only has to be checked, or an earlier choice."""
    record, prior = turn.record, turn.spec.prior
    exact = prior is not None and prior.match is PriorMatch.EXACT and bool(record.reports)
    if exact or (record.chosen is not None and record.proven_points()):
        return turn.ask(Question.CHOICE)
    return _profile(turn, "the first steps were seen: profiling begins")


def _profile(turn: Turn, because: str) -> Planning:
    turn.record.phase = Phase.PROFILING
    turn.condition(PROFILED, False, "InProgress", because)
    turn.say(Reason.PROFILING, because)
    return turn.ask(Question.NEXT_MODE)


async def on_planned(
    turn: Turn, state: Planning, event: Planned
) -> Planning | Profiling | Checking | Confirming | Climbing | Running:
    """Take the planner's answer; an outdated one is ignored."""
    answer, record = event.answer, turn.record
    if event.number != state.number or state.retry_at_s is not None:
        return state
    if isinstance(answer, PlanFailure):
        return await _failed(turn, state, answer)
    record.learn(answer)
    if state.question is Question.WAY_UP:
        return await climbing_without_steps.climb(turn, answer.way_up)
    if answer.next_mode is not None:
        return await _try(turn, state.question, answer)
    if answer.choice is not None:
        return await choosing.choose(turn, answer.choice, answer.done)
    record.checks = turn.settings.checks
    turn.rest_planner()
    return Running()


async def _try(turn: Turn, question: Question, answer: PlanAnswer) -> Profiling | Checking:
    ahead = answer.next_mode
    assert ahead is not None
    if question is Question.CHECK:
        visit = trials.visit_to(turn, ahead.mode, Purpose.CHECK, ahead.step_s, ahead.upper_w)
        return await trials.set_out(turn, Checking(visit), ahead.reason)
    visit = trials.visit_to(turn, ahead.mode, Purpose.PROFILE, ahead.step_s, ahead.upper_w)
    return await trials.set_out(turn, Profiling(visit), ahead.reason)


async def _failed(turn: Turn, state: Planning, failure: PlanFailure) -> Planning | Running:
    record, error = turn.record, failure.error
    record.error = error
    if failure.unavailable and record.strategy != FALLBACK:
        instead = f"strategy {record.strategy!r} can't run here: {error}; {FALLBACK!r} instead"
        record.strategy = FALLBACK
        turn.say(record.reason, instead)
        return turn.ask(state.question)
    turn.say(record.reason, f"planning failed: {error}")
    best = fastest_within(record.proven_points(), turn.limits.ceiling)
    if best is None:
        return Planning(state.question, state.number, turn.now_s + turn.settings.retry_s)
    turn.condition(PROFILED, True, "PlanningFailed", error)
    return await choosing.run(turn, best, Reason.CHOSEN, "the best measured mode; planning failed")


def profiled(turn: Turn, state: Profiling, outcome: WindowOutcome) -> Planning:
    """Go on after a measured mode."""
    trials.note(turn, state.visit, outcome)
    return turn.ask(Question.NEXT_MODE)


def checked(turn: Turn, state: Checking, outcome: WindowOutcome) -> Planning:
    """Choose again after a mode that may be better."""
    trials.note(turn, state.visit, outcome)
    return turn.ask(Question.CHOICE)


async def confirmed(turn: Turn, state: Confirming, outcome: WindowOutcome) -> Planning | Confirming | Running:
    """The choice was not measured in this session before: does it do what was expected?"""
    visit, because, sample, record = state.visit, state.because, outcome.sample, turn.record
    expected = point_of(turn, visit.target)
    if visit.mean is not None and expected is not None and _is_burdened(turn, expected, outcome):
        return await _stay_down(turn, state, outcome)
    trials.note(turn, visit, outcome)
    if outcome.verdict is not Verdict.MEASURED:
        turn.session.failed_confirmations += 1
    if turn.spec.prior is not None and expected is not None and expected.measured and sample is not None:
        off = max(abs(sample.step_s / expected.step_s - 1), abs(sample.power_w / expected.power_w - 1))
        if off > turn.settings.exact_band:
            trials.demote_prior(turn)
            return _profile(
                turn, f"the profile does not fit ({off:.0%} off): it is only a starting point, and profiling begins"
            )
    if visit.mean is not None:
        return await _run_if_confirmed(turn, state, outcome)
    if record.strategy in THOROUGH or sample is None:
        return turn.ask(Question.CHOICE)
    if sample.unsafe or not turn.limits.ceiling.holds(Point.of(sample)):
        return await choosing.take(turn, visit.target, because.removesuffix(STEP_LOWER) + STEP_LOWER)
    turn.condition(PROFILED, True, "Complete", because)
    point = Point.of(sample, outcome.noise)
    return await choosing.run(turn, point, Reason.CHOSEN, f"{because}; measured to keep the limits")


async def _run_if_confirmed(turn: Turn, state: Confirming, outcome: WindowOutcome) -> Planning | Running:
    """Run in a mode that kept its distance to the limit while it was held; else the next best is chosen."""
    visit, sample, session = state.visit, outcome.sample, turn.session
    if outcome.may_stay and sample is not None:
        session.failed_confirmations = 0
        turn.record.confirmed[visit.target] = turn.watch.limit_w
        turn.condition(PROFILED, True, "Complete", state.because)
        point = Point.of(sample, outcome.noise, outcome.power_noise)
        return await choosing.run(turn, point, Reason.CHOSEN, f"{state.because}; it kept the limit while it was held")
    session.failed_confirmations += outcome.verdict is Verdict.MEASURED
    turn.record.reports.append(ModeReport(visit.target, visit.target, failure=trials.UNCONFIRMED))
    if sample is not None:
        turn.say(turn.record.reason, f"{visit.target.human} is too close to the limit: {sample.power_w:.2f} W")
    return turn.ask(Question.CHOICE)


def _is_burdened(turn: Turn, expected: Point, outcome: WindowOutcome) -> bool:
    """Say whether a mode that ran before takes so much more now that something beside the training must take it."""
    if not turn.is_running or not expected.measured or turn.spec.prior is not None or outcome.may_stay:
        return False
    if turn.watch.finding.timid:
        return False  # it swings by itself: the next lower mode is tried
    return outcome.power_w > (1.0 + turn.settings.exact_band) * expected.power_w


async def _stay_down(turn: Turn, state: Confirming, outcome: WindowOutcome) -> Running:
    """Keep a mode of less power for the quiet time, as after the guard; what was measured is not of the mode alone."""
    await turn.apply_unless_set(safe_mode(turn))
    if not turn.guard.is_broken(turn.now_s):  # else it was counted when the visit was left
        turn.do(GuardLowered())
    target = state.visit.target.human
    stay_down(turn, f"{target} takes {outcome.power_w:.2f} W, more than was measured: a mode of less power is kept")
    return Running()
