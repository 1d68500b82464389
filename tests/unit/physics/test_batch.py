"""Batch size in the equations: its derivatives, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest

from powertrain.physics.batch import BATCH_COUNT, batch_prior, evaluate
from powertrain.physics.model import COUNT, log_features
from powertrain.physics.reference import GENERIC_SCALE, generic_theta

MIDDLE = 8.0
MODES = np.array([[2.0, 268800.0, 114.75e6, 204e6], [12.0, 2201600.0, 1300.5e6, 3199e6], [4.0, 1.0e6, 600e6, 665.6e6]])


def features(*sizes: float) -> np.ndarray:
    points = np.vstack([np.column_stack([MODES, np.full(len(MODES), size)]) for size in sizes])
    return log_features(points, np.array([*GENERIC_SCALE, MIDDLE]))


def theta(offset: float = 0.05) -> np.ndarray:
    batch = batch_prior()[0]
    batch[12:] = offset
    return np.concatenate([generic_theta(), batch])


@pytest.mark.parametrize("parameter", range(COUNT + BATCH_COUNT))
def test_derivatives_agree_with_differences(parameter: int) -> None:
    at = evaluate(features(1, 8, 64), theta())
    step = np.zeros(COUNT + BATCH_COUNT)
    step[parameter] = 1e-5
    up, down = (evaluate(features(1, 8, 64), theta() + sign * step) for sign in (1, -1))
    np.testing.assert_allclose(at.power_jacobian[parameter], (up.log_power - down.log_power) / 2e-5, atol=1e-7)
    np.testing.assert_allclose(at.time_jacobian[parameter], (up.log_time - down.log_time) / 2e-5, atol=1e-7)


def test_the_middle_size_is_as_without_batch_sizes() -> None:
    plain = evaluate(log_features(MODES, np.array(GENERIC_SCALE)), generic_theta())
    there = evaluate(features(MIDDLE), theta(offset=0.0))
    np.testing.assert_allclose(there.log_time, plain.log_time)
    np.testing.assert_allclose(there.log_power, plain.log_power)


def test_a_larger_batch_takes_longer_in_all_and_less_per_sample() -> None:
    at = evaluate(features(1, 4, 16, 64), theta(offset=0.0))
    steps = np.exp(at.log_time).reshape(4, len(MODES))
    assert np.all(np.diff(steps, axis=0) > 0)
    assert np.all(np.diff(steps / np.array([[1], [4], [16], [64]]), axis=0) < 0)
