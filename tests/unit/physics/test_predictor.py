"""What the predictor promises: accuracy from few samples, honest intervals, no explosions."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from powertrain.physics import PhysicsPredictor, PhysicsReference, initial_design
from powertrain.physics.model import TIME_COUNT

TARGETS = ("cpu-bound", "gpu-bound", "memory-bound", "launch-bound")


def spread(count: int, total: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).permutation(total)[:count].astype(np.int64)


def errors_pct(predictor: PhysicsPredictor, table: Any, measured: NDArray[np.int64]) -> tuple[float, float]:
    unseen = np.setdiff1d(np.arange(table.step_s.size), measured)
    prediction = predictor.predict(table.modes[unseen])
    time = np.mean(np.abs(prediction.time_s / table.step_s[unseen] - 1.0))
    power = np.mean(np.abs(prediction.power_w / table.power_w[unseen] - 1.0))
    return 100.0 * float(time), 100.0 * float(power)


@pytest.mark.parametrize("name", TARGETS)
def test_twelve_designed_samples_predict_a_new_workload(
    name: str, reference: PhysicsReference, tables: dict[str, Any]
) -> None:
    table = tables[name]
    measured = initial_design(reference, table.modes, 12)
    predictor = PhysicsPredictor(reference, space=table.modes).fit(*table.rows(measured))
    time_pct, power_pct = errors_pct(predictor, table, measured)
    assert time_pct < 6.0
    assert power_pct < 4.0


@pytest.mark.parametrize("name", TARGETS)
def test_reference_transfers_to_a_smaller_board(name: str, reference: PhysicsReference, tables: dict[str, Any]) -> None:
    table = tables[f"small/{name}"]
    measured = initial_design(reference, table.modes, 15)
    predictor = PhysicsPredictor(reference, space=table.modes).fit(*table.rows(measured))
    time_pct, power_pct = errors_pct(predictor, table, measured)
    assert time_pct < 8.0
    assert power_pct < 5.0


@pytest.mark.parametrize("name", TARGETS)
def test_intervals_hold_what_they_say(name: str, reference: PhysicsReference, tables: dict[str, Any]) -> None:
    table = tables[name]
    measured = spread(25, table.step_s.size)
    prediction = PhysicsPredictor(reference, space=table.modes).fit(*table.rows(measured)).predict(table.modes)
    held_time = np.mean(np.abs(prediction.time_s - table.step_s) < 1.96 * prediction.time_std_s)
    held_power = np.mean(np.abs(prediction.power_w - table.power_w) < 1.96 * prediction.power_std_w)
    assert held_time > 0.85
    assert held_power > 0.85
    assert np.median(prediction.time_std_s / prediction.time_s) < 0.15
    assert np.median(prediction.power_std_w / prediction.power_w) < 0.10


@pytest.mark.parametrize("has_reference", [True, False], ids=["reference", "no reference"])
def test_one_sample_sets_the_scale(has_reference: bool, reference: PhysicsReference, tables: dict[str, Any]) -> None:
    table = tables["gpu-bound"]
    one = np.array([150])
    predictor = PhysicsPredictor(reference if has_reference else None).fit(*table.rows(one))
    prediction = predictor.predict(table.modes)
    assert prediction.time_s[150] == pytest.approx(table.step_s[150], rel=0.1)
    assert prediction.power_w[150] == pytest.approx(table.power_w[150], rel=0.1)
    far = np.argmax(np.abs(np.log(table.modes / table.modes[150])).sum(axis=1))
    assert prediction.time_std_s[far] / prediction.time_s[far] > prediction.time_std_s[150] / prediction.time_s[150]


def test_same_samples_give_the_same_prediction(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    table = tables["cpu-bound"]
    measured = spread(10, table.step_s.size)
    first, second = (PhysicsPredictor(reference, seed=3).fit(*table.rows(measured)).predict(table.modes) for _ in "ab")
    np.testing.assert_array_equal(first.time_s, second.time_s)
    np.testing.assert_array_equal(first.power_std_w, second.power_std_w)


def test_sample_with_a_wrong_clock_is_dropped(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    table = tables["gpu-bound"]
    measured = spread(20, table.step_s.size, seed=1)
    modes, step_s, power_w = table.rows(measured)
    slow = int(np.argmin(modes[:, 2]))
    step_s[slow] *= 0.15
    power_w[slow] *= 1.8
    predictor = PhysicsPredictor(reference).fit(modes, step_s, power_w)
    assert np.flatnonzero(predictor.outliers_).tolist() == [slow]


def test_clean_samples_are_kept(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    for name in TARGETS:
        table = tables[name]
        predictor = PhysicsPredictor(reference).fit(*table.rows(spread(20, table.step_s.size)))
        assert predictor.outliers_.sum() <= 1


def test_power_is_less_certain_when_the_time_behind_it_is(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    table = tables["gpu-bound"]
    slow_cpu = np.flatnonzero((table.modes[:, 0] == 2.0) & (table.modes[:, 1] == 268800.0))[:6]
    predictor = PhysicsPredictor(reference).fit(*table.rows(slow_cpu))
    joint = predictor.posterior(table.modes).log_power_std
    covariance = predictor.fitted.covariance
    by_time, shared = covariance[:TIME_COUNT, :TIME_COUNT].copy(), covariance[TIME_COUNT:, :TIME_COUNT].copy()
    covariance[TIME_COUNT:, TIME_COUNT:] -= shared @ np.linalg.solve(by_time, shared.T)
    covariance[:TIME_COUNT, :], covariance[:, :TIME_COUNT] = 0.0, 0.0
    given_the_time = predictor.posterior(table.modes).log_power_std
    assert np.all(joint >= given_the_time * (1.0 - 1e-9))
    assert np.max(joint / given_the_time) > 1.3


def test_lookahead_promises_what_a_measurement_brings(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    table = tables["memory-bound"]
    measured = spread(10, table.step_s.size)
    predictor = PhysicsPredictor(reference).fit(*table.rows(measured))
    now = predictor.posterior(table.modes)
    time_after, power_after = predictor.lookahead(table.modes, table.modes[::40])
    assert time_after.shape == (table.step_s.size, table.modes[::40].shape[0])
    assert np.all(time_after <= now.log_time_std[:, None] ** 2 + 1e-9)
    assert np.all(power_after <= now.log_power_std[:, None] ** 2 + 1e-9)
    own = np.arange(0, table.step_s.size, 40)
    assert np.all(time_after[own, np.arange(own.size)] < now.log_time_std[own] ** 2)


def test_more_samples_than_the_fit_takes_are_thinned_out(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    table = tables["cpu-bound"]
    everything = np.tile(np.arange(table.step_s.size), 2)
    predictor = PhysicsPredictor(reference).fit(*table.rows(everything))
    assert predictor.outliers_.size == everything.size
    time_pct, power_pct = errors_pct(predictor, table, np.zeros(0, dtype=np.int64))
    assert time_pct < 4.0
    assert power_pct < 3.0


def test_prediction_before_any_sample_says_so(reference: PhysicsReference) -> None:
    with pytest.raises(RuntimeError, match="fit"):
        PhysicsPredictor(reference).predict(np.array([[4.0, 1e6, 1e9, 1e9]]))


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_measurements_are_refused(bad: float, reference: PhysicsReference) -> None:
    modes = np.array([[4.0, 1e6, 1e9, 1e9]])
    with pytest.raises(ValueError, match="step_s"):
        PhysicsPredictor(reference).fit(modes, np.array([bad]), np.array([20.0]))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    logs=arrays.arrays(np.float64, st.tuples(st.integers(1, 12), st.just(6)), elements=st.floats(-1.0, 1.0)),
    on_known_board=st.booleans(),
)
def test_no_samples_however_odd_make_it_explode(
    logs: NDArray[np.float64], on_known_board: bool, reference: PhysicsReference
) -> None:
    low, high = np.array([1.0, 1e5, 1e8, 2e8, 1e-4, 3.0]), np.array([12.0, 2.2e6, 1.3e9, 3.2e9, 60.0, 90.0])
    values = np.exp(np.log(low) + (logs + 1.0) / 2.0 * np.log(high / low))
    predictor = PhysicsPredictor(reference if on_known_board else None).fit(values[:, :4], values[:, 4], values[:, 5])
    prediction = predictor.predict(np.array([low[:4], high[:4], np.sqrt(low[:4] * high[:4])]))
    for array in (prediction.time_s, prediction.time_std_s, prediction.power_w, prediction.power_std_w):
        assert np.all(np.isfinite(array))
        assert np.all(array > 0)
    assert np.all(prediction.time_s <= 200.001 * values[:, 4].max())
    assert np.all(prediction.power_w <= 10.001 * values[:, 5].max())


def test_a_wider_prior_is_less_sure_of_what_was_not_measured(
    reference: PhysicsReference, tables: dict[str, Any]
) -> None:
    table = tables["cpu-bound"]
    samples = table.rows(spread(4, table.step_s.size))
    for output in ("log_time_std", "log_power_std"):
        spreads = [
            np.median(
                getattr(
                    PhysicsPredictor(reference, space=table.modes, prior_width=width)
                    .fit(*samples)
                    .posterior(table.modes),
                    output,
                )
            )
            for width in (0.2, 1.0, 3.0)
        ]
        assert spreads == sorted(set(spreads))


@pytest.mark.parametrize("width", [0.0, -1.0, float("nan")])
def test_a_prior_without_width_is_refused(width: float, reference: PhysicsReference, tables: dict[str, Any]) -> None:
    table = tables["cpu-bound"]
    with pytest.raises(ValueError, match="width must be a number above zero"):
        PhysicsPredictor(reference, prior_width=width).fit(*table.rows(spread(4, table.step_s.size)))
