"""The site benchmark, on a small part of itself: its simulation keeps the cap, and its promises hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.site_budget.dynamics import run
from benchmarks.site_budget.fleets import cap_at, fleet, fronts
from benchmarks.site_budget.measurement import TIGHTNESS, measure, min_makespan
from benchmarks.site_budget.report import missed, tables

from powertrain.sharing import Demand, Goal, equal, makespan_s, share


def test_the_promises_hold_on_a_few_fleets() -> None:
    figures = measure(fronts(None), fleets=15)
    assert missed(figures) == []
    assert figures.median("equal", 0.4, "makespan, shares kept") >= 1.5
    assert "MinMakespan" in tables(figures)


@pytest.mark.parametrize("tightness", TIGHTNESS)
def test_a_site_ends_and_its_cap_holds_throughout(tightness: float) -> None:
    all_fronts, rng = fronts(None), np.random.default_rng(3)
    for _ in range(5):
        site = fleet(all_fronts, 6, rng)
        cap_w = cap_at(site, tightness)
        course = run(site, cap_w, min_makespan)
        assert course.ends_s.keys() == {demand.name for demand in site}
        assert math.isfinite(course.makespan_s)
        assert course.highest_w <= cap_w + 1e-6


def test_watts_of_a_job_that_ends_go_to_the_others() -> None:
    points = np.array([10.0, 20.0, 30.0]), np.array([1.0, 2.0, 3.0])
    site = [Demand("short", *points, 100.0, 10.0, 30.0, idle_w=5.0), Demand("long", *points, 900.0, 10.0, 30.0)]
    first_shares, again = (run(site, 40.0, equal, again=again) for again in (False, True))
    assert first_shares.ends_s == pytest.approx({"short": 50.0, "long": 450.0})
    assert again.ends_s == pytest.approx({"short": 50.0, "long": 50.0 + 800.0 / 3.0})
    assert again.sharings == 2


def test_a_board_that_must_wait_trains_after_the_first_has_ended() -> None:
    points = np.array([10.0, 20.0]), np.array([1.0, 2.0])
    site = [Demand(name, *points, 100.0, 10.0, 20.0, idle_w=2.0) for name in ("first", "second")]
    course = run(site, 15.0, min_makespan)
    assert course.ends_s == pytest.approx({"first": 100.0, "second": 200.0})
    assert makespan_s(site, share(site, 15.0, Goal.MIN_MAKESPAN)) == math.inf
