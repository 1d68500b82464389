"""`powertrain choose`, run the way a user runs it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]


def test_the_fastest_mode_within_the_budget_and_its_runner_up_are_shown(powertrain: Command, data: Path) -> None:
    result = powertrain("choose", data, "--power", "40")
    assert (result.code, result.err) == (0, "")
    assert "best: 8c_1728000_624750000_3199000000" in result.out
    assert "runner-up: 8c_1728000_624750000_2133000000" in result.out
    assert "fastest of 5 modes that keep the limits (6 considered)" in result.out
    assert "excluded by power ≤ 40 W: 1" in result.out


def test_the_least_power_within_an_epoch_time_is_chosen(powertrain: Command, data: Path) -> None:
    limits = ("--objective", "MinPower", "--epoch-seconds", "21", "--samples-per-epoch", "1600")
    document = json.loads(powertrain("choose", data, *limits, "--json").out)
    assert document["best"]["human"] == "4c/1.11C/0.42G/2.13M"
    assert document["best"]["epoch_s"] == pytest.approx(20)
    assert document["best"]["epoch_j"] == pytest.approx(360)


def test_the_least_energy_needs_no_limit(powertrain: Command, data: Path) -> None:
    document = json.loads(powertrain("choose", data, "--objective", "MinEnergy", "--json").out)
    assert document["best"]["step_j"] == pytest.approx(2.4)


def test_limits_on_the_whole_training_are_kept(powertrain: Command, data: Path) -> None:
    work = ("--samples-per-epoch", "1600", "--epochs", "10")
    result = powertrain("choose", data, *work, "--energy-joules", "2450", "--power", "60", "--json")
    assert json.loads(result.out)["best"]["human"] == "8c/1.73C/0.62G/3.20M"
    result = powertrain("choose", data, *work, "--training-seconds", "60", "--power", "60", "--json")
    assert json.loads(result.out)["best"]["human"] == "12c/2.20C/1.30G/3.20M"


def test_nothing_feasible_ends_with_one_and_the_closest_mode(powertrain: Command, data: Path) -> None:
    result = powertrain("choose", data, "--power", "10")
    assert (result.code, result.err) == (1, "")
    assert "closest: 2c_268800_114750000_204000000" in result.out
    assert "power 11 W instead of at most 10 W (1 W or 10.0% too much)" in result.out


def test_the_json_keeps_its_schema_with_and_without_an_answer(powertrain: Command, data: Path) -> None:
    keys = {
        *("file", "batch_size", "objective", "limits", "noise", "risk", "modes", "feasible", "best"),
        *("break_probability", "runner_up", "excluded", "closest", "reason", "warnings"),
    }
    good, none = (powertrain("choose", data, "--power", watts, "--json") for watts in ("30", "5"))
    assert (good.code, none.code) == (0, 1)
    assert set(json.loads(good.out)) == set(json.loads(none.out)) == keys
    assert json.loads(good.out)["closest"] is None
    assert json.loads(none.out)["best"] is None
    closest = json.loads(none.out)["closest"]
    assert set(closest) == {"measured", "limit", "value", "at_most", "break_probability"}
    assert (closest["limit"], closest["value"], closest["at_most"]) == ("powerWatts", 11, 5)


def test_without_measured_peaks_the_assumed_factor_is_said(powertrain: Command, data: Path) -> None:
    result = powertrain("choose", data, "--power", "30", "--power-statistic", "Peak")
    assert "6 of 6 modes have no measured peak" in result.err
    assert "1.03 × the median" in result.err
    assert "best: 4c_1113600_420750000_2133000000" in result.out
    assert "excluded by peak power ≤ 30 W: 3" in result.out


def test_measured_peaks_are_used(powertrain: Command, data: Path) -> None:
    lines = data.read_text().splitlines()
    data.write_text("\n".join([lines[0] + ",power_peak_w", *(line + ",29" for line in lines[1:])]))
    result = powertrain("choose", data, "--hard-limit", "30")
    assert (result.code, result.err) == (0, "")
    assert "best: 12c_2201600_1300500000_3199000000" in result.out


def test_noise_keeps_a_guard_band_below_the_limit(powertrain: Command, data: Path) -> None:
    exact = json.loads(powertrain("choose", data, "--power", "30", "--json").out)
    assert exact["best"]["power_w"] == 30
    careful = json.loads(powertrain("choose", data, "--power", "30", "--noise", "0.01", "--json").out)
    assert careful["best"]["power_w"] == 18
    bold = json.loads(powertrain("choose", data, "--power", "30", "--noise", "0.01", "--risk", "0.6", "--json").out)
    assert bold["best"]["power_w"] == 30
    assert bold["break_probability"] == pytest.approx(0.5)


def test_a_risk_without_noise_is_said_to_have_no_effect(powertrain: Command, data: Path) -> None:
    assert "--risk has no effect without --noise" in powertrain("choose", data, "--power", "30", "--risk", "0.1").err


def test_a_best_mode_that_takes_far_less_than_a_lower_one_is_doubted(powertrain: Command, data: Path) -> None:
    with data.open("a") as stream:
        stream.write("8,1728000,1300500000,3199000000,16,55,52\n")
        stream.write("12,1728000,1300500000,3199000000,16,51,18\n")
    result = powertrain("choose", data, "--power", "30")
    assert result.code == 0
    assert "12c/1.73C/1.30G/3.20M is recorded with 18.0 W, but 8c/1.73C/1.30G/3.20M, one step lower, with 52.0 W" in (
        result.err
    )


def test_several_batch_sizes_ask_for_one(powertrain: Command, two_sizes: Path) -> None:
    result = powertrain("choose", two_sizes, "--power", "30")
    assert (result.code, result.out) == (2, "")
    assert "has the batch sizes 16, 32: step times of different ones do not compare" in result.err
    assert powertrain("choose", two_sizes, "--power", "30", "--batch-size", "32").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "MinTime needs a power or an energy limit"),
        (["--objective", "MinPower"], "MinPower needs a time or an energy limit"),
        (["--objective", "Fastest"], "MinTime"),
        (["--power", "0"], "--power: '0' is not a power of at least 0.1 W"),
        (["--power", "nan"], "--power: 'nan' is not a power of at least 0.1 W"),
        (["--power", "30", "--epoch-seconds", "9"], "needs the number of samples per epoch"),
        (["--power", "30", "--training-seconds", "9", "--samples-per-epoch", "9"], "the number of epochs"),
        (["--power", "30", "--risk", "1"], "risk must be a probability from 0 to below 1, not 1.0"),
        (["--power", "30", "--samples-per-epoch", "0"], "--samples-per-epoch must be at least 1"),
        (["--power", "30", "--batch-size", "8"], "no rows with batch size 8; present: 16"),
    ],
)
def test_bad_input_ends_with_two_and_one_message(
    powertrain: Command, data: Path, arguments: list[str], message: str
) -> None:
    result = powertrain("choose", data, *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_missing_file_ends_with_two(powertrain: Command, tmp_path: Path) -> None:
    result = powertrain("choose", tmp_path / "none.csv", "--power", "30")
    assert result.code == 2
    assert "none.csv: no such file" in result.err.replace("\n", "")
