"""The report of a board, and the catalogue file that is drafted from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from powertrain import devices
from powertrain.devices.draft import ReportError, draft
from powertrain_agent.board_report import collect
from powertrain_agent.doctor import run_doctor
from powertrain_agent.hardware.board import discover
from powertrain_agent.simulate import SimulatedBoard
from powertrain_agent.simulate.kernel_rules import KernelRules
from powertrain_agent.simulate.layout import Layout
from powertrain_agent.simulate.tree import build
from powertrain_agent.sysfs import Sysfs


def report_of(root: Path, name: str) -> dict:
    board = SimulatedBoard.create(root, name)
    doctor = run_doctor(board.sysfs, read_only=True, state_dir=root / "state")
    return json.loads(json.dumps(collect(board.sysfs, doctor)))


@pytest.mark.parametrize("name", devices.names())
def test_every_board_is_drafted_from_its_report(tmp_path: Path, name: str) -> None:
    device = devices.get(name)
    drafted = devices.parse(draft(report_of(tmp_path, name), name), f"{name}.toml")
    assert drafted.tables.cpu_khz.values == device.tables.cpu_khz.values
    assert drafted.tables.gpu_hz.values == device.tables.gpu_hz.values
    assert drafted.tables.emc_hz.values == device.tables.emc_hz.values
    assert drafted.sensors.rails == device.sensors.rails
    assert drafted.sensors.total == device.sensors.total
    assert {tuple(sorted(cluster)) for cluster in drafted.clusters} == {tuple(sorted(c)) for c in device.clusters}
    ours, theirs = drafted.tree.model_dump(), device.tree.model_dump()
    different = {field for field in ours if ours[field] != theirs[field]}
    # The kernel of a simulated tree has no version; the boot minimum may be clamped by the preset.
    assert different <= {"cpu_min_khz", "qos"}, different


def test_presets_come_from_the_boards_own_nvpmodel_file(tmp_path: Path) -> None:
    drafted = devices.parse(draft(report_of(tmp_path, "orin-nx-16"), "x"), "x.toml")
    assert [(preset.name, preset.cores, preset.gpu_hz) for preset in drafted.presets] == [
        ("MAXN", 8, None),
        ("10W", 4, 612_000_000),
        ("15W", 4, 612_000_000),
        ("25W", 8, 408_000_000),
    ]
    assert [preset.name for preset in drafted.presets if preset.default] == ["15W"]


def test_a_drafted_tree_is_discovered_as_the_board_was(tmp_path: Path) -> None:
    report = report_of(tmp_path / "board", "orin-nano-super")
    layout = Layout(devices.parse(draft(report, "new"), "new.toml"))
    build(tmp_path / "tree", layout, KernelRules(layout).attributes)
    board = discover(Sysfs(tmp_path / "tree"))
    assert board.gpu is not None
    assert list(board.gpu.table_hz) == report["gpu"]["hz"]
    assert board.sensors.total == report["total"]


def test_a_report_holds_no_word_of_who_owns_the_board(tmp_path: Path) -> None:
    board = SimulatedBoard.create(tmp_path, "orin-agx")
    (tmp_path / "etc/hostname").write_text("secret-host")
    (tmp_path / "proc/device-tree/serial-number").write_text("1234567890123")
    doctor = run_doctor(board.sysfs, read_only=True, state_dir=tmp_path / "state")
    text = json.dumps(collect(board.sysfs, doctor))
    assert "secret-host" not in text
    assert "1234567890123" not in text
    assert str(tmp_path) not in text


@pytest.mark.parametrize("report", [{}, {"format": 1}, {"format": 2, "identity": {}}])
def test_what_is_no_report_is_refused_with_what_it_lacks(report: dict) -> None:
    with pytest.raises(ReportError, match=r"format|lacks"):
        draft(report, "x")
