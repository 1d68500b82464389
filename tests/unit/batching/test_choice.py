"""Batch size and mode are chosen together: by time to accuracy, by energy, within limits on mean or peak power."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powertrain.batching import BatchProfile, BatchTable, Relation, choose_batch
from powertrain.modes import PowerMode
from powertrain.objectives import Limits, Objective, PowerStatistic, Work
from powertrain.prediction import Prediction
from powertrain.samples import Sample, SampleTable

PEAK = PowerStatistic.PEAK
MHZ = (153, 307, 460, 614, 768, 921)


def profile(batch_size: int, *rows: tuple[float, float], peak: float = 1.0) -> BatchProfile:
    """Return exact (time of a sample in ms, peak power) pairs, as the second paper's tables hold them."""
    sample_ms, power_w = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    exact = np.zeros(len(rows))
    return BatchProfile(batch_size, Prediction(sample_ms / 1e3 * batch_size, exact, power_w / peak, exact), peak)


def by_peak(watts: float) -> Limits:
    return Limits(power_w=watts, power_statistic=PEAK)


# ResNet18 on a Nano after the second paper's figure 1: at 5 W 128 samples run at 307 MHz and 64 at 460 MHz.
FIGURE_1 = (
    profile(64, (6.2, 3.6), (3.3, 4.3), (2.36, 4.9), (1.92, 5.7), (1.64, 6.8), (1.46, 8.0)),
    profile(128, (6.6, 3.8), (3.466, 4.6), (2.34, 5.3), (1.88, 6.2), (1.58, 7.4), (1.38, 8.9)),
)
# After its figure 2: 8 samples a batch are slower for the same samples at each limit, and need fewer of them.
FIGURE_2 = (
    profile(8, (7.4, 3.3), (5.0, 3.9), (4.2, 4.4), (3.8, 4.9), (3.6, 5.6), (3.5, 6.4)),
    profile(32, (6.3, 3.5), (3.6, 4.2), (2.7, 4.7), (2.2, 5.4), (1.9, 6.3), (1.75, 7.6)),
)


def test_a_smaller_batch_at_a_higher_clock_wins_the_papers_first_example() -> None:
    choice = choose_batch(FIGURE_1, Relation({64: 1.0, 128: 1.0}), limits=by_peak(5.0))
    assert choice.best is not None
    assert choice.largest is not None
    assert (choice.best.batch_size, MHZ[choice.best.row]) == (64, 460)
    assert (choice.largest.batch_size, MHZ[choice.largest.row]) == (128, 307)
    assert choice.time_against_largest == pytest.approx(1 - 0.319, abs=0.001)


@pytest.mark.parametrize(("watts", "winner"), [(4.5, 8), (5.0, 8), (7.0, 32)])
def test_the_papers_second_example_has_its_winners(watts: float, winner: int) -> None:
    choice = choose_batch(FIGURE_2, Relation.measured({8: [10.0], 32: [15.0]}), limits=by_peak(watts))
    assert choice.best is not None
    assert choice.best.batch_size == winner
    by_size = {candidate.batch_size: candidate for candidate in choice.candidates}
    assert by_size[32].sample_s < by_size[8].sample_s
    assert MHZ[by_size[8].row] > MHZ[by_size[32].row]


def test_the_least_energy_may_be_another_pair_than_the_least_time() -> None:
    relation = Relation({64: 1.0, 128: 1.0})
    fastest = choose_batch(FIGURE_1, relation)
    frugal = choose_batch(FIGURE_1, relation, Objective.MIN_ENERGY)
    assert fastest.best is not None
    assert frugal.best is not None
    assert fastest.best.time < frugal.best.time
    assert fastest.best.energy > frugal.best.energy


def test_a_limit_on_the_mean_admits_what_one_on_the_peak_does_not() -> None:
    only = (profile(16, (2.0, 6.0), (1.0, 9.0), peak=1.5),)
    relation = Relation({16: 1.0})
    rows = [choose_batch(only, relation, limits=limits).best for limits in (Limits(power_w=6.0), by_peak(6.0))]
    assert [row.row for row in rows if row is not None] == [1, 0]
    hard = choose_batch(only, relation, limits=Limits(power_w=20.0, hard_limit_w=6.0)).best
    assert hard is not None
    assert hard.row == 0


def test_sizes_that_do_not_fit_into_memory_or_have_no_r_are_out_with_the_reason() -> None:
    sizes = tuple(profile(size, (1.0, 5.0)) for size in (8, 16, 32, 64))
    relation = Relation({8: 0.5, 32: 1.0}, missing={16: "did not reach the target"})
    choice = choose_batch(sizes, relation, infeasible={32: "out of memory"})
    assert [c.batch_size for c in choice.candidates] == [8]
    assert choice.excluded[16] == "did not reach the target"
    assert choice.excluded[32] == "out of memory"
    assert "never extrapolated" in choice.excluded[64]


