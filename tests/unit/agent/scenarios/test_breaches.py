"""Power that breaks a limit for good or for a while: how far the guard goes down, how long it stays, what it leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest

from powertrain import PowerMode
from powertrain_agent.governing import trials
from powertrain_agent.governing.approach import one_step_lower
from powertrain_agent.governing.candidates import lower_mode
from powertrain_agent.governing.choosing import stay_lowest
from powertrain_agent.governing.ports import Applied
from powertrain_agent.governing.settings import SessionSettings
from powertrain_agent.governing.states import Confirming, Planning, State
from powertrain_agent.governing.turn import Turn
from powertrain_agent.governing.visit import Purpose
from powertrain_agent.metrics import AgentMetrics
from powertrain_agent.planning.front import Point
from powertrain_agent.planning.messages import PlanAnswer, Planned, PlannedChoice, Question
from powertrain_agent.simulate import Fault, FaultKind
from powertrain_agent.telemetry import Reading

from .conftest import WORKLOAD, Scenario, envelope

NewScenario = Callable[..., Scenario]
BUDGET_W = 30.0
PEAK = {"powerWatts": 30, "powerStatistic": "Peak"}


@dataclass(frozen=True)
class Action:
    """One change of the mode: when, to what, and what the board settles at then."""

    at_s: float
    mode: PowerMode
    steady_w: float


def watched(scenario: Scenario) -> list[Action]:
    """Every mode that is set from now on."""
    actions: list[Action] = []
    board, began_s = scenario.simulation.sessions.ports.board, scenario.clock()
    apply = board.apply

    def note_mode(mode: PowerMode) -> Applied:
        applied = apply(mode)
        actions.append(Action(scenario.clock() - began_s, mode, scenario.true_w()))
        return applied

    board.apply = note_mode  # type: ignore[method-assign]
    return actions


def load(scenario: Scenario, watts: float) -> None:
    """Something beside the training takes power, in every mode."""
    scenario.board.inject(Fault(FaultKind.POWER_OFFSET, value=watts))


def mode_of(scenario: Scenario) -> PowerMode:
    state = scenario.simulation.sessions.record
    assert state is not None
    assert state.mode is not None
    return state.mode


def start_of(scenario: Scenario) -> PowerMode:
    state = scenario.simulation.sessions.record
    assert state is not None
    assert state.start is not None
    return state.start


def test_power_above_the_limit_in_every_mode_ends_at_the_lowest_and_is_told_once(running: Scenario) -> None:
    chosen, actions = mode_of(running), watched(running)
    load(running, 18.0)
    running.run(20, lambda: running.condition("BudgetReachable") == ("False", "BudgetUnreachable"))
    assert mode_of(running) == start_of(running)
    assert 1 <= len(actions) <= 4
    assert actions[0].at_s < 1.0
    watts = [action.steady_w for action in actions]
    assert watts == sorted(watts, reverse=True)
    assert len({action.mode for action in actions} | {chosen}) == len(actions) + 1, "no mode is visited twice"
    running.run(280)
    assert mode_of(running) == start_of(running), "while the load is there, nothing higher is tried"
    assert len([line for line in running.decisions() if "BudgetUnreachable" in line]) == 1
    assert watts == [action.steady_w for action in actions]
    running.board.clear()
    running.run(50)
    assert mode_of(running) == start_of(running)
    running.run(30, lambda: mode_of(running) == chosen)
    assert running.has_decided("quiet for 60 s: is a faster mode possible again?")
    assert running.condition("BudgetReachable") == ("True", "Kept")


def test_a_load_that_stays_costs_two_windows_is_learnt_and_forgotten_when_it_goes(running: Scenario) -> None:
    chosen, expected_w = running.status.mode, running.status.predicted.power_watts
    load(running, 15.0)
    running.run(300)
    assert running.status.violations <= 2, "nothing that must break the limit again is tried"
    assert running.has_decided("a uniform shift")
    assert running.condition("BudgetReachable") == ("True", "Kept")
    running.board.clear()
    running.run(120, lambda: running.status.mode == chosen)
    running.run(100)
    assert running.status.mode == chosen
    assert running.status.predicted.power_watts == pytest.approx(expected_w, rel=0.03)
    assert running.status.violations <= 2


def test_a_load_that_comes_while_a_point_is_measured_again_leads_to_a_mode_of_less_power(running: Scenario) -> None:
    running.simulation.envelope(
        envelope(generation=2, plan={"maxModes": 8, "validateEverySeconds": 60, "caution": "High"})
    )
    running.run(100, lambda: running.has_decided("validated every 60 s"))
    actions, before_w = watched(running), running.true_w()
    load(running, 12.0)
    running.run(3)
    assert running.has_decided("unsafe: a reading of")
    assert actions
    assert max(action.steady_w for action in actions) < before_w
    samples = running.status.result.samples.samples()
    assert len([sample for sample in samples if sample.unsafe]) == 1, "what is read after that is of the mode before"


@pytest.mark.parametrize("limits", [PEAK, {"hardLimitWatts": 30}])
def test_one_breach_of_a_limit_for_readings_costs_one_mode(running: Scenario, limits: dict[str, object]) -> None:
    running.simulation.envelope(envelope(generation=2, limits=limits))
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


def test_a_lowered_limit_is_followed_without_the_guard(running: Scenario) -> None:
    actions = watched(running)
    available = {"watts": 24, "observedAt": "2026-06-01T12:00:00Z"}
    running.simulation.envelope(envelope(generation=2, availableWatts=available))
    running.run(4)
    assert 20.0 < actions[0].steady_w <= 24.0
    assert not any(line.startswith("Guard") for line in running.decisions()), "it waits until the power has followed"
    assert running.status.violations == 0


def test_a_lower_limit_while_a_load_holds_the_mode_down_does_not_go_up(running: Scenario) -> None:
    load(running, 8.0)
    running.run(15, lambda: running.status.reason == "Guard")
    running.run(10)
    before_w, violations = running.true_w(), running.status.violations
    running.simulation.envelope(envelope(generation=2, limits={"powerWatts": 27}))
    running.run(20)
    assert running.true_w() <= before_w
    assert running.true_w() + 8.0 <= 27.0
    assert running.status.violations <= violations + 1
    running.board.clear()
    running.run(200, lambda: running.true_w() > 25.0)
    assert running.true_w() <= 27.0


def test_a_limit_that_nothing_keeps_under_a_load_leads_to_the_lowest_mode(running: Scenario) -> None:
    load(running, 12.0)
    running.run(15, lambda: running.status.reason == "Guard")
    running.run(10)
    actions, before_w = watched(running), running.true_w()
    running.simulation.envelope(envelope(generation=2, limits={"powerWatts": 24}))
    running.run(20)
    assert mode_of(running) == start_of(running)
    assert max((action.steady_w for action in actions), default=0.0) <= before_w


def test_an_answer_that_was_asked_for_before_the_breach_does_not_go_up(running: Scenario) -> None:
    chosen = mode_of(running)
    running.simulation._fit_s = 4.0
    running.decide(lambda turn: turn.ask(Question.CHOICE))
    load(running, 8.0)
    running.run(3, lambda: running.status.reason == "Guard")
    actions = watched(running)
    running.run(5)
    assert chosen not in [action.mode for action in actions]


def test_a_held_session_goes_back_to_its_mode_after_the_quiet_time_and_tries_nothing(running: Scenario) -> None:
    chosen = running.status.mode
    held_plan = {"maxModes": 8, "hold": True}
    running.simulation.envelope(envelope(generation=2, plan=held_plan))
    load(running, 4.0)
    running.run(15, lambda: running.status.mode != chosen)
    running.restart_agent()
    running.simulation.envelope(envelope(generation=2, plan=held_plan))
    running.run(5)
    assert running.status.mode != chosen, "a restart is no reason to go up"
    running.run(100)
    assert running.status.mode != chosen, "nor is a quiet time, while the mode takes more than was measured"
    running.board.clear()
    actions = watched(running)
    running.run(70, lambda: running.status.mode == chosen)
    assert len(actions) == 1
    assert running.status.reason == "Hold"


def test_a_sensor_that_is_back_while_the_guard_holds_the_mode_down_is_no_reason_to_go_up(running: Scenario) -> None:
    chosen = running.status.mode
    load(running, 4.0)
    running.run(15, lambda: running.status.reason == "Guard")
    lowered = mode_of(running)
    running.board.inject(Fault(FaultKind.FAIL_READ, "curr*_input"))
    running.run(10, lambda: running.status.phase == "Holding")
    running.board.clear()
    load(running, 4.0)
    actions = watched(running)
    running.run(10, running.is_running)
    running.run(5)
    assert [action.mode for action in actions] == [lowered]
    running.board.clear()
    running.run(80, lambda: running.status.mode == chosen)


def test_an_agent_that_is_back_after_the_limit_has_fallen_takes_a_mode_that_keeps_it(running: Scenario) -> None:
    entry = {"from": "12:20", "to": "13:00", "watts": 25}
    running.simulation.envelope(envelope(generation=2, schedule=[entry]))
    running.clock.now_s += 1500.0
    running.restart_agent()
    assert running.true_w() <= 25.0
    running.run(5)
    assert running.status.violations == 0


def test_a_guard_window_that_changes_does_not_keep_a_lowered_mode_for_ever(running: Scenario) -> None:
    chosen = running.status.mode
    load(running, 4.0)
    running.run(15, lambda: running.status.mode != chosen)
    running.simulation.envelope(envelope(generation=2, limits={"powerWatts": 30, "guardWindowSeconds": 5}))
    running.board.clear()
    running.run(80, lambda: running.status.mode == chosen)


def test_a_budget_that_was_out_of_reach_by_the_profile_is_found_again_when_the_training_takes_less(
    running: Scenario,
) -> None:
    running.board.inject(Fault(FaultKind.DRIFT, value=0.5))
    running.session.drift.expect(None)  # as a visit leaves it
    running.decide(lambda turn: stay_lowest(turn, "by what was measured before"))
    running.run(150, lambda: running.has_decided("points are measured again"))
    running.run(100, lambda: running.condition("BudgetReachable") == ("True", "Kept"))
    assert running.true_w() > 14.0


def test_checks_wait_until_the_guard_holds_nothing_down(running: Scenario) -> None:
    state = running.simulation.sessions.record
    assert state is not None
    state.checks = 0
    load(running, 4.0)
    running.run(15, lambda: running.status.reason == "Guard")
    running.run(30)
    assert state.checks == 0


# What the guard picks, without a board's time


def picked(scenario: Scenario, points: list[Point], watts: float) -> PowerMode | None:
    """What the guard goes to from the present mode, if just these points are known."""
    scenario.session.record.reports, scenario.session.record.points = [], points
    return lower_mode(scenario.turn(), Reading(scenario.clock(), watts), BUDGET_W)


def test_a_mode_of_which_nothing_is_known_is_left_for_one_that_is_nowhere_above_it(running: Scenario) -> None:
    now, space = mode_of(running), running.space
    below = one_step_lower(space, now)
    assert below is not None
    beside = PowerMode(now.cores, int(space.cpu_khz[-1]), below.gpu_hz, now.emc_hz)
    assert picked(running, [Point(below, 0.2, 20.0), Point(beside, 0.1, 15.0)], 31.0) == below
    assert picked(running, [Point(beside, 0.1, 15.0)], 31.0) == start_of(running)


def test_figures_that_contradict_each_other_lead_round_in_no_circle(running: Scenario) -> None:
    state, space = running.session.record, running.space
    low = start_of(running)
    higher = PowerMode(low.cores, int(space.cpu_khz[3]), int(space.gpu_hz[1]), low.emc_hz)
    middle = PowerMode(low.cores, int(space.cpu_khz[1]), int(space.gpu_hz[1]), low.emc_hz)
    other = PowerMode(low.cores, low.cpu_khz, int(space.gpu_hz[2]), low.emc_hz)
    # The higher one seems to take the least: an old figure, or a wrong prediction.
    points = [Point(higher, 0.3, 10.0), Point(middle, 0.4, 12.0), Point(other, 0.5, 11.0)]
    visited = [mode_of(running)]
    for _ in range(12):
        choice = picked(running, points, 45.0)
        if choice is None or choice == state.mode:
            break
        assert choice not in visited
        visited.append(choice)
        state.mode = choice
    assert state.mode == low


def test_without_steps_a_load_that_stays_keeps_the_mode_down(new_scenario: NewScenario) -> None:
    scenario = new_scenario(SessionSettings(no_steps_s=5.0))
    scenario.simulation.counts_steps = False
    scenario.simulation.envelope(envelope())
    scenario.run(2)
    scenario.simulation.train(WORKLOAD)
    scenario.run(200, scenario.is_running)
    scenario.run(5)
    chosen = scenario.status.mode
    load(scenario, 6.0)
    scenario.run(200)
    assert scenario.status.mode != chosen
    assert scenario.status.violations <= 2
    scenario.board.clear()
    scenario.run(130, lambda: scenario.status.mode == chosen)


def test_after_a_trial_that_broke_the_limit_the_next_waits_until_the_power_is_down_again(running: Scenario) -> None:
    running.simulation.envelope(envelope(generation=2, plan={"maxModes": 8, "caution": "High"}))
    record = running.session.record
    record.strategy = "powertrain"  # its networks choose among all modes, and know little of their error
    running.decide(lambda turn: Planning(Question.CHOICE, -1))
    fastest = PowerMode.parse("12c_1344000_1236750000_3199000000")
    choice = PlannedChoice(fastest, None, "the fastest, as predicted")
    actions = watched(running)
    running.simulation.sessions.handle(Planned(-1, PlanAnswer(choice=choice)))
    running.run(60, running.is_settled)
    assert len([line for line in running.decisions() if "unsafe: a reading of" in line]) == 2
    proven_modes = {point.mode for point in record.proven_points()} - {mode_of(running)}
    retreats = [index for index, action in enumerate(actions) if action.mode in proven_modes]
    assert len(retreats) == 2
    waits_s = [actions[index + 1].at_s - actions[index].at_s for index in retreats]
    assert round(min(waits_s), 6) >= 2.0, "power takes two to three seconds to follow a mode"
    assert running.status.violations == 0


def test_a_budget_that_is_out_of_reach_stays_so_when_a_lost_sensor_comes_back(running: Scenario) -> None:
    running.board.inject(Fault(FaultKind.POWER_OFFSET, value=25.0))
    running.run(30, lambda: running.condition("BudgetReachable") == ("False", "BudgetUnreachable"))
    running.board.inject(Fault(FaultKind.FAIL_READ, "curr*_input"))
    running.run(10, lambda: running.status.phase == "Holding")
    running.board.clear(FaultKind.FAIL_READ)
    running.run(30, running.is_running)
    running.run(10)
    assert running.condition("BudgetReachable") == ("False", "BudgetUnreachable")


def test_a_breach_while_a_mode_is_confirmed_counts_as_an_action_of_the_guard(running: Scenario) -> None:
    metrics, executor = AgentMetrics(), running.simulation.sessions.executor
    executor.ports = replace(executor.ports, observe=metrics.observe)
    point = running.session.record.chosen
    assert point is not None

    def confirm(turn: Turn) -> Awaitable[State]:
        visit = trials.visit_to(turn, point.mode, Purpose.CONFIRM, point.step_s)
        return trials.set_out(turn, Confirming(visit, "the same again"), "the same again")

    running.decide(confirm)
    load(running, 40.0)
    running.run(20, lambda: running.has_decided("more than was measured: a mode of less power is kept"))
    assert mode_of(running) == start_of(running)
    assert metrics.registry.get_sample_value("powertrain_guard_actions_total", {"action": "lower"}) == 1
