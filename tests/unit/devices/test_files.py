"""A catalogue file that is wrong is refused with a message that names the file, the field and what is right."""

from __future__ import annotations

from importlib import resources

import pytest

from powertrain import devices

GOOD = resources.files(devices).joinpath("orin-nano.toml").read_text(encoding="utf-8")


def complaint(old: str, new: str) -> str:
    assert old in GOOD
    with pytest.raises(devices.DeviceFileError) as raised:
        devices.parse(GOOD.replace(old, new, 1), "mine.toml")
    message = str(raised.value)
    assert message.startswith("mine.toml")
    return message


def test_the_text_of_a_good_file_is_the_board() -> None:
    assert devices.parse(GOOD, "mine.toml") == devices.get("orin-nano")


def test_text_that_is_not_toml_names_the_line() -> None:
    assert "line 1" in complaint("name =", "name")


def test_a_missing_field_is_named_with_its_path() -> None:
    assert "tables.cpu_khz.certain: Field required" in complaint("certain = true\n", "")


def test_a_misspelt_field_is_named() -> None:
    assert "titel" in complaint("title =", "titel =")


def test_a_value_of_the_wrong_kind_is_named_and_shown() -> None:
    message = complaint("cores = 6", 'cores = "six"')
    assert "cores" in message
    assert "'six'" in message


def test_a_frequency_of_zero_is_refused_at_its_place() -> None:
    assert "tables.gpu_hz.values.0" in complaint("values = [306000000,", "values = [0,")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "core_order = [0, 1, 2, 3, 4, 5]",
            "core_order = [0, 1, 2, 3, 4, 4]",
            "core_order must name each of the 6 CPUs",
        ),
        ("clusters = [[0, 1, 2, 3], [4, 5]]", "clusters = [[0, 1, 2, 3]]", "clusters must name each of the 6 CPUs"),
        ("[306000000, 408000000,", "[408000000, 306000000,", "tables.gpu_hz.values must ascend"),
        ('total = "VDD_IN"', 'total = "VDD"', "sensors.total 'VDD' must be 'sum' or one of VDD_IN"),
        ("cpu_min_khz = 729600", "cpu_min_khz = 729601", "tree.cpu_min_khz 729601 is not in tables.cpu_khz.values"),
        ('name = "7W"', 'name = "15W"', "presets must have one name each"),
        ("id = 1", "id = 0", "presets must have one id each"),
        ("cores = 4", "cores = 7", "presets.7W.cores must be 1 to 6, not 7"),
        ("watts = 7\n", "watts = 7\ndefault = true\n", "presets must have one default at most"),
        ('power_driver = "hwmon"', 'power_driver = "iio"', "tree.power_driver must be"),
        ('channels = ["VDD_IN",', 'channels = ["NC",', "tree.chips has the channels"),
        ("emc_hz = [665600000,", "emc_hz = [665600001,", "profiled.emc_hz has [665600001]"),
    ],
)
def test_a_contradiction_inside_a_file_is_explained(old: str, new: str, expected: str) -> None:
    assert expected in complaint(old, new)


def test_all_contradictions_are_told_at_once() -> None:
    broken = GOOD.replace('total = "VDD_IN"', 'total = "VDD"').replace("id = 1", "id = 0")
    with pytest.raises(devices.DeviceFileError, match=r"presets must have one id.*sensors\.total"):
        devices.parse(broken, "mine.toml")
