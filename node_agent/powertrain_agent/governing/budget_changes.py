"""Another limit: a lower one is kept at once; a higher one is used at once as far as it is proven, then explored."""

from __future__ import annotations

from typing import TypeVar

from powertrain.api.conditions import ConditionStatus, find
from powertrain.api.v1alpha1 import Phase, Reason
from powertrain_agent.governing import choosing, climbing_without_steps, plan_hold, schedule
from powertrain_agent.governing.candidates import best_of, excess, may_run, safe_mode
from powertrain_agent.governing.events import Amended, PolicyChanged
from powertrain_agent.governing.limits import is_raised, watts
from powertrain_agent.governing.schedule import Budget
from powertrain_agent.governing.states import (
    TRIALS,
    Blind,
    Holding,
    Planning,
    Restoring,
    Running,
    Served,
    Starting,
    WaitingForSteps,
)
from powertrain_agent.governing.trials import forget_confirmations
from powertrain_agent.governing.turn import REACHABLE, Turn, windows_to_come
from powertrain_agent.planning.front import Point
from powertrain_agent.planning.messages import Question

CLOCK = "Clock"
EQUALLY_FAST = 1.01  # times the best step time: measurements differ by as much from one visit to the next
S = TypeVar("S", bound=Served)
Still = TypeVar("Still", bound=Starting | Blind | Restoring)


async def on_amended(
    turn: Turn, state: S, event: Amended
) -> S | Planning | Running | Holding | WaitingForSteps | Blind:
    """Take a changed envelope of the same session."""
    was_held, turn.record.spec = turn.is_held, event.spec
    turn.save()
    after: S | Planning | Running | Holding | WaitingForSteps | Blind = await _keep_limits(turn, state)
    if turn.is_held != was_held and turn.record.gate_open and not isinstance(after, Starting | Restoring):
        after = await (plan_hold.begin if turn.is_held else plan_hold.end)(turn, after)
    turn.publish(urgent=True)
    return after


async def on_policy(turn: Turn, state: S, event: PolicyChanged) -> S | Planning | Running:
    """Keep to the site's limits of this moment."""
    after = await _keep_limits(turn, state)
    turn.publish(urgent=True)
    return after


async def on_amended_only_noted(turn: Turn, state: Still, event: Amended) -> Still:
    """Take a changed envelope while nothing follows from it: it counts when the session goes on."""
    after = await on_amended(turn, state, event)
    assert after is state
    return state


async def on_policy_only_noted(turn: Turn, state: Still, event: PolicyChanged) -> Still:
    """Take the site's limits while nothing follows from them: they count when the session goes on."""
    after = await on_policy(turn, state, event)
    assert after is state
    return state


async def _keep_limits(turn: Turn, state: S) -> S | Planning | Running:
    after = await follow(turn, state)
    turn.set_guard()
    return after


async def follow(turn: Turn, state: S) -> S | Planning | Running:
    """Look at the limit of this moment, and act where it is another."""
    session = turn.session
    before, was = session.budget, session.ceiling
    session.budget = _budget_now(turn)
    session.ceiling = ceiling = turn.limits.ceiling
    limit_w, same = session.budget.power_w, before.power_w == session.budget.power_w
    # A lower limit of single readings is kept by the guard at the first of them.
    if same and not is_raised(was.reading_w, ceiling.reading_w):
        return await _follow_exploration(turn, state)
    turn.set_guard()
    turn.withdraw(REACHABLE)  # whether another limit could be kept says nothing about this one
    change = f"the limit changes: {watts(before.power_w)} → {watts(limit_w)} ({session.budget.source})"
    if same:
        change = f"the limit of readings changes: {watts(was.reading_w)} → {watts(ceiling.reading_w)}"
    return await _react(turn, state, same or is_raised(before.power_w, limit_w), change)


async def _react(turn: Turn, state: S, raised: bool, change: str) -> S | Planning | Running:
    record, counts_steps = turn.record, turn.session.step_seen
    if isinstance(state, Starting | Blind | Restoring):
        turn.say(record.reason, change)
        return state
    if not counts_steps and record.lacks_steps:
        return await climbing_without_steps.follow_limit(turn, state, raised, change)
    if record.phase not in (Phase.RUNNING, Phase.PROFILING) or not counts_steps:
        turn.say(record.reason, change)
        return state
    return await _move(turn, raised, change)


