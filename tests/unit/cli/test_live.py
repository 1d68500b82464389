"""`powertrain tune` around a training that runs: chooses, shows, restores, and says what can't be tuned."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give a measured table (--csv)"),
        (("--device", "sim:orin-agx"), "give a measured table (--csv)"),
        (("--device", "xavier", "--", "true"), "right are 'local' (this board) and 'sim:NAME'"),
        (("--device", "sim:pi", "--", "true"), "unknown device 'pi'"),
        (("--device", "local", "--time-scale", "3", "--", "true"), "real time can't be scaled"),
        (("--device", "local", "--", "true"), "this is no Jetson"),
    ],
)
def test_what_can_not_be_tuned_is_said(powertrain: Any, arguments: tuple[str, ...], said: str) -> None:
    result = powertrain("tune", "--power", "30", *arguments)
    assert result.code in (2, 3)
    assert said in " ".join(result.err.split())


def test_a_training_on_a_simulated_board_gets_its_mode_and_the_board_is_restored(
    powertrain: Any,
) -> None:
    simtrain = (sys.executable, "-m", "powertrain_agent.simtrain", "lstm")
    scaled = ("--device", "sim:orin-agx", "--time-scale", "10", "--until-chosen", "--strategy", "preset")
    record = json.loads(powertrain("tune", "--power", "30", *scaled, "--json", "--", *simtrain).out)
    assert record["choice"] == record["tried"][-1]["mode"]
    assert record["tried"][-1]["power_w"] < 30.0
    assert "preset MODE_30W has the highest label within 30 W" in record["reason"]


def test_a_training_that_fails_is_named_with_its_code(powertrain: Any) -> None:
    failing = (sys.executable, "-c", "raise SystemExit(7)")
    result = powertrain("tune", "--power", "30", "--device", "sim:orin-nano", "--time-scale", "10", "--", *failing)
    assert result.code == 3
    assert "ended with code 7" in result.err
