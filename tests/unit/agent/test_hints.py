"""What the doctor says about firmware and supply beside whether knobs work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from powertrain_agent.doctor import run_doctor
from powertrain_agent.hardware.board import Board, discover
from powertrain_agent.hints import hints
from powertrain_agent.simulate import SimulatedBoard


def board_of(tmp_path: Path, name: str) -> Board:
    return discover(SimulatedBoard.create(tmp_path, name).sysfs)


def test_a_sound_board_gets_no_hint(tmp_path: Path) -> None:
    assert hints(board_of(tmp_path, "orin-nano-super"), 5.0, {"oc1": 0, "oc3": 0}) == ()


def test_a_super_board_with_a_short_table_has_old_firmware(tmp_path: Path) -> None:
    board = board_of(tmp_path, "orin-nano-super")
    assert board.gpu is not None
    short = replace(board, gpu=replace(board.gpu, table_hz=(306_000_000, 624_750_000)))
    (hint,) = hints(short, None, {})
    assert "624.75 MHz" in hint
    assert "firmware" in hint


@pytest.mark.parametrize(
    ("volts", "events", "word"),
    [(4.5, {}, "4.50 V"), (5.0, {"oc1": 3}, "under-voltage"), (12.0, {"oc2": 1, "oc3": 2}, "3 over-current")],
)
def test_a_weak_supply_is_named(tmp_path: Path, volts: float, events: dict[str, int], word: str) -> None:
    (hint,) = hints(board_of(tmp_path, "orin-nano"), volts, events)
    assert word in hint


def test_thor_says_which_presets_need_a_reboot(tmp_path: Path) -> None:
    (hint,) = hints(board_of(tmp_path, "thor"), 12.0, {})
    assert hint == "the GPU's mask is that of MAXN, 120W: nvpmodel asks for a reboot to change to 90W, 70W"


def test_the_doctor_passes_hints_on(tmp_path: Path) -> None:
    board = SimulatedBoard.create(tmp_path, "orin-nano")
    board.over_current(alarm=1, events=2)
    report = run_doctor(board.sysfs, read_only=True, state_dir=tmp_path / "state")
    assert ["2 under-voltage events" in hint for hint in report.hints] == [True]
