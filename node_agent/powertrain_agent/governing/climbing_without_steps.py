"""Without steps the training's speed is not known: modes of rising power are tried until the power says stop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from powertrain.api.v1alpha1 import Instrumentation, Reason
from powertrain_agent.governing import choosing, trials
from powertrain_agent.governing.candidates import best_of
from powertrain_agent.governing.measurement_window import Verdict, WindowOutcome
from powertrain_agent.governing.states import Climbing, Planning, Running, Served
from powertrain_agent.governing.turn import Turn
from powertrain_agent.governing.visit import Purpose
from powertrain_agent.planning.front import Point
from powertrain_agent.planning.messages import Question

STEPS = "StepSignal"
S = TypeVar("S", bound=Served)


def is_due(turn: Turn) -> bool:
    """Say whether the training is known to count no steps."""
    return turn.record.lacks_steps or turn.spec.workload.instrumentation is Instrumentation.NONE


def overdue(turn: Turn) -> Planning | None:
    """Begin to climb when the first step has been waited for long enough."""
    opened_s, patience_s = turn.session.gate_opened_s, turn.settings.no_steps_s
    if turn.record.lacks_steps or opened_s is None or turn.now_s - opened_s < patience_s:
        return None
    return begin(turn, f"no step within {patience_s:.0f} s")


def begin(turn: Turn, because: str) -> Planning:
    """Say why, and ask for the way up."""
    turn.record.lacks_steps = True
    turn.condition(STEPS, False, "NoStepSignal", because)
    turn.say(Reason.NO_STEP_SIGNAL, f"NoStepSignal: {because}; climbing by power alone")
    return turn.ask(Question.WAY_UP)


async def again(turn: Turn, reason: Reason, because: str) -> Running | Planning:
    """Without steps nothing can be chosen anew: the fastest mode that the climb has proven, else the climb."""
    best = _best(turn)
    return begin(turn, because) if best is None else await choosing.run(turn, best, reason, because)


async def follow_limit(turn: Turn, state: S, raised: bool, change: str) -> S | Planning | Running:
    """Keep to another limit at once, as far as the climb has come; a higher one is climbed on."""
    climbs = isinstance(state, Climbing) or (isinstance(state, Planning) and state.question is Question.WAY_UP)
    best, has_points = _best(turn), bool(turn.record.points)
    turn.leave_trial()
    after: S | Running = state
    if best is not None:
        after = await choosing.run(turn, best, Reason.SCHEDULE, change)
    elif has_points:
        return await choosing.stay_lowest(turn, change)
    return begin(turn, change) if (raised or climbs or not has_points) and not turn.is_held else after


async def climb(turn: Turn, points: Iterable[Point]) -> Climbing | Running:
    """Climb these points, of rising power; those that are climbed already say nothing new."""
    climbed = {point.mode for point in turn.record.points}
    return await _next(turn, tuple(point for point in points if point.mode not in climbed))


async def climbed(turn: Turn, state: Climbing, outcome: WindowOutcome) -> Climbing | Running:
    """Take the power of one point; the next one follows as long as there is room."""
    if outcome.verdict is not Verdict.MEASURED or outcome.sample is None:
        return await _end(turn, outcome.reason)
    record, point = turn.record, Point.of(outcome.sample, outcome.noise)
    record.points = [*(p for p in record.points if p.mode != point.mode), point]
    if not turn.limits.ceiling.holds(point):
        return await _end(turn, f"{point.power_w:.2f} W is at the limit's edge")
    return await _next(turn, state.left)


async def _next(turn: Turn, left: tuple[Point, ...]) -> Climbing | Running:
    if not left:
        return await _end(turn, "the top of the reference's front is reached")
    visit = trials.visit_to(turn, left[0].mode, Purpose.CLIMB, left[0].step_s)
    return await trials.set_out(turn, Climbing(visit, left[1:]), "power alone")


def _best(turn: Turn) -> Point | None:
    record, limit_w = turn.record, turn.session.budget.power_w
    left = [] if limit_w is None else record.left_above(limit_w)
    return best_of(turn, [point for point in record.points if point.mode not in left])


async def _end(turn: Turn, because: str) -> Running:
    best = _best(turn)
    if best is None:
        return await choosing.stay_lowest(turn, because)
    words = f"NoStepSignal: fastest by the reference within the limit; {because}"
    return await choosing.run(turn, best, Reason.NO_STEP_SIGNAL, words)
