"""The fan at its maximum while profiling: only when asked, and back to what was found."""

from pathlib import Path

import pytest

from powertrain_agent.control.controller import Controller
from powertrain_agent.control.snapshot import SNAPSHOT, SnapshotStore
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.hardware.board import discover
from powertrain_agent.simulate.faults import Fault, FaultKind


def _controller(simulated, state: Path) -> Controller:
    store = SnapshotStore(StateDir(state), simulated.sysfs)
    return Controller(simulated.sysfs, discover(simulated.sysfs), store, pause=lambda _: None)


@pytest.mark.parametrize("name", ["orin-agx", "orin-nx-16", "xavier-agx", "nano"])
def test_fan_goes_to_maximum_and_back(board, tmp_path: Path, name: str) -> None:
    simulated = board(name)
    pwm = simulated.sysfs.layout.fan_pwm
    original = simulated.sysfs.read(pwm)
    controller = _controller(simulated, tmp_path)
    controller.apply(controller.space[0])
    assert simulated.sysfs.read(pwm) == original, "off by default"
    assert controller.set_fan_max(True).ok
    assert simulated.sysfs.read(pwm) == "255"
    assert controller.set_fan_max(False).ok
    assert simulated.sysfs.read(pwm) == original
    assert controller.restore().ok


def test_fan_is_restored_with_everything_else(board, tmp_path: Path) -> None:
    simulated = board("nano")
    base = simulated.sysfs.layout.fan
    controller = _controller(simulated, tmp_path)
    controller.apply(controller.space[0])
    controller.set_fan_max(True)
    assert simulated.sysfs.read(f"{base}/temp_control") == "0"
    assert _controller(simulated, tmp_path).restore().ok
    assert (simulated.sysfs.read(f"{base}/target_pwm"), simulated.sysfs.read(f"{base}/temp_control")) == ("80", "1")


def test_fan_alone_leaves_no_snapshot_behind(board, tmp_path: Path) -> None:
    controller = _controller(board("orin-agx"), tmp_path)
    controller.set_fan_max(True)
    assert (tmp_path / SNAPSHOT).exists()
    controller.set_fan_max(False)
    assert not (tmp_path / SNAPSHOT).exists()


def test_a_fan_service_is_not_fought(board, tmp_path: Path) -> None:
    simulated = board("orin-agx")
    pwm = simulated.sysfs.layout.fan_pwm
    controller = _controller(simulated, tmp_path)
    controller.apply(controller.space[0])
    controller.set_fan_max(True)
    simulated.sysfs.write(pwm, "120")
    report = controller.check()
    assert any("something else controls it" in note for note in report.notes)
    assert controller.check().notes == ()
    assert simulated.sysfs.read(pwm) == "120"
    controller.restore()
    assert simulated.sysfs.read(pwm) == "120"


def test_a_board_without_a_fan_says_so(board, tmp_path: Path) -> None:
    simulated = board("orin-agx")
    simulated.inject(Fault(FaultKind.VANISH, target="*pwm*"))
    report = _controller(simulated, tmp_path).set_fan_max(True)
    assert report.ok
    assert "no hwmon named pwmfan" in report.notes[0]
