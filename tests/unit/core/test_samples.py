"""Samples one by one and as a table."""

import numpy as np
import pytest

from powertrain import PowerMode
from powertrain.samples import Sample, SampleTable

LOW, HIGH = PowerMode(4, 422_400, 114_750_000, 665_600_000), PowerMode(12, 2_201_600, 1_300_500_000, 3_199_000_000)
FULL = Sample(LOW, 0.5, 12.0, 16, 0.01, 40, 13.0, 0.2, 51.5, throttled=True, unsafe=True)
BARE = Sample(HIGH, 0.1, 50.0, 32)


def test_a_table_gives_back_the_samples_it_was_built_from() -> None:
    assert list(SampleTable.of([FULL, BARE, FULL])) == [FULL, BARE, FULL]
    assert list(SampleTable.of([BARE])) == [BARE]


def test_columns_that_no_sample_has_are_absent() -> None:
    table = SampleTable.of([BARE])
    assert table.power_peak_w is None
    assert table.temperature_c is None
    assert table.throttled is None


def test_a_table_may_be_empty() -> None:
    table = SampleTable.of([])
    assert len(table) == 0
    assert list(table) == []
    assert table.batch_sizes() == []


def test_rows_are_taken_by_index_and_by_mask_with_all_their_columns() -> None:
    table = SampleTable.of([FULL, BARE])
    assert list(table.take(np.array([1, 0]))) == [BARE, FULL]
    assert list(table.take(np.array([True, False]))) == [FULL]


def test_extra_columns_follow_their_rows() -> None:
    table = SampleTable(
        np.ones((3, 4)), np.ones(3, dtype=np.int64), np.ones(3), np.ones(3), extra={"x": ["a", "b", "c"]}
    )
    assert table.take(np.array([2, 0])).extra == {"x": ["c", "a"]}


def test_batch_sizes_are_listed_and_selected() -> None:
    table = SampleTable.of([BARE, FULL, BARE])
    assert table.batch_sizes() == [16, 32]
    assert list(table.at_batch_size(16)) == [FULL]


def test_an_absent_batch_size_is_named_with_those_present() -> None:
    with pytest.raises(ValueError, match="no rows with batch size 8; present: 16, 32"):
        SampleTable.of([BARE, FULL]).at_batch_size(8)


def test_the_peak_factor_is_measured_where_there_is_a_peak_and_assumed_elsewhere() -> None:
    assert SampleTable.of([FULL, BARE]).peak_factor(1.05).tolist() == pytest.approx([13 / 12, 1.05])
    assert SampleTable.of([BARE]).peak_factor(1.05).tolist() == [1.05]


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("column", ["step_s", "power_w", "power_peak_w"])
def test_a_sample_refuses_figures_that_can_not_be_measured(column: str, bad: float) -> None:
    figures = {"step_s": 0.1, "power_w": 10.0, column: bad}
    with pytest.raises(ValueError, match=f"{column} of mode {LOW} must be a positive number, not {bad}"):
        Sample(LOW, **figures)


def test_a_sample_refuses_a_batch_size_below_one() -> None:
    with pytest.raises(ValueError, match=r"batch_size .* must be at least 1, not 0"):
        Sample(LOW, 0.1, 10.0, 0)


def test_columns_of_different_length_are_refused_by_name() -> None:
    three, two = np.ones(3), np.ones(2)
    batch = np.ones(3, dtype=np.int64)
    with pytest.raises(ValueError, match=r"3 modes .* not \{'power_w': 2\}"):
        SampleTable(np.ones((3, 4)), batch, three, two)
    with pytest.raises(ValueError, match=r"3 modes .* not \{'power_peak_w': 2, 'note': 1\}"):
        SampleTable(np.ones((3, 4)), batch, three, three, two, {"note": ["x"]})


def test_modes_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"matrix of 4 columns, not \(2, 3\)"):
        SampleTable(np.ones((2, 3)), np.ones(2, dtype=np.int64), np.ones(2), np.ones(2))
