"""Whatever happens in whatever order: the machine never fails, never raises a mode that it should not, and goes on.

Each history is a list of happenings in a small world (`machine_harness.py`), whose every command is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from powertrain_agent.governing.commands import ApplyMode
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

from .machine_harness import SPACE, SessionHarness, power_w, spec

Happening = Callable[[SessionHarness], Any]


def _with(method: Callable[..., Any], **choices: st.SearchStrategy[Any]) -> st.SearchStrategy[Happening]:
    return st.fixed_dictionaries(choices).map(lambda drawn: lambda harness: method(harness, **drawn))


def _set(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Happening]:
    return values.map(lambda value: lambda harness: setattr(harness, name, value))


def _limits(watts: float | None, explore: float | None, peak: bool) -> dict[str, Any]:
    limits = {"powerWatts": watts, "exploreWatts": explore, "powerStatistic": "Peak" if peak else "Mean"}
    return {name: value for name, value in limits.items() if value is not None}


WATTS = st.sampled_from([None, 5.0, 9.0, 14.0, 20.0, 26.0, 40.0])
SECONDS = _with(SessionHarness.second, count=st.integers(1, 4))
AMEND = st.builds(
    lambda limits, hold: lambda harness: harness.amend(limits=limits, plan={"maxModes": 4, "hold": hold}),
    st.builds(_limits, WATTS, st.sampled_from([None, 12.0, 30.0]), st.booleans()),
    st.sampled_from([False, False, True]),
)
HAPPENINGS = st.one_of(
    SECONDS,
    _with(SessionHarness.attend, seconds=st.integers(1, 6)),
    _with(SessionHarness.attend, seconds=st.integers(1, 6)),
    _with(SessionHarness.answer, wrong=st.sampled_from([0, 1])),
    _with(SessionHarness.fail_plan, unavailable=st.booleans()),
    _with(SessionHarness.late_answer),
    AMEND,
    _with(SessionHarness.allow, max_watts=WATTS),
    _set("sensor", st.booleans()),
    _set("trains", st.sampled_from([True, True, False])),
    _set("applies", st.sampled_from([True, True, False])),
    _set("admits", st.booleans()),
    _set("load_w", st.sampled_from([0.0, 0.0, 3.0, 12.0])),
    _set("lies", st.booleans()),
    _with(SessionHarness.kill, boots=st.sampled_from([False, False, True])),
    st.just(lambda harness: harness.release(("it does not stick",))),
)
HISTORIES = st.lists(HAPPENINGS, min_size=2, max_size=9)


def _reach(target_state: type[State] | None, before: Happening = lambda harness: None) -> SessionHarness:
    """Bring a world to a state, by the happenings that usually lead there."""
    harness = SessionHarness(spec())
    harness.trains = True
    before(harness)
    for _ in range(400):
        if target_state is None or isinstance(harness.state, target_state):
            return harness
        harness.attend(1)
    raise AssertionError(f"{target_state} was not reached; still {harness.state}")


def _drifted(harness: SessionHarness) -> None:
    harness.settles(100)
    harness.record.checks = 9
    harness.load_w = -2.0


# A history may begin in any state that sessions spend time in.
BEGINNINGS: dict[str, SessionHarness] = {
    "new": _reach(None),
    "profiling": _reach(Profiling),
    "confirming": _reach(Confirming),
    "checking": _reach(Checking),
    "running": _reach(Running),
    "revisiting": _reach(Revisiting, _drifted),
    "climbing": _reach(Climbing, SessionHarness.lose_steps),
    "climbed": _reach(Running, SessionHarness.lose_steps),
}


def lived(beginning: str, history: list[Happening]) -> SessionHarness:
    harness = deepcopy(BEGINNINGS[beginning], {id(SPACE): SPACE})
    for happening in history:
        happening(harness)
    return harness


@settings(max_examples=1650)
@given(st.sampled_from(sorted(BEGINNINGS)), HISTORIES)
def test_no_history_makes_the_machine_fail_or_break_a_promise(beginning: str, history: list[Happening]) -> None:
    harness = lived(beginning, history)
    assert isinstance(harness.state, State)
    harness.second()


def test_a_trial_that_waits_for_lower_power_does_not_set_out_at_a_reading_above_its_limit() -> None:
    harness = lived("checking", [])
    harness.load_w = 12.0
    harness.second(2)
    harness.amend(limits={"exploreWatts": 12.0, "powerStatistic": "Mean"}, plan={"maxModes": 4})
    before, done = harness.mode, len(harness.commands)
    harness.attend(1)
    modes = [command.mode for command in harness.commands[done:] if isinstance(command, ApplyMode)]
    assert [mode for mode in modes if power_w(mode) > power_w(before)] == []


@settings(max_examples=200)
@given(st.sampled_from(sorted(BEGINNINGS)), HISTORIES)
def test_every_state_is_left_once_its_cause_is_gone(beginning: str, history: list[Happening]) -> None:
    harness = lived(beginning, history)
    harness.mend()
    assert harness.settles(240), f"still {harness.state} in {harness.record.phase}: {harness.record.message}"


@settings(max_examples=200)
@given(st.sampled_from(sorted(BEGINNINGS)), HISTORIES)
def test_a_released_session_ends_and_nothing_follows(beginning: str, history: list[Happening]) -> None:
    harness = lived(beginning, history)
    harness.release(("a file is read-only",))
    assert isinstance(harness.state, Restoring)
    harness.release()
    assert isinstance(harness.state, Ended)
    assert harness.record.restored
    commands_before = len(harness.commands)
    harness.second(3)
    harness.late_answer()
    assert (harness.state, harness.commands[commands_before:]) == (Ended(), [])
