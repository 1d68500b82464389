"""The picture of a live `tune`: it fits the terminal, marks what is above the budget, and its end is the conclusion."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from powertrain import devices
from powertrain.api.v1alpha1 import Phase, SessionStatus
from powertrain_cli.live_view import LiveView
from powertrain_cli.tune_tables import FrontRow, TriedRow, front_table, rows_for, tried_table
from powertrain_cli.units import plus_minus

MODES = [str(mode) for mode in devices.get("orin-agx").space()][:40]
REASON = (
    "confirm 12c/1.50C/0.62G/2.13M: " + "fastest of 19 modes that keep the limits; " * 4 + "the runner-up is slower"
)


def status(count: int, message: str = "the gate is open") -> SessionStatus:
    """Return a status with so many tried modes, and a front of as many."""
    raw = {"protocol": 1, "uid": "x", "phase": Phase.PROFILING.value, "message": message, "mode": MODES[0]}
    if count:
        knobs = [[int(part) for part in re.findall(r"\d+", mode)] for mode in MODES[:count]]
        names = ("cores", "cpuKHz", "gpuHz", "emcHz")
        columns = {name: sorted({knob[place] for knob in knobs}) for place, name in enumerate(names)}
        short = dict(zip(("cores", "cpu", "gpu", "emc"), names, strict=True))
        indices = {
            key: [columns[name].index(knob[place]) for knob in knobs] for place, (key, name) in enumerate(short.items())
        }
        step_s = [0.1 + 0.01 * place for place in range(count)]
        power_w = [45.0 - place for place in range(count)]
        common = {"axes": columns, **indices, "stepSeconds": step_s, "powerWatts": power_w}
        front = {**common, "stepStdSeconds": [0.2] * count, "powerStdWatts": [1.0] * count}
        raw["result"] = {"strategy": "transfer", "samples": common, "front": front}
    return SessionStatus.model_validate(raw)


def terminal(width: int = 80, height: int = 24) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None)


def picture(status: SessionStatus, width: int = 80, height: int = 24) -> list[str]:
    console = terminal(width, height)
    view = LiveView(30.0, 1.0, quiet=False, console=console)
    with console.capture() as captured:
        console.print(view._picture(status))
    return captured.get().splitlines()


def test_at_the_start_there_are_no_empty_tables() -> None:
    lines = picture(status(0))
    assert len(lines) == 3
    assert lines[-1].strip() == "the gate is open"


@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 24), (120, 40), (80, 12)])
def test_the_picture_fits_the_terminal_with_its_whole_reason(width: int, height: int) -> None:
    lines = picture(status(30, REASON), width, height)
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    assert " ".join(REASON.split()) in " ".join(" ".join(lines).split())


def test_points_above_the_budget_are_marked_in_both_tables() -> None:
    lines = picture(status(30), height=60)
    tried, front = (part.splitlines() for part in "\n".join(lines).split("predicted front"))
    for part in (tried, front):
        for line in part:
            figures = re.findall(r"\d+c/\S+ +\d+\.\d .*?(\d\d\.\d)\b", line)
            assert not figures or (float(figures[-1]) > 30.0) == ("above 30 W" in line), line


def test_an_interval_that_tells_nothing_has_no_figure() -> None:
    assert plus_minus(406.0, 464.0) == "> 50%"
    assert plus_minus(406.0, 46.4) == "46.4"
    assert "464.0" not in "\n".join(picture(status(5)))


def test_only_words_are_cut_on_a_narrow_terminal() -> None:
    console = terminal(50)
    rows = [TriedRow("12c/1.50C/0.62G/2.13M", 3681.0, 41.5, "expected gain 2.18% under the limits")]
    front = [FrontRow("12c/1.50C/0.62G/2.13M", 3681.0, 12.0, 41.5, 1.0)]
    with console.capture() as captured:
        console.print(tried_table(rows, 5, 30.0, "tried", 50), front_table(front, 5, 30.0, 50))
    for figure in ("12c/1.50C/0.62G/2.13M", "3681.0", "41.5", "12.0"):
        assert figure in captured.get()


@pytest.mark.parametrize(
    ("free", "tried", "front", "rows"),
    [(20, 0, 0, (0, 0)), (20, 3, 0, (3, 0)), (20, 30, 30, (9, 7)), (20, 2, 30, (2, 14))],
)
def test_rows_are_shared_between_the_tables(free: int, tried: int, front: int, rows: tuple[int, int]) -> None:
    assert rows_for(free, tried, front) == rows


def test_a_reader_that_goes_away_ends_the_command_quietly_and_the_board_is_restored(tmp_path: Path) -> None:
    options = ["--power", "30", "--device", "sim:orin-agx", "--time-scale", "20", "--state-dir", str(tmp_path)]
    training = [sys.executable, "-m", "powertrain_agent.simtrain", "lstm"]
    command = [sys.executable, "-m", "powertrain_cli", "tune", *options, "--", *training]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ}) as popen:
        assert popen.stdout is not None
        assert popen.stderr is not None
        popen.stdout.readline()
        popen.stdout.close()
        assert popen.wait(timeout=120) == 0
        assert popen.stderr.read() == b""
    assert '"event": "ended"' in (tmp_path / "agent.log").read_text(encoding="utf-8")
