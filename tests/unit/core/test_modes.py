"""Power modes as values and as text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powertrain import ModeError, PowerMode, devices

EXACT = "12c_2201600_1300500000_3199000000"
HUMAN = "12c/2.20C/1.30G/3.20M"
MODE = PowerMode(12, 2_201_600, 1_300_500_000, 3_199_000_000)

modes = st.builds(
    PowerMode,
    cores=st.integers(1, 999),
    cpu_khz=st.integers(1, 10**12 - 1),
    gpu_hz=st.integers(1, 10**12 - 1),
    emc_hz=st.integers(1, 10**12 - 1),
)


def test_the_exact_form_is_the_text_of_a_mode() -> None:
    assert str(MODE) == EXACT
    assert PowerMode.parse(EXACT) == MODE


def test_the_human_form_is_in_gigahertz_and_reads_back_rounded() -> None:
    assert MODE.human == HUMAN
    assert PowerMode.parse(HUMAN) == PowerMode(12, 2_200_000, 1_300_000_000, 3_200_000_000)


def test_space_around_a_mode_is_ignored() -> None:
    assert PowerMode.parse(f" {EXACT}\n") == MODE


@given(modes)
def test_every_mode_reads_back_from_its_exact_form(mode: PowerMode) -> None:
    assert PowerMode.parse(str(mode)) == mode


@given(modes)
def test_the_exact_form_of_every_mode_is_a_legal_label_value(mode: PowerMode) -> None:
    assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", str(mode))


@given(st.builds(PowerMode, *(st.integers(low, 10 * low) for low in (1, 10_000, 10_000_000, 10_000_000))))
def test_the_human_form_of_what_was_read_from_a_human_form_is_the_same(mode: PowerMode) -> None:
    assert PowerMode.parse(mode.human).human == mode.human


@pytest.mark.parametrize("name", devices.names())
def test_no_two_modes_of_a_board_share_a_human_form(name: str) -> None:
    space = devices.get(name).space()
    per_axis = [
        {f"{value / unit:.2f}" for value in axis} for axis, unit in zip(space.axes[1:], (1e6, 1e9, 1e9), strict=True)
    ]
    assert [len(texts) for texts in per_axis] == list(space.shape[1:])


def test_modes_sort_by_cores_then_clocks_and_work_as_keys() -> None:
    low, high = PowerMode(2, 9, 9, 9), PowerMode(10, 1, 1, 1)
    assert sorted([high, low]) == [low, high]
    assert len({low, PowerMode(2, 9, 9, 9), high}) == 2


def test_a_mode_can_not_be_changed() -> None:
    with pytest.raises(AttributeError):
        MODE.cores = 4


@pytest.mark.parametrize(
    ("text", "named", "legal"),
    [
        ("", "''", "12c_2201600"),
        ("MAXN", "'MAXN'", "12c_2201600"),
        ("12c_2201600_1300500000", "3 parts, not 4", "12c/2.20C"),
        ("12c/2.20C/1.30G", "3 parts, not 4", "12c_2201600"),
        ("12_2201600_1300500000_3199000000", "cores '12'", "'12c'"),
        ("0c_2201600_1300500000_3199000000", "cores '0c'", "'12c'"),
        ("-2c_2201600_1300500000_3199000000", "cores '-2c'", "'12c'"),
        ("١٢c_2201600_1300500000_3199000000", "cores '١٢c'", "'12c'"),
        ("9999c_2201600_1300500000_3199000000", "cores '9999c'", "'12c'"),
        ("12c_2.2_1300500000_3199000000", "CPU frequency '2.2'", "kHz"),
        ("12c_2201600_fast_3199000000", "GPU frequency 'fast'", "whole number of Hz"),
        ("12c_2201600_1300500000_0", "memory frequency '0'", "whole number of Hz"),
        ("12c_2201600_1300500000_1234567890123", "memory frequency '1234567890123'", "12 digits"),
        ("12c/2.20G/1.30G/3.20M", "CPU frequency '2.20G'", "the letter C"),
        ("12c/2.20C/nanG/3.20M", "GPU frequency 'nanG'", "the letter G"),
        ("12c/2.20C/1.30G/0.00M", "memory frequency '0.00M'", "the letter M"),
        ("12c/2.20C/1.30G/0.0000000001M", "memory frequency '0.0000000001M'", "the letter M"),
        ("12c/2.20C/1.30G/" + "9" * 400 + "M", "memory frequency", "the letter M"),
        ("9" * 5000 + "c_1_1_1", "cores", "'12c'"),
    ],
)
def test_an_unreadable_mode_names_the_bad_part_and_what_is_legal(text: str, named: str, legal: str) -> None:
    with pytest.raises(ModeError) as error:
        PowerMode.parse(text)
    assert named in str(error.value)
    assert legal in str(error.value)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "12", None, 1000])
def test_cores_must_be_a_whole_number_from_1_to_999(bad: object) -> None:
    with pytest.raises(ModeError, match="cores must be a whole number from 1 to 999"):
        PowerMode(bad, 1, 1, 1)


def test_a_clock_that_its_text_form_could_not_hold_is_refused() -> None:
    with pytest.raises(ModeError, match="gpu_hz must be a whole number from 1 to 999999999999, not 1000000000000"):
        PowerMode(1, 1, 10**12, 1)
