"""What now? The one place that answers it, whenever something that kept the session from going on is over."""

from __future__ import annotations

from powertrain.api.v1alpha1 import Phase, Reason
from powertrain_agent.governing import choosing, climbing_without_steps, profiling
from powertrain_agent.governing.candidates import chosen_or_best
from powertrain_agent.governing.states import Holding, Planning, Running, WaitingForSteps
from powertrain_agent.governing.turn import Turn
from powertrain_agent.planning.messages import Question

CHOSEN = (Phase.RUNNING, Phase.HOLDING)  # a mode was chosen before


async def go_on(turn: Turn, because: str) -> Holding | Planning | Running | WaitingForSteps:
    """Take up what the session is about by what is known of it.

    1. Held by the plan: the chosen mode, else the safe start.
    2. Steps are seen: go on profiling, choose again, or begin.
    3. No steps: the fastest mode that a climb has proven, the climb, or wait for them.
    """
    phase = turn.record.phase
    if turn.is_held:
        return await _hold(turn, because)
    if turn.session.step_seen:
        if phase is Phase.PROFILING:
            return turn.ask(Question.NEXT_MODE)
        return turn.ask(Question.CHOICE) if phase in CHOSEN else profiling.begin(turn)
    if not climbing_without_steps.is_due(turn):
        return WaitingForSteps()
    if phase in CHOSEN:
        return await climbing_without_steps.again(turn, Reason.NO_STEP_SIGNAL, because)
    return climbing_without_steps.begin(turn, because)


async def _hold(turn: Turn, because: str) -> Holding | Running:
    point = chosen_or_best(turn) if turn.record.phase in CHOSEN else None
    if point is None:
        return Holding()
    return await choosing.run(turn, point, Reason.HOLD, f"{because}: the chosen mode, held by the plan")
