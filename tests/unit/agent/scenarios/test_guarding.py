"""A job that runs in its chosen mode: what a user sees when the world around it changes."""

from __future__ import annotations

import pytest

from powertrain_agent.simulate import Fault, FaultKind

from .conftest import POD, UID, Stage, envelope

BUDGET_W = 30.0


def test_the_choice_keeps_the_budget_and_says_why(running: Stage) -> None:
    assert running.is_running()
    assert running.true_w() <= BUDGET_W
    assert running.status.violations == 0
    assert running.status.predicted.power_watts <= BUDGET_W
    assert len(running.modes_tried()) >= 8


def test_power_above_the_budget_is_brought_down_within_seconds(running: Stage) -> None:
    before = running.status.mode
    running.board.inject(Fault(FaultKind.POWER_OFFSET, value=4.0))
    running.run(15, lambda: running.status.mode != before)
    assert running.status.reason == "Guard"
    assert "over 3 s" in running.status.message
    assert running.rehearsal.run(6)
    assert running.board.sysfs.instant().measured_w < BUDGET_W * 1.02
    assert 1 <= running.status.violations <= 2


def test_after_a_quiet_time_the_faster_mode_is_tried_again(running: Stage) -> None:
    chosen = running.status.mode
    running.board.inject(Fault(FaultKind.POWER_OFFSET, value=4.0))
    running.run(15, lambda: running.status.mode != chosen)
    running.board.clear()
    running.run(120, lambda: running.status.mode == chosen)
    assert running.heard("is a faster mode possible again?")


def test_a_budget_below_the_lowest_mode_is_called_unreachable(running: Stage) -> None:
    running.rehearsal.envelope(envelope(generation=2, limits={"powerWatts": 9}))
    running.run(20, lambda: running.condition("BudgetReachable") == ("False", "BudgetUnreachable"))
    assert "BudgetUnreachable" in running.status.message
    assert running.true_w() < 14.0


def test_a_schedule_lowers_the_mode_at_its_hour_and_gives_it_back(running: Stage) -> None:
    chosen = running.status.mode
    entry = {"from": "12:01", "to": "12:03", "watts": 20}
    running.rehearsal.envelope(envelope(generation=2, schedule=[entry]))
    running.run(90, lambda: running.status.mode != chosen)
    assert running.status.reason == "Schedule"
    assert "30 W → 20 W (schedule entry from 12:01)" in "\n".join(running.said())
    running.run(30, running.is_running)
    assert running.true_w() <= 20.0
    running.run(200, lambda: running.heard("20 W → 30 W (powerWatts)") and running.status.mode == chosen)


def test_available_watts_lower_the_mode_at_once(running: Stage) -> None:
    available = {"watts": 18, "observedAt": "2026-06-01T12:00:00Z"}
    running.rehearsal.envelope(envelope(generation=2, availableWatts=available))
    running.run(4)
    assert running.true_w() <= 18.0
    assert running.heard("30 W → 18 W (availableWatts)")


def test_a_uniform_drift_rescales_the_profile(running: Stage) -> None:
    running.board.inject(Fault(FaultKind.DRIFT, value=0.85))
    running.run(300, lambda: running.heard("a uniform shift") or running.heard("a change between modes"))
    assert running.heard("points are measured again")
    running.run(100, running.is_settled)
    assert running.true_w() <= BUDGET_W
    assert running.status.observed.step_seconds == pytest.approx(running.status.predicted.step_seconds, rel=0.05)


def test_memory_contention_changes_the_modes_differently_and_is_profiled_again(running: Stage) -> None:
    running.board.inject(Fault(FaultKind.CONTENTION, value=1.8))
    running.run(300, lambda: running.heard("a change between modes"))
    running.run(200, running.is_settled)
    running.run(10)
    assert running.status.observed.step_seconds == pytest.approx(running.status.predicted.step_seconds, rel=0.05)
    assert running.true_w() <= BUDGET_W


def test_a_lost_sensor_holds_the_mode_of_least_power_until_it_is_back(running: Stage) -> None:
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


def test_validation_visits_a_few_points_now_and_then(running: Stage) -> None:
    running.rehearsal.envelope(envelope(generation=2, plan={"maxModes": 8, "validateEverySeconds": 60}))
    running.run(150, lambda: running.heard("validated every 60 s: 3 points are measured again"))
    running.run(60, running.is_settled)
    assert running.true_w() <= BUDGET_W


def test_a_released_job_whose_pod_is_gone_gets_the_board_restored(running: Stage) -> None:
    running.rehearsal.stop_training()
    running.board.remove_pod(POD)
    running.rehearsal.envelope(None, release=UID)
    running.run(30, lambda: running.status.restored)
    assert running.status.phase == "Ended"
    assert running.board.sysfs.read(f"{running.board.sysfs.layout.devfreq}/max_freq") == "1300500000"
    assert not (running.rehearsal.state_dir / "session.json").exists()


def test_a_released_job_whose_pod_still_runs_keeps_its_mode(running: Stage) -> None:
    mode = running.status.mode
    running.rehearsal.envelope(None, release=UID)
    running.run(30)
    assert (running.status.mode, running.status.restored) == (mode, False)


def test_the_next_job_waits_until_the_board_is_free(running: Stage) -> None:
    running.rehearsal.envelope(envelope(uid="session-2"))
    running.run(5)
    assert running.status.uid == UID
    running.rehearsal.stop_training()
    running.board.remove_pod(POD)
    running.rehearsal.envelope(envelope(uid="session-2"), release=UID)
    running.run(30, lambda: running.status.uid == "session-2" and running.status.gate_open)
    assert running.true_w() < 14.0


def test_an_envelope_of_a_far_release_is_refused(new_stage: object) -> None:
    stage = new_stage()  # type: ignore[operator]
    stage.rehearsal.envelope(envelope(protocol=3))
    assert stage.status.phase == "Refused"
    assert "VersionSkew" in stage.status.message
