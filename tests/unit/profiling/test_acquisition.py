"""Acquisition functions: what measuring a mode is worth."""

from __future__ import annotations

import numpy as np
import pytest

from powertrain import devices
from powertrain.objectives import Limits, Objective, Work
from powertrain.physics.predictor import PhysicsPredictor
from powertrain.prediction import Prediction
from powertrain.profiling.acquisition import (
    confidence_width,
    constrained_gain,
    expansion_gain,
    front_budgets,
    front_gain,
    improvement,
)
from powertrain.reference.catalogue import shipped
from powertrain.space import FloatArray


def prediction(time_s: list[float], power_w: list[float], relative_std: float = 0.05) -> Prediction:
    time, power = np.array(time_s), np.array(power_w)
    return Prediction(time, relative_std * time, power, relative_std * power)


def test_a_normal_variable_around_the_incumbent_improves_it_by_less_than_its_deviation() -> None:
    gain = improvement(np.zeros(1), np.ones(1), 0.0)
    assert gain[0] == pytest.approx(1 / np.sqrt(2 * np.pi))
    assert improvement(np.full(1, 9.0), np.ones(1), 0.0)[0] == pytest.approx(0.0, abs=1e-9)


def test_a_faster_mode_gains_and_one_above_the_limit_does_not() -> None:
    predicted = prediction([1.0, 0.5, 0.4], [20.0, 22.0, 60.0])
    is_measured = np.array([True, False, False])
    gain = constrained_gain(
        predicted, predicted, is_measured, Objective.MIN_TIME, Limits(power_w=30.0), Work(), risk=0.1
    )
    assert gain[1] > 0.5
    assert gain[1] > gain[0]
    assert gain[2] < 1e-6


def test_the_front_s_gain_is_the_mean_over_its_budgets() -> None:
    predicted = prediction([1.0, 0.5, 0.25], [20.0, 30.0, 40.0])
    is_measured = np.array([True, False, False])
    parts = [
        constrained_gain(predicted, predicted, is_measured, Objective.MIN_TIME, Limits(power_w=float(w)), Work(), 0.1)
        for w in front_budgets(predicted)
    ]
    np.testing.assert_allclose(front_gain(predicted, predicted, is_measured, Work(), 0.1), np.mean(parts, axis=0))


@pytest.fixture(scope="module")
def fitted() -> tuple[PhysicsPredictor, FloatArray]:
    """A predictor that knows the eight modes of least power of an Orin AGX."""
    modes, physics = devices.get("orin-agx").space().matrix, shipped().physics
    lowest = modes[np.argsort(physics.evaluate(modes).log_power)[:8]]
    truth = physics.evaluate(lowest)
    predictor = PhysicsPredictor(physics, space=modes)
    return predictor.fit(lowest, np.exp(truth.log_time), np.exp(truth.log_power)), modes


def test_a_measurement_is_worth_what_it_may_show_to_be_safe(fitted: tuple[PhysicsPredictor, FloatArray]) -> None:
    predictor, modes = fitted
    target = modes[np.argsort(predictor.posterior(modes).log_power)[len(modes) // 2]][None, :]
    level_w = float(np.exp(predictor.posterior(target).log_power[0]))
    candidates = modes[:: len(modes) // 50]

    def worth(limit_w: float, gain: float) -> FloatArray:
        return expansion_gain(predictor, candidates, target, np.array([gain]), limit_w, risk=0.01, noise=0.005)

    near, far = worth(1.1 * level_w, 0.2), worth(0.3 * level_w, 0.2)
    assert near.max() > far.max()
    assert np.all((near >= 0.0) & (near <= 0.2))
    np.testing.assert_allclose(worth(1.1 * level_w, 0.4), 2 * near)


def test_without_a_target_nothing_can_be_shown_safe(fitted: tuple[PhysicsPredictor, FloatArray]) -> None:
    predictor, modes = fitted
    worth = expansion_gain(predictor, modes[:3], modes[:0], np.zeros(0), 30.0, risk=0.01, noise=0.005)
    assert worth.tolist() == [0.0, 0.0, 0.0]


def test_the_confidence_bound_widens_with_modes_and_measurements() -> None:
    assert confidence_width(100, 10) < confidence_width(1000, 10) < confidence_width(1000, 40)
