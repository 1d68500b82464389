"""Samples measured at another clock than they say: found also where several agree with each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from powertrain.physics import PhysicsPredictor, PhysicsReference
from powertrain.physics.outliers import OUTLIER_SHARE

FULL_GPU_HZ, BLOCK_EMC_HZ = 1300.5e6, 2133e6


def with_a_block(table: Any, seed: int, largest: int = 6) -> tuple[list[NDArray[np.float64]], list[int]]:
    """Return 40 samples of which some at one memory clock ran at the full GPU clock, and which those are."""
    rows = np.random.default_rng(seed).permutation(table.step_s.size)[:40]
    modes, step_s, power_w = (column.copy() for column in table.rows(rows))
    wrong = np.flatnonzero((modes[:, 2] < FULL_GPU_HZ / 2) & (modes[:, 3] == BLOCK_EMC_HZ))[:largest].tolist()
    for row in wrong:
        ran_at = modes[row] * [1.0, 1.0, FULL_GPU_HZ / modes[row, 2], 1.0]
        true = int(np.argmin(np.abs(np.log(table.modes / ran_at)).sum(axis=1)))
        step_s[row], power_w[row] = table.step_s[true], table.power_w[true]
    return [modes, step_s, power_w], wrong


@pytest.mark.parametrize(("name", "seed"), [("gpu-bound", 1), ("memory-bound", 1), ("memory-bound", 6)])
def test_wrong_samples_that_agree_do_not_drive_out_right_ones(
    name: str, seed: int, reference: PhysicsReference, tables: dict[str, Any]
) -> None:
    # In these draws leaving out one sample at a time takes right ones, and errs by 6 % to 40 %.
    table = tables[name]
    samples, wrong = with_a_block(table, seed)
    predictor = PhysicsPredictor(reference).fit(*samples)
    assert np.flatnonzero(predictor.outliers_).tolist() == wrong
    prediction = predictor.predict(table.modes)
    assert 100.0 * np.mean(np.abs(prediction.time_s / table.step_s - 1.0)) < 4.0
    assert 100.0 * np.mean(np.abs(prediction.power_w / table.power_w - 1.0)) < 3.0


def test_never_more_are_left_out_than_can_be_told_apart(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    samples, _ = with_a_block(tables["gpu-bound"], seed=1)
    rng = np.random.default_rng(0)
    strange = rng.permutation(40)[:12]
    samples[1][strange] *= np.exp(rng.normal(0.0, 1.5, 12))
    predictor = PhysicsPredictor(reference).fit(*samples)
    assert predictor.outliers_.sum() <= OUTLIER_SHARE * 40


def test_samples_that_a_fit_has_not_seen_are_judged_like_predictions(
    reference: PhysicsReference, tables: dict[str, Any]
) -> None:
    table = tables["memory-bound"]
    rows = np.random.default_rng(3).permutation(table.step_s.size)
    predictor = PhysicsPredictor(reference).fit(*table.rows(rows[:20]))
    other = PhysicsPredictor(reference).fit(*table.rows(rows[20:60]))
    belief = predictor.posterior(table.modes[rows[20:60]])
    inliers = ~other.outliers_
    sampled = other.fitted.samples
    # The predictor's deviation is of the quantity, a sample's also has its noise.
    sd = np.sqrt(np.stack([belief.log_time_std, belief.log_power_std])[:, inliers] ** 2 + sampled.noise**2)
    mean = np.stack([belief.log_time, belief.log_power])[:, inliers]
    np.testing.assert_allclose(predictor.fitted.z_of(sampled), (sampled.logs - mean) / sd, rtol=1e-6, atol=1e-9)
