"""The end: the board is restored once nobody needs the session; and what others change of its mode meanwhile."""

from __future__ import annotations

from typing import TypeVar

from powertrain.api.conditions import find
from powertrain.api.v1alpha1 import Phase, Reason
from powertrain_agent.governing import starting
from powertrain_agent.governing.commands import Forget, RestPlanner
from powertrain_agent.governing.events import ModeChecked, Restored, Resumed, Tick
from powertrain_agent.governing.starting import Started
from powertrain_agent.governing.states import Ended, New, Restoring, Served
from powertrain_agent.governing.turn import MODE_APPLIED, Turn

NOT_HELD = "NotHeld"
S = TypeVar("S", bound=Served)


def on_restored(turn: Turn, state: Served | New, event: Restored) -> Ended | Restoring:
    """End the session, unless something could not be restored: that is tried again."""
    record = turn.record
    if not event.problems:
        turn.do(RestPlanner())
        turn.do(Forget(event.reason))
        record.phase, record.restored, record.gate_open, record.verified = Phase.ENDED, True, False, False
        record.reason, record.message = Reason.HOLD, event.reason
        turn.publish(urgent=True)
        return Ended()
    before = state.phase if isinstance(state, Restoring) else record.phase
    former_words = (record.phase, record.message)
    record.phase = Phase.RESTORING
    record.message = f"{event.reason}, but not all could be restored: {'; '.join(event.problems)}"
    turn.leave_trial()
    turn.publish(urgent=former_words != (record.phase, record.message))
    return Restoring(before)


async def on_tick(turn: Turn, state: Restoring, event: Tick) -> Started:
    """The board is held again after all: the session goes on from what is recorded, as after a restart."""
    turn.record.phase = state.phase
    return await starting.on_resumed(turn, New(), Resumed())


def on_mode_checked(turn: Turn, state: S, event: ModeChecked) -> S:
    """Say in the session's conditions whether somebody else's change could be undone."""
    condition = find(turn.record.conditions, MODE_APPLIED)
    if event.problems:
        turn.condition(MODE_APPLIED, False, NOT_HELD, "; ".join(event.problems))
    elif condition is not None and condition.reason == NOT_HELD:
        turn.condition(MODE_APPLIED, True, "Verified", f"{event.mode} holds again")
    return state
