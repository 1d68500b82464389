"""The transitions that the types of the machine's handlers declare: for its documentation and its tests."""

from __future__ import annotations

from typing import TypeVar, get_args, get_type_hints

from powertrain_agent.governing.machine import CONCLUSIONS, TABLE, Handler, stay
from powertrain_agent.governing.states import State, Trial


def targets(state: type[State], event: type) -> tuple[type[State], ...]:
    """Return the states that an event may lead to, in the order in which they are declared; itself where ignored."""
    return _returned(TABLE[state].get(event, stay), state)


def conclusions(state: type[Trial]) -> tuple[type[State], ...]:
    """Return the states that follow when the visit of a trial has ended."""
    return _returned(CONCLUSIONS[state], state)


def _returned(handler: Handler, state: type[State]) -> tuple[type[State], ...]:
    declared = get_type_hints(handler)["return"]
    listed = get_args(declared) or (declared,)
    return tuple(dict.fromkeys(state if isinstance(each, TypeVar) else each for each in listed))
