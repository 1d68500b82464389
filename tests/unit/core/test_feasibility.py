"""The joint probability of breaking a limit, against numeric integration and sampling."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.stats import norm

from powertrain.feasibility import break_probability
from powertrain.objectives import Limits, PowerStatistic, Work
from powertrain.prediction import Prediction

STEP = Work(batch_size=1, samples_per_epoch=1, epochs=1)  # one step: epoch and step figures are the same


def predicted(time_s: float, time_std_s: float, power_w: float, power_std_w: float) -> Prediction:
    return Prediction(*(np.array([value]) for value in (time_s, time_std_s, power_w, power_std_w)))


def probability(prediction: Prediction, limits: Limits, peak_factor: float = 1.0) -> float:
    return float(break_probability(prediction, limits, STEP, peak_factor)[0])


def integrated(time_s: float, time_std_s: float, power_w: float, power_std_w: float, limits: Limits) -> float:
    """Return the joint probability by a fine sum over time."""
    z = np.linspace(-9, 9, 200_001)
    step_s = time_s + z * time_std_s
    with np.errstate(divide="ignore"):
        share = np.where(step_s > 0, (limits.energy_per_epoch_j or np.inf) / np.abs(step_s), np.inf)
    bound = np.minimum(limits.power_w or np.inf, share)
    holds = norm.cdf((bound - power_w) / power_std_w) * (step_s <= (limits.epoch_s or np.inf))
    return float(1 - (norm.pdf(z) * holds).sum() * (z[1] - z[0]))


spread = st.floats(-4, -0.3).map(lambda exponent: 10**exponent)
room = st.none() | st.floats(-3, 3)


@given(spread, spread, room, room, st.floats(-3, 3))
@example(10**-0.3125, 0.5002864610575233, None, None, -1.953125)  # falls within a twentieth of a standard deviation
def test_an_energy_limit_counts_jointly_with_time_and_power(
    time_spread: float, power_spread: float, time_room: float | None, power_room: float | None, energy_room: float
) -> None:
    time_s, power_w = 0.4, 25.0
    figures = (time_s, time_s * time_spread, power_w, power_w * power_spread)
    epoch_s = None if time_room is None else time_s * (1 + time_room * time_spread)
    limit_w = None if power_room is None else power_w * (1 + power_room * power_spread)
    energy_j = time_s * power_w * (1 + energy_room * max(time_spread, power_spread))
    assume(all(value is None or value > 0 for value in (epoch_s, limit_w, energy_j)))
    limits = Limits(epoch_s=epoch_s, power_w=limit_w, energy_per_epoch_j=energy_j)
    assert probability(predicted(*figures), limits) == pytest.approx(integrated(*figures, limits), abs=1e-4)


def test_small_risks_under_an_energy_limit_are_resolved() -> None:
    figures = (1.0, 0.05, 20.0, 0.2)
    limits = Limits(epoch_s=1.155, energy_per_epoch_j=24.5)
    assert integrated(*figures, limits) < 0.002
    assert probability(predicted(*figures), limits) == pytest.approx(integrated(*figures, limits), rel=0.02)


def test_the_joint_probability_agrees_with_sampling() -> None:
    rng = np.random.default_rng(11)
    time_s, power_w = rng.normal(1, 0.1, 400_000), rng.normal(30, 2, 400_000)
    limits = Limits(power_w=32, epoch_s=1.1, energy_per_epoch_j=33)
    broken = (power_w > 32) | (time_s > 1.1) | (time_s * power_w > 33)
    assert probability(predicted(1, 0.1, 30, 2), limits) == pytest.approx(broken.mean(), abs=0.003)


def test_independent_limits_multiply() -> None:
    limits = Limits(power_w=32, epoch_s=1.1)
    both_hold = norm.cdf(1) * norm.cdf(1)
    assert probability(predicted(1, 0.1, 30, 2), limits) == pytest.approx(1 - both_hold)


@pytest.mark.parametrize("limits", [Limits(power_w=30), Limits(epoch_s=2), Limits(energy_per_epoch_j=60), Limits()])
def test_an_exact_mode_on_its_limit_keeps_it(limits: Limits) -> None:
    assert probability(predicted(2, 0, 30, 0), limits) == 0


@pytest.mark.parametrize("limits", [Limits(power_w=29.99), Limits(epoch_s=1.99), Limits(energy_per_epoch_j=59.9)])
def test_an_exact_mode_above_its_limit_breaks_it(limits: Limits) -> None:
    assert probability(predicted(2, 0, 30, 0), limits) == 1


@given(st.floats(1, 100), st.floats(1, 2))
def test_an_exact_peak_on_the_limit_keeps_it(power_w: float, factor: float) -> None:
    limits = Limits(power_w=power_w * factor, power_statistic=PowerStatistic.PEAK, hard_limit_w=power_w * factor)
    assert probability(predicted(1, 0, power_w, 0), limits, factor) == 0


@pytest.mark.parametrize(("time_std_s", "power_std_w"), [(0.1, 0.0), (0.0, 1.5)])
def test_with_one_exact_figure_the_energy_limit_is_a_limit_on_the_other(time_std_s: float, power_std_w: float) -> None:
    expected = 1 - norm.cdf(1)  # 33 J are one standard deviation away either way
    broken = probability(predicted(1, time_std_s, 30, power_std_w * 2), Limits(energy_per_epoch_j=33))
    assert broken == pytest.approx(expected, abs=1e-9)


def test_the_peak_factor_may_differ_from_mode_to_mode() -> None:
    same = np.array([30.0, 30.0])
    prediction = Prediction(np.ones(2), np.zeros(2), same, np.zeros(2))
    limits = Limits(power_w=33, power_statistic=PowerStatistic.PEAK)
    assert break_probability(prediction, limits, Work(), np.array([1.05, 1.2])).tolist() == [0, 1]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("limits", [Limits(), Limits(power_w=30), Limits(energy_per_epoch_j=1000)])
def test_a_mode_without_a_finite_prediction_breaks_for_sure(bad: float, position: int, limits: Limits) -> None:
    figures = [1.0, 0.1, 20.0, 1.0]
    figures[position] = bad
    assert probability(predicted(*figures), limits) == 1
