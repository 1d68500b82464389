"""Learning rates follow the batch size by the optimizer's rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powertrain.batching import Scaling, scaled_learning_rate

SIZES = st.integers(1, 4096)


def test_the_papers_rate_for_128_scales_with_the_root() -> None:
    assert scaled_learning_rate(5e-4, 128, 32) == pytest.approx(2.5e-4)
    assert scaled_learning_rate(5e-4, 128, 32, Scaling.LINEAR) == pytest.approx(1.25e-4)
    assert scaled_learning_rate(5e-4, 128, 32, Scaling.NONE) == 5e-4


@given(SIZES, SIZES, SIZES, st.sampled_from(list(Scaling)))
def test_scaling_in_two_steps_is_scaling_in_one(first: int, second: int, third: int, scaling: Scaling) -> None:
    once = scaled_learning_rate(1e-3, first, third, scaling)
    twice = scaled_learning_rate(scaled_learning_rate(1e-3, first, second, scaling), second, third, scaling)
    assert twice == pytest.approx(once)


@pytest.mark.parametrize(("base", "at", "size"), [(0.0, 8, 8), (float("nan"), 8, 8), (1e-3, 0, 8), (1e-3, 8, 0)])
def test_what_is_not_positive_is_refused(base: float, at: int, size: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        scaled_learning_rate(base, at, size)
