"""Sharing keeps the available watts and every board's bounds, and is as good as the best combination of points."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from benchmarks.site_budget.optimum import optimum
from hypothesis import given, settings
from hypothesis import strategies as st

from powertrain.sharing import Demand, Goal, ends_s, equal, makespan_s, proportional, relative_speed, share, throughput
from powertrain.sharing.combined_front import FEW_ROWS, merged
from powertrain.sharing.optimal_levels import fill
from powertrain.sharing.rows import Table, rows_of
from powertrain.sharing.timing import speed_at

OPTIMISED = (Goal.MIN_MAKESPAN, Goal.MAX_THROUGHPUT)


def board(
    name: str,
    points: list[tuple[float, float]],
    remaining: float | None = 100.0,
    lowest_w: float | None = None,
    max_w: float = 100.0,
    **more: object,
) -> Demand:
    watts, speed = np.array([watts for watts, _ in points]), np.array([speed for _, speed in points])
    return Demand(name, watts, speed, remaining, watts[0] if lowest_w is None else lowest_w, max_w, **more)  # type: ignore[arg-type]


@st.composite
def boards(draw: st.DrawFn, name: str, most_points: int = 12) -> Demand:
    count = draw(st.integers(1, most_points))
    steps = draw(st.lists(st.floats(0.1, 8), min_size=count, max_size=count))
    gains = draw(st.lists(st.floats(0.01, 5), min_size=count, max_size=count))
    watts, speed = 5 + np.cumsum(steps), np.cumsum(gains)
    lowest = float(watts[0]) * draw(st.sampled_from((1.0, 0.9, 1.1)))
    idle = draw(st.floats(0, 5))
    most = draw(st.floats(lowest, float(watts[-1]) + 5))
    remaining = draw(st.none() | st.floats(0, 1e5))
    unit = draw(st.sampled_from(("", "", "", "together")))
    return Demand(name, watts, speed, remaining, lowest, most, draw(st.integers(0, 2)), unit, idle)


@st.composite
def fleets(draw: st.DrawFn) -> list[Demand]:
    return [draw(boards(f"board-{place}")) for place in range(draw(st.integers(1, 6)))]


@settings(max_examples=150, deadline=None)
@given(fleets(), st.floats(0, 250), st.sampled_from(list(Goal)))
def test_the_sum_and_every_bound_are_kept(fleet: list[Demand], available_w: float, goal: Goal) -> None:
    shares = share(fleet, available_w, goal)
    assert shares.keys() == {demand.name for demand in fleet}
    drawn = sum(shares[demand.name] or demand.idle_w for demand in fleet)
    idle = sum(demand.idle_w for demand in fleet)
    assert drawn <= max(available_w, idle) + 1e-6
    for demand in fleet:
        watts = shares[demand.name]
        assert watts == 0 or demand.lowest_w - 1e-9 <= watts <= demand.max_w + 1e-9


@settings(max_examples=100, deadline=None)
@given(fleets(), st.floats(0, 250), st.sampled_from(list(Goal)))
def test_a_board_waits_only_if_it_does_not_fit(fleet: list[Demand], available_w: float, goal: Goal) -> None:
    single = [Demand(d.name, d.watts, d.speed, d.remaining, d.lowest_w, d.max_w, 0, "", d.idle_w) for d in fleet]
    shares = share(single, available_w, goal)
    least_w = sum(max(demand.lowest_w, demand.idle_w) for demand in single)
    if available_w >= least_w:
        assert all(watts > 0 for watts in shares.values())


@settings(max_examples=100, deadline=None)
@given(fleets(), st.floats(20, 200), st.floats(0, 50))
def test_more_watts_never_end_later(fleet: list[Demand], available_w: float, more_w: float) -> None:
    # Every job has work left: one without any has ended whether or not it gets watts, and may be admitted before
    # another that then can't train.
    single = [Demand(d.name, d.watts, d.speed, d.remaining or None, d.lowest_w, d.max_w) for d in fleet]
    less = makespan_s(single, share(single, available_w, Goal.MIN_MAKESPAN))
    more = makespan_s(single, share(single, available_w + more_w, Goal.MIN_MAKESPAN))
    assert more <= less * (1 + 1e-9)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 10_000), min_size=2, max_size=4), st.floats(0.05, 1.0), st.sampled_from(OPTIMISED))
def test_shares_are_within_3_percent_of_the_best_combination(seeds: list[int], tightness: float, goal: Goal) -> None:
    fleet = [_realistic(f"board-{place}", seed) for place, seed in enumerate(seeds)]
    low, high = (sum(float(d.watts[end]) for d in fleet) for end in (0, -1))
    available_w = low + tightness * (high - low)
    shares = share(fleet, available_w, goal)
    best = optimum(fleet, available_w, goal)
    if goal is Goal.MIN_MAKESPAN:
        assert makespan_s(fleet, shares) <= best * (1 + 1e-9)  # the bisection is exact
    else:
        assert throughput(fleet, shares) >= 0.97 * best


def _realistic(name: str, seed: int, points: int = 20) -> Demand:
    """A board whose speed rises less and less with its watts, unevenly, as fronts do."""
    rng = np.random.default_rng(seed)
    watts = rng.uniform(8, 14) + np.concatenate(([0.0], np.cumsum(rng.uniform(0.3, 3.0, points - 1))))
    speed = np.cumsum(rng.uniform(0.2, 1.0, points) * np.linspace(1.5, 0.3, points))
    return Demand(name, watts, speed, float(rng.uniform(100, 1000)), float(watts[0]), float(watts[-1]))


def test_jobs_of_one_length_on_different_boards_end_together() -> None:
    fast = board("agx", [(15.0, 5.0), (25.0, 10.0), (40.0, 20.0)], remaining=1000)
    slow = board("nano", [(5.0, 2.0), (8.0, 5.0), (10.0, 6.0)], remaining=300)
    shares = share([fast, slow], 34.0, Goal.MIN_MAKESPAN)
    assert (shares["agx"] >= 25, shares["nano"] >= 8) == (True, True)
    assert makespan_s([fast, slow], shares) == pytest.approx(100.0)


def test_what_is_left_over_goes_to_whoever_gains_most() -> None:
    bottleneck = board("longest", [(10.0, 1.0), (30.0, 2.0)], remaining=1000)
    steep = board("steep", [(10.0, 1.0), (12.0, 3.0)], remaining=10)
    flat = board("flat", [(10.0, 1.0), (12.0, 1.1)], remaining=10)
    shares = share([bottleneck, flat, steep], 33.0, Goal.MIN_MAKESPAN)
    assert shares["steep"] >= 12
    assert shares["flat"] < 12


def test_a_higher_priority_gets_all_it_can_use_first() -> None:
    points = [(10.0, 1.0), (20.0, 2.0), (30.0, 2.5)]
    fleet = [board("low", points, priority=0), board("high", points, priority=1, max_w=30)]
    assert share(fleet, 45.0, Goal.MIN_MAKESPAN)["high"] == pytest.approx(30)
    assert share(fleet, 45.0, Goal.MAX_THROUGHPUT)["high"] == pytest.approx(30)
    assert share(fleet, 35.0, Goal.MIN_MAKESPAN)["low"] == 0


def test_boards_of_one_unit_train_together_or_not_at_all() -> None:
    points = [(10.0, 1.0), (20.0, 2.0), (30.0, 3.0)]
    together = [board(name, points, unit="ring") for name in ("a", "b", "c")]
    assert set(share(together, 25.0, Goal.MIN_MAKESPAN).values()) == {0.0}
    shares = share(together, 75.0, Goal.MIN_MAKESPAN)
    assert {speed_at(demand, shares[demand.name]) for demand in together} == {2.0}
    # 15 W are left over: one board alone could use 10 of them, but its unit would not be faster.
    assert throughput(together, shares) == pytest.approx(3 * 2 / 3)


def test_the_slowest_of_a_unit_gets_more_watts() -> None:
    quick = board("quick", [(10.0, 2.0), (20.0, 4.0), (30.0, 8.0)], unit="ring")
    slow = board("slow", [(10.0, 1.0), (20.0, 2.0), (30.0, 4.0)], unit="ring")
    shares = share([quick, slow], 50.0, Goal.MIN_MAKESPAN)
    assert speed_at(quick, shares["quick"]) == speed_at(slow, shares["slow"]) == 4.0


def test_unknown_lengths_get_the_same_relative_speed() -> None:
    large = board("large", [(w, w / 10) for w in np.linspace(10.0, 60.0, 501)], remaining=None)
    small = board("small", [(w, w) for w in np.linspace(4.0, 12.0, 801)], remaining=None)
    shares = share([large, small], 40.0, Goal.MIN_MAKESPAN)
    assert relative_speed(large, shares["large"]) == pytest.approx(relative_speed(small, shares["small"]), abs=0.005)


def test_a_board_without_a_front_gets_a_share_within_its_bounds() -> None:
    known = board("known", [(10.0, 1.0), (20.0, 2.0)], max_w=20)
    profiling = Demand("profiling", np.empty(0), np.empty(0), 50.0, 8.0, 30.0)
    shares = share([known, profiling], 30.0, Goal.MIN_MAKESPAN)
    assert 8 <= shares["profiling"] <= 20
    assert shares["known"] >= 10


def test_the_first_boards_train_if_not_all_fit() -> None:
    fleet = [board(name, [(10.0, 1.0), (20.0, 2.0)], idle_w=4.0) for name in ("first", "second", "third")]
    shares = share(fleet, 25.0, Goal.MIN_MAKESPAN)  # 10 + 10 + 4 fit, three times 10 do not
    assert [name for name, watts in shares.items() if watts] == ["first", "second"]
    assert sum(shares.values()) + 4.0 <= 25.0
    assert makespan_s(fleet, shares) == math.inf


def test_a_limit_below_the_lowest_mode_means_no_training() -> None:
    assert share([board("a", [(10.0, 1.0)], max_w=9.0)], 50.0, Goal.MIN_MAKESPAN) == {"a": 0.0}


def test_equal_gives_the_same_to_all_who_can_use_it() -> None:
    points = [(5.0, 1.0), (50.0, 2.0)]
    fleet = [board("a", points, max_w=50), board("b", points, max_w=50), board("small", points, max_w=10)]
    assert equal(fleet, 70.0) == pytest.approx({"a": 30, "b": 30, "small": 10})
    needs_more = [board("a", points, lowest_w=20, max_w=50), board("b", points, max_w=50)]
    assert equal(needs_more, 30.0) == pytest.approx({"a": 20, "b": 10})


def test_proportional_follows_the_maxima() -> None:
    points = [(5.0, 1.0), (60.0, 2.0)]
    fleet = [board("agx", points, max_w=60), board("nano", points, max_w=15)]
    assert proportional(fleet, 50.0) == pytest.approx({"agx": 40, "nano": 10})


def test_ends_of_unknown_lengths_are_unknown() -> None:
    fleet = [board("a", [(10.0, 2.0)], remaining=100), board("b", [(10.0, 2.0)], remaining=None)]
    assert ends_s(fleet, {"a": 10.0, "b": 10.0}) == {"a": 50.0, "b": None}
    assert makespan_s(fleet, {"a": 10.0, "b": 10.0}) == 50.0
    assert makespan_s([], {}) == 0.0


def test_two_boards_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="listed more often: a"):
        share([board("a", [(10.0, 1.0)])] * 2, 30.0, Goal.EQUAL)


@pytest.mark.parametrize(
    ("watts", "speed", "message"),
    [([2.0, 1.0], [1.0, 2.0], "must ascend"), ([1.0], [1.0, 2.0], "one length"), ([1.0], [math.nan], "finite")],
)
def test_a_front_that_is_none_is_refused(watts: list[float], speed: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Demand("a", np.array(watts), np.array(speed), None, 1.0, 2.0)


@pytest.mark.parametrize("goal", list(Goal))
@pytest.mark.parametrize("alike", [False, True])
def test_200_boards_are_shared_within_50_ms(goal: Goal, alike: bool) -> None:
    fleet = [_realistic(f"board-{place}", 1 if alike else place, 256) for place in range(200)]
    available_w = 0.4 * sum(demand.max_w for demand in fleet)

    def once() -> float:
        # Demands of their own, as what a demand has computed once is kept with it.
        fleet = [_realistic(f"board-{place}", 1 if alike else place, 256) for place in range(200)]
        began = time.process_time()
        shares = share(fleet, available_w, goal)
        assert sum(shares.values()) <= available_w + 1e-6
        return time.process_time() - began

    assert min(once() for _ in range(3)) <= 0.05


@pytest.mark.parametrize("tightness", [0.02, 0.1, 0.5])
def test_prices_are_within_3_percent_of_combinations_for_many_boards(tightness: float) -> None:
    for seed in range(5):
        rows = rows_of([_realistic(f"board-{place}", 100 * seed + place) for place in range(FEW_ROWS + 4)])
        table, nothing = Table.of(rows), np.zeros(len(rows), dtype=np.int64)
        low, high = (sum(float(row.cost_w[end]) for row in rows) for end in (0, -1))
        available_w = low + tightness * (high - low)
        by_price = table.value_of(fill(table, nothing, available_w)).sum()
        assert by_price >= 0.97 * table.value_of(merged(table, nothing, available_w)).sum()
