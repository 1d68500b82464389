"""The gate opens for its own session in its own boot, and for nothing else."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import powertrain_sdk
from powertrain_sdk import gate

UID, BOOT = "uid-1", "boot-1"


def write_ready(directory: Path, **changes: str) -> None:
    (directory / "ready").write_text(json.dumps({"session": UID, "boot_id": BOOT, "mode": "4c/0.7/0.3/2.1", **changes}))


def run(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "powertrain_sdk.gate", *arguments]
    whole = {**os.environ, "POWERTRAIN_BOOT_ID": BOOT, **environ}
    return subprocess.run(command, env=whole, capture_output=True, text=True, check=False)


def test_it_says_its_version() -> None:
    assert run("--version").stdout == f"powertrain-gate {powertrain_sdk.__version__}\n"


def test_an_open_gate_lets_through_at_once_and_names_the_mode(tmp_path) -> None:
    write_ready(tmp_path)
    result = run("--dir", str(tmp_path), "--session", UID)
    assert (result.returncode, result.stdout) == (0, "powertrain gate: open, safe mode 4c/0.7/0.3/2.1\n")


def test_the_environment_names_directory_and_session_and_the_kernel_the_boot(tmp_path) -> None:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    write_ready(tmp_path, boot_id=boot_id)
    environ = {"POWERTRAIN_SESSION_DIR": str(tmp_path), "POWERTRAIN_SESSION_UID": UID, "POWERTRAIN_BOOT_ID": ""}
    assert run("--timeout", "0.1", **environ).returncode == 0


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda path: path.rmdir(), "is not there"),
        (lambda path: None, "has not verified a safe mode yet"),
        (lambda path: write_ready(path, session="uid-0"), "is of session 'uid-0'"),
        (lambda path: write_ready(path, boot_id="boot-0"), "another boot ('boot-0', this is boot-1)"),
        (lambda path: (path / "ready").write_text('{"session": "ui'), "can't be read"),
    ],
    ids=["no directory", "no file", "other session", "other boot", "half a file"],
)
def test_a_closed_gate_ends_at_the_timeout_with_its_reason(tmp_path, prepare, reason) -> None:
    directory, log = tmp_path / "session", tmp_path / "termination"
    directory.mkdir()
    prepare(directory)
    arguments = ("--dir", str(directory), "--session", UID, "--timeout", "0.3")
    result = run(*arguments, POWERTRAIN_TERMINATION_LOG=str(log))
    assert result.returncode == 4
    first, last = result.stdout.splitlines()
    assert first.startswith("powertrain gate: waiting for a safe power mode of session uid-1, 0 s so far: ")
    assert last.startswith("powertrain gate: closed after 0 s: ")
    assert reason in first
    assert reason in last
    assert reason in log.read_text()


def test_a_gate_that_opens_while_one_waits_lets_through(tmp_path, clock) -> None:
    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if clock.now_s > 105:
            write_ready(tmp_path)

    assert gate.wait(str(tmp_path), UID, BOOT, 60, lambda _: None, clock, sleep) is None
    assert clock.now_s == pytest.approx(105.2, abs=0.25)


def test_every_thirty_seconds_it_says_what_it_waits_for(tmp_path, clock) -> None:
    lines: list[str] = []
    gate.wait(str(tmp_path), UID, BOOT, 100, lines.append, clock, clock.sleep)
    assert [line.split(",")[1].split(":")[0] for line in lines] == [f" {s} s so far" for s in (0, 30, 60, 90)]


def test_without_a_limit_it_waits_for_ever(tmp_path, clock) -> None:
    def sleep(seconds: float) -> None:
        clock.sleep(3600)
        if clock.now_s > 86400:
            write_ready(tmp_path)

    assert gate.wait(str(tmp_path), UID, BOOT, 0, lambda _: None, clock, sleep) is None


def test_it_ends_promptly_when_asked_to(tmp_path) -> None:
    command = [sys.executable, "-m", "powertrain_sdk.gate", "--dir", str(tmp_path), "--session", UID]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        asked_s = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 143
    assert time.monotonic() - asked_s < 10


@pytest.mark.parametrize("arguments", [(), ("--session", UID, "--timeout", "-1")])
def test_wrong_arguments_are_refused(arguments) -> None:
    result = run(*arguments, POWERTRAIN_SESSION_UID="")
    assert result.returncode == 2
    assert "POWERTRAIN_SESSION_UID" in result.stderr or "--timeout -1.0" in result.stderr


def test_the_gate_can_bring_the_sdk_along(tmp_path) -> None:
    write_ready(tmp_path)
    result = run("--dir", str(tmp_path), "--session", UID, "--install", str(tmp_path / "shared"))
    assert result.returncode == 0
    assert (tmp_path / "shared" / "powertrain_sdk" / "auto" / "sitecustomize.py").exists()


def test_a_copy_that_fails_is_said(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    result = run("--dir", str(tmp_path), "--session", UID, "--install", str(tmp_path / "file"))
    assert result.returncode == 1
    assert "can't start" in result.stdout
