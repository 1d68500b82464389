"""The agent's self-check: what a read-only doctor finds, without a write, and small enough for the status."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

from powertrain_agent.self_check import self_check
from powertrain_agent.simulate import SimulatedBoard

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MOST_BYTES = 4_000


def test_a_healthy_board_says_so_knob_by_knob_and_is_not_changed(tmp_path: Path) -> None:
    board = SimulatedBoard.create(tmp_path / "board", "orin-agx")
    before = board.mode()
    check = self_check(board.sysfs, tmp_path / "state", lambda: NOW)
    assert (check.works, board.mode()) == (True, before)
    assert all(knob.usable and not knob.reason for knob in check.knobs if knob.knob in ("cpu", "gpu", "emc"))
    assert check.at == "2026-03-01T00:00:00Z"
    assert len(json.dumps(check.wire())) <= MOST_BYTES
    assert not (tmp_path / "state").exists()


def test_a_sensor_that_is_gone_is_named_with_its_reason(tmp_path: Path) -> None:
    board = SimulatedBoard.create(tmp_path / "board", "orin-agx")
    shutil.rmtree(board.root / "sys/bus/i2c")
    check = self_check(board.sysfs, tmp_path / "state", lambda: NOW)
    power = next(knob for knob in check.knobs if knob.knob == "power")
    assert (check.works, power.usable) == (False, False)
    assert (bool(power.reason), power.fix) == (True, "sudo modprobe ina3221")
