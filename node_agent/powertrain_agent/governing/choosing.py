"""The choice: a mode that was measured to keep the limits runs; one that was only predicted is measured first."""

from __future__ import annotations

import math

from powertrain import PowerMode
from powertrain.api.v1alpha1 import Phase, Reason
from powertrain.limit_table import LIMITS, Quantity
from powertrain.objectives import Objective
from powertrain_agent.governing import trials
from powertrain_agent.governing.candidates import may_run, must_rest, point_of, safe_mode, within_limit
from powertrain_agent.governing.lowering import out_of_reach
from powertrain_agent.governing.states import Confirming, Running
from powertrain_agent.governing.turn import PROFILED, REACHABLE, Turn
from powertrain_agent.governing.visit import Purpose
from powertrain_agent.planning.front import Point, fastest_within, lowest
from powertrain_agent.planning.messages import PlannedChoice

LASTING_REASONS = (
    Reason.DRIFT,
    Reason.SCHEDULE,
    Reason.GUARD,
)  # why a mode changed outlives the refinement of the choice


async def choose(turn: Turn, choice: PlannedChoice, end_reason: str | None) -> Running | Confirming:
    """Take the planner's choice; `done` says why profiling ended."""
    because = choice.reason + (f" (profiling ended: {end_reason})" if end_reason else "")
    if choice.mode is None:
        return await stay_lowest(turn, because)
    turn.record.runner_up = choice.runner_up
    return await take(turn, choice.mode, because)


async def take(turn: Turn, planned_mode: PowerMode, because: str) -> Running | Confirming:
    """Run in a mode that was measured to keep the limit; one that was not is measured first."""
    record, ceiling = turn.record, turn.limits.ceiling
    mode = within_limit(turn, planned_mode)
    if mode is None:
        return await stay_lowest(turn, because)
    point = point_of(turn, mode)
    if mode != planned_mode and point is not None and _is_for_speed(turn):
        # A step lower was only a guess: what is proven may be faster.
        proven_points = [each for each in record.proven_points() if not turn.by_ledger or may_run(turn, each)]
        point = fastest_within([point, *proven_points], ceiling) or point
        mode = point.mode
    if turn.by_ledger:
        return await _take_by_ledger(turn, mode, point, because)
    if mode not in record.fresh or point is None:
        if turn.session.failed_confirmations < turn.settings.confirmations:
            visit = trials.visit_to(turn, mode, Purpose.CONFIRM, point.step_s if point else None)
            return await trials.set_out(turn, Confirming(visit, because), because)
        point = fastest_within(record.proven_points(), ceiling)
        because = "predicted modes failed again and again: the best measured one"
    if point is None:
        return await stay_lowest(turn, because)
    return await _run_chosen(turn, point, because)


async def _take_by_ledger(turn: Turn, mode: PowerMode, point: Point | None, because: str) -> Running | Confirming:
    """Run in a mode that was held under this limit, or was measured far enough below; hold any other first."""
    record, session = turn.record, turn.session
    if point is not None and may_run(turn, point):
        record.confirmed[mode] = min(turn.watch.limit_w, record.confirmed.get(mode, math.inf))
        return await _run_chosen(turn, point, because)
    if session.failed_confirmations < turn.settings.confirmations:
        visit = trials.visit_to(turn, mode, Purpose.CONFIRM, point.step_s if point else None)
        return await trials.set_out(turn, Confirming(visit, because), because)
    sure = [each for each in record.proven_points() if may_run(turn, each)]
    best = fastest_within(sure, turn.limits.ceiling)
    because = "modes closer to the limit failed again and again: the best that is far enough below"
    return await (stay_lowest(turn, because) if best is None else _run_chosen(turn, best, because))


async def _run_chosen(turn: Turn, point: Point, because: str) -> Running:
    record = turn.record
    turn.condition(PROFILED, True, "Complete", because)
    keeps_reason = record.reason in LASTING_REASONS and turn.session.running_since_s is not None
    return await run(turn, point, record.reason if keeps_reason else Reason.CHOSEN, because)


def _is_for_speed(turn: Turn) -> bool:
    limits = turn.spec.limits
    saves = any(getattr(limits, each.field) is not None for each in LIMITS if each.quantity is Quantity.ENERGY)
    return turn.spec.objective is Objective.MIN_TIME and not saves


async def run(turn: Turn, point: Point, reason: Reason, because: str) -> Running:
    """Train in this mode from now on; after a visit above the limit the board may have to rest first."""
    record, session = turn.record, turn.session
    record.phase, record.chosen, record.lowered_from = Phase.RUNNING, point, None
    waits = point.mode != record.mode and must_rest(turn, point)
    if waits:
        await turn.apply_unless_set(safe_mode(turn))
    elif point.mode != record.mode:
        applied = await turn.apply(point.mode)
        if not applied.ok:
            because = f"it could not be set ({applied.reason}); it was chosen because: {because}"
    turn.set_guard()
    turn.drift.expect(point if session.step_seen else None)
    session.running_since_s = turn.now_s
    limit = "no limit" if session.budget.power_w is None else f"limit {session.budget.power_w:g} W"
    if record.verified:
        session.unlowered = ()  # readings above the limit say otherwise anew
        turn.condition(REACHABLE, True, "Kept", f"{point.power_w:.1f} W expected, {limit}")
    turn.say(reason, f"{point.mode.human}: {because}", mode=str(point.mode), powerWatts=round(point.power_w, 2))
    if record.checks >= turn.settings.checks:
        turn.rest_planner()
    if waits and record.verified:
        return Running(rests_until_s=turn.now_s + turn.watch.patience_s)
    return Running() if record.verified or not session.step_seen else Running(turn.now_s + turn.settings.retry_s)


async def stay_lowest(turn: Turn, because: str) -> Running:
    """Nothing keeps the limits: stay at the least power and say so."""
    record, session = turn.record, turn.session
    lowest_point = lowest(record.proven_points())
    mode = lowest_point.mode if lowest_point is not None else record.start
    await turn.apply_unless_set(mode)
    closest = f"the closest mode is {mode}" + (f", {lowest_point.power_w:.1f} W" if lowest_point is not None else "")
    record.phase, record.chosen, record.lowered_from = Phase.RUNNING, lowest_point, None
    session.running_since_s = turn.now_s
    turn.set_guard()
    turn.drift.expect(lowest_point if session.step_seen else None)  # what becomes less may come within reach
    reason = out_of_reach(turn, f"{because}: {closest}")
    if session.step_seen:
        turn.condition(PROFILED, True, "Complete", because)
    turn.say(Reason.GUARD, f"{reason}: {because}; the mode of least power is kept")
    turn.rest_planner()
    return Running()
