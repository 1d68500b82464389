"""Networks as named arrays, without torch."""

from typing import Any

import numpy as np
import pytest

from powertrain.networks import Network, NetworkPair
from powertrain.networks.network import LAYER_SIZES


def network(seed: int, **changes: Any) -> Network:
    random = np.random.default_rng(seed)
    shapes = list(zip(LAYER_SIZES[1:], LAYER_SIZES[:-1], strict=True))
    values: dict[str, Any] = {
        "input_mean": np.ones(4),
        "input_scale": np.full(4, 2.0),
        "weights": tuple(random.normal(size=shape).astype(np.float32) for shape in shapes),
        "biases": tuple(random.normal(size=shape[0]).astype(np.float32) for shape in shapes),
        "factor": 1.5,
        "target_mean": 20.0,
        "floor": 0.25,
        "residual": 0.04,
        "validation_mape_pct": 3.0,
    }
    return Network(**values | changes)


@pytest.fixture
def pair() -> NetworkPair:
    return NetworkPair(network(1), network(2))


def test_arrays_give_back_the_same_predictions(pair: NetworkPair) -> None:
    modes = np.random.default_rng(0).uniform(1, 9, size=(50, 4))
    again = NetworkPair.from_arrays(pair.to_arrays()).predict(modes)
    assert np.array_equal(again.time_s, pair.predict(modes).time_s)
    assert np.array_equal(again.power_std_w, pair.predict(modes).power_std_w)


def test_time_comes_in_seconds_from_a_network_in_milliseconds(pair: NetworkPair) -> None:
    modes = np.full((1, 4), 3.0)
    assert pair.predict(modes).time_s[0] == pytest.approx(pair.time.predict(modes)[0] / 1000)


def test_nothing_is_predicted_below_the_floor() -> None:
    sunk = network(1, biases=tuple(np.full(size, -1e3, dtype=np.float32) for size in LAYER_SIZES[1:]))
    assert sunk.predict(np.ones((1, 4)))[0] == 0.25


def test_a_missing_array_is_named(pair: NetworkPair) -> None:
    arrays = pair.to_arrays()
    del arrays["power.weight2"]
    with pytest.raises(ValueError, match=r"needs the array 'power.weight2'"):
        NetworkPair.from_arrays(arrays)


def test_a_misshapen_array_is_named(pair: NetworkPair) -> None:
    arrays = pair.to_arrays() | {"time.bias0": np.zeros(3)}
    with pytest.raises(ValueError, match=r"'time.bias0' must have the shape \(256,\), not \(3,\)"):
        NetworkPair.from_arrays(arrays)


def test_weights_that_are_not_finite_are_refused(pair: NetworkPair) -> None:
    arrays = pair.to_arrays() | {"time.bias3": np.array([np.nan])}
    with pytest.raises(ValueError, match="not finite"):
        NetworkPair.from_arrays(arrays)
