"""A simulated training takes as long as the board's mode says, and the board feels its load while it lives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from powertrain import PowerMode
from powertrain_agent.control.controller import Controller
from powertrain_agent.control.snapshot import SnapshotStore
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.hardware.board import discover
from powertrain_agent.simtrain import Plan, SimulatedTraining, parser, plan, run
from powertrain_agent.simulate import ManualClock, SimulatedBoard, workloads

BoardFactory = Callable[..., SimulatedBoard]
LOW = PowerMode(12, 729600, 306000000, 665600000)


def train(board: SimulatedBoard, clock: ManualClock, steps: int) -> float:
    started_s = clock()
    SimulatedTraining(board, Plan("resnet18", 16, steps, 1000), clock, clock.advance).run()
    return clock() - started_s


def test_steps_take_what_the_applied_mode_says(board: BoardFactory, clock: ManualClock, tmp_path: Path) -> None:
    simulated = board()
    top_s = train(simulated, clock, 200) / 200
    controller = Controller(
        simulated.sysfs, discover(simulated.sysfs), SnapshotStore(StateDir(tmp_path), simulated.sysfs)
    )
    mode = controller.space.nearest(LOW)
    controller.apply(mode)
    low_s = train(simulated, clock, 200) / 200
    expected = workloads.evaluate("orin-agx", "resnet18", 16, mode).step_s
    assert low_s == pytest.approx(expected, rel=0.03)
    assert low_s > 2 * top_s


def test_the_first_steps_are_slower(board: BoardFactory, clock: ManualClock) -> None:
    simulated = board()
    first_s = train(simulated, clock, 1)
    assert first_s > 3 * (train(simulated, clock, 100) / 100)


def test_the_load_ends_with_the_training(board: BoardFactory, clock: ManualClock) -> None:
    simulated = board()
    train(simulated, clock, 5)
    clock.advance(10.0)
    assert simulated.power_w() < 15.0


def test_a_file_ends_the_training(board: BoardFactory, clock: ManualClock, tmp_path: Path) -> None:
    stop = tmp_path / "stop"

    def sleep(seconds: float) -> None:
        clock.advance(seconds)
        if clock() > began_s + 30.0:
            stop.touch()

    began_s = clock()
    result = SimulatedTraining(board(), Plan("resnet18", 16, None, 1000, stop), clock, sleep).run()
    assert result > 100
    assert clock() - began_s == pytest.approx(31.0, abs=1.5)


def test_the_batch_size_comes_from_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERTRAIN_BATCH_SIZE", "64")
    training_plan = plan(parser().parse_args(["mobilenet-v3", "--epochs", "2"]))
    assert training_plan.batch_size == 64
    assert training_plan.steps == 2 * -(-workloads.get("mobilenet-v3").samples_per_epoch // 64)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["nothing"], "unknown workload"), (["lstm", "--host-root", "/nowhere"], "no simulated board")],
)
def test_what_it_can_not_train_it_says(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_the_command_trains_against_a_board_in_files(host_dir: Path) -> None:
    SimulatedBoard.create(host_dir / "b", "orin-agx", time_scale=50.0)
    command = [sys.executable, "-m", "powertrain_agent.simtrain", "lstm", "--host-root", str(host_dir / "b")]
    result = subprocess.run(
        [*command, "--time-scale", "50", "--steps", "20", "--no-gate"], capture_output=True, text=True, check=True
    )
    assert result.stdout == "lstm: 20 steps\n"
