"""Mistakes in the command's words are one plain line each, with where the help is; completion helps to avoid them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nonsense",), "there is no verb nonsense"),
        (("tune", "--bogus"), "there is no option --bogus; see: powertrain tune -h"),
        (("status",), "JOB is missing; see: powertrain status -h"),
        (("tune", "--csv", "x.csv"), "--power is missing; see: powertrain tune -h"),
        (("choose", "x.csv", "--power", "30X"), "--power: '30X' is not a power"),
        (("submit", "x.yaml", "--power", "0"), "--power: '0' is not a power of at least 0.1 W"),
        (("submit", "x.yaml", "--epochs", "two"), "--epochs takes a whole number; see: powertrain submit -h"),
        (("submit", "x.yaml", "--epochs", "0"), "--epochs must be at least 1; see: powertrain submit -h"),
        (("list", "extra"), "too many arguments: extra; see: powertrain list -h"),
        (("devices", "orin-agxx"), "unknown device 'orin-agxx'; known: nano, orin-agx"),
    ],
)
def test_a_mistake_is_one_plain_line(powertrain: Any, words: tuple[str, ...], message: str) -> None:
    result = powertrain(*words)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith(f"error: {message}")
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize("text", ["30", "30W", "30 W"])
def test_watts_may_name_their_unit_in_every_verb(powertrain: Any, data: Path, text: str) -> None:
    assert powertrain("choose", data, "--power", text).out == powertrain("choose", data, "--power", "30").out
    assert powertrain("pareto", data, "--power", text).code == 0


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_verb_has_both_options_of_help(powertrain: Any, option: str) -> None:
    for verb in (("tune",), ("devices",), ("reference", "train"), ("status",)):
        result = powertrain(*verb, option)
        assert result.code == 0
        assert "Usage: powertrain" in result.out


def completed(shell: str, line: str, **more: str) -> list[str]:
    """Return what a shell is offered at the end of a line."""
    env = {**os.environ, "_POWERTRAIN_COMPLETE": f"complete_{shell}", **more}
    if shell == "bash":
        env |= {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    else:
        env |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    code = "import sys; sys.argv[0] = 'powertrain'; from powertrain_cli.main import run; run()"
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert result.stderr == ""
    return result.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("powertrain why", ["why-pending"]),
        ("powertrain modes xav", ["xavier-agx", "xavier-nx"]),
        ("powertrain devices show xav", ["xavier-agx", "xavier-nx"]),
        ("powertrain tune --device sim:xav", ["sim:xavier-agx", "sim:xavier-nx"]),
        ("powertrain tune --strategy stair", ["staircase"]),
    ],
)
def test_bash_completes_verbs_boards_and_strategies(line: str, offered: list[str]) -> None:
    assert completed("bash", line) == offered


@pytest.mark.parametrize("shell", ["fish", "zsh"])
def test_other_shells_complete_boards_too(shell: str) -> None:
    assert "xavier-nx" in " ".join(completed(shell, "powertrain modes xav"))


def test_without_a_cluster_nothing_is_completed_and_nothing_is_said(tmp_path: Path) -> None:
    assert completed("bash", "powertrain status m", KUBECONFIG=str(tmp_path / "none")) == []