async def _move(turn: Turn, raised: bool, change: str) -> Planning | Running:
    """Run in the best proven mode under the new limit; then choose anew, or extend the profile.

    For a higher limit, and where a ledger lets modes be tried at the edge also for a lower one.
    """
    record = turn.record
    turn.leave_trial()
    forget_confirmations(turn)
    best, lowered_from = _best_proven(turn), record.lowered_from
    extends = raised or (turn.by_ledger and (best is None or best.mode != record.mode))
    if extends:
        record.extra += turn.settings.extension_modes
    exceeds, profiling = turn.guard.lowered and excess(turn) > 1.0, record.phase is Phase.PROFILING
    if best is None or best.mode != record.mode:
        record.checks = 0  # what promised to be better was checked under the other limit
    if best is not None:
        await choosing.run(turn, best, Reason.SCHEDULE, change)
        record.lowered_from = lowered_from if turn.guard.lowered else None
    else:
        left = (record.mode, turn.guard.observed_w) if exceeds else ()
        await turn.apply_unless_set(safe_mode(turn, *left))
        turn.say(Reason.SCHEDULE, change)
    if turn.is_held or (exceeds and not profiling):
        return Running()  # nothing is tried; by what was measured without the load, a choice would break the limit
    if profiling or extends:
        record.phase = Phase.PROFILING
    return turn.ask(Question.NEXT_MODE if profiling or extends else Question.CHOICE)


def _best_proven(turn: Turn) -> Point | None:
    """Return the best proven point; among equally fast ones the mode that runs, then one that was held and kept it."""
    best, limit_w = best_of(turn, _sure_points(turn)), turn.session.budget.power_w
    if best is None or limit_w is None:
        return best
    confirmed_modes = [mode for mode, under_w in turn.record.confirmed.items() if under_w <= limit_w]
    proven_points = turn.record.proven_points()
    for modes in ([turn.record.mode], confirmed_modes):
        preferred = best_of(turn, [point for point in proven_points if point.mode in modes])
        if preferred is not None and preferred.step_s <= EQUALLY_FAST * best.step_s:
            return preferred
    return best


def _sure_points(turn: Turn) -> list[Point]:
    """Return the proven points that keep their distance to the new limit, else all of them."""
    proven_points, windows = turn.record.proven_points(), windows_to_come(turn)
    if not turn.by_ledger:
        return proven_points
    # What follows at once may be held on its way: the choice comes next.
    sure = [p for p in proven_points if may_run(turn, p) or turn.watch.keeps(p.power_w, 0.0, windows)]
    return sure or proven_points


async def _follow_exploration(turn: Turn, state: S) -> S | Planning:
    """The limit of tried modes has fallen alone: what is tried above it is left at once."""
    limits, guard = turn.limits, turn.guard
    if (guard.limit_w, guard.hard_limit_w) != (limits.guarded_w, limits.hard_w):
        turn.set_guard()
    limit_w = limits.explore_w
    if not isinstance(state, TRIALS) or limit_w is None:
        return state
    tried_w = state.visit.limit_w
    if tried_w is not None and tried_w <= limit_w:
        return state
    change = f"the limit of tried modes changes: {watts(tried_w)} → {watts(limit_w)}"
    turn.leave_trial()
    await turn.apply_unless_set(safe_mode(turn))
    turn.set_guard()
    turn.say(Reason.SCHEDULE, change)
    return turn.ask(Question.NEXT_MODE if turn.record.phase is Phase.PROFILING else Question.CHOICE)


def _budget_now(turn: Turn) -> Budget:
    """Return the limit of this moment; say in a condition that the hours of a schedule can't be told, and can again."""
    facts, condition = turn.facts, find(turn.record.conditions, CLOCK)
    in_doubt = condition is not None and condition.status is ConditionStatus.FALSE
    if facts.clock_doubt and turn.spec.schedule:
        if not in_doubt:
            words = f"{facts.clock_doubt}: the lowest entry of the schedule holds"
            turn.condition(CLOCK, False, "ClockInDoubt", words)
    elif in_doubt:
        turn.condition(CLOCK, True, "ClockAgrees", "the board's clock is that of the API server")
    return schedule.budget_now(turn.spec, facts.now, facts.policy.max_watts, facts.clock_doubt, facts.site_source)
