"""A training that counts no steps: it climbs by power alone, and everything that follows does without steps too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from powertrain_agent.governing.settings import SessionSettings
from powertrain_agent.simulate import Fault, FaultKind

from .conftest import WORKLOAD, Scenario, envelope

NewScenario = Callable[..., Scenario]
BUDGET_W = 30.0


def begin(scenario: Scenario, **options: object) -> None:
    scenario.simulation.envelope(envelope(**options))
    scenario.run(2)
    scenario.simulation.train(WORKLOAD)


def test_a_training_without_steps_climbs_by_power_alone(new_scenario: NewScenario) -> None:
    scenario = new_scenario(SessionSettings(no_steps_s=20.0))
    scenario.simulation.counts_steps = False
    begin(scenario)
    scenario.run(40, lambda: scenario.condition("StepSignal") == ("False", "NoStepSignal"))
    scenario.run(200, scenario.is_running)
    assert scenario.status.reason == "NoStepSignal"
    assert 22.0 < scenario.true_w() <= BUDGET_W


@pytest.fixture
def climbed(new_scenario: NewScenario) -> Scenario:
    """A job without steps that has climbed to the fastest mode within its budget."""
    scenario = new_scenario(SessionSettings(no_steps_s=5.0))
    scenario.simulation.counts_steps = False
    begin(scenario)
    scenario.run(200, scenario.is_running)
    scenario.run(5)
    return scenario


def test_without_steps_the_guard_goes_down_and_after_the_quiet_time_up_again(climbed: Scenario) -> None:
    chosen = climbed.status.mode
    climbed.board.inject(Fault(FaultKind.POWER_OFFSET, value=6.0))
    climbed.run(20, lambda: climbed.status.mode != chosen)
    climbed.run(5)
    climbed.board.clear()
    climbed.run(80, lambda: climbed.status.mode == chosen)
    climbed.run(60)
    assert (climbed.status.mode, climbed.status.reason) == (chosen, "NoStepSignal")
    assert climbed.condition("BudgetReachable") == ("True", "Kept")


def test_without_steps_a_changed_limit_is_followed_down_at_once_and_up_as_far_as_the_power_lets(
    climbed: Scenario,
) -> None:
    climbed.simulation.envelope(envelope(generation=2, limits={"powerWatts": 20}))
    climbed.run(2)
    assert climbed.true_w() <= 20.0
    assert climbed.has_decided("the limit changes: 30 W → 20 W (powerWatts)")
    climbed.run(30)
    assert climbed.is_settled(), "what the climb knows is enough"
    climbed.simulation.envelope(envelope(generation=3, limits={"powerWatts": 40}))
    assert 22.0 < climbed.true_w() <= 30.0, "proven already"
    climbed.run(100, lambda: climbed.is_settled() and climbed.true_w() > 30.0)
    climbed.run(10)
    assert 30.0 < climbed.true_w() <= 40.0
    assert climbed.status.violations == 0


def test_a_limit_that_is_lowered_in_the_middle_of_a_climb_does_not_end_it(new_scenario: NewScenario) -> None:
    scenario = new_scenario(SessionSettings(no_steps_s=5.0))
    scenario.simulation.counts_steps = False
    begin(scenario, limits={"powerWatts": 40})
    scenario.run(60, lambda: sum("climb 12c" in line for line in scenario.decisions()) > 4)
    scenario.simulation.envelope(envelope(generation=2))
    scenario.run(200, scenario.is_settled)
    assert 22.0 < scenario.true_w() <= BUDGET_W


def test_without_steps_a_limit_below_all_that_was_climbed_is_called_unreachable(climbed: Scenario) -> None:
    climbed.simulation.envelope(envelope(generation=2, limits={"powerWatts": 8}))
    climbed.run(2, lambda: climbed.condition("BudgetReachable") == ("False", "BudgetUnreachable"))
    assert climbed.true_w() < 14.0


def test_a_climb_that_ends_above_the_limit_leaves_an_unsafe_sample(new_scenario: NewScenario) -> None:
    scenario = new_scenario(SessionSettings(no_steps_s=5.0))
    scenario.simulation.counts_steps = False
    begin(scenario)
    scenario.run(60, lambda: sum("climb 12c" in line for line in scenario.decisions()) > 4)
    scenario.board.inject(Fault(FaultKind.POWER_OFFSET, value=25.0))
    scenario.run(10, lambda: scenario.has_decided("unsafe: a reading of"))
    unsafe = [sample for sample in scenario.status.result.samples.samples() if sample.unsafe]
    assert len(unsafe) == 1
    assert unsafe[0].power_w > BUDGET_W


def test_an_agent_that_dies_while_it_climbs_goes_on_climbing(new_scenario: NewScenario) -> None:
    scenario = new_scenario(SessionSettings(no_steps_s=20.0))
    scenario.simulation.counts_steps = False
    begin(scenario)
    scenario.run(60, lambda: sum("climb 12c" in line for line in scenario.decisions()) > 4)
    scenario.restart_agent()
    scenario.run(3)
    assert scenario.status.message.startswith("climb 12c"), "the training was seen to count no steps"
    scenario.run(200, scenario.is_running)
    assert 22.0 < scenario.true_w() <= BUDGET_W


def test_an_agent_that_dies_after_the_climb_does_not_climb_again(climbed: Scenario) -> None:
    chosen = climbed.status.mode
    climbed.restart_agent()
    before = len(climbed.decisions())
    climbed.run(30)
    assert (climbed.status.mode, climbed.is_settled()) == (chosen, True)
    assert not [line for line in climbed.decisions()[before:] if "climb" in line]


def test_without_steps_a_sensor_that_is_back_brings_the_climbed_mode_back(climbed: Scenario) -> None:
    chosen = climbed.status.mode
    climbed.board.inject(Fault(FaultKind.FAIL_READ, "curr*_input"))
    climbed.run(10, lambda: climbed.status.phase == "Holding")
    climbed.board.clear()
    climbed.run(5, lambda: climbed.status.mode == chosen)


def test_steps_that_come_late_end_the_climb_and_begin_the_profiling(new_scenario: NewScenario) -> None:
    scenario = new_scenario(SessionSettings(no_steps_s=5.0))
    scenario.simulation.counts_steps = False
    begin(scenario, plan={"maxModes": 2})
    scenario.run(40, lambda: scenario.has_decided("climb"))
    scenario.simulation.counts_steps = True
    scenario.run(120, lambda: scenario.is_running() and scenario.status.reason == "Chosen")
    assert scenario.condition("StepSignal") == ("True", "StepsSeen")
