"""The relation between batch sizes: means over seeds, interpolation only, and what is missing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powertrain.batching import Relation, RelationError

NEEDED = st.dictionaries(
    st.integers(1, 1024), st.lists(st.floats(1.0, 1e9), min_size=1, max_size=5), min_size=1, max_size=8
)


@given(NEEDED)
def test_r_lies_above_zero_and_its_largest_value_is_one(needed: dict[int, list[float]]) -> None:
    relation = Relation.measured(needed)
    assert max(relation.r.values()) == 1
    assert all(0 < value <= 1 for value in relation.r.values())
    assert all(value >= 0 for value in relation.spread.values())


@given(NEEDED, st.floats(1e-3, 1e3))
def test_r_does_not_depend_on_the_unit_that_samples_are_counted_in(needed: dict[int, list[float]], unit: float) -> None:
    scaled = Relation.measured({size: [value * unit for value in values] for size, values in needed.items()})
    assert scaled.r == pytest.approx(Relation.measured(needed).r)


@given(NEEDED, st.integers(1, 1024))
def test_a_size_between_studied_ones_gets_a_value_between_theirs_and_is_marked(
    needed: dict[int, list[float]], size: int
) -> None:
    relation = Relation.measured(needed)
    sizes = relation.batch_sizes
    if size < sizes[0] or size > sizes[-1]:
        with pytest.raises(RelationError, match="never extrapolated"):
            relation.at(size)
        return
    value = relation.at(size)
    below = max(s for s in sizes if s <= size)
    above = min(s for s in sizes if s >= size)
    low, high = sorted((relation.r[below], relation.r[above]))
    assert low * (1 - 1e-9) <= value.r <= high * (1 + 1e-9)
    assert value.interpolated == (size not in needed)


def test_seeds_give_a_mean_and_a_spread() -> None:
    relation = Relation.measured({8: [900.0, 1100.0], 32: [1500.0, 1500.0]})
    assert relation.r == pytest.approx({8: 2 / 3, 32: 1.0})
    assert relation.spread == pytest.approx({8: 141.42 / 1500, 32: 0.0}, rel=1e-3)


def test_a_size_that_did_not_converge_has_no_value_even_between_others() -> None:
    relation = Relation.measured({4: [100.0], 64: [200.0]}, missing={16: "2 of 5 runs hit the cap"})
    assert relation.at(32).interpolated
    with pytest.raises(RelationError, match="2 of 5 runs hit the cap"):
        relation.at(16)


def test_a_relation_may_fall_and_rise() -> None:
    assert not Relation({4: 1.0, 16: 0.6, 64: 0.9}).is_monotone
    assert Relation({4: 0.5, 16: 0.6, 64: 1.0}).is_monotone


@pytest.mark.parametrize("r", [{8: 0.0}, {8: 1.2}, {8: float("nan")}, {0: 1.0}, {}])
def test_values_outside_the_range_are_refused(r: dict[int, float]) -> None:
    with pytest.raises(RelationError):
        Relation(r)


def test_samples_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(RelationError, match=r"batch size 8 .* not \[\]"):
        Relation.measured({8: []})
    with pytest.raises(RelationError, match="inf"):
        Relation.measured({8: [float("inf")]})
