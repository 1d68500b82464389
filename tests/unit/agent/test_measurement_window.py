"""One measurement: settled, tight, honest; everything that is not this mode alone is thrown away and said."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest

from powertrain import PowerMode
from powertrain_agent.governing.measurement_window import Verdict, Window, WindowOutcome, WindowRules
from powertrain_agent.steps import StepsSeen
from powertrain_agent.telemetry import Reading

MODE = PowerMode(12, 1_500_000, 900_000_000, 2_133_000_000)


class Feed:
    """A training and a sensor: power settles from one level to another, steps have a little jitter."""

    def __init__(self, window: Window, step_s: float = 0.05, power_w: float = 25.0, from_w: float = 15.0) -> None:
        self.window, self.step_s, self.power_w, self.from_w = window, step_s, power_w, from_w
        self.random = random.Random(1)
        self.noise = 0.01

    def watts(self, at_s: float) -> float:
        true_w = self.power_w + (self.from_w - self.power_w) * math.exp(-at_s / 0.8)
        return true_w * self.random.gauss(1.0, self.noise)

    def step_at(self, at_s: float) -> float:
        return self.step_s * self.random.gauss(1.0, 0.02)

    def events(self) -> Iterator[float]:
        reading_s, ended_s, step_s = 0.1, 0.3 * self.step_s, self.step_s
        while reading_s < 200.0:
            if reading_s <= ended_s:
                self.window.power(Reading(reading_s, self.watts(reading_s)))
                yield reading_s
                reading_s += 0.1
            else:
                self.window.steps(StepsSeen(1, ended_s, step_s))
                yield ended_s
                step_s = self.step_at(ended_s)
                ended_s += step_s

    def run(self) -> WindowOutcome:
        for _ in self.events():
            if self.window.outcome is not None:
                return self.window.outcome
        raise AssertionError("the window never ended")


def window(**options: object) -> Window:
    return Window(MODE, 0.0, 16, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("step_s", [0.002, 0.01, 0.05])
@pytest.mark.parametrize("from_w", [12.0, 24.0, 40.0])
def test_a_mode_with_short_steps_is_measured_right_within_six_seconds(step_s: float, from_w: float) -> None:
    outcome = Feed(window(), step_s, from_w=from_w).run()
    assert outcome.verdict is Verdict.MEASURED
    assert outcome.seconds <= 6.0
    assert outcome.sample is not None
    assert outcome.sample.step_s == pytest.approx(step_s, rel=0.02)
    assert outcome.sample.power_w == pytest.approx(25.0, rel=0.015)
    assert outcome.noise < 0.01


def test_the_first_step_does_not_count() -> None:
    feed = Feed(window())
    feed.step_at = lambda at_s: 0.05  # type: ignore[method-assign]
    feed.window.steps(StepsSeen(1, 0.01, 5.0))
    outcome = feed.run()
    assert outcome.sample is not None
    assert outcome.sample.step_s == 0.05
    assert outcome.sample.step_spread_s == 0.0


def test_every_window_holds_its_minimum_of_power_readings() -> None:
    tested = window(rules=WindowRules(min_readings=35))
    feed = Feed(tested, step_s=0.005)
    assert "35 readings" in feed.run().reason


def test_noisy_steps_are_collected_until_forty() -> None:
    feed = Feed(window(), step_s=0.2)
    feed.step_at = lambda at_s: 0.2 * feed.random.uniform(0.8, 1.2)  # type: ignore[method-assign]
    outcome = feed.run()
    assert outcome.sample is not None
    assert outcome.sample.steps == 40


def test_steps_of_seconds_end_at_the_time_limit_with_a_few() -> None:
    outcome = Feed(window(), step_s=6.0).run()
    assert outcome.verdict is Verdict.MEASURED
    assert outcome.seconds < 36.0
    assert outcome.sample is not None
    assert outcome.sample.steps is not None
    assert 3 <= outcome.sample.steps <= 6


def test_steps_that_never_come_end_the_window_with_a_reason() -> None:
    outcome = Feed(window(), step_s=80.0).run()
    assert outcome.verdict is Verdict.REJECTED
    assert "steps in 9" in outcome.reason


def test_a_pulsing_load_is_measured_as_it_is_and_called_noisy() -> None:
    feed = Feed(window())
    feed.watts = lambda at_s: 25.0 + 5.0 * math.sin(at_s * math.pi / 2.0)  # type: ignore[method-assign]
    outcome = feed.run()
    assert outcome.verdict is Verdict.MEASURED
    assert outcome.noise >= 0.01


def test_a_window_with_wrong_clocks_is_thrown_away() -> None:
    tested = window()
    tested.clocks({}, 1.0)
    assert tested.outcome is None
    tested.clocks({"/sys/gpu/cur_freq": 624750000}, 2.0)
    assert tested.outcome is not None
    assert tested.outcome.verdict is Verdict.REJECTED
    assert "/sys/gpu/cur_freq = 624750000" in tested.outcome.reason


@pytest.mark.parametrize("reason", ["throttled: gpu-throttle-alert", "over-current: oc3", "a fit was running"])
def test_a_disturbed_window_is_thrown_away_with_its_reason(reason: str) -> None:
    tested = window()
    tested.disturb(reason, 1.0)
    assert tested.outcome is not None
    assert (tested.outcome.verdict, tested.outcome.reason) == (Verdict.REJECTED, reason)


def test_steps_that_become_faster_within_a_window_are_a_cold_cache() -> None:
    feed = Feed(window(rules=WindowRules(tight_share=1e-6)), step_s=0.1)
    feed.step_at = lambda at_s: 0.1 * (1.0 + 0.8 * math.exp(-at_s / 2.0))  # type: ignore[method-assign]
    outcome = feed.run()
    assert outcome.verdict is Verdict.REJECTED
    assert "cold cache" in outcome.reason


def test_the_first_reading_above_the_limit_ends_it_and_is_kept_as_unsafe() -> None:
    tested = window(limit_w=30.0, expected_step_s=0.07)
    tested.power(Reading(0.1, 29.9))
    assert tested.outcome is None
    tested.power(Reading(0.2, 30.4))
    assert tested.outcome is not None
    assert tested.outcome.verdict is Verdict.UNSAFE
    assert tested.outcome.sample is not None
    assert (tested.outcome.sample.unsafe, tested.outcome.sample.power_w) == (True, 30.4)
    assert tested.outcome.sample.step_s == 0.07


def test_a_late_single_reading_above_keeps_the_median_of_what_was_settled() -> None:
    feed = Feed(window(limit_w=25.5, rules=WindowRules(min_readings=200)), power_w=25.0, from_w=24.0)
    feed.noise = 0.009
    outcome = feed.run()
    assert outcome.verdict is Verdict.UNSAFE
    assert outcome.sample is not None
    assert outcome.sample.unsafe
    assert outcome.sample.power_w == pytest.approx(25.0, rel=0.02)


def test_without_steps_power_alone_is_measured() -> None:
    tested = window(needs_steps=False, expected_step_s=1.0)
    for tick in range(1, 100):
        tested.power(Reading(tick / 10, 20.0))
    assert tested.outcome is not None
    assert tested.outcome.sample is not None
    assert tested.outcome.sample.power_w == 20.0
