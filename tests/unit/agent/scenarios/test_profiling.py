"""From the envelope to the chosen mode: what a user sees while a job is profiled and an agent dies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from powertrain import PowerMode
from powertrain.modes import KNOBS
from powertrain.networks.recipe import TRANSFER_RECIPE, Phase
from powertrain.reference import shipped
from powertrain.strategies import powertrain_nn
from powertrain_agent.governing.approach import is_within
from powertrain_agent.planning.messages import Question
from powertrain_agent.simulate import Fault, FaultKind

from .conftest import POD, WORKLOAD, Stage, envelope

NewStage = Callable[..., Stage]
BUDGET_W = 30.0


def begin(stage: Stage, **options: object) -> None:
    stage.simulation.envelope(envelope(**options))
    stage.run(2)
    stage.simulation.train(WORKLOAD)


def test_the_gate_opens_after_the_mode_of_least_power_was_verified(new_stage: NewStage) -> None:
    stage = new_stage()
    stage.simulation.envelope(envelope())
    assert all(status.verified for status in stage.simulation.statuses if status.gate_open)
    stage.run(2)
    assert stage.status.gate_open
    assert stage.status.verified
    assert (stage.simulation.state_dir / "sessions" / "session-1" / "ready").exists()
    assert PowerMode.parse(stage.status.mode) == stage.board.mode()


def test_an_agent_that_dies_while_it_profiles_repeats_no_mode(new_stage: NewStage) -> None:
    stage = new_stage()
    begin(stage, plan={"maxModes": 4})
    stage.run(60, lambda: stage.status.result is not None and len(stage.modes_tried()) == 2)
    first = stage.modes_tried()
    stage.restart_agent()
    assert stage.heard("the agent is back; 2 measured modes are kept")
    stage.run(120, stage.is_running)
    tried = stage.modes_tried()
    assert tried[:2] == first
    assert len(tried) == len(set(tried))


def test_an_agent_that_dies_before_the_gate_is_open_starts_again(new_stage: NewStage) -> None:
    stage = new_stage()
    stage.board.inject(Fault(FaultKind.CLOCK_NOT_APPLIED, "emc", value=1))
    stage.simulation.envelope(envelope())
    stage.board.clear()
    stage.restart_agent()
    stage.run(3)
    assert stage.heard("the start was not finished")
    assert stage.status.gate_open


def test_an_agent_that_dies_while_the_job_runs_keeps_mode_and_choice(running: Stage) -> None:
    chosen = running.status.mode
    running.restart_agent()
    running.run(3)
    assert running.status.mode == chosen
    assert running.is_running()


def test_an_agent_that_dies_in_a_drift_round_goes_on(running: Stage) -> None:
    running.board.inject(Fault(FaultKind.DRIFT, value=0.85))
    running.run(200, lambda: running.heard("points are measured again"))
    running.run(2)
    running.restart_agent()
    running.run(200, lambda: running.heard("the profile is corrected"))
    running.run(60, running.is_running)
    assert running.true_w() <= BUDGET_W


def test_after_a_reboot_the_gate_opens_anew_and_measured_modes_are_kept(running: Stage) -> None:
    tried = running.modes_tried()
    running.simulation.stop_training()
    running.board.reboot()
    running.restart_agent()
    assert running.heard("the board was booted anew")
    running.run(3)
    assert running.status.gate_open
    assert running.modes_tried() == tried


def test_a_clock_that_is_not_applied_is_never_recorded_as_the_asked_mode(new_stage: NewStage) -> None:
    stage = new_stage()
    stage.board.inject(Fault(FaultKind.CLOCK_NOT_APPLIED, "gpu", value=1))
    begin(stage, plan={"maxModes": 3})
    stage.run(60, lambda: stage.heard("rejected: clocks are not the asked ones"))
    assert all(not sample.unsafe for sample in stage.status.result.samples.samples())
    assert stage.modes_tried() == []
    stage.board.clear()
    stage.run(120, stage.is_running)
    assert len(stage.modes_tried()) >= 1


def test_a_board_that_only_lowers_its_clocks_stays_at_the_lowest_mode_and_says_so(new_stage: NewStage) -> None:
    stage = new_stage()
    stage.board.inject(Fault(FaultKind.DESCENDING_ONLY))
    begin(stage, plan={"maxModes": 3})
    stage.run(120, stage.is_running)
    stage.run(60)
    assert PowerMode.parse(stage.status.mode) == stage.simulation.sessions.record.start  # type: ignore[union-attr]
    assert stage.condition("ModeApplied") == ("False", "ApplyFailed")
    assert stage.heard("predicted modes failed again and again")


def test_a_safe_mode_that_can_not_be_set_keeps_the_gate_closed_until_it_can(new_stage: NewStage) -> None:
    stage = new_stage()
    stage.board.inject(Fault(FaultKind.CLOCK_NOT_APPLIED, "emc", value=1))
    stage.simulation.envelope(envelope())
    stage.run(5)
    assert not stage.status.gate_open
    assert stage.condition("ModeApplied") == ("False", "ApplyFailed")
    assert "the safe mode could not be set" in stage.status.message
    stage.board.clear()
    stage.run(20, lambda: stage.status.gate_open)


def test_a_throttled_window_is_thrown_away_and_measured_again(new_stage: NewStage) -> None:
    stage = new_stage()
    begin(stage, plan={"maxModes": 2})
    stage.run(20, lambda: stage.heard("profile 12c"))
    stage.board.inject(Fault(FaultKind.THROTTLE, "gpu", value=0.8))
    stage.run(2)
    stage.board.clear()
    stage.run(120, stage.is_running)
    assert "throttled" in stage.lines.getvalue() or "clocks are not the asked ones" in stage.lines.getvalue()


def test_a_window_in_which_others_use_the_cpus_is_thrown_away_and_measured_again(new_stage: NewStage) -> None:
    stage = new_stage()
    pod = stage.board.root / f"sys/fs/cgroup/kubepods/besteffort/pod{POD}/cpu.stat"
    seconds = {"pod": 0.0, "others": 0.0}
    busy_cores = 0.2

    def count_cpu_time() -> None:
        seconds["pod"] += 4.0
        seconds["others"] += busy_cores
        pod.write_text(f"usage_usec {seconds['pod'] * 1e6:.0f}\n")
        busy = round(100 * (seconds["pod"] + seconds["others"]))
        (stage.board.root / "proc/stat").write_text(f"cpu {busy} 0 0 9000 0 0 0 0 0 0\n")

    count_cpu_time()
    stage.simulation.on_second = count_cpu_time
    begin(stage, plan={"maxModes": 2})
    stage.run(30, lambda: stage.status.message.startswith("profile 12c"))
    busy_cores = 3.0
    stage.run(4, lambda: stage.visit is not None and bool(stage.visit.rejected))
    assert stage.visit is not None
    assert stage.visit.rejected == ["foreign load: others use 3.0 cores"]
    busy_cores = 0.2
    stage.run(20, lambda: stage.heard("measured:"))


def test_a_window_with_a_fit_running_is_thrown_away_and_measured_after_its_end(new_stage: NewStage) -> None:
    stage = new_stage()
    begin(stage, plan={"maxModes": 1})
    stage.run(30, lambda: stage.status.message.startswith("profile 12c"))
    stage.run(2)
    assert stage.visit is not None
    stage.simulation._fit_s = 4.0
    turn = stage.turn()
    turn.ask(Question.CHOICE)
    stage.simulation.sessions.executor._carry_out(stage.session, turn.commands)  # nobody waits for it
    stage.run(3)
    assert stage.visit.rejected == ["a fit was running"]
    assert stage.visit.outcome is None
    stage.run(20, lambda: stage.heard("measured:"))


def test_the_first_reading_above_the_limit_ends_a_visit_and_is_kept_as_unsafe(new_stage: NewStage) -> None:
    stage = new_stage()
    begin(stage, limits={"powerWatts": 26}, plan={"maxModes": 4})
    stage.run(60, lambda: stage.status.result is not None and stage.status.message.startswith("profile 12c/1."))
    tried = stage.status.message.split()[1].rstrip(":")
    stage.board.inject(Fault(FaultKind.POWER_OFFSET, value=12.0))
    left: list[float] = []
    original = stage.simulation.sessions.handle

    def watch(event: object) -> None:
        original(event)  # type: ignore[arg-type]
        if getattr(event, "power_w", 0.0) > 26.0 and not left:
            left.append(stage.board.sysfs.instant().steady_w)

    stage.simulation.sessions.handle = watch  # type: ignore[method-assign]
    stage.run(10, lambda: bool(left))
    # The very event that brought the reading has set a mode of less power.
    assert left[0] < 20.0
    stage.board.clear()
    assert stage.heard("unsafe: a reading of")
    unsafe = [sample for sample in stage.status.result.samples.samples() if sample.unsafe]
    assert unsafe
    assert all(sample.power_w > 26.0 for sample in unsafe)
    stage.run(120, stage.is_running)
    assert PowerMode.parse(stage.status.mode).human != tried


def test_an_unsafe_mode_is_told_by_a_strategy_that_expects_no_step_time_too(new_stage: NewStage) -> None:
    stage = new_stage()
    begin(stage, plan={"strategy": "random-pareto", "maxModes": 6})
    stage.run(20, lambda: stage.heard("profile 12c"))
    stage.board.inject(Fault(FaultKind.POWER_OFFSET, value=25.0))
    stage.run(20, lambda: stage.heard("unsafe: a reading of"))
    stage.board.clear()
    stage.run(5, lambda: stage.status.result is not None)
    assert [sample.unsafe for sample in stage.status.result.samples.samples()].count(True) >= 1


def test_without_a_sensor_the_first_steps_begin_nothing_until_the_power_is_read(new_stage: NewStage) -> None:
    stage = new_stage()
    stage.board.inject(Fault(FaultKind.FAIL_READ, "curr*_input"))
    stage.simulation.envelope(envelope(plan={"maxModes": 2}))
    stage.run(5)
    stage.simulation.train(WORKLOAD)
    stage.run(30)
    assert stage.condition("PowerSensor") == ("False", "SensorLost")
    assert PowerMode.parse(stage.status.mode) == stage.simulation.sessions.record.start  # type: ignore[union-attr]
    assert not stage.heard("profile 12c")
    stage.board.clear()
    stage.run(120, stage.is_running)
    assert len(stage.modes_tried()) >= 2


def test_a_known_profile_is_checked_for_one_window_and_used(running: Stage, new_stage: NewStage) -> None:
    samples = running.status.result.samples.model_dump(by_alias=True)
    stage = new_stage()
    begin(stage, prior={"match": "Exact", "samples": samples})
    stage.run(60, stage.is_running)
    assert stage.status.profiling.measured == 1
    assert stage.true_w() <= BUDGET_W


def test_a_profile_that_does_not_fit_is_only_a_start(running: Stage, new_stage: NewStage) -> None:
    samples = running.status.result.samples.model_dump(by_alias=True)
    samples["stepSeconds"] = [1.3 * value for value in samples["stepSeconds"]]
    stage = new_stage()
    begin(stage, prior={"match": "Exact", "samples": samples}, plan={"maxModes": 3})
    stage.run(100, lambda: stage.heard("the profile does not fit"))
    stage.run(100, stage.is_settled)
    assert stage.status.observed.step_seconds == pytest.approx(stage.status.predicted.step_seconds, rel=0.05)


@pytest.mark.parametrize(("match", "jumps"), [("Warm", False), ("Exact", True)])
def test_only_an_exact_profile_spares_the_way_up_clock_by_clock(
    running: Stage, new_stage: NewStage, match: str, jumps: bool
) -> None:
    samples = running.status.result.samples.model_dump(by_alias=True)
    stage = new_stage()
    sessions = stage.simulation.sessions
    modes: list[PowerMode] = []
    handle = sessions.handle

    def watch(event: object) -> None:
        handle(event)  # type: ignore[arg-type]
        mode = sessions.record.mode if sessions.record else None
        if mode is not None and (not modes or mode != modes[-1]):
            modes.append(mode)

    sessions.handle = watch  # type: ignore[method-assign]
    begin(stage, prior={"match": match, "samples": samples}, plan={"maxModes": 3})
    stage.run(100, stage.is_running)
    measured = [
        modes[0],
        *(sample.mode for sample in stage.status.result.samples.samples()[-stage.status.profiling.measured :]),
    ]
    leaps = [
        (before, after)
        for before, after in pairwise(modes)
        if sum(getattr(after, knob) > getattr(before, knob) for knob in KNOBS) > 1
        and not any(is_within(after, mode) for mode in measured if mode in modes[: modes.index(after)])
    ]
    assert bool(leaps) == jumps


def test_a_limit_that_changes_is_not_followed_to_a_mode_that_only_another_board_has_shown(
    running: Stage, new_stage: NewStage
) -> None:
    samples = running.status.result.samples.model_dump(by_alias=True)
    stage = new_stage()
    begin(stage, prior={"match": "Warm", "samples": samples}, limits={"powerWatts": 20})
    stage.run(10, lambda: stage.status.phase == "Profiling")
    state = stage.simulation.sessions.record
    assert state is not None
    stage.simulation.envelope(envelope(generation=2, limits={"powerWatts": 30}))
    assert state.mode in {state.start, *state.fresh}


def test_a_preset_whose_label_lies_ends_a_step_lower_within_the_budget(new_stage: NewStage) -> None:
    stage = new_stage()
    stage.board.inject(Fault(FaultKind.POWER_OFFSET, value=2.5))
    begin(stage, plan={"strategy": "preset"})
    stage.run(120, stage.is_settled)
    stage.run(20)
    assert stage.heard("a step lower, because it broke the limit")
    mode = PowerMode.parse(stage.status.mode)
    assert 300_000_000 < mode.gpu_hz < 624_750_000
    assert stage.board.sysfs.instant().power_w + 2.5 <= BUDGET_W


def test_a_strategy_that_can_not_run_here_is_named_and_replaced(new_stage: NewStage) -> None:
    stage = new_stage()
    begin(stage, plan={"strategy": "no-such", "maxModes": 1})
    stage.run(60, lambda: stage.heard("'transfer' instead"))
    assert "unknown strategy 'no-such'" in (stage.status.result.error or "")
    stage.run(60, stage.is_running)


def test_the_staircase_climbs_the_gpu_clocks_and_ends_within_the_limit(new_stage: NewStage) -> None:
    stage = new_stage()
    begin(stage, plan={"strategy": "staircase"})
    stage.run(600, stage.is_running)
    tried = [sample.mode for sample in stage.status.result.samples.samples()]
    assert stage.status.result.strategy == "staircase"
    highest = max((mode.cpu_khz, mode.emc_hz) for mode in tried)
    climbed = [mode.gpu_hz for mode in tried if (mode.cpu_khz, mode.emc_hz) == highest]
    assert len(climbed) > 3
    assert climbed == sorted(climbed)
    assert stage.true_w() <= 30.0


def test_the_result_names_strategy_reference_and_version(running: Stage) -> None:
    result = running.status.result
    assert (result.strategy, result.reference) == ("transfer", "orin-agx-resnet18")
    assert result.reference_version == shipped().card.version
    assert result.validation_error is None


def test_a_strategys_own_validation_survives_a_restart(running: Stage) -> None:
    state = running.simulation.sessions.record
    assert state is not None
    state.validation = [5.54321, 2.1]
    running.simulation.envelope(envelope(generation=2))
    running.restart_agent()
    error = running.status.result.validation_error
    assert (error.time_percent, error.power_percent) == (5.543, 2.1)


def test_a_run_that_is_only_for_profiling_says_when_it_may_end_and_tries_nothing_more(new_stage: NewStage) -> None:
    stage = new_stage()
    begin(stage, plan={"maxModes": 2, "when": "Offline", "validateEverySeconds": 5})
    stage.run(30, lambda: stage.condition("Profiled") == ("False", "InProgress"))
    stage.run(60, lambda: stage.condition("Profiled") == ("True", "Complete"))
    tried = stage.modes_tried()
    stage.run(40)
    assert stage.modes_tried() == tried
    assert stage.is_running()


@pytest.mark.torch
def test_the_papers_networks_are_fine_tuned_on_the_node(new_stage: NewStage, monkeypatch: pytest.MonkeyPatch) -> None:
    short = replace(TRANSFER_RECIPE, phases=(Phase(epochs=3, learning_rate=1e-3),), row_repeats=2)
    monkeypatch.setattr(powertrain_nn.PowerTrain, "recipe", short)
    stage = new_stage()
    begin(stage, plan={"strategy": "powertrain", "maxModes": 3})
    stage.run(240, stage.is_settled)
    result = stage.status.result
    assert (result.strategy, result.error) == ("powertrain", None)
    assert result.validation_error.power_percent > 0
    assert stage.true_w() <= BUDGET_W


def test_without_the_extra_the_networks_are_replaced_with_the_way_to_get_them(
    new_stage: NewStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(powertrain_nn, "find_spec", lambda name: None)
    stage = new_stage()
    begin(stage, plan={"strategy": "powertrain", "maxModes": 1})
    stage.run(60, lambda: stage.heard("'transfer' instead"))
    assert "pip install '.[nn]' in a checkout" in (stage.status.result.error or "")
