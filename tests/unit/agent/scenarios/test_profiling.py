"""From the envelope to the chosen mode: what a user sees while a job is profiled and an agent dies."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from powertrain import PowerMode
from powertrain_agent.governor.helm import Settings
from powertrain_agent.simulate import Fault, FaultKind

from .conftest import WORKLOAD, Stage, envelope

NewStage = Callable[..., Stage]
BUDGET_W = 30.0


def begin(stage: Stage, **options: object) -> None:
    stage.rehearsal.envelope(envelope(**options))
    stage.run(2)
    stage.rehearsal.train(WORKLOAD)


def test_the_gate_opens_after_the_mode_of_least_power_was_verified(new_stage: NewStage) -> None:
    stage = new_stage()
    stage.rehearsal.envelope(envelope())
    assert not stage.status.gate_open if stage.rehearsal.statuses else True
    stage.run(2)
    assert stage.status.gate_open
    assert stage.status.verified
    assert (stage.rehearsal.state_dir / "sessions" / "session-1" / "ready").exists()
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
    stage.rehearsal.envelope(envelope())
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
    running.rehearsal.stop_training()
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


def test_a_safe_mode_that_can_not_be_set_keeps_the_gate_closed_until_it_can(new_stage: NewStage) -> None:
    stage = new_stage()
    stage.board.inject(Fault(FaultKind.CLOCK_NOT_APPLIED, "emc", value=1))
    stage.rehearsal.envelope(envelope())
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


def test_the_first_reading_above_the_limit_ends_a_visit_and_is_kept_as_unsafe(new_stage: NewStage) -> None:
    stage = new_stage()
    begin(stage, limits={"powerWatts": 26}, plan={"maxModes": 4})
    stage.run(60, lambda: stage.status.result is not None and stage.status.message.startswith("profile 12c/1."))
    tried = stage.status.message.split()[1].rstrip(":")
    stage.board.inject(Fault(FaultKind.POWER_OFFSET, value=12.0))
    left: list[float] = []
    original = stage.rehearsal.governor.handle

    def watch(event: object) -> None:
        original(event)  # type: ignore[arg-type]
        if getattr(event, "power_w", 0.0) > 26.0 and not left:
            left.append(stage.board.sysfs.instant().steady_w)

    stage.rehearsal.governor.handle = watch  # type: ignore[method-assign]
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


def test_a_training_without_steps_climbs_by_power_alone(new_stage: NewStage) -> None:
    stage = new_stage(Settings(no_steps_s=20.0))
    stage.rehearsal.counts_steps = False
    begin(stage)
    stage.run(40, lambda: stage.condition("StepSignal") == ("False", "NoStepSignal"))
    stage.run(200, stage.is_running)
    assert stage.status.reason == "NoStepSignal"
    assert 22.0 < stage.true_w() <= BUDGET_W


def test_steps_that_come_late_end_the_climb_and_begin_the_profiling(new_stage: NewStage) -> None:
    stage = new_stage(Settings(no_steps_s=5.0))
    stage.rehearsal.counts_steps = False
    begin(stage, plan={"maxModes": 2})
    stage.run(40, lambda: stage.heard("climb"))
    stage.rehearsal.counts_steps = True
    stage.run(120, lambda: stage.is_running() and stage.status.reason == "Chosen")
    assert stage.condition("StepSignal") == ("True", "StepsSeen")


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


def test_a_preset_whose_label_lies_ends_a_step_lower_within_the_budget(new_stage: NewStage) -> None:
    stage = new_stage()
    stage.board.inject(Fault(FaultKind.POWER_OFFSET, value=2.5))
    begin(stage, plan={"strategy": "preset"})
    stage.run(120, stage.is_settled)
    stage.run(20)
    mode = PowerMode.parse(stage.status.mode)
    assert 300_000_000 < mode.gpu_hz < 624_750_000
    assert stage.board.sysfs.instant().power_w + 2.5 <= BUDGET_W


def test_a_strategy_that_can_not_run_here_is_named_and_replaced(new_stage: NewStage) -> None:
    stage = new_stage()
    begin(stage, plan={"strategy": "no-such", "maxModes": 1})
    stage.run(60, lambda: stage.heard("'transfer' instead"))
    assert "unknown strategy 'no-such'" in (stage.status.result.error or "")
    stage.run(60, stage.is_running)
