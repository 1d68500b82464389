"""`powertrain doctor` and `powertrain-agent doctor`, run the way a user runs them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from powertrain_agent import main as agent_main
from powertrain_agent.doctor import DoctorReport, run_doctor
from powertrain_agent.doctor_text import text
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


@pytest.fixture
def agents_doctor(capsys: pytest.CaptureFixture[str]) -> Command:
    def command(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            agent_main.run(["doctor", *arguments])
        return int(ended.value.code or 0), capsys.readouterr().out

    return command


def without_readings(out: str) -> str:
    """Take out the watts and degrees: two runs never read the same."""
    return re.sub(r"\d+\.\d+", "#", out)


def test_the_agents_own_doctor_prints_what_the_command_line_prints(
    doctor: Command, agents_doctor: Command, board: Callable[..., SimulatedBoard]
) -> None:
    results = []
    for command in (doctor, agents_doctor):
        simulated = board("xavier-agx")
        simulated.inject(Fault(FaultKind.FAIL_WRITE, "*/devfreq/*"))
        results.append(command("--host-root", str(simulated.root)))
    ours, theirs = results
    assert ours[0] == theirs[0] == 1
    assert without_readings(ours[1]) == without_readings(theirs[1])


def test_in_a_pod_the_agents_doctor_needs_no_options(
    agents_doctor: Command, board: Callable[..., SimulatedBoard], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTRAIN_HOST_ROOT", str(board().root))
    monkeypatch.setenv("POWERTRAIN_STATE_DIR", str(tmp_path))
    code, out = agents_doctor("--json", "--report", str(tmp_path / "board.json"))
    assert code == 0
    assert json.loads(out)["healthy"] is True
    assert (tmp_path / "doctor").is_dir()
    assert json.loads((tmp_path / "board.json").read_text())["identity"]


def test_a_report_that_cannot_be_written_is_one_line(
    board: Callable[..., SimulatedBoard], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        agent_main.run(["doctor", "--host-root", str(board().root), "--report", str(tmp_path / "no" / "file.json")])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"error: {tmp_path / 'no' / 'file.json'}: No such file or directory\n"


@pytest.mark.parametrize("width", [60, 80])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_broken(
    board: Callable[..., SimulatedBoard], tmp_path: Path, width: int
) -> None:
    report: DoctorReport = run_doctor(board().sysfs, True, tmp_path)
    page = text(report, width)
    assert max(map(len, page.splitlines())) <= width
    assert set(page.split()) - {"shows"} == set(text(report).split()) - {"shows"}
