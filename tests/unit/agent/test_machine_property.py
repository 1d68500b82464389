"""Whatever happens in whatever order: the machine never fails, never raises a mode that it should not, and goes on.

Each history is a list of happenings in a small world (`machine_world.py`), whose every command is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from powertrain_agent.governing.states import (
    Checking,
    Climbing,
    Confirming,
    Ended,
    Profiling,
    Restoring,
    Revisiting,
    Running,
    State,
)

from .machine_world import SPACE, World, spec

Happening = Callable[[World], Any]


def _with(method: Callable[..., Any], **choices: st.SearchStrategy[Any]) -> st.SearchStrategy[Happening]:
    return st.fixed_dictionaries(choices).map(lambda drawn: lambda world: method(world, **drawn))


def _set(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Happening]:
    return values.map(lambda value: lambda world: setattr(world, name, value))


def _limits(watts: float | None, explore: float | None, peak: bool) -> dict[str, Any]:
    given = {"powerWatts": watts, "exploreWatts": explore, "powerStatistic": "Peak" if peak else "Mean"}
    return {name: value for name, value in given.items() if value is not None}


WATTS = st.sampled_from([None, 5.0, 9.0, 14.0, 20.0, 26.0, 40.0])
SECONDS = _with(World.second, count=st.integers(1, 4))
AMEND = st.builds(
    lambda limits, hold: lambda world: world.amend(limits=limits, plan={"maxModes": 4, "hold": hold}),
    st.builds(_limits, WATTS, st.sampled_from([None, 12.0, 30.0]), st.booleans()),
    st.sampled_from([False, False, True]),
)
HAPPENINGS = st.one_of(
    SECONDS,
    _with(World.attend, seconds=st.integers(1, 6)),
    _with(World.attend, seconds=st.integers(1, 6)),
    _with(World.answer, wrong=st.sampled_from([0, 1])),
    _with(World.fail_plan, unavailable=st.booleans()),
    _with(World.late_answer),
    AMEND,
    _with(World.allow, max_watts=WATTS),
    _set("sensor", st.booleans()),
    _set("trains", st.sampled_from([True, True, False])),
    _set("applies", st.sampled_from([True, True, False])),
    _set("admits", st.booleans()),
    _set("load_w", st.sampled_from([0.0, 0.0, 3.0, 12.0])),
    _set("lies", st.booleans()),
    _with(World.kill, boots=st.sampled_from([False, False, True])),
    st.just(lambda world: world.release(("it does not stick",))),
)
HISTORIES = st.lists(HAPPENINGS, min_size=2, max_size=9)


def _reach(wanted: type[State] | None, before: Happening = lambda world: None) -> World:
    """Bring a world to a state, by the happenings that usually lead there."""
    world = World(spec())
    world.trains = True
    before(world)
    for _ in range(400):
        if wanted is None or isinstance(world.state, wanted):
            return world
        world.attend(1)
    raise AssertionError(f"{wanted} was not reached; still {world.state}")


def _drifted(world: World) -> None:
    world.settles(100)
    world.record.checks = 9
    world.load_w = -2.0


# A history may begin in any state that sessions spend time in.
BEGINNINGS: dict[str, World] = {
    "new": _reach(None),
    "profiling": _reach(Profiling),
    "confirming": _reach(Confirming),
    "checking": _reach(Checking),
    "running": _reach(Running),
    "revisiting": _reach(Revisiting, _drifted),
    "climbing": _reach(Climbing, World.lose_steps),
    "climbed": _reach(Running, World.lose_steps),
}


def lived(beginning: str, history: list[Happening]) -> World:
    world = deepcopy(BEGINNINGS[beginning], {id(SPACE): SPACE})
    for happening in history:
        happening(world)
    return world


@settings(max_examples=1650)
@given(st.sampled_from(sorted(BEGINNINGS)), HISTORIES)
def test_no_history_makes_the_machine_fail_or_break_a_promise(beginning: str, history: list[Happening]) -> None:
    world = lived(beginning, history)
    assert isinstance(world.state, State)
    world.second()


@settings(max_examples=200)
@given(st.sampled_from(sorted(BEGINNINGS)), HISTORIES)
def test_every_state_is_left_once_its_cause_is_gone(beginning: str, history: list[Happening]) -> None:
    world = lived(beginning, history)
    world.mend()
    assert world.settles(240), f"still {world.state} in {world.record.phase}: {world.record.message}"


@settings(max_examples=200)
@given(st.sampled_from(sorted(BEGINNINGS)), HISTORIES)
def test_a_released_session_ends_and_nothing_follows(beginning: str, history: list[Happening]) -> None:
    world = lived(beginning, history)
    world.release(("a file is read-only",))
    assert isinstance(world.state, Restoring)
    world.release()
    assert isinstance(world.state, Ended)
    assert world.record.restored
    done = len(world.commands)
    world.second(3)
    world.late_answer()
    assert (world.state, world.commands[done:]) == (Ended(), [])
