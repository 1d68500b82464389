"""From the envelope to the chosen mode: what a user sees while a job is profiled and an agent dies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from powertrain import PowerMode
from powertrain.api.v1alpha1 import Samples
from powertrain.modes import KNOBS
from powertrain.networks.recipe import TRANSFER_RECIPE, Phase
from powertrain.profiling.history import History
from powertrain.reference import shipped
from powertrain.samples import EarlySample
from powertrain.strategies import powertrain_nn
from powertrain_agent.governing.approach import is_within
from powertrain_agent.planning.messages import Question
from powertrain_agent.simulate import Fault, FaultKind

from .conftest import POD, WORKLOAD, Scenario, envelope

NewScenario = Callable[..., Scenario]
BUDGET_W = 30.0


def begin(scenario: Scenario, **options: object) -> None:
    scenario.simulation.envelope(envelope(**options))
    scenario.run(2)
    scenario.simulation.train(WORKLOAD)


def test_the_gate_opens_after_the_mode_of_least_power_was_verified(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    scenario.simulation.envelope(envelope())
    assert all(status.verified for status in scenario.simulation.statuses if status.gate_open)
    scenario.run(2)
    assert scenario.status.gate_open
    assert scenario.status.verified
    assert (scenario.simulation.state_dir / "sessions" / "session-1" / "ready").exists()
    assert PowerMode.parse(scenario.status.mode) == scenario.board.mode()


def test_an_agent_that_dies_while_it_profiles_repeats_no_mode(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    begin(scenario, plan={"maxModes": 4})
    scenario.run(60, lambda: scenario.status.result is not None and len(scenario.modes_tried()) == 2)
    first = scenario.modes_tried()
    scenario.restart_agent()
    assert scenario.has_decided("the agent is back; 2 measured modes are kept")
    scenario.run(120, scenario.is_running)
    tried = scenario.modes_profiled()
    assert tried[:2] == first
    assert len(tried) == len(set(tried))


def test_an_agent_that_dies_before_the_gate_is_open_starts_again(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    scenario.board.inject(Fault(FaultKind.CLOCK_NOT_APPLIED, "emc", value=1))
    scenario.simulation.envelope(envelope())
    scenario.board.clear()
    scenario.restart_agent()
    scenario.run(3)
    assert scenario.has_decided("the start was not finished")
    assert scenario.status.gate_open


def test_an_agent_that_dies_while_the_job_runs_keeps_mode_and_choice(running: Scenario) -> None:
    chosen = running.status.mode
    running.restart_agent()
    running.run(3)
    assert running.status.mode == chosen
    assert running.is_running()


def test_an_agent_that_dies_in_a_drift_round_goes_on(running: Scenario) -> None:
    running.board.inject(Fault(FaultKind.DRIFT, value=0.85))
    running.run(200, lambda: running.has_decided("points are measured again"))
    running.run(2)
    running.restart_agent()
    running.run(200, lambda: running.has_decided("the profile is corrected"))
    running.run(60, running.is_running)
    assert running.true_w() <= BUDGET_W


def test_after_a_reboot_the_gate_opens_anew_and_measured_modes_are_kept(running: Scenario) -> None:
    tried = running.modes_tried()
    running.simulation.stop_training()
    running.board.reboot()
    running.restart_agent()
    assert running.has_decided("the board was rebooted")
    running.run(3)
    assert running.status.gate_open
    assert running.modes_tried() == tried


def test_a_clock_that_is_not_applied_is_never_recorded_as_the_asked_mode(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    scenario.board.inject(Fault(FaultKind.CLOCK_NOT_APPLIED, "gpu", value=1))
    begin(scenario, plan={"maxModes": 3})
    scenario.run(60, lambda: scenario.has_decided("rejected: clocks differ from the mode"))
    assert all(not sample.unsafe for sample in scenario.status.result.samples.samples())
    assert scenario.modes_tried() == []
    scenario.board.clear()
    scenario.run(120, scenario.is_running)
    assert len(scenario.modes_tried()) >= 1


def test_a_board_that_only_lowers_its_clocks_stays_at_the_lowest_mode_and_says_so(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    scenario.board.inject(Fault(FaultKind.DESCENDING_ONLY))
    begin(scenario, plan={"maxModes": 3, "caution": "High"})
    scenario.run(120, scenario.is_running)
    scenario.run(60)
    assert PowerMode.parse(scenario.status.mode) == scenario.simulation.sessions.record.start  # type: ignore[union-attr]
    assert scenario.condition("ModeApplied") == ("False", "ApplyFailed")
    assert scenario.has_decided("predicted modes failed again and again")


def test_a_safe_mode_that_can_not_be_set_keeps_the_gate_closed_until_it_can(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    scenario.board.inject(Fault(FaultKind.CLOCK_NOT_APPLIED, "emc", value=1))
    scenario.simulation.envelope(envelope())
    scenario.run(5)
    assert not scenario.status.gate_open
    assert scenario.condition("ModeApplied") == ("False", "ApplyFailed")
    assert "the safe mode could not be set" in scenario.status.message
    scenario.board.clear()
    scenario.run(20, lambda: scenario.status.gate_open)


def test_a_throttled_window_is_thrown_away_and_measured_again(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    begin(scenario, plan={"maxModes": 2})
    scenario.run(20, lambda: scenario.has_decided("profile 12c"))
    scenario.board.inject(Fault(FaultKind.THROTTLE, "gpu", value=0.8))
    scenario.run(2)
    scenario.board.clear()
    scenario.run(120, scenario.is_running)
    assert "throttled" in scenario.lines.getvalue() or "clocks differ from the mode" in scenario.lines.getvalue()


def test_a_window_in_which_others_use_the_cpus_is_thrown_away_and_measured_again(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    pod = scenario.board.root / f"sys/fs/cgroup/kubepods/besteffort/pod{POD}/cpu.stat"
    seconds = {"pod": 0.0, "others": 0.0}
    busy_cores = 0.2

    def count_cpu_time() -> None:
        seconds["pod"] += 4.0
        seconds["others"] += busy_cores
        pod.write_text(f"usage_usec {seconds['pod'] * 1e6:.0f}\n")
        busy = round(100 * (seconds["pod"] + seconds["others"]))
        (scenario.board.root / "proc/stat").write_text(f"cpu {busy} 0 0 9000 0 0 0 0 0 0\n")

    count_cpu_time()
    scenario.simulation.on_second = count_cpu_time
    begin(scenario, plan={"maxModes": 2})
    scenario.run(30, lambda: scenario.status.message.startswith("profile 12c"))
    busy_cores = 3.0
    scenario.run(4, lambda: scenario.visit is not None and bool(scenario.visit.rejected))
    assert scenario.visit is not None
    assert scenario.visit.rejected == ["foreign load: others use 3.0 cores"]
    busy_cores = 0.2
    scenario.run(20, lambda: scenario.has_decided("measured:"))


def test_a_window_with_a_fit_running_is_thrown_away_and_measured_after_its_end(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    begin(scenario, plan={"maxModes": 1})
    scenario.run(30, lambda: scenario.status.message.startswith("profile 12c"))
    scenario.run(2)
    assert scenario.visit is not None
    scenario.simulation._fit_s = 4.0
    turn = scenario.turn()
    turn.ask(Question.CHOICE)
    scenario.simulation.sessions.executor._carry_out(scenario.session, turn.commands)  # nobody waits for it
    scenario.run(3)
    assert scenario.visit.rejected == ["a fit was running"]
    assert scenario.visit.outcome is None
    scenario.run(20, lambda: scenario.has_decided("measured:"))


def test_the_first_reading_above_the_limit_ends_a_visit_and_is_kept_as_unsafe(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    begin(scenario, limits={"powerWatts": 26}, plan={"maxModes": 4, "caution": "High"})
    scenario.run(
        60, lambda: scenario.status.result is not None and scenario.status.message.startswith("profile 12c/1.")
    )
    tried = scenario.status.message.split()[1].rstrip(":")
    scenario.board.inject(Fault(FaultKind.POWER_OFFSET, value=12.0))
    left: list[float] = []
    original = scenario.simulation.sessions.handle

    def watch(event: object) -> None:
        original(event)  # type: ignore[arg-type]
        if getattr(event, "power_w", 0.0) > 26.0 and not left:
            left.append(scenario.board.sysfs.instant().steady_w)

    scenario.simulation.sessions.handle = watch  # type: ignore[method-assign]
    scenario.run(10, lambda: bool(left))
    # The very event that brought the reading has set a mode of less power.
    assert left[0] < 20.0
    scenario.board.clear()
    assert scenario.has_decided("unsafe: a reading of")
    unsafe = [sample for sample in scenario.status.result.samples.samples() if sample.unsafe]
    assert unsafe
    assert all(sample.power_w > 26.0 for sample in unsafe)
    scenario.run(120, scenario.is_running)
    assert PowerMode.parse(scenario.status.mode).human != tried


def test_an_unsafe_mode_is_told_by_a_strategy_that_expects_no_step_time_too(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    begin(scenario, plan={"strategy": "random-pareto", "maxModes": 6})
    scenario.run(20, lambda: scenario.has_decided("profile 12c"))
    scenario.board.inject(Fault(FaultKind.POWER_OFFSET, value=25.0))
    scenario.run(20, lambda: scenario.has_decided("unsafe: a reading of"))
    scenario.board.clear()
    scenario.run(5, lambda: scenario.status.result is not None)
    assert [sample.unsafe for sample in scenario.status.result.samples.samples()].count(True) >= 1


def test_without_a_sensor_the_first_steps_begin_nothing_until_the_power_is_read(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    scenario.board.inject(Fault(FaultKind.FAIL_READ, "curr*_input"))
    scenario.simulation.envelope(envelope(plan={"maxModes": 2}))
    scenario.run(5)
    scenario.simulation.train(WORKLOAD)
    scenario.run(30)
    assert scenario.condition("PowerSensor") == ("False", "SensorLost")
    assert PowerMode.parse(scenario.status.mode) == scenario.simulation.sessions.record.start  # type: ignore[union-attr]
    assert not scenario.has_decided("profile 12c")
    scenario.board.clear()
    scenario.run(120, scenario.is_running)
    assert len(scenario.modes_tried()) >= 2


def test_a_known_profile_is_checked_for_one_window_and_used(running: Scenario, new_scenario: NewScenario) -> None:
    samples = running.status.result.samples.model_dump(by_alias=True)
    scenario = new_scenario()
    begin(scenario, prior={"match": "Exact", "samples": samples})
    scenario.run(60, scenario.is_running)
    assert scenario.status.profiling.measured == 1
    assert scenario.true_w() <= BUDGET_W


def test_a_profile_that_does_not_fit_is_only_a_start(running: Scenario, new_scenario: NewScenario) -> None:
    samples = running.status.result.samples.model_dump(by_alias=True)
    samples["stepSeconds"] = [1.3 * value for value in samples["stepSeconds"]]
    scenario = new_scenario()
    begin(scenario, prior={"match": "Exact", "samples": samples}, plan={"maxModes": 3})
    scenario.run(100, lambda: scenario.has_decided("the profile does not fit"))
    scenario.run(100, scenario.is_settled)
    assert scenario.status.observed.step_seconds == pytest.approx(scenario.status.predicted.step_seconds, rel=0.05)


def test_a_mode_that_was_left_early_is_published_apart_from_the_measured_ones(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    begin(scenario, limits={"powerWatts": 20})
    scenario.run(300, lambda: any(report.left_early for report in scenario.session.record.reports))
    left = {report.mode for report in scenario.session.record.reports if report.left_early}
    scenario.run(2)
    samples = scenario.status.result.samples
    assert left <= {early.mode for early in samples.early.samples()}
    assert not left & {sample.mode for sample in samples.samples()}
    assert all(sample.step_error_s and sample.power_error_w for sample in samples.samples())


@pytest.mark.parametrize("match", ["Exact", "Warm"])
def test_a_mode_that_a_profile_knows_from_a_visit_left_early_teaches_and_proves_nothing(
    running: Scenario, new_scenario: NewScenario, match: str
) -> None:
    result_samples = running.status.result.samples
    fastest = min(result_samples.samples(), key=lambda sample: sample.step_s)
    early = [EarlySample(fastest.mode, 12.0, 0.5, fastest.step_s / 10.0, 0.001)]  # too good to be true
    rest = [sample for sample in result_samples.samples() if sample.mode != fastest.mode]
    samples = Samples.of(rest, result_samples.batch_size, early).model_dump(by_alias=True)
    scenario = new_scenario()
    scenario.simulation.envelope(envelope(prior={"match": match, "samples": samples}))
    record = scenario.session.record
    assert fastest.mode not in {point.mode for point in record.proven_points()}
    assert not any(point.measured for point in record.measured_points() if point.mode == fastest.mode)
    assert record.extra == len(rest)
    history = History.of(scenario.space, record.reports)
    assert not history.visited[scenario.space.index(fastest.mode)], "it may be visited"
    assert history.left_early == 0, "and costs this session no visit"
    scenario.run(2)
    scenario.simulation.train(WORKLOAD)
    scenario.run(300, scenario.is_running)
    assert scenario.status.predicted.step_seconds > fastest.step_s / 2.0, "nothing runs by the time of a glimpse"


@pytest.mark.parametrize(("match", "jumps"), [("Warm", False), ("Exact", True)])
def test_only_an_exact_profile_spares_the_way_up_clock_by_clock(
    running: Scenario, new_scenario: NewScenario, match: str, jumps: bool
) -> None:
    samples = running.status.result.samples.model_dump(by_alias=True)
    scenario = new_scenario()
    sessions = scenario.simulation.sessions
    modes: list[PowerMode] = []
    handle = sessions.handle

    def watch(event: object) -> None:
        handle(event)  # type: ignore[arg-type]
        mode = sessions.record.mode if sessions.record else None
        if mode is not None and (not modes or mode != modes[-1]):
            modes.append(mode)

    sessions.handle = watch  # type: ignore[method-assign]
    begin(scenario, prior={"match": match, "samples": samples}, plan={"maxModes": 3, "caution": "High"})
    scenario.run(100, scenario.is_running)
    measured = [
        modes[0],
        *(sample.mode for sample in scenario.status.result.samples.samples()[-scenario.status.profiling.measured :]),
    ]
    leaps = [
        (before, after)
        for before, after in pairwise(modes)
        if sum(getattr(after, knob) > getattr(before, knob) for knob in KNOBS) > 1
        and not any(is_within(after, mode) for mode in measured if mode in modes[: modes.index(after)])
    ]
    assert bool(leaps) == jumps


def test_a_limit_that_changes_is_not_followed_to_a_mode_that_only_another_board_has_shown(
    running: Scenario, new_scenario: NewScenario
) -> None:
    samples = running.status.result.samples.model_dump(by_alias=True)
    scenario = new_scenario()
    begin(scenario, prior={"match": "Warm", "samples": samples}, limits={"powerWatts": 20})
    scenario.run(10, lambda: scenario.status.phase == "Profiling")
    state = scenario.simulation.sessions.record
    assert state is not None
    scenario.simulation.envelope(envelope(generation=2, limits={"powerWatts": 30}))
    assert state.mode in {state.start, *state.fresh}


def test_a_preset_whose_label_lies_ends_a_step_lower_within_the_budget(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    scenario.board.inject(Fault(FaultKind.POWER_OFFSET, value=2.5))
    begin(scenario, plan={"strategy": "preset"})
    scenario.run(120, scenario.is_settled)
    scenario.run(20)
    assert scenario.has_decided("a step lower, because it broke the limit")
    mode = PowerMode.parse(scenario.status.mode)
    assert 300_000_000 < mode.gpu_hz < 624_750_000
    assert scenario.board.sysfs.instant().power_w + 2.5 <= BUDGET_W


def test_a_strategy_that_can_not_run_here_is_named_and_replaced(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    begin(scenario, plan={"strategy": "no-such", "maxModes": 1})
    scenario.run(60, lambda: scenario.has_decided("'transfer' instead"))
    assert "unknown strategy 'no-such'" in (scenario.status.result.error or "")
    scenario.run(60, scenario.is_running)


def test_the_staircase_climbs_the_gpu_clocks_and_ends_within_the_limit(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    begin(scenario, plan={"strategy": "staircase"})
    scenario.run(600, scenario.is_running)
    tried = [sample.mode for sample in scenario.status.result.samples.samples()]
    assert scenario.status.result.strategy == "staircase"
    highest = max((mode.cpu_khz, mode.emc_hz) for mode in tried)
    climbed = [mode.gpu_hz for mode in tried if (mode.cpu_khz, mode.emc_hz) == highest]
    assert len(climbed) > 3
    assert climbed == sorted(climbed)
    assert scenario.true_w() <= 30.0


def test_the_result_names_strategy_reference_and_version(running: Scenario) -> None:
    result = running.status.result
    assert (result.strategy, result.reference) == ("transfer", "orin-agx-resnet18")
    assert result.reference_version == shipped().card.version
    assert result.validation_error is None


def test_a_strategys_own_validation_survives_a_restart(running: Scenario) -> None:
    state = running.simulation.sessions.record
    assert state is not None
    state.validation = [5.54321, 2.1]
    running.simulation.envelope(envelope(generation=2))
    running.restart_agent()
    error = running.status.result.validation_error
    assert (error.time_percent, error.power_percent) == (5.543, 2.1)


def test_a_run_that_is_only_for_profiling_says_when_it_may_end_and_tries_nothing_more(
    new_scenario: NewScenario,
) -> None:
    scenario = new_scenario()
    begin(scenario, plan={"maxModes": 2, "when": "Offline", "validateEverySeconds": 5})
    scenario.run(30, lambda: scenario.condition("Profiled") == ("False", "InProgress"))
    scenario.run(60, lambda: scenario.condition("Profiled") == ("True", "Complete"))
    tried = scenario.modes_tried()
    scenario.run(40)
    assert scenario.modes_tried() == tried
    assert scenario.is_running()


@pytest.mark.torch
def test_the_papers_networks_are_fine_tuned_on_the_node(
    new_scenario: NewScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = replace(TRANSFER_RECIPE, phases=(Phase(epochs=3, learning_rate=1e-3),), row_repeats=2)
    monkeypatch.setattr(powertrain_nn.PowerTrain, "recipe", short)
    scenario = new_scenario()
    begin(scenario, plan={"strategy": "powertrain", "maxModes": 3})
    scenario.run(240, scenario.is_settled)
    result = scenario.status.result
    assert (result.strategy, result.error) == ("powertrain", None)
    assert result.validation_error.power_percent > 0
    assert scenario.true_w() <= BUDGET_W


def test_without_the_extra_the_networks_are_replaced_with_the_way_to_get_them(
    new_scenario: NewScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(powertrain_nn, "find_spec", lambda name: None)
    scenario = new_scenario()
    begin(scenario, plan={"strategy": "powertrain", "maxModes": 1})
    scenario.run(60, lambda: scenario.has_decided("'transfer' instead"))
    assert "pip install '.[nn]' in a checkout" in (scenario.status.result.error or "")
