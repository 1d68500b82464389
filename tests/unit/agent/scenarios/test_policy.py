"""What the site's administrators and the operator change around a job: policies, holds, and amended envelopes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from powertrain.api.v1alpha1 import NodePolicy
from powertrain_agent.hardware.fan import MAX_PWM
from powertrain_agent.simulate import Fault, FaultKind
from powertrain_agent.site import POLICY

from .conftest import POD, UID, WORKLOAD, Scenario, envelope

NewScenario = Callable[..., Scenario]
KUBELET = "var/lib/kubelet/cpu_manager_state"


def policy(**fields: Any) -> NodePolicy:
    return NodePolicy.model_validate(fields)


def begin(scenario: Scenario, **options: Any) -> None:
    scenario.simulation.envelope(envelope(**options))
    scenario.run(2)
    scenario.simulation.train(WORKLOAD)


def with_kubelet(scenario: Scenario, manager: str = "none") -> None:
    path = scenario.board.root / KUBELET
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"policyName": manager}))


def cores(scenario: Scenario) -> list[int]:
    return [int(count) for count in scenario.space.cores]


def end_job(scenario: Scenario) -> None:
    scenario.simulation.stop_training()
    scenario.board.remove_pod(POD)
    scenario.simulation.envelope(None, release=UID)
    scenario.run(30, lambda: bool(scenario.status.restored))


def fan_pwm(scenario: Scenario) -> int:
    fan = scenario.simulation.sessions.ports.board.controller.board.fan  # type: ignore[attr-defined]
    return int(scenario.board.sysfs.read(fan.pwm_path))


# The policy


def test_the_sites_watts_hold_at_once_and_only_lower(running: Scenario) -> None:
    chosen = running.status.mode
    running.simulation.policy(policy(maxWatts=20))
    running.run(4)
    assert running.true_w() <= 20.0
    assert running.has_decided("30 W → 20 W (maxWatts of the site's policy)")
    running.run(60, running.is_settled)
    running.simulation.policy(policy(maxWatts=60))
    running.run(200, lambda: running.status.mode == chosen)
    assert running.has_decided("20 W → 30 W (powerWatts)")


def test_no_envelope_can_exceed_the_site(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    scenario.simulation.policy(policy(maxWatts=25, hardMaxWatts=28))
    begin(scenario, limits={"powerWatts": 50, "exploreWatts": 60, "hardLimitWatts": 70})
    scenario.run(30)
    assert (scenario.session.budget.power_w, scenario.turn().limits.explore_w, scenario.turn().limits.hard_w) == (
        25,
        25,
        28,
    )
    assert scenario.session.guard.hard_limit_w == 28


def test_what_profiling_may_take_is_not_what_checks_beside_a_chosen_mode_may_take(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    begin(scenario, limits={"powerWatts": 22, "powerStatistic": "Peak", "exploreWatts": 30})
    scenario.run(30)
    assert scenario.turn().limits.explore_w == 30
    scenario.run(900, scenario.is_running)
    assert scenario.turn().limits.explore_w == 22


def test_the_sites_watts_hold_after_a_restart_without_the_api_server(running: Scenario) -> None:
    running.simulation.policy(policy(maxWatts=20))
    running.run(4)
    running.restart_agent()
    running.run(2)
    assert running.session.budget.power_w == 20.0
    assert running.true_w() <= 20.0


def test_other_cores_wait_for_the_end_of_the_session_also_over_a_restart(running: Scenario) -> None:
    with_kubelet(running)
    running.simulation.policy(policy(cpuCores="Hotplug", minCores=4))
    assert running.simulation.policies[-1][:2] == (False, "SessionRunning")
    running.restart_agent()
    assert cores(running) == [12]
    end_job(running)
    assert running.simulation.policies[-1][:2] == (True, "InForce")
    running.simulation.envelope(envelope(uid="session-2"), release=UID)
    assert cores(running) == list(range(4, 13))


def test_cores_that_can_not_go_stay_and_the_reason_is_told(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    with_kubelet(scenario, "static")
    scenario.simulation.policy(policy(cpuCores="Hotplug"))
    in_force, reason, message = scenario.simulation.policies[-1]
    assert (in_force, reason) == (False, "CoresStayFixed")
    assert "'static'" in message


def test_without_a_policy_the_agents_own_options_count_again(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    with_kubelet(scenario)
    scenario.simulation.policy(policy(cpuCores="Hotplug"))
    scenario.simulation.policy(None)
    scenario.simulation.envelope(envelope())
    assert cores(scenario) == [12]
    assert json.loads((scenario.simulation.state_dir / POLICY).read_text())["asked"] is None


def test_a_damaged_policy_file_is_said_and_the_next_news_replace_it(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    scenario.simulation.policy(policy(maxWatts=25))
    (scenario.simulation.state_dir / POLICY).write_text("{")
    scenario.restart_agent()
    assert "can't be read" in scenario.lines.getvalue()
    scenario.simulation.policy(policy(maxWatts=25))
    assert json.loads((scenario.simulation.state_dir / POLICY).read_text())["asked"]["maxWatts"] == 25


def test_the_fan_runs_at_its_maximum_only_while_modes_are_profiled(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    scenario.simulation.policy(policy(fanMaxWhileProfiling=True))
    begin(scenario, plan={"maxModes": 1})
    before = fan_pwm(scenario)
    scenario.run(20, lambda: fan_pwm(scenario) == MAX_PWM)
    assert scenario.status.phase == "Profiling"
    scenario.run(60, scenario.is_running)
    scenario.run(2)
    assert fan_pwm(scenario) == before != MAX_PWM


# Holds


def test_a_held_session_keeps_the_safe_start_until_the_hold_ends(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    begin(scenario, plan={"maxModes": 2, "hold": True})
    scenario.run(20)
    start = scenario.status.mode
    assert (scenario.status.gate_open, scenario.status.phase, scenario.status.reason) == (True, "Starting", "Hold")
    assert scenario.status.training.steps > 0
    scenario.restart_agent()
    scenario.run(60)
    assert scenario.status.mode == start
    assert scenario.status.profiling.measured == 0
    scenario.simulation.envelope(envelope(generation=2, plan={"maxModes": 2, "hold": False}))
    assert scenario.status.phase == "Profiling"
    scenario.run(90, scenario.is_running)
    assert scenario.status.mode != start


def test_a_hold_in_the_middle_of_profiling_goes_back_to_the_safe_start_and_repeats_nothing(
    new_scenario: NewScenario,
) -> None:
    scenario = new_scenario()
    begin(scenario, plan={"maxModes": 3})
    start = scenario.status.mode
    scenario.run(60, lambda: scenario.status.profiling.measured == 2)
    scenario.simulation.envelope(envelope(generation=2, plan={"maxModes": 3, "hold": True}))
    assert (scenario.status.mode, scenario.status.reason, scenario.status.observed_generation) == (start, "Hold", 2)
    scenario.run(30)
    assert (scenario.status.mode, scenario.status.profiling.measured) == (start, 2)
    scenario.simulation.envelope(envelope(generation=3, plan={"maxModes": 3}))
    scenario.run(90, scenario.is_running)
    tried = scenario.modes_profiled()
    assert len(tried) == len(set(tried))


def test_a_hold_of_a_running_job_keeps_the_chosen_mode_guarded_and_tries_nothing(running: Scenario) -> None:
    chosen, measured = running.status.mode, running.status.profiling.measured
    held_plan = {"maxModes": 8, "validateEverySeconds": 10, "hold": True}
    running.simulation.envelope(envelope(generation=2, plan=held_plan))
    running.run(60)
    assert (running.status.mode, running.status.profiling.measured) == (chosen, measured)
    assert not running.has_decided("measured again")
    running.simulation.envelope(envelope(generation=3, plan=held_plan, limits={"powerWatts": 18}))
    running.run(4)
    assert running.true_w() <= 18.0
    assert running.status.profiling.measured == measured


def test_a_hold_does_not_undo_what_the_guard_did(running: Scenario) -> None:
    chosen = running.status.mode
    running.board.inject(Fault(FaultKind.POWER_OFFSET, value=4.0))
    running.run(15, lambda: running.status.mode != chosen)
    lowered = running.status.mode
    running.simulation.envelope(envelope(generation=2, plan={"maxModes": 8, "hold": True}))
    assert running.status.mode == lowered


def test_a_held_job_without_steps_does_not_climb(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    workload = {"name": WORKLOAD, "batchSize": 16, "instrumentation": "None"}
    scenario.simulation.counts_steps = False
    begin(scenario, workload=workload, plan={"hold": True})
    start = scenario.status.mode
    scenario.run(10)
    assert scenario.status.mode == start
    scenario.simulation.envelope(envelope(generation=2, workload=workload, plan={"hold": False}))
    scenario.run(60, lambda: scenario.status.mode != start)
    assert scenario.status.reason == "NoStepSignal"


# Amended envelopes


def test_a_changed_envelope_is_told_at_once(running: Scenario) -> None:
    before = len(running.simulation.statuses)
    running.simulation.envelope(envelope(generation=7))
    assert len(running.simulation.statuses) > before
    assert running.status.observed_generation == 7


def test_a_pod_that_is_added_later_holds_the_board(running: Scenario) -> None:
    mode, later = running.status.mode, "99999999-2222-3333-4444-555555555555"
    running.simulation.envelope(envelope(generation=2, podUIDs=[POD, later]))
    running.board.add_pod(later)
    running.board.remove_pod(POD)
    running.simulation.envelope(None, release=UID)
    running.run(30)
    assert (running.status.mode, running.status.restored) == (mode, False)
    running.simulation.stop_training()
    running.board.remove_pod(later)
    running.run(30, lambda: bool(running.status.restored))


def test_another_guard_window_counts_from_then_on(running: Scenario) -> None:
    running.simulation.envelope(envelope(generation=2, limits={"powerWatts": 30, "guardWindowSeconds": 10}))
    assert running.session.guard.window_s == 10.0
    assert running.session.guard.limit_w == pytest.approx(30.0)
