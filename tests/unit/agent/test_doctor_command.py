"""`powertrain doctor`, run the way a user runs it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from powertrain_agent.simulate import Fault, FaultKind, SimulatedBoard
from powertrain_cli import main

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")

    def command(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["powertrain", "doctor", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.run()
        return int(ended.value.code or 0), capsys.readouterr().out

    return command


def test_a_sound_board_gets_a_table_and_a_one_line_verdict(
    doctor: Command, board: Callable[..., SimulatedBoard]
) -> None:
    code, out = doctor("--host-root", str(board("orin-nano").root))
    assert code == 0
    assert "memory clock" in out
    assert "mount family for the chart: orin-r35" in out
    assert out.strip().splitlines()[-1].endswith("every knob can be set, verified and restored.")


def test_json_is_the_whole_output_and_the_exit_code_tells_a_broken_board(
    doctor: Command, board: Callable[..., SimulatedBoard]
) -> None:
    simulated = board()
    simulated.inject(Fault(FaultKind.FAIL_WRITE, "*/devfreq/*"))
    code, out = doctor("--host-root", str(simulated.root), "--json")
    assert code == 1
    assert json.loads(out)["healthy"] is False


def test_a_machine_that_is_no_jetson_ends_with_its_own_code(doctor: Command, tmp_path: Path) -> None:
    code, out = doctor("--host-root", str(tmp_path))
    assert code == 3
    assert out.startswith("not a Jetson")
    assert "run it on the board itself" in out
    assert list(tmp_path.iterdir()) == []
