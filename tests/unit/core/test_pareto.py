"""Fronts over time and power, against their definition."""

import time
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from powertrain.pareto import pareto_front, stored_front

# A few values only, so that ties in one, in the other and in both are common.
coarse = st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, 5.0, np.inf, -np.inf, np.nan])
fine = st.floats(allow_nan=True, allow_infinity=True)
points = st.integers(0, 30).flatmap(
    lambda n: st.one_of(
        st.tuples(arrays(np.float64, n, elements=coarse), arrays(np.float64, n, elements=coarse)),
        st.tuples(arrays(np.float64, n, elements=fine), arrays(np.float64, n, elements=fine)),
    )
)


def by_definition(time_s: np.ndarray, power_w: np.ndarray) -> list[int]:
    """Return the front by comparing all pairs."""
    finite = [i for i in range(len(time_s)) if np.isfinite(time_s[i]) and np.isfinite(power_w[i])]

    def beaten(i: int) -> bool:
        for j in finite:
            no_worse = time_s[j] <= time_s[i] and power_w[j] <= power_w[i]
            better = time_s[j] < time_s[i] or power_w[j] < power_w[i]
            if no_worse and (better or j < i):
                return True
        return False

    return sorted((i for i in finite if not beaten(i)), key=lambda i: time_s[i])


@given(points)
def test_the_front_is_what_the_definition_says(pair: tuple[np.ndarray, np.ndarray]) -> None:
    assert pareto_front(*pair).tolist() == by_definition(*pair)


@given(points, st.randoms(use_true_random=False))
def test_the_points_on_the_front_do_not_depend_on_their_order(
    pair: tuple[np.ndarray, np.ndarray], random: Random
) -> None:
    time_s, power_w = pair
    order = list(range(len(time_s)))
    random.shuffle(order)
    front, shuffled = pareto_front(time_s, power_w), pareto_front(time_s[order], power_w[order])
    assert time_s[front].tolist() == time_s[order][shuffled].tolist()
    assert power_w[front].tolist() == power_w[order][shuffled].tolist()


def test_along_the_front_time_rises_and_power_falls() -> None:
    rng = np.random.default_rng(7)
    time_s, power_w = rng.uniform(1, 2, 5000), rng.uniform(10, 50, 5000)
    front = pareto_front(time_s, power_w)
    assert (np.diff(time_s[front]) > 0).all()
    assert (np.diff(power_w[front]) < 0).all()


def test_of_equal_points_the_first_is_kept() -> None:
    assert pareto_front(np.array([2.0, 1.0, 1.0, 2.0]), np.array([3.0, 4.0, 4.0, 3.0])).tolist() == [1, 0]


def test_no_points_have_an_empty_front() -> None:
    assert pareto_front(np.array([]), np.array([])).tolist() == []
    assert pareto_front(np.array([np.nan]), np.array([1.0])).tolist() == []


@pytest.mark.parametrize("shapes", [((3,), (4,)), ((2, 2), (2, 2))])
def test_vectors_of_different_shape_are_refused(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="vectors of one length"):
        pareto_front(np.ones(shapes[0]), np.ones(shapes[1]))


@pytest.mark.parametrize("kind", ["scattered", "all on the front", "tied"])
def test_the_front_of_100000_points_takes_milliseconds(kind: str) -> None:
    rng = np.random.default_rng(0)
    time_s = rng.integers(1, 50, 100_000).astype(float) if kind == "tied" else rng.uniform(1, 2, 100_000)
    power_w = 3 - time_s if kind == "all on the front" else rng.uniform(10, 50, 100_000)

    def once() -> float:
        start = time.process_time()
        pareto_front(time_s, power_w)
        return time.process_time() - start

    # Promised: 20 ms (benchmarks/core_speed.py measures it); five times that still tells O(n log n) from O(n²).
    assert min(once() for _ in range(5)) < 0.1


def test_the_stored_front_holds_the_best_at_the_mean_and_two_deviations_above() -> None:
    time_s, power_w = np.array([1.0, 1.1, 2.0, 3.0]), np.array([30.0, 30.0, 20.0, 25.0])
    time_std, power_std = np.array([0.5, 0.0, 0.0, 0.0]), np.zeros(4)
    # Row 1 is dominated at the mean, but certain where row 0 is not; row 3 is dominated either way.
    assert stored_front(time_s, power_w, time_std, power_std).tolist() == [0, 1, 2]


def test_without_uncertainty_the_stored_front_is_the_front() -> None:
    rng = np.random.default_rng(3)
    time_s, power_w, none = rng.uniform(1, 2, 500), rng.uniform(10, 50, 500), np.zeros(500)
    assert stored_front(time_s, power_w, none, none).tolist() == pareto_front(time_s, power_w).tolist()


def test_a_long_stored_front_is_thinned_and_keeps_its_ends() -> None:
    time_s = np.linspace(1, 2, 1000)
    rows = stored_front(time_s, 3 - time_s, np.zeros(1000), np.zeros(1000), limit=10)
    assert len(rows) == 10
    assert (rows[0], rows[-1]) == (0, 999)
    assert np.diff(rows).max() - np.diff(rows).min() <= 1


def test_a_stored_front_of_fewer_than_two_points_is_refused() -> None:
    with pytest.raises(ValueError, match="at least its 2 ends, not 1"):
        stored_front(np.ones(1), np.ones(1), np.zeros(1), np.zeros(1), limit=1)
