"""Loads that pulse or lag more than the rules assume are detected; steady and phased ones are not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powertrain.exploring import NORMAL, LagBelief, Ledger, LoadFinding, LoadWatch, ReadingNoise, Visit
from powertrain.exploring.ledger import rise
from powertrain.exploring.swing import BOTH, LAGS, PULSES

LEVEL_W = 15.0


def square(at: np.ndarray, period_s: float, high_share: float) -> np.ndarray:
    """Return a swing of mean zero and height one."""
    return np.where((at / period_s) % 1.0 < high_share, 1.0 - high_share, -high_share)


def stretch(seed: int, seconds: float, noise: float, depth: float = 0.0, period_s: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    at = np.arange(NORMAL.readings(seconds)) * NORMAL.period_s + rng.uniform(0.0, 100.0)
    return LEVEL_W * (1.0 + depth * square(at, period_s, 0.5)) * (1.0 + noise * rng.standard_normal(len(at)))


def in_phases(seed: int, seconds: float, step_s: float, depth: float) -> np.ndarray:
    """Return readings of a sensor that averages over its period, of a load that waits in a part of every step."""
    rng = np.random.default_rng(seed)
    at = np.arange(NORMAL.readings(seconds)) * NORMAL.period_s + rng.uniform(0.0, 100.0)
    within = at[:, None] - np.linspace(0.0, NORMAL.period_s, 25)[None, :]
    phases = depth * square(within, step_s, 0.7).mean(axis=1)
    return LEVEL_W * (1.0 + phases) * (1.0 + 0.01 * rng.standard_normal(len(at)))


def delayed_ramp(seed: int, to_w: float, lag_s: float, delay_s: float, seconds: float, noise: float) -> np.ndarray:
    curve = rise(10.0, to_w, lag_s, seconds, NORMAL)
    waits = round(delay_s / NORMAL.period_s)
    curve = np.concatenate([np.full(waits, 10.0), curve])[: len(curve)]
    return curve * (1.0 + noise * np.random.default_rng(seed).standard_normal(len(curve)))


def watch_of(stretches: list[np.ndarray], step_s: float | None = None) -> LoadWatch:
    watch = LoadWatch()
    for readings in stretches:
        watch.learn_stretch(readings, step_s)
    return watch


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.005, 0.03), st.sampled_from([1.5, 2.5, 14.0]))
def test_white_noise_is_never_taken_for_pulses(seed: int, noise: float, seconds: float) -> None:
    assert watch_of([stretch(seed + n, seconds, noise) for n in range(30)]).finding == LoadFinding()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.02, 4.0), st.floats(0.02, 0.1))
def test_phases_within_a_step_are_never_taken_for_pulses(seed: int, step_s: float, depth: float) -> None:
    watch = watch_of([in_phases(seed + n, 5.0, step_s, depth) for n in range(10)], step_s)
    assert watch.finding.reason == ""


def test_phases_that_move_the_mean_of_a_window_ask_for_a_margin_without_a_finding() -> None:
    finding = watch_of([in_phases(n, 14.0, 6.0, 0.06) for n in range(3)], step_s=6.0).finding
    assert finding.reason == ""
    assert 0.01 < finding.margin < 0.03


@pytest.mark.parametrize("noise", [0.005, 0.01, 0.03])
@pytest.mark.parametrize("period_s", [8.0, 20.0])
@pytest.mark.parametrize("depth", [0.05, 0.15])
def test_slow_pulses_are_detected_with_the_margin_that_a_window_needs(
    depth: float, period_s: float, noise: float
) -> None:
    for seed in range(5):
        finding = watch_of([stretch(10 * seed + n, 14.0, noise, depth, period_s) for n in range(3)]).finding
        assert finding.reason == PULSES
        assert 0.8 * depth / 2 <= finding.margin <= 1.2 * depth
        assert "swing" in finding.message


def test_short_visits_detect_pulses_of_a_few_seconds() -> None:
    finding = watch_of([stretch(n, 2.5, 0.01, 0.08, 4.0) for n in range(8)]).finding
    assert finding.reason == PULSES
    assert finding.margin >= 0.05


def test_a_long_look_replaces_what_short_visits_hinted_at() -> None:
    watch = watch_of([stretch(n, 1.5, 0.01, 0.15, 1.0) for n in range(10)])
    hint = watch.finding.margin
    watch.learn_stretch(stretch(99, 14.0, 0.01, 0.15, 1.0))
    assert watch.finding.margin < hint / 4


def test_pauses_ask_for_no_margin() -> None:
    readings = stretch(1, 14.0, 0.01)
    readings[40:70] = 6.0
    assert watch_of([readings] * 3).finding == LoadFinding()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.2, 2.0), st.floats(0.005, 0.03), st.floats(11.0, 25.0))
def test_lags_that_the_rules_know_are_no_finding(seed: int, lag_s: float, noise: float, to_w: float) -> None:
    watch = LoadWatch()
    for n in range(6):
        watch.learn_change(10.0, delayed_ramp(seed + n, to_w, lag_s, 0.1, 3.0, noise), noise)
    assert watch.finding == LoadFinding()


@pytest.mark.parametrize("delay_s", [0.4, 0.5])
@pytest.mark.parametrize("lag_s", [0.3, 0.8])
def test_late_readings_are_detected_and_the_rules_wait_for_them(lag_s: float, delay_s: float) -> None:
    watch = LoadWatch()
    for seed in range(3):
        watch.learn_change(10.0, delayed_ramp(seed, 18.0, lag_s, delay_s, 3.0, 0.01), 0.01)
    finding = watch.finding
    assert finding.reason == LAGS
    assert finding.delay_s == pytest.approx(delay_s, abs=0.11)
    rules = finding.applied_to(NORMAL)
    assert rules.reaction_s == pytest.approx(NORMAL.reaction_s + finding.delay_s)
    assert rules.leave_s == pytest.approx(NORMAL.leave_s + finding.delay_s)
    assert rules.risk < NORMAL.risk


def test_a_slow_lag_is_detected_and_the_belief_can_hold_it() -> None:
    watch = LoadWatch()
    for seed in range(5):
        watch.learn_change(10.0, delayed_ramp(seed, 22.0, 4.0, 0.0, 4.0, 0.01), 0.01)
    finding = watch.finding
    assert finding.reason == LAGS
    rules = finding.applied_to(NORMAL)
    belief = LagBelief(rules)
    for seed in range(4):
        belief.learn(10.0, delayed_ramp(seed, 22.0, 4.0, 0.0, 4.0, 0.01), 0.01)
    assert belief.slow_s > NORMAL.lags_s[-1]


def test_a_visit_passes_its_ramp_and_its_settled_readings_on() -> None:
    watch, ledger, lag, noise = LoadWatch(), Ledger(40.0), LagBelief(), ReadingNoise()
    for seed in range(6):
        for _ in range(NORMAL.window):
            ledger.add(10.0)
        visit = Visit(ledger, lag, noise, rest_w=10.0, watch=watch)
        ramp = delayed_ramp(seed, 18.0, 0.4, 0.5, 14.0, 0.01)
        for watts in ramp * (1.0 + 0.08 * square(np.arange(len(ramp)) * 0.1, 8.0, 0.5)):
            visit.reading(float(watts))
        visit.end()
    assert watch.finding.reason in (BOTH, PULSES)


def test_the_margin_lowers_what_the_ledger_keeps() -> None:
    rules = LoadFinding(PULSES, "swings", margin=0.05).applied_to(NORMAL)
    assert Ledger(20.0, rules).limit_w == pytest.approx(19.0)
    assert rules.limit_w(20.0) == pytest.approx(19.0)


def test_a_steady_load_keeps_the_rules() -> None:
    assert LoadFinding().applied_to(NORMAL) is NORMAL
