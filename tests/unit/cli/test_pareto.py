"""`powertrain pareto`, run the way a user runs it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

Command = Callable[..., Any]
FRONT = ["12c/2.20C/1.30G/3.20M", "8c/1.73C/0.62G/3.20M", "4c/1.11C/0.42G/2.13M", "2c/0.27C/0.11G/0.20M"]
BEATEN = "8c/1.73C/0.62G/2.13M"


def test_the_front_is_listed_fastest_first(powertrain: Command, data: Path) -> None:
    result = powertrain("pareto", data)
    assert (result.code, result.err) == (0, "")
    assert "4 of 6 modes are on the front" in result.out
    assert [line.split("│")[1].strip() for line in result.out.splitlines() if line.startswith("│")] == FRONT
    assert BEATEN not in result.out


def test_each_batch_size_has_its_front(powertrain: Command, two_sizes: Path) -> None:
    out = powertrain("pareto", two_sizes).out
    assert "batch size 16: 4 of 6 modes" in out
    assert "batch size 32: 3 of 3 modes" in out
    one = powertrain("pareto", two_sizes, "--batch-size", "32").out
    assert "batch size 16" not in one


def test_a_budget_marks_the_modes_within_and_names_the_fastest(powertrain: Command, data: Path) -> None:
    out = powertrain("pareto", data, "--power", "30").out
    assert [line.count("yes") for line in out.splitlines() if line.startswith("│")] == [0, 1, 1, 1]
    assert "fastest within 30 W: 8c/1.73C/0.62G/3.20M (8c_1728000_624750000_3199000000)" in out


def test_a_budget_that_no_mode_keeps_names_the_least(powertrain: Command, data: Path) -> None:
    result = powertrain("pareto", data, "--power", "5")
    assert result.code == 0
    assert "no mode within 5 W; the least is 11.00 W: 2c/0.27C/0.11G/0.20M" in result.out


def test_the_presets_of_the_board_are_shown_and_inexact_ones_marked(powertrain: Command, data: Path) -> None:
    out = powertrain("pareto", data, "--device", "orin-agx").out
    names = [line.split("│")[1].strip() for line in out.splitlines() if line.startswith("│")]
    assert names[-4:] == ["MAXN", "MODE_15W", "MODE_30W", "≈ MODE_50W"]


def test_a_frequency_that_the_board_lacks_is_warned_of_on_stderr(powertrain: Command, data: Path) -> None:
    data.write_text(data.read_text().replace("1300500000", "1300500001"))
    result = powertrain("pareto", data, "--device", "orin-agx", "--json")
    assert "warning:" in result.err
    assert "gpu_hz 1300500001 is not in the device's table" in result.err
    assert len(json.loads(result.out)["warnings"]) == 1


def test_the_json_keeps_its_schema(powertrain: Command, data: Path) -> None:
    result = powertrain("pareto", data, "--json", "--power", "30", "--device", "orin-agx")
    document = json.loads(result.out)
    assert set(document) == {"file", "device", "power_budget_w", "fronts", "plot", "warnings"}
    [front] = document["fronts"]
    assert set(front) == {"batch_size", "modes", "front", "best", "presets"}
    assert [point["human"] for point in front["front"]] == FRONT
    assert front["best"] == {
        "mode": "8c_1728000_624750000_3199000000",
        "human": "8c/1.73C/0.62G/3.20M",
        "step_s": 0.08,
        "power_w": 30.0,
        "power_peak_w": None,
        "step_j": 2.4,
    }
    assert set(front["presets"][0]) == {"name", "mode", "exact", "measured"}
    assert [preset["exact"] for preset in front["presets"]] == [True, True, True, False]


def test_the_text_plot_shows_front_budget_and_presets(powertrain: Command, data: Path) -> None:
    out = powertrain("pareto", data, "--terminal", "--power", "30", "--device", "orin-agx").out
    for mark in ("●", "─ budget 30 W", "★ fastest within the budget: 8c/1.73C/0.62G/3.20M", "1 MAXN, 50 ms, 50.0 W"):
        assert mark in out


def test_a_plot_is_a_readable_svg_with_everything_named(powertrain: Command, data: Path, tmp_path: Path) -> None:
    target = tmp_path / "front.svg"
    result = powertrain("pareto", data, "--plot", target, "--power", "30", "--device", "orin-agx")
    assert (result.code, result.err) == (0, "")
    assert f"drawn: {target}" in result.out.replace("\n", "")
    text = " ".join(ElementTree.parse(target).getroot().itertext())
    for named in (
        "6 measured modes",
        "front, 4 modes",
        "budget 30 W",
        "MAXN",
        "≈ MODE_50W",
        "step time, ms",
        "power, W",
    ):
        assert named in text


def test_the_same_data_give_the_same_svg(powertrain: Command, data: Path, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        powertrain("pareto", data, "--plot", tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_plot_can_be_a_png(powertrain: Command, data: Path, tmp_path: Path) -> None:
    target = tmp_path / "front.PNG"
    assert powertrain("pareto", data, "--plot", target, "--json").code == 0
    assert target.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "message"), [("front.pdf", "must end in .svg or .png"), ("no/front.svg", "there is no folder")]
)
def test_a_plot_that_can_not_be_written_is_refused_at_once(
    powertrain: Command, data: Path, tmp_path: Path, name: str, message: str
) -> None:
    result = powertrain("pareto", data, "--plot", tmp_path / name)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_a_plot_of_several_batch_sizes_asks_for_one(powertrain: Command, two_sizes: Path, tmp_path: Path) -> None:
    result = powertrain("pareto", two_sizes, "--plot", tmp_path / "x.svg")
    assert result.code == 2
    assert "has the batch sizes 16, 32: a plot shows one; say which with --batch-size" in result.err
    assert powertrain("pareto", two_sizes, "--plot", tmp_path / "x.svg", "--batch-size", "16").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch-size", "64"], "no rows with batch size 64; present: 16"),
        (["--device", "orin"], "unknown device 'orin'; known: nano, orin-agx"),
        (["--power", "-3"], "--power: '-3' is not a power of at least 0.1 W"),
        (["--terminal", "--json"], "--terminal and --json exclude each other"),
    ],
)
def test_bad_input_ends_with_two_and_one_message(
    powertrain: Command, data: Path, arguments: list[str], message: str
) -> None:
    result = powertrain("pareto", data, *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_table_that_can_not_be_read_ends_with_two_and_its_place(powertrain: Command, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("cpu_cores,cpu_khz,gpu_hz,emc_hz,batch_size,time_ms,power_w\n4,1,1,1,16,nan,3\n")
    result = powertrain("pareto", path, "--json")
    assert (result.code, result.out) == (2, "")
    assert f"error: {path}, line 2, column time_ms: 'nan' is not a finite number above zero" in result.err
