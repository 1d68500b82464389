"""The machine: `decide(session, state, event, facts) -> (state, commands)`, by one table of states and events.

It is pure: it reads no clock, no file and no board. `Facts` are what is true at the moment, commands are what the
executor does afterwards. A decision may need the result of a command (was the mode set?): then `decide` returns
`Waiting`, the executor carries the commands out, and `decide` goes on with the result as its event.

The return types of the handlers are the transitions: mypy checks them, docs/how-the-agent-thinks.md shows them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from powertrain_agent.governing import (
    budget_changes,
    climbing_without_steps,
    ending,
    monitoring,
    profiling,
    revisiting,
    sensor_loss,
    starting,
    trials,
)
from powertrain_agent.governing.commands import Command
from powertrain_agent.governing.events import (
    Amended,
    Inspected,
    ModeApplied,
    ModeChecked,
    Opened,
    PolicyChanged,
    ReportDue,
    Restored,
    Result,
    Resumed,
    SessionEvent,
    Tick,
)
from powertrain_agent.governing.session import Facts, Session
from powertrain_agent.governing.states import (
    TRIALS,
    Blind,
    Checking,
    Climbing,
    Confirming,
    Ended,
    Holding,
    New,
    Planning,
    Profiling,
    Refused,
    Restoring,
    Revisiting,
    Running,
    Starting,
    State,
    Trial,
    WaitingForSteps,
)
from powertrain_agent.governing.turn import Turn
from powertrain_agent.planning.messages import Planned
from powertrain_agent.steps import StepsSeen, TrainingSaid
from powertrain_agent.telemetry import Reading

S = TypeVar("S")
Handler = Callable[[Turn, Any, Any], State | Awaitable[State]]
Row = Mapping[type, Handler]


@dataclass(frozen=True)
class Waiting:
    """A decision that waits for the result of its last command; nothing else is decided meanwhile."""

    decision: Coroutine[Any, Any, State]
    turn: Turn


def stay(turn: Turn, state: S, event: object) -> S:
    """Ignore the event."""
    return state


_SERVED: Row = {
    Reading: monitoring.on_reading,
    StepsSeen: monitoring.on_steps,
    TrainingSaid: monitoring.on_training_said,
    Planned: stay,  # an answer that nobody waits for any more
    Amended: budget_changes.on_amended,
    PolicyChanged: budget_changes.on_policy,
    ModeChecked: ending.on_mode_checked,
    Restored: ending.on_restored,
    ReportDue: monitoring.on_report_due,
}
_STILL: Row = {
    **_SERVED,
    StepsSeen: monitoring.on_steps_only_counted,
    Amended: budget_changes.on_amended_only_noted,
    PolicyChanged: budget_changes.on_policy_only_noted,
}
_TRIAL: Row = {
    **_SERVED,
    Reading: monitoring.on_reading_in_trial,
    StepsSeen: monitoring.on_steps_in_trial,
    Tick: monitoring.on_tick_in_trial,
}
TABLE: Mapping[type[State], Row] = {
    New: {Opened: starting.on_opened, Resumed: starting.on_resumed, Restored: ending.on_restored},
    Starting: {**_STILL, Tick: starting.on_tick},
    WaitingForSteps: {**_SERVED, Tick: monitoring.on_tick_while_waiting},
    Holding: {**_SERVED, Tick: monitoring.on_tick_while_holding},
    Planning: {
        **_SERVED,
        Reading: monitoring.on_reading_while_planning,
        Planned: profiling.on_planned,
        Tick: monitoring.on_tick_while_planning,
    },
    Profiling: _TRIAL,
    Confirming: _TRIAL,
    Checking: _TRIAL,
    Revisiting: _TRIAL,
    Climbing: {**_TRIAL, StepsSeen: monitoring.on_steps},
    Running: {**_SERVED, Reading: monitoring.on_reading_while_running, Tick: monitoring.on_tick_while_running},
    Blind: {**_STILL, Tick: sensor_loss.on_tick},
    Restoring: {**_STILL, Tick: ending.on_tick},
    Ended: {},
    Refused: {},
}
# What follows when the visit of a trial has ended, whatever event ended it.
CONCLUSIONS: Mapping[type[Trial], Handler] = {
    Profiling: profiling.profiled,
    Confirming: profiling.confirmed,
    Checking: profiling.checked,
    Revisiting: revisiting.revisited,
    Climbing: climbing_without_steps.climbed,
}


def decide(
    session: Session, state: State | Waiting, event: SessionEvent, facts: Facts
) -> tuple[State | Waiting, list[Command]]:
    """Return the next state and what is to be done, in this order; only the session's own memory changes."""
    if not isinstance(state, Waiting):
        turn = Turn(session, facts)
        return advance(turn, _decision(turn, state, event))
    if not isinstance(event, ModeApplied | Inspected):
        raise TypeError(f"a decision waits for the board, and {event} is not a result")
    state.turn.facts, state.turn.commands = facts, []
    return advance(state.turn, state.decision, event)


def advance(
    turn: Turn, decision: Coroutine[Any, Any, State], result: Result | None = None
) -> tuple[State | Waiting, list[Command]]:
    """Run a decision to its end, or until it needs the result of a command."""
    try:
        decision.send(result)
    except StopIteration as end:
        return end.value, turn.commands
    return Waiting(decision, turn), turn.commands


async def _decision(turn: Turn, state: State, event: SessionEvent) -> State:
    after = await _awaited(TABLE[type(state)].get(type(event), stay)(turn, state, event))
    while isinstance(after, TRIALS) and after.visit.outcome is not None:
        await trials.end(turn, after.visit, after.visit.outcome)
        after = await _awaited(CONCLUSIONS[type(after)](turn, after, after.visit.outcome))
    return after


async def _awaited(after: State | Awaitable[State]) -> State:
    return await after if isinstance(after, Awaitable) else after
