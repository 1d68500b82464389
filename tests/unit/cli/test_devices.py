"""`powertrain devices` and `powertrain modes`, run the way a user runs them."""

from __future__ import annotations

import csv
import io
import json

import pytest

from powertrain import devices
from powertrain.modes import PowerMode
from powertrain_cli.devices import complete_device

from .conftest import Command, Result


def test_the_list_has_a_line_for_each_board_with_its_number_of_modes(powertrain: Command) -> None:
    result = powertrain("devices")
    assert (result.code, result.err) == (0, "")
    for name in devices.names():
        line = next(line for line in result.out.splitlines() if f" {name} " in line)
        assert f"{len(devices.get(name).space()):,}" in line


def test_the_list_marks_what_is_not_certain(powertrain: Command) -> None:
    lines = powertrain("devices").out.splitlines()
    assert "?" in next(line for line in lines if " thor " in line)
    assert "?" not in next(line for line in lines if " orin-agx " in line)


def test_the_list_as_json_keeps_its_schema(powertrain: Command) -> None:
    result = powertrain("devices", "--json")
    assert (result.code, result.err) == (0, "")
    boards = {board["name"]: board for board in json.loads(result.out)["devices"]}
    assert tuple(boards) == devices.names()
    assert boards["orin-agx"] == {
        "name": "orin-agx",
        "title": "Jetson AGX Orin 64GB and Developer Kit, 13-step GPU table",
        "soc": "tegra234",
        "modules": ["p3701-0000", "p3701-0005"],
        "cores": 12,
        "cpu_steps": 29,
        "gpu_steps": 13,
        "emc_steps": 4,
        "modes": 18096,
        "total_power": "sum",
        "certain": True,
    }


@pytest.mark.parametrize("name", devices.names())
def test_every_board_can_be_shown(name: str, powertrain: Command) -> None:
    result = powertrain("devices", "show", name)
    board = devices.get(name)
    assert (result.code, result.err) == (0, "")
    assert board.title in result.out
    for preset in board.presets:
        assert any(preset.name in line and board.preset_mode(preset).human in line for line in result.out.splitlines())


def test_showing_a_profiled_board_says_how_much_of_it_was_measured(powertrain: Command) -> None:
    assert "18,096, of them 4,368 measured" in powertrain("devices", "show", "orin-agx").out


@pytest.mark.parametrize("arguments", [("devices", "show", "tx2", "--json"), ("devices", "--json", "show", "tx2")])
def test_a_board_as_json_has_tables_with_sources_and_presets_with_modes(
    arguments: tuple[str, ...], powertrain: Command
) -> None:
    device = json.loads(powertrain(*arguments).out)
    assert device["core_order"] == [0, 3, 4, 5, 1, 2]
    assert device["tables"]["emc_hz"]["values"][-1] == 1_866_000_000
    assert set(device["tables"]["cpu_khz"]) == {"values", "certain", "source"}
    assert (device["modes"], device["profiled_modes"], device["certain"]) == (10_296, None, True)
    maxq = next(preset for preset in device["presets"] if preset["name"] == "MAXQ")
    assert (maxq["gpu_hz"], maxq["mode"]) == (850_000_000, "4c_1113600_726750000_1331200000")


@pytest.mark.parametrize(
    "arguments", [("devices", "show", "jetson"), ("modes", "jetson"), ("modes", "jetson", "--json")]
)
def test_an_unknown_board_is_bad_input_and_answered_with_the_known_ones(
    arguments: tuple[str, ...], powertrain: Command
) -> None:
    result = powertrain(*arguments)
    assert (result.code, result.out) == (2, "")
    assert "unknown device 'jetson'; known: nano, orin-agx" in result.err


def test_the_modes_of_a_board_are_shown_by_knob_with_both_ends(powertrain: Command) -> None:
    result = powertrain("modes", "orin-nano")
    assert result.code == 0
    assert "1,800 modes" in result.out
    assert "306 408 510 612 624.75" in result.out
    assert "1c_115200_306000000_204000000" in result.out
    assert "6c_1510400_624750000_2133000000" in result.out


def test_the_count_is_one_bare_number(powertrain: Command) -> None:
    assert powertrain("modes", "orin-agx", "--count") == Result(0, "18096\n", "")


def test_the_count_of_the_profiled_part_is_the_papers(powertrain: Command) -> None:
    assert powertrain("modes", "orin-agx", "--profiled", "--count").out == "4368\n"


def test_the_csv_holds_every_mode_once(powertrain: Command) -> None:
    rows = list(csv.DictReader(io.StringIO(powertrain("modes", "orin-nano", "--csv").out)))
    assert list(rows[0]) == ["cpu_cores", "cpu_khz", "gpu_hz", "emc_hz"]
    modes = [PowerMode(*(int(value) for value in row.values())) for row in rows]
    assert modes == list(devices.get("orin-nano").space())


def test_modes_as_json_hold_the_axes_and_each_mode(powertrain: Command) -> None:
    data = json.loads(powertrain("modes", "orin-nano", "--profiled", "--json").out)
    assert (data["device"], data["count"], data["certain"]) == ("orin-nano", 180, True)
    assert data["cores"] == [2, 4, 6]
    assert data["emc_hz"] == [665_600_000, 2_133_000_000]
    assert len(set(data["modes"])) == 180
    assert PowerMode.parse(data["modes"][0]) == PowerMode(2, 268_800, 306_000_000, 665_600_000)


def test_count_as_json_leaves_the_modes_out(powertrain: Command) -> None:
    data = json.loads(powertrain("modes", "thor", "--count", "--json").out)
    assert data == {"device": "thor", "count": 504, "certain": False}


@pytest.mark.parametrize("other", ["--count", "--json"])
def test_csv_excludes_the_other_formats(other: str, powertrain: Command) -> None:
    result = powertrain("modes", "orin-nano", "--csv", other)
    assert (result.code, result.out) == (2, "")
    assert f"--csv and {other} exclude each other" in result.err


def test_a_board_without_a_profiled_part_names_those_that_have_one(powertrain: Command) -> None:
    result = powertrain("modes", "tx2", "--profiled")
    assert (result.code, result.out) == (2, "")
    assert "boards with one: orin-agx, orin-nano" in result.err


@pytest.mark.parametrize(
    ("verb", "example"),
    [
        (("devices",), "powertrain devices show orin-agx"),
        (("devices", "show"), "powertrain devices show orin-agx --json"),
        (("modes",), "powertrain modes orin-agx --count"),
    ],
)
def test_help_has_an_example(verb: tuple[str, ...], example: str, powertrain: Command) -> None:
    assert example in powertrain(*verb, "--help").out


def test_half_a_name_completes_to_the_boards_that_begin_so() -> None:
    assert complete_device("xav") == ["xavier-agx", "xavier-nx"]
    assert complete_device("?") == []
