"""`powertrain tune` around a training that runs: chooses, shows, restores, and says what can't be tuned."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from powertrain.reference import load
from powertrain.sample_csv import write_csv
from powertrain_agent.board_restorer import BoardHolder
from powertrain_agent.process import Process
from powertrain_agent.simulate import SimulatedBoard, batches
from powertrain_cli.live_reference import reference_folder

FOUND_HZ = "1300500000"
SLEEPS = (sys.executable, "-c", "import time; time.sleep(600)")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a measured table (--csv)"),
        (("--device", "sim:orin-agx"), "give a measured table (--csv)"),
        (("--device", "xavier", "--", "true"), "use 'local' (this board) and 'sim:NAME'"),
        (("--device", "sim:pi", "--", "true"), "unknown device 'pi'"),
        (("--device", "local", "--time-scale", "3", "--", "true"), "real time can't be scaled"),
        (("--device", "local", "--", "true"), "not a Jetson"),
        (
            ("--device", "sim:orin-agx", "--reference", "nowhere", "--", "true"),
            "nowhere: there is no such file or folder",
        ),
        (
            ("--device", "sim:orin-agx", "--reference", "/", "--", "true"),
            "/: not a reference, it has no reference.json",
        ),
    ],
)
def test_what_can_not_be_tuned_is_said(
    powertrain: Any, scratch: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = powertrain("tune", "--power", "30", *arguments)
    assert result.code in (2, 3)
    assert message in " ".join(result.err.split())
    assert list(scratch.iterdir()) == []


def test_a_training_on_a_simulated_board_gets_its_mode_and_the_board_is_restored(
    powertrain: Any,
) -> None:
    simtrain = (sys.executable, "-m", "powertrain_agent.simtrain", "lstm")
    scaled = ("--device", "sim:orin-agx", "--time-scale", "10", "--until-chosen", "--strategy", "preset")
    record = json.loads(powertrain("tune", "--power", "30", *scaled, "--json", "--", *simtrain).out)
    assert record["choice"] == record["tried"][-1]["mode"]
    assert record["tried"][-1]["power_w"] < 30.0
    assert "preset MODE_30W has the highest label within 30 W" in record["reason"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "lstm-here.csv"
    with path.open("w", encoding="utf-8") as stream:
        write_csv(batches.measured("orin-agx", "lstm", [16], batches.thinned_modes("orin-agx")), stream)
    return path


def test_a_reference_of_ones_own_goes_from_its_table_into_the_choice(
    powertrain: Any, table: Path, tmp_path: Path
) -> None:
    train = ("reference", "train", str(table), "--device", "orin-agx", "--workload", "own", "--no-network")
    assert powertrain(*train, "--out", str(tmp_path / "own")).code == 0
    scaled = ("--device", "sim:orin-agx", "--time-scale", "20", "--until-chosen", "--modes", "3")
    simtrain = (sys.executable, "-m", "powertrain_agent.simtrain", "lstm")
    own = ("--reference", str(tmp_path / "own"))
    record = json.loads(powertrain("tune", "--power", "30", *scaled, *own, "--json", "--", *simtrain).out)
    assert record["reference"] == "orin-agx-own"
    assert record["choice"] is not None


def test_a_table_is_a_reference_too(table: Path, tmp_path: Path) -> None:
    folder = reference_folder(str(table), tmp_path)
    assert folder is not None
    assert load(folder).card.workload == "lstm-here"
    assert reference_folder("shipped", tmp_path) is None


def test_a_training_that_fails_is_named_with_its_code_and_its_output_is_kept(powertrain: Any, state_dir: Path) -> None:
    failing = (sys.executable, "-c", "print('no data'); raise SystemExit(7)")
    options = ("--device", "sim:orin-nano", "--time-scale", "10", "--state-dir", state_dir)
    result = powertrain("tune", "--power", "30", *options, "--", *failing)
    assert result.code == 3
    assert "ended with code 7" in result.err
    assert (state_dir / "training.log").read_text() == "no data\n"
    assert "the gate is open" in (state_dir / "agent.log").read_text()


class Tuning:
    """`powertrain tune` as a process of its own on a simulated board whose files stay."""

    def __init__(self, state_dir: Path, *training: str, scale: str = "10") -> None:
        options = ["--power", "30", "--device", "sim:orin-agx", "--time-scale", scale, "--strategy", "preset"]
        training = training or (sys.executable, "-m", "powertrain_agent.simtrain", "lstm")
        command = [sys.executable, "-m", "powertrain_cli", "tune", *options, "--state-dir", str(state_dir)]
        env = {**os.environ, "TMPDIR": str(state_dir)}
        self.popen = subprocess.Popen([*command, "--", *training], stdout=subprocess.PIPE, text=True, env=env)
        self.lines: list[str] = []

    def wait_for(self, text: str) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self.lines.append(line)
            if text in line:
                return
        raise AssertionError(f"{text!r} was never said: {self.lines}")

    def kill(self) -> None:
        assert self.popen.stdout is not None
        self.popen.stdout.close()  # the training still holds the other end
        self.popen.kill()
        self.popen.wait()

    def end(self, number: signal.Signals) -> int:
        self.popen.send_signal(number)
        self.lines += self.popen.communicate(timeout=60)[0].splitlines()
        return self.popen.returncode


@pytest.fixture
def state_dir() -> Iterator[Path]:
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="powertrain-", dir=base) as directory:
        yield Path(directory)


def gpu_max_hz(state_dir: Path) -> str:
    sysfs = SimulatedBoard.open(state_dir / "board").sysfs
    return sysfs.read(f"{sysfs.layout.devfreq}/max_freq")


def test_a_tuning_that_was_killed_is_cleaned_up_by_the_next_one_which_governs_its_own_training(state_dir: Path) -> None:
    first = Tuning(state_dir, *SLEEPS)
    first.wait_for("the gate is open")
    uid, lowest_hz = BoardHolder.load(state_dir).uid, gpu_max_hz(state_dir)  # type: ignore[union-attr]
    training = held_by_another(state_dir, first.popen.pid)
    first.kill()
    os.kill(training.pid, signal.SIGKILL)
    assert gpu_max_hz(state_dir) == lowest_hz != FOUND_HZ
    second = Tuning(state_dir)
    second.wait_for("the first steps were seen")
    session = BoardHolder.load(state_dir)
    assert session is not None
    assert session.uid != uid
    assert [path.name for path in (state_dir / "sessions").iterdir()] == [session.uid]
    assert second.end(signal.SIGTERM) == 0
    assert second.lines[-2].split() == ["training", str(state_dir / "training.log")]
    assert gpu_max_hz(state_dir) == FOUND_HZ
    assert not (state_dir / "session.json").exists()
    assert any("original settings restored" in line for line in second.lines)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_every_signal_that_ends_a_tuning_ends_the_training_and_restores(
    state_dir: Path, number: signal.Signals
) -> None:
    tuning = Tuning(state_dir, *SLEEPS)
    tuning.wait_for("the gate is open")
    training = held_by_another(state_dir, tuning.popen.pid)
    assert tuning.end(number) == 0
    assert gpu_max_hz(state_dir) == FOUND_HZ
    assert not training.is_alive


def test_a_training_that_outlives_its_tuning_keeps_the_board(state_dir: Path) -> None:
    tuning = Tuning(state_dir, *SLEEPS)
    tuning.wait_for("the gate is open")
    training = held_by_another(state_dir, tuning.popen.pid)
    tuning.kill()
    try:
        mode = gpu_max_hz(state_dir)
        second = Tuning(state_dir)
        _, _ = second.popen.communicate(timeout=60)
        assert second.popen.returncode == 3
        assert gpu_max_hz(state_dir) == mode != FOUND_HZ
    finally:
        os.kill(training.pid, signal.SIGKILL)


def held_by_another(state_dir: Path, pid: int) -> Process:
    """Wait until the session belongs to the training instead of to the tuning itself."""
    until_s = time.monotonic() + 30.0
    while time.monotonic() < until_s:
        session = BoardHolder.load(state_dir)
        if session is not None and session.process is not None and session.process.pid != pid:
            return session.process
        time.sleep(0.02)
    raise AssertionError("the training never held the board")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--", "no-such-command"), "there is no command 'no-such-command'"),
        (("--", sys.executable, "missing.py"), "there is no script 'missing.py'"),
        (("--checks", "3", "--", "true"), "--checks is for a replay of --csv only"),
        (("--seed", "3", "--noise", "0.1", "--", "true"), "--noise, --seed are for a replay of --csv only"),
    ],
)
def test_a_mistake_is_noticed_before_the_board_is_touched(
    powertrain: Any, scratch: Path, state_dir: Path, arguments: tuple[str, ...], message: str
) -> None:
    options = ("--device", "sim:orin-agx", "--state-dir", state_dir)
    result = powertrain("tune", "--power", "30", *options, *arguments)
    assert result.code == 2
    assert message in " ".join(result.err.split())
    assert not list(state_dir.glob("*"))


def test_a_run_ends_with_its_choice_and_writes_its_report(powertrain: Any, tmp_path: Path) -> None:
    simtrain = (sys.executable, "-m", "powertrain_agent.simtrain", "lstm")
    scaled = ("--device", "sim:orin-agx", "--time-scale", "10", "--until-chosen", "--strategy", "preset")
    target = tmp_path / "run.html"
    out = powertrain("tune", "--power", "30", *scaled, "--report", target, "--", *simtrain).out
    chosen = out.partition("chosen     ")[2].split()[0]
    assert chosen.endswith("/1.73C/0.62G/3.20M")  # the preset of 30 W
    assert out.index("chosen     ") < out.index("original settings restored") < out.index("training   ")
    page = target.read_text(encoding="utf-8")
    assert "Source: the readings of this run" in page
    assert chosen in page
