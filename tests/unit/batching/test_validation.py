"""The check of stored tables over batch sizes: common changes are no reason to profile anew, relative ones are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powertrain.batching.validation import validate
from powertrain.modes import PowerMode
from powertrain.samples import Sample, SampleTable


@pytest.fixture(scope="module")
def thinned(batch_table) -> SampleTable:
    return batch_table.take(np.flatnonzero(np.isin(batch_table.batch_size, (4, 16, 64)))[::9])


def fresh(thinned: SampleTable, factor: np.ndarray, every: int = 12) -> SampleTable:
    return replace(thinned, step_s=thinned.step_s * factor).take(np.arange(0, len(thinned), every))


def test_a_common_slowdown_is_followed_and_needs_no_new_profile(thinned) -> None:
    verdict = validate(thinned, fresh(thinned, np.full(len(thinned), 1.2)))
    assert verdict.changed
    assert not verdict.reprofile
    assert verdict.common_time == pytest.approx(1.2)
    assert verdict.corrected(thinned).step_s == pytest.approx(1.2 * thinned.step_s, rel=1e-3)


def test_what_reads_as_before_has_not_changed(thinned) -> None:
    verdict = validate(thinned, fresh(thinned, np.full(len(thinned), 1.02)))
    assert not verdict.changed
    assert not verdict.reprofile


def test_a_relative_change_is_found_and_interpolated_over_sizes_and_modes(thinned) -> None:
    slowed = 1.0 + 0.4 * (thinned.batch_size == 64)
    truth = thinned.step_s * slowed
    verdict = validate(thinned, fresh(thinned, slowed, every=6))
    assert verdict.reprofile
    before, after = (np.abs(table.step_s / truth - 1) for table in (thinned, verdict.corrected(thinned)))
    assert after.mean() < 0.5 * before.mean()


def test_a_check_of_one_size_is_followed_by_the_others_the_less_the_farther(thinned) -> None:
    cpu_khz = thinned.matrix[:, 1]
    slowed = np.where(cpu_khz < np.median(cpu_khz), 1.5, 1.0)
    here = np.flatnonzero(thinned.batch_size == 16)
    verdict = validate(thinned, replace(thinned, step_s=thinned.step_s * slowed).take(here))
    moved = verdict.corrected(thinned).step_s / thinned.step_s / verdict.common_time
    beside = {size: np.abs(np.log(moved[thinned.batch_size == size])).mean() for size in (4, 16, 64)}
    assert 0 < beside[4] < beside[16]
    assert 0 < beside[64] < beside[16]


def test_more_power_calls_for_a_new_profile_and_raises_peaks(thinned) -> None:
    peaks = replace(thinned, power_peak_w=thinned.power_w * 1.05)
    hotter = replace(peaks, power_w=peaks.power_w * 1.1).take(np.arange(0, len(thinned), 12))
    verdict = validate(peaks, hotter)
    assert verdict.reprofile
    corrected = verdict.corrected(peaks)
    assert corrected.power_peak_w == pytest.approx(1.1 * peaks.power_peak_w, rel=1e-3)


def test_pairs_that_the_tables_do_not_hold_are_refused(thinned) -> None:
    other = replace(thinned, batch_size=np.full(len(thinned), 128)).take(np.arange(2))
    with pytest.raises(ValueError, match="batch size 128"):
        validate(thinned, other)
    with pytest.raises(ValueError, match="at least one"):
        validate(thinned, thinned.take(np.arange(0)))


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=6))
def test_no_pair_moves_farther_than_the_checked_ones(factors: list[float]) -> None:
    clocks = [306_000_000 + 102_000_000 * place for place in range(8)]
    stored = SampleTable.of(
        Sample(PowerMode(12, 2_201_600, gpu_hz, 3_199_000_000), 0.1, 20.0, size)
        for size in (8, 32)
        for gpu_hz in clocks
    )
    checked = stored.take(np.arange(len(factors)))
    verdict = validate(stored, replace(checked, step_s=checked.step_s * np.array(factors)))
    moved = verdict.corrected(stored).step_s / stored.step_s
    assert moved.min() >= min(factors) * (1 - 1e-9)
    assert moved.max() <= max(factors) * (1 + 1e-9)
