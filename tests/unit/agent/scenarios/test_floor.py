"""A site's floor: whatever happens to a session, no clock goes below it, and its lowest mode is the floor's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from powertrain import PowerMode
from powertrain.api.v1alpha1 import ModeFloor, NodePolicy
from powertrain_agent.governing.settings import SessionSettings
from powertrain_agent.simulate import Fault, FaultKind

from .conftest import POD, UID, WORKLOAD, Scenario, envelope

NewScenario = Callable[..., Scenario]
FLOOR = {"cpuKHz": 1000000, "gpuHz": 500000000, "emcHz": 2000000000}


def floored(scenario: Scenario, **floor: int) -> list[PowerMode]:
    """Put a floor in force, and return where every mode that is applied will be."""
    scenario.simulation.policy(NodePolicy.model_validate({"minMode": floor or FLOOR}))
    applied: list[PowerMode] = []
    board = scenario.simulation.sessions.ports.board
    apply = board.apply

    def watched(mode: PowerMode) -> Any:
        applied.append(mode)
        return apply(mode)

    board.apply = watched  # type: ignore[method-assign]
    return applied


def begin(scenario: Scenario, **options: Any) -> None:
    scenario.simulation.envelope(envelope(**options))
    scenario.run(2)
    scenario.simulation.train(WORKLOAD)


def all_allowed(applied: list[PowerMode]) -> bool:
    floor = ModeFloor.model_validate(FLOOR)
    return bool(applied) and all(floor.allows(mode) for mode in applied)


def test_profiling_and_its_choice_stay_above_the_floor(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    applied = floored(scenario)
    begin(scenario)
    scenario.run(300, scenario.is_settled)
    assert all_allowed(applied)
    assert scenario.true_w() <= 30.0


def test_the_safe_start_is_the_lowest_mode_at_or_above_the_floor(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    applied = floored(scenario)
    scenario.simulation.envelope(envelope())
    scenario.run(2)
    start = scenario.space[0]
    assert applied[0] == start
    assert (start.cpu_khz, start.gpu_hz, start.emc_hz) == (1036800, 522750000, 2133000000)


def test_the_guard_lowers_to_the_floor_and_no_further(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    applied = floored(scenario)
    begin(scenario)
    scenario.run(300, scenario.is_settled)
    scenario.simulation.envelope(envelope(generation=2, limits={"powerWatts": 5}))
    scenario.run(
        60, lambda: scenario.condition("BudgetReachable") is not None and scenario.status.mode == str(scenario.space[0])
    )
    assert all_allowed(applied)
    assert scenario.condition("BudgetReachable") == ("False", "BudgetUnreachable")


def test_a_training_without_steps_climbs_from_the_floor(new_scenario: NewScenario) -> None:
    scenario = new_scenario(SessionSettings(no_steps_s=5.0))
    scenario.simulation.counts_steps = False
    applied = floored(scenario)
    begin(scenario)
    scenario.run(200, scenario.is_running)
    assert all_allowed(applied)


def test_a_blind_session_stays_at_the_floor(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    applied = floored(scenario)
    begin(scenario)
    scenario.run(300, scenario.is_settled)
    scenario.board.inject(Fault(FaultKind.FAIL_READ, "curr*_input"))
    scenario.run(60, lambda: scenario.status.mode == str(scenario.space[0]))
    assert all_allowed(applied)


def test_a_profile_that_knows_lower_modes_teaches_but_they_are_never_set(running: Scenario) -> None:
    samples = running.status.result.samples
    below = [s.mode for s in samples.samples() if not ModeFloor.model_validate(FLOOR).allows(s.mode)]
    assert below, "the profile was made without a floor"
    running.simulation.stop_training()
    running.board.remove_pod(POD)
    running.simulation.envelope(None, release=UID)
    running.run(30, lambda: bool(running.status.restored))
    applied = floored(running)
    running.board.add_pod(POD)
    prior = {"match": "Exact", "samples": samples.wire()}
    running.simulation.envelope(envelope(uid="session-2", prior=prior, limits={"powerWatts": 30}), release=UID)
    running.run(2)
    running.simulation.train(WORKLOAD)
    running.run(300, running.is_settled)
    running.simulation.envelope(
        envelope(uid="session-2", generation=2, prior=prior, limits={"powerWatts": 6}), release=UID
    )
    running.run(60)
    assert all_allowed(applied)


@pytest.mark.parametrize("restarts", [1, 2])
def test_the_floor_outlives_a_restart_of_the_agent(new_scenario: NewScenario, restarts: int) -> None:
    scenario = new_scenario()
    floored(scenario)
    begin(scenario)
    for _ in range(restarts):
        scenario.restart_agent()
        scenario.run(2)
    assert scenario.space[0] == PowerMode(12, 1036800, 522750000, 2133000000)
