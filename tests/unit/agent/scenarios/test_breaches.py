"""Power that breaks a limit for good or for a while: how far the guard goes down, how long it stays, what it leaves."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from powertrain import PowerMode
from powertrain_agent.governor.approach import one_step_lower
from powertrain_agent.governor.front import Point
from powertrain_agent.simulate import Fault, FaultKind
from powertrain_agent.telemetry import Reading

from .conftest import Stage, envelope

BUDGET_W = 30.0
PEAK = {"powerWatts": 30, "powerStatistic": "Peak"}


@dataclass(frozen=True)
class Action:
    """One change of the mode: when, to what, and what the board settles at then."""

    at_s: float
    mode: PowerMode
    steady_w: float


def watched(stage: Stage) -> list[Action]:
    """Every mode that is set from now on."""
    course, actions, began_s = stage.rehearsal.governor.course, [], stage.clock()
    assert course is not None
    set_mode = course.helm.set_mode

    def noted(mode: PowerMode) -> object:
        applied = set_mode(mode)
        actions.append(Action(stage.clock() - began_s, mode, stage.true_w()))
        return applied

    course.helm.set_mode = noted  # type: ignore[method-assign, assignment]
    return actions


def load(stage: Stage, watts: float) -> None:
    """Something beside the training takes power, in every mode."""
    stage.board.inject(Fault(FaultKind.POWER_OFFSET, value=watts))


def mode_of(stage: Stage) -> PowerMode:
    state = stage.rehearsal.governor.state
    assert state is not None
    assert state.mode is not None
    return state.mode


def start_of(stage: Stage) -> PowerMode:
    state = stage.rehearsal.governor.state
    assert state is not None
    assert state.start is not None
    return state.start


@pytest.mark.parametrize("limits", [PEAK, {"hardLimitWatts": 30}])
def test_one_breach_of_a_limit_for_readings_costs_one_mode(running: Stage, limits: dict[str, object]) -> None:
    running.rehearsal.envelope(envelope(generation=2, limits=limits))
    running.run(60, running.is_settled)
    running.run(10)
    before, actions = running.status.violations, watched(running)
    load(running, 4.0)
    running.run(20)
    assert len(actions) == 1
    assert actions[0].at_s <= 0.2, "the first reading above leaves the mode"
    assert 22.0 < actions[0].steady_w < BUDGET_W - 4.0, "no lower than it must"
    assert 1 <= running.status.violations - before <= 12, "each reading is counted, also while the power falls"
    running.board.clear()
    running.run(60, lambda: len(actions) > 1)
    assert running.true_w() > actions[0].steady_w, "after the quiet time, also where nothing but readings is limited"


def test_a_lowered_limit_is_followed_without_the_guard(running: Stage) -> None:
    actions = watched(running)
    available = {"watts": 24, "observedAt": "2026-06-01T12:00:00Z"}
    running.rehearsal.envelope(envelope(generation=2, availableWatts=available))
    running.run(4)
    assert 20.0 < actions[0].steady_w <= 24.0
    assert not any(line.startswith("Guard") for line in running.said()), "it waits until the power has followed"
    assert running.status.violations == 0


# What the guard picks, without a board's time


def picked(stage: Stage, points: list[Point], watts: float) -> PowerMode | None:
    """What the guard goes to from the present mode, if just these points are known."""
    course, state = stage.rehearsal.governor.course, stage.rehearsal.governor.state
    assert course is not None
    assert state is not None
    state.reports, state.points = [], points
    return course.helm._lower_mode(Reading(stage.clock(), watts), BUDGET_W)


def test_a_mode_of_which_nothing_is_known_is_left_for_one_that_is_nowhere_above_it(running: Stage) -> None:
    now, space = mode_of(running), running.rehearsal.governor.course.tools.board.space  # type: ignore[union-attr]
    below = one_step_lower(space, now)
    assert below is not None
    beside = PowerMode(now.cores, int(space.cpu_khz[-1]), below.gpu_hz, now.emc_hz)
    assert picked(running, [Point(below, 0.2, 20.0), Point(beside, 0.1, 15.0)], 31.0) == below
    assert picked(running, [Point(beside, 0.1, 15.0)], 31.0) == start_of(running)


def test_figures_that_contradict_each_other_lead_round_in_no_circle(running: Stage) -> None:
    course, state = running.rehearsal.governor.course, running.rehearsal.governor.state
    assert course is not None
    assert state is not None
    space = course.tools.board.space
    low = start_of(running)
    higher = PowerMode(low.cores, int(space.cpu_khz[3]), int(space.gpu_hz[1]), low.emc_hz)
    middle = PowerMode(low.cores, int(space.cpu_khz[1]), int(space.gpu_hz[1]), low.emc_hz)
    other = PowerMode(low.cores, low.cpu_khz, int(space.gpu_hz[2]), low.emc_hz)
    # The higher one seems to take the least: an old figure, or a wrong prediction.
    points = [Point(higher, 0.3, 10.0), Point(middle, 0.4, 12.0), Point(other, 0.5, 11.0)]
    visited = [mode_of(running)]
    for _ in range(12):
        found = picked(running, points, 45.0)
        if found is None or found == state.mode:
            break
        assert found not in visited
        visited.append(found)
        state.mode = found
    assert state.mode == low
