"""The choice under limits, with its runner-up, what was excluded and by how much nothing fits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powertrain.choosing import LIMIT_WORDS, TOGETHER, choose
from powertrain.limit_table import LIMITS
from powertrain.objectives import LimitError, Limits, Objective, PowerStatistic, Work
from powertrain.prediction import Prediction

WORK = Work(batch_size=10, samples_per_epoch=1000, epochs=5)  # 100 steps an epoch, 500 in all


def measured(*rows: tuple[float, float]) -> Prediction:
    """Return exact (time, power) pairs."""
    time_s, power_w = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    return Prediction(time_s, np.zeros_like(time_s), power_w, np.zeros_like(power_w))


TABLE = measured((1.0, 50.0), (2.0, 30.0), (2.5, 29.0), (4.0, 15.0), (9.0, 10.0))


def test_the_fastest_mode_within_the_power_limit_is_chosen_and_the_next_named() -> None:
    choice = choose(TABLE, Objective.MIN_TIME, Limits(power_w=30))
    assert (choice.row, choice.runner_up, choice.feasible) == (1, 2, 4)
    assert choice.excluded == {"powerWatts": 1}
    assert choice.closest is None
    assert choice.break_probability == 0
    assert choice.reason == (
        "fastest of 4 modes that keep the limits (5 considered); the runner-up takes +25.0% time and -1.00 W"
    )


def test_the_least_power_within_a_time_limit_is_chosen() -> None:
    choice = choose(TABLE, Objective.MIN_POWER, Limits(epoch_s=250), WORK)
    assert (choice.row, choice.runner_up) == (2, 1)
    assert choice.excluded == {"epochSeconds": 2}


def test_the_least_energy_needs_no_limit() -> None:
    choice = choose(TABLE, Objective.MIN_ENERGY, Limits())
    assert (choice.row, choice.runner_up) == (0, 1)
    assert choice.reason.startswith("least energy of 5 modes")


def test_limits_on_the_whole_training_count_all_its_epochs() -> None:
    choice = choose(TABLE, Objective.MIN_POWER, Limits(training_s=1000), WORK)
    assert choice.row == 1
    assert choose(TABLE, Objective.MIN_TIME, Limits(energy_j=30_000), WORK).row == 0


def test_a_peak_limit_uses_the_given_factor() -> None:
    peak = Limits(power_w=30, power_statistic=PowerStatistic.PEAK)
    assert choose(TABLE, Objective.MIN_TIME, peak, peak_factor=1.0).row == 1
    assert choose(TABLE, Objective.MIN_TIME, peak, peak_factor=1.03).row == 2
    assert choose(TABLE, Objective.MIN_TIME, peak, peak_factor=np.array([1, 1.2, 1.2, 1.2, 1.2])).row == 3


def test_equally_fast_modes_are_ranked_by_power_and_then_by_row() -> None:
    table = measured((2.0, 20.0), (1.0, 30.0), (1.0, 25.0), (1.0, 25.0))
    choice = choose(table, Objective.MIN_TIME, Limits(power_w=30))
    assert (choice.row, choice.runner_up) == (2, 3)


def test_a_single_feasible_mode_has_no_runner_up() -> None:
    choice = choose(TABLE, Objective.MIN_TIME, Limits(power_w=12))
    assert (choice.row, choice.runner_up) == (4, None)
    assert choice.reason == "fastest of 1 mode that keeps the limits (5 considered); no other does"


def test_only_eligible_modes_are_considered() -> None:
    eligible = np.array([True, False, False, True, True])
    choice = choose(TABLE, Objective.MIN_TIME, Limits(power_w=30), eligible=eligible)
    assert (choice.row, choice.runner_up, choice.feasible) == (3, 4, 2)
    assert choice.excluded == {"powerWatts": 1}


def test_an_uncertain_mode_is_passed_over_until_the_risk_allows_it() -> None:
    prediction = Prediction(np.array([1.0, 2.0]), np.zeros(2), np.array([29.0, 20.0]), np.array([1.0, 1.0]))
    assert choose(prediction, Objective.MIN_TIME, Limits(power_w=30), risk=0.05).row == 1
    bold = choose(prediction, Objective.MIN_TIME, Limits(power_w=30), risk=0.2)
    assert bold.row == 0
    assert bold.break_probability == pytest.approx(0.1587, abs=1e-4)


def test_risk_is_joint_over_limits() -> None:
    # Each limit alone is broken with 4 %, both with 7.8 %.
    prediction = Prediction(np.array([1.0]), np.array([0.1]), np.array([20.0]), np.array([1.0]))
    limits = Limits(power_w=20 + 1.7507, epoch_s=100 * (1 + 0.17507))
    choice = choose(prediction, Objective.MIN_TIME, limits, WORK, risk=0.05)
    assert choice.row is None
    assert choice.excluded == {"powerWatts": 0, "epochSeconds": 0, TOGETHER: 1}
    assert choose(prediction, Objective.MIN_TIME, limits, WORK, risk=0.08).row == 0


def test_where_nothing_fits_the_closest_mode_and_its_miss_are_named() -> None:
    choice = choose(TABLE, Objective.MIN_TIME, Limits(power_w=8))
    assert (choice.row, choice.runner_up, choice.feasible) == (None, None, 0)
    assert choice.closest is not None
    assert (choice.closest.row, choice.closest.constraint) == (4, "powerWatts")
    assert (choice.closest.value, choice.closest.limit) == (10, 8)
    assert choice.reason == (
        "none of 5 modes keeps the limits; the closest has power 10 W instead of at most 8 W (2 W or 25.0% too much)"
    )


def test_the_closest_mode_is_the_one_whose_worst_miss_is_least() -> None:
    choice = choose(TABLE, Objective.MIN_TIME, Limits(power_w=25, epoch_s=150), WORK)
    assert choice.closest is not None
    # 2 s a step at 30 W misses time by 33 %; 1 s at 50 W misses power by 100 %, 2.5 s misses time by 67 %.
    assert (choice.closest.row, choice.closest.constraint) == (1, "epochSeconds")
    assert choice.closest.text == "epoch time 200 s instead of at most 150 s (50 s or 33.3% too much)"


def test_a_mode_that_fits_only_as_expected_is_closest_and_its_doubt_is_said() -> None:
    prediction = Prediction(np.array([1.0, 2.0]), np.zeros(2), np.array([29.0, 28.0]), np.array([0.2, 2.0]))
    choice = choose(prediction, Objective.MIN_TIME, Limits(power_w=29.1))
    assert choice.closest is not None
    assert choice.closest.row == 1
    assert choice.closest.text == "power 28 W within 29.1 W, but breaks a limit with probability 0.29"


def test_modes_without_a_finite_prediction_are_never_chosen_nor_closest() -> None:
    table = measured((np.nan, 10.0), (1.0, np.nan), (np.inf, 9.0), (3.0, 20.0))
    assert choose(table, Objective.MIN_TIME, Limits(power_w=30)).row == 3
    nothing = choose(table, Objective.MIN_TIME, Limits(power_w=5, epoch_s=10), WORK)
    assert nothing.closest is not None
    assert nothing.closest.row == 3


def test_without_any_usable_mode_there_is_no_closest() -> None:
    nothing = choose(measured((np.nan, 10.0)), Objective.MIN_ENERGY, Limits())
    assert (nothing.row, nothing.closest) == (None, None)
    out = choose(TABLE, Objective.MIN_TIME, Limits(power_w=30), eligible=np.zeros(5, dtype=bool))
    assert (out.row, out.closest) == (None, None)
    assert out.reason == "none of 0 modes keeps the limits"


@pytest.mark.parametrize("risk", [-0.1, 1.0, float("nan")])
def test_a_risk_that_is_no_probability_is_refused(risk: float) -> None:
    with pytest.raises(LimitError, match=f"risk must be a probability from 0 to below 1, not {risk}"):
        choose(TABLE, Objective.MIN_TIME, Limits(power_w=30), risk=risk)


def test_an_objective_without_its_limit_is_refused() -> None:
    with pytest.raises(LimitError, match="MinTime needs"):
        choose(TABLE, Objective.MIN_TIME, Limits())


def test_every_limit_is_counted_and_said_in_words_under_its_api_name() -> None:
    limits = Limits(**{limit.attribute: 1 for limit in LIMITS if limit.attribute is not None})
    assert set(choose(TABLE, Objective.MIN_TIME, limits, WORK).excluded) == set(LIMIT_WORDS)


points = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12)


@given(points, st.integers(1, 9), st.sampled_from(Objective), st.integers(1, 9))
def test_a_measured_choice_is_the_brute_force_optimum(
    rows: list[tuple[int, int]], power_w: int, objective: Objective, step_s: int
) -> None:
    choice = choose(measured(*rows), objective, Limits(power_w=power_w, epoch_s=step_s * 100), WORK)
    value = {
        Objective.MIN_TIME: lambda t, p: t,
        Objective.MIN_POWER: lambda t, p: p,
        Objective.MIN_ENERGY: lambda t, p: t * p,
    }[objective]
    fitting = [row for row in rows if row[1] <= power_w and row[0] <= step_s]
    assert choice.feasible == len(fitting)
    if fitting:
        assert choice.row is not None
        assert value(*rows[choice.row]) == min(value(*row) for row in fitting)
    else:
        assert choice.row is None
        assert choice.closest is not None
