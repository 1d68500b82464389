"""The ledger answers from the readings of the last window what may be tried, and when a visit must end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powertrain.exploring import NORMAL, LagBelief, Ledger, ReadingNoise, Verdict, Visit
from powertrain.exploring.ledger import cap_w, highest_mean, rise, short_visit, trend

LIMIT_W, REST_W = 20.0, 12.0


def rested(level_w: float = REST_W) -> Ledger:
    ledger = Ledger(LIMIT_W)
    for _ in range(NORMAL.window):
        ledger.add(level_w)
    return ledger


def test_a_mode_above_the_limit_has_room_after_a_rest_and_none_after_a_full_window() -> None:
    lags = LagBelief().likely_s
    assert rested().has_room(24.0, REST_W, lags)
    assert not rested(19.5).has_room(24.0, REST_W, lags)


def test_a_mode_below_the_limit_has_room_wherever_the_board_is_below_it() -> None:
    assert rested(19.0).has_room(19.5, REST_W, LagBelief().likely_s)


def test_a_level_above_the_limit_lasts_only_as_long_as_the_rest_before_it_pays() -> None:
    ledger, stayed = rested(), 0
    ramp = rise(REST_W, 26.0, 0.6, NORMAL.window_s, NORMAL)
    while not ledger.must_leave(REST_W, lag_s=1.2):
        ledger.add(float(ramp[stayed]))
        stayed += 1
    assert 3 <= stayed < NORMAL.window / 2
    back = rise(float(ramp[stayed - 1]), REST_W, 1.2, NORMAL.window_s, NORMAL)
    assert 0.9 < ledger.highest_share(back) <= 1.0


def test_the_cap_of_a_short_visit_keeps_the_limit_for_every_lag_and_grows_with_the_room() -> None:
    cap = cap_w(LIMIT_W, REST_W)
    past = np.full(NORMAL.window, REST_W)
    for lag_s in NORMAL.plan_lags_s:
        visit = short_visit(REST_W, cap, REST_W, lag_s, NORMAL)
        assert highest_mean(past, visit, NORMAL.window) <= LIMIT_W
    assert cap_w(LIMIT_W, 18.0) < cap < cap_w(LIMIT_W, 8.0)
    assert cap_w(LIMIT_W, 25.0) <= LIMIT_W


def test_the_trend_follows_a_rise_and_never_a_fall() -> None:
    rising = trend(np.array([10.0, 11.0, 12.0, 13.0, 14.0]), 0.1)
    assert rising == (pytest.approx(14.0), pytest.approx(10.0))
    assert trend(np.array([14.0, 13.0, 12.0]), 0.1) == (pytest.approx(13.0), 0.0)
    assert trend(np.array([7.0]), 0.1) == (7.0, 0.0)


def test_a_limit_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="above zero"):
        Ledger(0.0)


@settings(max_examples=150, deadline=None)
@given(
    lag_s=st.floats(0.15, 2.0),
    noise=st.floats(0.0, 0.03),
    rest_share=st.floats(0.3, 0.9),
    levels=st.lists(st.floats(0.5, 3.0), min_size=1, max_size=8),
    surprise=st.floats(0.9, 1.15),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_window_of_true_power_exceeds_the_limit_whatever_is_visited(
    lag_s: float, noise: float, rest_share: float, levels: list[float], surprise: float, seed: int
) -> None:
    """Visits are planned for a power that may be 15 % too low, the lag is unknown, and readings scatter by up to 3 %.

    The bound is what thirty readings can tell: four standard deviations of a window's mean.
    """
    rng = np.random.default_rng(seed)
    rest_w, true_w, log = rest_share * LIMIT_W, rest_share * LIMIT_W, []
    ledger, lag, seen = Ledger(LIMIT_W), LagBelief(), ReadingNoise()

    def tick(target_w: float) -> float:
        nonlocal true_w
        true_w += (target_w - true_w) * (1.0 - np.exp(-NORMAL.period_s / lag_s))
        log.append(true_w)
        return true_w * (1.0 + noise * rng.standard_normal())

    for _ in range(NORMAL.window):
        ledger.add(tick(rest_w))
    for level in levels:
        upper_w = level * LIMIT_W
        if upper_w > cap_w(LIMIT_W, rest_w):
            continue
        for _ in range(2 * NORMAL.window):
            if ledger.has_room(upper_w, rest_w, lag.likely_s):
                break
            ledger.add(tick(rest_w))
        else:
            continue
        visit = Visit(ledger, lag, seen, rest_w)
        while len(visit) < 60 and visit.reading(tick(upper_w * surprise)) is Verdict.STAY:
            pass
        visit.end()
        for _ in range(5):
            ledger.add(tick(rest_w))
    for _ in range(NORMAL.window):
        tick(rest_w)
    means = np.convolve(np.array(log), np.full(NORMAL.window, 1 / NORMAL.window), mode="valid")
    assert means.max() <= LIMIT_W * (1.0 + 4.0 * noise / NORMAL.window**0.5 + 0.002)
