"""The plan's hold: while it lasts no mode is tried. Nodes that train in step profile one at a time, the others held."""

from __future__ import annotations

from powertrain.api.v1alpha1 import Phase, Reason
from powertrain_agent.governing import choosing, onward
from powertrain_agent.governing.states import TRIALS, Blind, Holding, Planning, Running, Served, WaitingForSteps
from powertrain_agent.governing.turn import Turn


async def begin(turn: Turn, state: Served) -> Running | Holding | Blind:
    """Stop what is tried: keep the chosen mode, or the safe start mode; the guard stays on."""
    record, was_trying = turn.record, isinstance(state, TRIALS)
    turn.leave_trial()
    if turn.is_running:
        if was_trying and record.chosen is not None:
            return await choosing.run(turn, record.chosen, Reason.HOLD, "held by the plan: back to the chosen mode")
        turn.say(Reason.HOLD, "held by the plan: the mode stays")
        return Running()
    if record.phase is Phase.PROFILING:
        record.phase = Phase.STARTING
    await turn.apply_unless_set(record.start)
    turn.set_guard()
    turn.say(Reason.HOLD, f"held by the plan at the safe start mode; {record.measured} measured modes are kept")
    return state if isinstance(state, Blind) else Holding()


async def end(turn: Turn, state: Served) -> Blind | Holding | Planning | Running | WaitingForSteps:
    """Go on where the plan stopped the session."""
    because = "the plan holds the session no longer"
    turn.say(Reason.HOLD, because)
    return state if isinstance(state, Blind) else await onward.go_on(turn, because)
