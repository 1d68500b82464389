"""The lag is learned from ramps, and a ramp tells where the power settles before it does."""

import numpy as np
import pytest

from powertrain.exploring import NORMAL, LagBelief, Ledger, ReadingNoise, Verdict, Visit
from powertrain.exploring.ledger import rise


def ramp(to_w: float, lag_s: float, seconds: float, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    curve = rise(10.0, to_w, lag_s, seconds, NORMAL)
    return curve * (1.0 + noise * np.random.default_rng(seed).standard_normal(len(curve)))


@pytest.mark.parametrize("lag_s", [0.3, 0.6, 1.25, 2.1])
def test_the_belief_finds_the_lag_of_a_few_ramps(lag_s: float) -> None:
    belief = LagBelief()
    for seed in range(4):
        belief.learn(10.0, ramp(20.0, lag_s, 3.0, 0.01, seed), 0.01)
    assert belief.quantile_s(0.5) == pytest.approx(lag_s, rel=0.35)
    assert belief.slow_s >= lag_s * 0.99


def test_a_ramp_that_hardly_moved_teaches_nothing() -> None:
    belief = LagBelief()
    before = belief.likely_s
    belief.learn(10.0, ramp(10.1, 0.3, 3.0, 0.01), 0.01)
    assert belief.likely_s == before


def test_a_short_ramp_tells_where_it_leads_with_an_error_that_covers_it() -> None:
    belief = LagBelief()
    for seed in range(3):
        belief.learn(10.0, ramp(20.0, 0.8, 3.0, 0.01, seed), 0.01)
    misses = []
    for seed in range(40):
        settled = belief.settled_power(10.0, ramp(25.0, 0.8, 0.7, 0.01, 100 + seed), 0.01)
        misses.append(abs(settled.watts - 25.0) / settled.std_w)
    assert np.mean(np.array(misses) < 2.0) >= 0.9


def test_a_ramp_of_one_odd_reading_still_leads_to_a_positive_power() -> None:
    settled = LagBelief().settled_power(20.0, np.array([12.0]), 0.01)
    assert 0 < settled.watts < 60.0


def test_a_visit_far_above_the_limit_ends_as_hopeless_or_before_a_window_breaks() -> None:
    ledger = Ledger(20.0)
    for _ in range(NORMAL.window):
        ledger.add(10.0)
    visit = Visit(ledger, LagBelief(), ReadingNoise(), rest_w=10.0)
    ends = [visit.reading(float(watts)) for watts in ramp(24.0, 0.3, 3.0)]
    first = next(index for index, verdict in enumerate(ends) if verdict is not Verdict.STAY)
    assert first >= 2
    assert first * NORMAL.period_s < 2.5


def test_noise_is_learned_from_neighbouring_readings() -> None:
    noise = ReadingNoise()
    rng = np.random.default_rng(1)
    for _ in range(20):
        noise.learn(15.0 * (1.0 + 0.025 * rng.standard_normal(30)))
    assert noise.relative == pytest.approx(0.025, rel=0.1)


def test_the_distance_to_the_limit_grows_with_the_noise() -> None:
    assert NORMAL.confirm_share(0.01) == pytest.approx(0.9927, abs=0.0005)
    assert NORMAL.confirm_share(0.025) < NORMAL.confirm_share(0.01)
