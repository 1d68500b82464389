"""The memory clock through the bandwidth manager, and boards that look otherwise than an Orin with R36."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from powertrain import devices
from powertrain_agent.control.clocks import off_clock
from powertrain_agent.control.controller import Controller
from powertrain_agent.control.snapshot import SnapshotStore
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.doctor import run_doctor
from powertrain_agent.hardware.board import CorePolicy, discover
from powertrain_agent.hardware.capability import Access
from powertrain_agent.hardware.emc import EmcKind
from powertrain_agent.simulate import Fault, FaultKind, SimulatedBoard

NO_DEBUGFS = Fault(FaultKind.VANISH, "/sys/kernel/debug/*")


def without_debugfs(root: Path, name: str) -> SimulatedBoard:
    board = SimulatedBoard.create(root, name)
    board.inject(NO_DEBUGFS)
    return board


def controller_of(board: SimulatedBoard, root: Path) -> Controller:
    store = SnapshotStore(StateDir(root / "state"), board.sysfs)
    return Controller(board.sysfs, discover(board.sysfs), store, CorePolicy.FIXED, pause=lambda seconds: None)


@pytest.mark.parametrize("name", ["orin-agx-super", "thor"])
def test_the_lock_is_preferred_where_it_can_be_written(tmp_path: Path, name: str) -> None:
    emc = discover(SimulatedBoard.create(tmp_path, name).sysfs).emc
    assert emc is not None
    assert emc.kind is EmcKind.BPMP


@pytest.mark.parametrize("name", ["orin-agx-super", "thor"])
def test_the_bandwidth_manager_holds_the_clock_without_debugfs_and_is_restored(tmp_path: Path, name: str) -> None:
    board = without_debugfs(tmp_path, name)
    controller = controller_of(board, tmp_path)
    assert controller.board.emc is not None
    assert controller.board.emc.kind is EmcKind.DEVFREQ
    assert controller.board.emc.table_hz == devices.get(name).tables.emc_hz.values
    limits = [f"/sys/class/devfreq/bwmgr/{bound}_freq" for bound in ("min", "max")]
    before = [board.sysfs.read(path) for path in limits]
    mode = replace(controller.space[0], emc_hz=controller.board.emc.table_hz[1])
    controller.apply(mode)
    assert {board.sysfs.read(path) for path in limits} == {str(mode.emc_hz)}
    assert board.mode().emc_hz == mode.emc_hz
    assert off_clock(board.sysfs, controller.board, mode) == {}
    assert controller.restore().ok
    assert [board.sysfs.read(path) for path in limits] == before


def test_a_memory_clock_that_moves_by_itself_is_noticed(tmp_path: Path) -> None:
    board = without_debugfs(tmp_path, "thor")
    controller = controller_of(board, tmp_path)
    mode = replace(controller.space[0], emc_hz=2_750_000_000)
    controller.apply(mode)
    board.inject(Fault(FaultKind.CLOCK_NOT_APPLIED, "emc", value=1))
    assert list(off_clock(board.sysfs, controller.board, mode).values()) == [3_200_000_000]


def test_limits_that_can_not_be_read_leave_the_cap(tmp_path: Path) -> None:
    board = without_debugfs(tmp_path, "orin-agx-super")
    board.inject(Fault(FaultKind.FAIL_READ, "*/bwmgr/min_freq"))
    emc = discover(board.sysfs).emc
    assert emc is not None
    assert emc.kind is EmcKind.CAP


def test_the_doctor_tries_the_bandwidth_manager(tmp_path: Path) -> None:
    board = without_debugfs(tmp_path, "orin-agx-super")
    report = run_doctor(board.sysfs, state_dir=tmp_path / "state", pause=lambda seconds: None)
    emc = next(knob for knob in report.knobs if knob.knob == "emc")
    assert (emc.read, emc.write, emc.verify, emc.restore) == (True, True, True, True), emc


def test_a_thor_looks_like_the_reports_and_not_like_an_orin(tmp_path: Path) -> None:
    sysfs = SimulatedBoard.create(tmp_path, "thor").sysfs
    board = discover(sysfs)
    assert board.gpu is not None
    files = sysfs.list(board.gpu.device_path)
    assert not {"load", "railgate_enable", "tpc_pg_mask", "enable_3d_scaling", "of_node"} & set(files)
    assert board.fingerprint().tpc_mask == "64"
    assert board.sensors.total == "VIN"
    assert 3_200_000_000 in (board.emc.table_hz if board.emc else ())


def test_a_gpu_whose_limits_hang_is_left_to_its_governor(tmp_path: Path) -> None:
    board = SimulatedBoard.create(tmp_path, "thor", timeout_s=0.05)
    board.inject(Fault(FaultKind.STUCK, "*/gpu-gpc-0/min_freq"))
    hardware = discover(board.sysfs)
    gpu = hardware.capabilities["gpu"]
    assert gpu.access is Access.READ_ONLY
    assert "left to its governor" in gpu.reason
    assert len(set(hardware.space().gpu_hz.tolist())) == 1
    assert len(set(hardware.space().cpu_khz.tolist())) > 1


def test_r39_has_no_switch_for_3d_scaling(tmp_path: Path) -> None:
    new, old = (
        SimulatedBoard.create(tmp_path / "new", "orin-agx-super"),
        SimulatedBoard.create(tmp_path / "old", "orin-nx-16"),
    )
    assert not new.sysfs.exists(f"{new.sysfs.layout.gpu}/enable_3d_scaling")
    assert old.sysfs.exists(f"{old.sysfs.layout.gpu}/enable_3d_scaling")


def test_super_boards_are_told_from_those_without_by_their_table(tmp_path: Path) -> None:
    for name in ("orin-nx-16", "orin-nx-16-super", "orin-nano", "orin-nano-super", "orin-agx-11", "orin-agx-super"):
        assert discover(SimulatedBoard.create(tmp_path / name, name).sysfs).name == name
