"""The equations and their derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from powertrain.physics.model import COUNT, NAMES, TIME_COUNT, evaluate, log_features
from powertrain.physics.reference import GENERIC_SCALE, generic_theta

MODES = np.array([[2.0, 268800.0, 114.75e6, 204e6], [12.0, 2201600.0, 1300.5e6, 3199e6], [4.0, 1.0e6, 600e6, 665.6e6]])


@pytest.mark.parametrize("parameter", range(COUNT), ids=NAMES)
def test_derivatives_agree_with_differences(parameter: int) -> None:
    features = log_features(MODES, np.array(GENERIC_SCALE))
    theta = generic_theta()
    at = evaluate(features, theta)
    step = np.zeros(COUNT)
    step[parameter] = 1e-5
    up, down = evaluate(features, theta + step), evaluate(features, theta - step)
    by_power = (up.log_power - down.log_power) / 2e-5
    np.testing.assert_allclose(at.power_jacobian[parameter], by_power, atol=1e-7)
    by_time = (up.log_time - down.log_time) / 2e-5
    expected = at.time_jacobian[parameter] if parameter < TIME_COUNT else np.zeros(3)
    np.testing.assert_allclose(expected, by_time, atol=1e-7)


def test_extreme_parameters_stay_finite() -> None:
    features = log_features(MODES, np.array(GENERIC_SCALE))
    for shift in (-40.0, 40.0):
        theta = generic_theta()
        theta[::2] += shift
        at = evaluate(features, np.clip(theta, -60.0, 5.0))
        for array in (at.log_time, at.log_power, at.time_jacobian, at.power_jacobian):
            assert np.all(np.isfinite(array))


def test_raising_any_clock_never_slows_a_step() -> None:
    features = log_features(MODES, np.array(GENERIC_SCALE))
    before = evaluate(features, generic_theta()).log_time
    for knob in range(4):
        faster = features.copy()
        faster[knob] += 0.3
        assert np.all(evaluate(faster, generic_theta()).log_time <= before + 1e-12)
