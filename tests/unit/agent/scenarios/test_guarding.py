"""A job that runs in its chosen mode: what a user sees when the world around it changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from powertrain.api.v1alpha1 import PROTOCOL, NodePolicy
from powertrain.profiling.history import ModeReport
from powertrain.samples import Sample
from powertrain_agent.governing.approach import one_step_lower
from powertrain_agent.governing.candidates import within_limit
from powertrain_agent.governing.choosing import take
from powertrain_agent.governing.events import ApiAway, Tick
from powertrain_agent.governing.lowering import lower
from powertrain_agent.governing.schedule import Budget
from powertrain_agent.simulate import Fault, FaultKind
from powertrain_agent.steps import StepsSeen
from powertrain_agent.telemetry import Reading

from .conftest import POD, UID, Scenario, envelope

BUDGET_W = 30.0


def test_the_choice_keeps_the_budget_and_says_why(running: Scenario) -> None:
    assert running.is_running()
    assert running.true_w() <= BUDGET_W
    assert running.status.violations == 0
    assert running.status.predicted.power_watts <= BUDGET_W
    assert len(running.modes_tried()) >= 8


def test_power_above_the_budget_is_brought_down_within_seconds(running: Scenario) -> None:
    before = running.status.mode
    running.board.inject(Fault(FaultKind.POWER_OFFSET, value=4.0))
    running.run(15, lambda: running.status.mode != before)
    assert running.status.reason == "Guard"
    assert "over 3 s" in running.status.message
    assert running.simulation.run(6)
    assert running.board.sysfs.instant().measured_w < BUDGET_W * 1.02
    assert 1 <= running.status.violations <= 2


def test_a_budget_below_the_lowest_mode_is_called_unreachable(running: Scenario) -> None:
    running.simulation.envelope(envelope(generation=2, limits={"powerWatts": 9}))
    running.run(20, lambda: running.condition("BudgetReachable") == ("False", "BudgetUnreachable"))
    assert "BudgetUnreachable" in running.status.message
    assert running.true_w() < 14.0
    message = next(c.message for c in running.status.conditions if c.type == "BudgetReachable")
    assert f"the closest mode is {running.status.mode}, " in message


def test_a_schedule_lowers_the_mode_at_its_hour_and_gives_it_back(running: Scenario) -> None:
    chosen = running.status.mode
    entry = {"from": "12:01", "to": "12:03", "watts": 20}
    running.simulation.envelope(envelope(generation=2, schedule=[entry]))
    running.run(90, lambda: running.status.mode != chosen)
    assert running.status.reason == "Schedule"
    assert "30 W → 20 W (schedule entry from 12:01)" in "\n".join(running.decisions())
    running.run(100, running.is_running)  # a lower limit is explored, too
    assert running.true_w() <= 20.0
    running.run(200, lambda: running.has_decided("20 W → 30 W (powerWatts)") and running.status.mode == chosen)


def test_available_watts_lower_the_mode_at_once(running: Scenario) -> None:
    available = {"watts": 18, "observedAt": "2026-06-01T12:00:00Z"}
    running.simulation.envelope(envelope(generation=2, availableWatts=available))
    running.run(4)
    assert running.true_w() <= 18.0
    assert running.has_decided("30 W → 18 W (availableWatts)")


def test_one_slow_step_is_not_what_a_user_is_shown(running: Scenario) -> None:
    running.run(20)
    usual_s = running.status.observed.step_seconds
    simulation = running.simulation
    simulation.sessions.handle(StepsSeen(1, simulation.clock(), 10 * usual_s))
    simulation.envelope(envelope(generation=2))
    assert running.status.observed.step_seconds == pytest.approx(usual_s, rel=0.02)


def test_a_uniform_drift_rescales_the_profile(running: Scenario) -> None:
    running.board.inject(Fault(FaultKind.DRIFT, value=0.85))
    running.run(300, lambda: running.has_decided("a uniform shift") or running.has_decided("a change between modes"))
    assert running.has_decided("points are measured again")
    assert running.condition("Drift") == ("False", "Corrected")
    assert running.status.profiling.corrections == 1, "the operator stores what was corrected, and follows elsewhere"
    running.run(100, running.is_settled)
    assert running.true_w() <= BUDGET_W
    assert running.status.observed.step_seconds == pytest.approx(running.status.predicted.step_seconds, rel=0.05)


def test_a_point_that_is_left_as_unsafe_while_it_is_measured_again_is_told_and_corrects_nothing(
    running: Scenario,
) -> None:
    running.simulation.envelope(
        envelope(generation=2, plan={"maxModes": 8, "validateEverySeconds": 60, "caution": "High"})
    )
    running.run(100, lambda: running.has_decided("validated every 60 s: 3 points are measured again"))
    before = {s.mode: s.power_w for s in running.status.result.samples.samples()}
    running.board.inject(Fault(FaultKind.POWER_OFFSET, value=12.0))
    running.run(10, lambda: running.has_decided("unsafe: a reading of"))
    running.board.clear()
    running.run(60, running.is_settled)
    samples = running.status.result.samples.samples()
    unsafe = [sample for sample in samples if sample.unsafe]
    assert unsafe
    assert all(sample.power_w > BUDGET_W for sample in unsafe)
    for sample in samples:
        if not sample.unsafe and sample.mode in before:
            assert sample.power_w == pytest.approx(before[sample.mode], rel=0.02)


def test_memory_contention_changes_the_modes_differently_and_is_profiled_again(running: Scenario) -> None:
    running.board.inject(Fault(FaultKind.CONTENTION, value=1.8))
    running.run(300, lambda: running.has_decided("a change between modes"))
    running.run(200, running.is_settled)
    running.run(10)
    assert running.status.observed.step_seconds == pytest.approx(running.status.predicted.step_seconds, rel=0.05)
    assert running.true_w() <= BUDGET_W


def test_a_foreign_change_that_can_not_be_undone_is_told_until_it_can(running: Scenario) -> None:
    path = f"{running.board.sysfs.layout.devfreq}/max_freq"
    running.board.sysfs.write(path, "1300500000")
    running.board.inject(Fault(FaultKind.FAIL_WRITE, path))
    running.run(5, lambda: running.condition("ModeApplied") == ("False", "NotHeld"))
    running.board.clear()
    running.run(5, lambda: running.condition("ModeApplied") == ("True", "Verified"))


def test_without_the_api_server_the_mode_is_held_guarded_and_follows_its_schedule(running: Scenario) -> None:
    entry = {"from": "12:00", "to": "12:30", "watts": 25}
    running.simulation.envelope(envelope(generation=2, schedule=[entry]))
    running.run(4)
    running.simulation.sessions.handle(ApiAway(running.clock() - 3600.0))
    running.run(150, running.is_settled)  # a lower limit is explored, too
    running.board.inject(Fault(FaultKind.POWER_OFFSET, value=4.0))
    running.run(15, lambda: running.status.reason == "Guard")
    running.run(5)
    assert running.true_w() + 4.0 <= 25.0
    assert not running.status.restored


def test_a_lost_sensor_holds_the_mode_of_least_power_until_it_is_back(running: Scenario) -> None:
    chosen = running.status.mode
    running.board.inject(Fault(FaultKind.FAIL_READ, "curr*_input"))
    running.run(10, lambda: running.status.phase == "Holding")
    assert running.condition("PowerSensor") == ("False", "SensorLost")
    assert "SensorLost" in running.status.message
    assert running.true_w() < 14.0
    running.board.clear()
    running.run(30, running.is_running)
    assert running.condition("PowerSensor") == ("True", "Readings")
    assert running.status.mode == chosen


@pytest.mark.parametrize(
    "limits", [{"powerWatts": 30, "hardLimitWatts": 8}, {"powerWatts": 8, "powerStatistic": "Peak"}]
)
def test_a_limit_that_no_mode_keeps_is_told_once_and_not_with_every_reading(
    running: Scenario, limits: dict[str, object]
) -> None:
    running.simulation.envelope(envelope(generation=2, limits=limits))
    running.run(20, lambda: running.condition("BudgetReachable") == ("False", "BudgetUnreachable"))
    running.run(5)
    words_before, reports, violations = (
        len(running.decisions()),
        running.simulation.urgent_reports,
        running.status.violations,
    )
    running.run(20)
    assert len(running.decisions()) == words_before
    assert running.simulation.urgent_reports == reports
    assert running.status.violations > violations + 100, "each of them is counted all the same"


def test_a_lower_mode_that_can_not_be_set_is_tried_with_every_reading_and_told_once(running: Scenario) -> None:
    chosen = running.status.mode
    running.board.inject(Fault(FaultKind.FAIL_WRITE, f"{running.board.sysfs.layout.devfreq}/max_freq"))
    running.simulation.envelope(envelope(generation=2, limits={"powerWatts": 30, "hardLimitWatts": 20}))
    running.run(2)
    reports = running.simulation.urgent_reports
    assert running.has_decided("could not be set")
    running.run(5)
    assert running.simulation.urgent_reports == reports
    assert running.status.predicted.power_watts > 20.0, "what is predicted is of the mode that is in force"
    running.board.clear()
    running.run(1)
    assert running.status.mode != chosen


def test_an_agent_that_dies_after_the_guard_acted_stays_down_until_it_was_quiet(running: Scenario) -> None:
    chosen = running.status.mode
    running.board.inject(Fault(FaultKind.POWER_OFFSET, value=4.0))
    running.run(15, lambda: running.status.mode != chosen)
    running.run(4)
    lowered = running.status.mode
    running.restart_agent()
    running.run(20)
    assert (running.status.mode, running.status.reason) == (lowered, "Guard")
    assert running.status.predicted.power_watts < 29.0
    running.board.clear()
    running.run(80, lambda: running.status.mode == chosen)
    assert running.has_decided("is a faster mode possible again?")


def test_what_is_predicted_is_of_the_mode_that_is_in_force(running: Scenario) -> None:
    before_w = running.status.predicted.power_watts
    running.board.inject(Fault(FaultKind.POWER_OFFSET, value=4.0))
    running.run(15, lambda: running.status.reason == "Guard")
    state = running.simulation.sessions.record
    assert state is not None
    assert state.chosen is not None
    assert (state.chosen.mode, running.status.predicted.power_watts) == (state.mode, state.chosen.power_w)
    assert state.chosen.power_w < before_w


def test_an_agent_that_is_started_without_a_sensor_stays_at_the_least_power_until_it_is_back(running: Scenario) -> None:
    chosen = running.status.mode
    running.board.inject(Fault(FaultKind.FAIL_READ, "curr*_input"))
    running.run(10, lambda: running.status.phase == "Holding")
    running.restart_agent()
    running.run(30)
    assert (running.status.phase, running.condition("PowerSensor")) == ("Holding", ("False", "SensorLost"))
    assert running.true_w() < 14.0
    running.simulation.envelope(envelope(generation=2, limits={"powerWatts": 40}))
    running.run(5)
    assert running.true_w() < 14.0
    running.simulation.envelope(envelope(generation=3))
    running.board.clear()
    running.run(30, running.is_running)
    assert running.status.mode == chosen


def test_a_mode_of_least_power_that_can_not_be_set_without_a_sensor_is_tried_until_it_can(running: Scenario) -> None:
    gpu = f"{running.board.sysfs.layout.devfreq}/max_freq"
    running.board.inject(Fault(FaultKind.FAIL_READ, "curr*_input"))
    running.board.inject(Fault(FaultKind.FAIL_WRITE, gpu))
    running.run(10, lambda: running.status.phase == "Holding")
    assert running.true_w() > 14.0
    running.board.clear()
    running.board.inject(Fault(FaultKind.FAIL_READ, "curr*_input"))
    running.run(3)
    assert running.true_w() < 14.0


def test_the_first_tick_of_an_agent_comes_before_its_first_reading_and_loses_no_sensor(running: Scenario) -> None:
    chosen = running.status.mode
    sessions = running.simulation.start_agent()
    sessions.handle(Tick(running.clock()))
    assert (running.status.mode, running.is_running()) == (chosen, True)
    sessions.handle(Tick(running.clock() + 1.0))
    assert running.is_running()
    sessions.handle(Tick(running.clock() + 3.0))
    assert running.condition("PowerSensor") == ("False", "SensorLost")


def test_validation_visits_a_few_points_now_and_then(running: Scenario) -> None:
    running.simulation.envelope(envelope(generation=2, plan={"maxModes": 8, "validateEverySeconds": 60}))
    running.run(150, lambda: running.has_decided("validated every 60 s: 3 points are measured again"))
    running.run(60, running.is_settled)
    assert running.true_w() <= BUDGET_W


def test_a_released_job_whose_pod_is_gone_gets_the_board_restored(running: Scenario) -> None:
    running.simulation.stop_training()
    running.board.remove_pod(POD)
    running.simulation.envelope(None, release=UID)
    running.run(30, lambda: running.status.restored)
    assert running.status.phase == "Ended"
    assert running.board.sysfs.read(f"{running.board.sysfs.layout.devfreq}/max_freq") == "1300500000"
    assert not (running.simulation.state_dir / "session.json").exists()


def test_a_released_job_whose_pod_still_runs_keeps_its_mode(running: Scenario) -> None:
    mode = running.status.mode
    running.simulation.envelope(None, release=UID)
    running.run(30)
    assert (running.status.mode, running.status.restored) == (mode, False)


def test_the_next_job_waits_until_the_board_is_free(running: Scenario) -> None:
    running.simulation.envelope(envelope(uid="session-2"))
    running.run(5)
    assert running.status.uid == UID
    running.simulation.stop_training()
    running.board.remove_pod(POD)
    running.simulation.envelope(envelope(uid="session-2"), release=UID)
    running.run(30, lambda: running.status.uid == "session-2" and running.status.gate_open)
    assert running.true_w() < 14.0


def test_an_envelope_of_a_far_release_is_refused(new_scenario: object) -> None:
    scenario = new_scenario()  # type: ignore[operator]
    scenario.simulation.envelope(envelope(protocol=PROTOCOL + 2))
    assert scenario.status.phase == "Refused"
    assert "VersionSkew" in scenario.status.message


def test_a_mode_that_was_left_above_the_limit_is_never_the_choice_though_its_median_was_below(
    running: Scenario,
) -> None:
    state = running.session.record
    assert state.mode is not None
    left = Sample(state.mode, 0.1, 29.5, 16, power_peak_w=30.2, unsafe=True)
    state.reports.append(ModeReport(state.mode, None, left, 0.01))
    lower = within_limit(running.turn(), state.mode)
    assert lower == one_step_lower(running.space, state.mode)
    running.session.budget = Budget(31.0, "test")
    assert within_limit(running.turn(), state.mode) == state.mode


def test_instead_of_a_mode_that_was_left_a_proven_one_is_taken_if_it_is_faster_than_the_next_lower(
    running: Scenario,
) -> None:
    state = running.session.record
    assert state.mode is not None
    best = state.mode
    above = replace(best, cpu_khz=int(running.space.cpu_khz[-1]))
    lower = one_step_lower(running.space, above)
    assert lower is not None
    state.reports.append(ModeReport(above, None, Sample(above, 0.05, 29.5, 16, power_peak_w=30.2, unsafe=True), 0.01))
    state.reports.append(ModeReport(lower, None, Sample(lower, 0.2, 27.0, 16), 0.01))
    state.fresh |= {above, lower}
    running.decide(lambda turn: take(turn, above, "test"))
    assert state.mode == best


def test_a_mode_whose_own_power_breaks_the_budget_again_after_the_quiet_time_is_given_up(running: Scenario) -> None:
    chosen = running.session.record.mode
    assert chosen is not None
    guard = running.session.guard
    running.session.budget = Budget(0.995 * guard.mean_w, "test")
    guard.again = True
    running.decide(lambda turn: lower(turn, Reading(running.clock(), guard.mean_w)))
    assert running.has_decided("broke the limit twice and was given up")
    assert within_limit(running.turn(), chosen) != chosen


def test_a_load_that_comes_and_goes_costs_no_mode(running: Scenario) -> None:
    chosen = running.status.mode
    for quiet_s in (60, 120):
        running.board.inject(Fault(FaultKind.POWER_OFFSET, value=4.0))
        running.run(15, lambda: running.status.mode != chosen)
        running.board.clear()
        running.run(quiet_s + 20, lambda: running.status.mode == chosen)
    assert running.has_decided("is a faster mode possible again?")
    assert not running.has_decided("given up")


def test_a_mode_that_was_measured_within_the_limit_stands_whatever_was_read_in_a_mode_below_it(
    running: Scenario,
) -> None:
    state = running.session.record
    assert state.mode is not None
    below = one_step_lower(running.space, state.mode)
    assert below is not None
    state.reports.append(ModeReport(below, None, Sample(below, 0.1, 30.4, 16, unsafe=True), 0.05))
    assert within_limit(running.turn(), state.mode) == state.mode
    assert within_limit(running.turn(), below) != below


def test_a_budget_below_idle_names_the_closest_mode_and_is_not_judged_before_a_mode_is_set(
    new_scenario: Callable[..., Scenario],
) -> None:
    scenario = new_scenario()
    scenario.board.inject(Fault(FaultKind.CLOCK_NOT_APPLIED, "emc", value=1))  # the safe mode can't be set for a while
    scenario.simulation.envelope(envelope(limits={"powerWatts": 3}))
    scenario.run(6)
    assert scenario.condition("ModeApplied") == ("False", "ApplyFailed")
    assert scenario.condition("BudgetReachable") is None
    scenario.board.clear()
    scenario.run(20, lambda: scenario.condition("BudgetReachable") == ("False", "BudgetUnreachable"))
    condition = next(c.message for c in scenario.status.conditions if c.type == "BudgetReachable")
    assert f"the closest mode is {scenario.status.mode}, " in condition
    assert condition.endswith(" W")


def test_a_limit_in_amperes_is_kept_at_the_measured_voltage(running: Scenario) -> None:
    chosen = running.status.mode
    running.simulation.envelope(envelope(generation=2, limits={"powerWatts": 30, "hardLimitAmps": 1.75}))
    running.run(15, lambda: running.status.mode != chosen)
    running.run(10)
    assert running.board.sysfs.instant().measured_w < 1.75 * 12.0


def test_a_site_limits_amperes_without_a_word_of_the_job(running: Scenario) -> None:
    chosen = running.status.mode
    running.simulation.policy(NodePolicy.model_validate({"hardMaxAmps": 1.75}))
    running.run(15, lambda: running.status.mode != chosen)
    running.run(10)
    assert running.board.sysfs.instant().measured_w < 1.75 * 12.0


def test_an_over_current_alarm_lowers_the_mode(running: Scenario) -> None:
    chosen, drawn_w = running.status.mode, running.true_w()
    running.board.over_current(alarm=3)
    running.run(15, lambda: running.status.mode != chosen)
    running.run(10)
    assert running.true_w() < 0.95 * drawn_w
    assert running.condition("Supply") == ("False", "SupplyAlarm")
    running.run(660)
    assert running.condition("Supply") == ("True", "SupplyHolds")