def test_nothing_within_the_limit_says_what_the_least_would_be() -> None:
    choice = choose_batch(FIGURE_2, Relation({8: 0.6, 32: 1.0}), limits=by_peak(2.0))
    assert choice.best is None
    assert choice.excluded[8] == "no mode keeps the limits; the least peak power is 3.3 W"


def test_an_interpolated_r_is_said() -> None:
    choice = choose_batch((profile(16, (1.0, 5.0)),), Relation({8: 0.5, 32: 1.0}))
    assert choice.best is not None
    assert choice.best.r_interpolated
    assert "interpolated" in choice.reason


def test_limits_on_epoch_and_training_are_those_of_each_size() -> None:
    sizes = (profile(8, (2.0, 5.0)), profile(32, (1.0, 5.0)))
    work = Work(samples_per_epoch=3200, epochs=10)
    relation = Relation({8: 0.4, 32: 1.0})
    per_epoch = choose_batch(sizes, relation, limits=Limits(epoch_s=4.0), work=work)
    assert [c.batch_size for c in per_epoch.candidates] == [32]
    whole = choose_batch(sizes, relation, limits=Limits(training_s=30.0), work=work)
    assert [c.batch_size for c in whole.candidates] == [8]


def test_a_table_becomes_profiles_over_its_modes_with_measured_peaks() -> None:
    modes = [PowerMode(4, 1479000, mhz * 1000000, 1600000000) for mhz in (307, 614)]
    table = SampleTable.of(
        [
            Sample(modes[1], 0.8, 5.0, batch_size=16, power_peak_w=6.0),
            Sample(modes[0], 1.6, 4.0, batch_size=16),
            Sample(modes[0], 0.9, 3.5, batch_size=8, power_peak_w=4.0),
        ]
    )
    batch_table = BatchTable.of(table)
    small, large = batch_table.profiles()
    assert batch_table.modes[:, 2].tolist() == [307e6, 614e6]
    assert (small.batch_size, small.prediction.time_s.tolist()) == (8, [0.9, np.inf])
    assert np.asarray(large.peak_factor).tolist() == pytest.approx([1.03, 1.2])
    choice = choose_batch((small, large), Relation({8: 1.0, 16: 1.0}), limits=by_peak(4.05))
    assert [(c.batch_size, c.row) for c in choice.candidates] == [(8, 0)]


# Limits lie between the powers that occur: a value exactly on its limit is a matter of rounding.
WATTS = st.integers(10, 200).map(lambda tenths: tenths / 10)
LIMITS = st.integers(10, 250).map(lambda tenths: tenths / 10 + 0.05)
TABLES = st.integers(1, 5).flatmap(
    lambda sizes: st.tuples(
        st.lists(st.integers(1, 256), min_size=sizes, max_size=sizes, unique=True),
        st.lists(st.floats(0.01, 1.0), min_size=sizes, max_size=sizes),
        st.lists(
            st.lists(st.tuples(st.floats(0.1, 10.0), WATTS), min_size=4, max_size=4),
            min_size=sizes,
            max_size=sizes,
        ),
    )
)


@given(TABLES, LIMITS, st.sampled_from([Objective.MIN_TIME, Objective.MIN_ENERGY]))
@settings(max_examples=80)
def test_the_choice_is_the_exhaustive_best_and_never_above_the_peak_limit(
    given_tables: tuple[list[int], list[float], list[list[tuple[float, float]]]], watts: float, objective: Objective
) -> None:
    sizes, r, rows = given_tables
    profiles = [profile(size, *pairs, peak=1.1) for size, pairs in zip(sizes, rows, strict=True)]
    choice = choose_batch(profiles, Relation(dict(zip(sizes, r, strict=True))), objective, by_peak(watts))
    every = [
        value * sample_ms * (power if objective is Objective.MIN_ENERGY else 1.0)
        for value, pairs in zip(r, rows, strict=True)
        for sample_ms, power in pairs
        if power <= watts
    ]
    if not every:
        assert choice.best is None
        assert set(choice.excluded) == set(sizes)
        return
    assert choice.best is not None
    assert choice.best.peak_w <= watts * (1 + 1e-9)
    best_value = choice.best.time if objective is Objective.MIN_TIME else choice.best.energy * 1.1
    assert best_value * 1e3 == pytest.approx(min(every), rel=1e-6)


@given(TABLES, LIMITS, st.floats(0.1, 1.0))
@settings(max_examples=40)
def test_only_ratios_of_r_matter(
    given_tables: tuple[list[int], list[float], list[list[tuple[float, float]]]], watts: float, factor: float
) -> None:
    sizes, r, rows = given_tables
    profiles = [profile(size, *pairs) for size, pairs in zip(sizes, rows, strict=True)]
    full, part = (
        choose_batch(profiles, Relation({s: v * f for s, v in zip(sizes, r, strict=True)}), limits=by_peak(watts))
        for f in (1.0, factor)
    )
    if full.best is not None:
        assert part.best is not None
        assert part.best.time == pytest.approx(full.best.time * factor)
