"""Window statistics follow the real timestamps: energy is the area under the readings, the mean is energy over time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powertrain_agent.telemetry import Reading, RollingMean, summarize


def readings(*pairs: tuple[float, float]) -> list[Reading]:
    return [Reading(at_s, watts) for at_s, watts in pairs]


def test_energy_is_the_area_under_unevenly_spaced_readings() -> None:
    window = summarize(readings((0.0, 10.0), (1.0, 20.0), (4.0, 20.0)))
    assert window.energy_j == pytest.approx(15.0 + 60.0)
    assert window.mean_w == pytest.approx(75.0 / 4.0)
    assert (window.peak_w, window.median_w, window.count, window.duration_s) == (20.0, 20.0, 3, 4.0)


def test_a_single_reading_has_power_but_no_energy() -> None:
    window = summarize(readings((5.0, 12.0)))
    assert (window.mean_w, window.peak_w, window.energy_j, window.duration_s) == (12.0, 12.0, 0.0, 0.0)


def test_an_empty_or_disordered_window_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one reading"):
        summarize([])
    with pytest.raises(ValueError, match="order of time"):
        summarize(readings((1.0, 10.0), (0.5, 10.0)))


@given(
    steps=st.lists(st.tuples(st.floats(0.01, 5.0), st.floats(1.0, 60.0)), min_size=2, max_size=40),
    seconds=st.floats(0.5, 10.0),
)
def test_the_rolling_mean_equals_the_window_it_covers(steps: list[tuple[float, float]], seconds: float) -> None:
    rolling, everything, at_s = RollingMean(seconds), [], 0.0
    for step_s, watts in steps:
        at_s += step_s
        everything.append(Reading(at_s, watts))
        rolling.add(everything[-1])
    covered = [reading for reading in everything if reading.at_s >= at_s - rolling.covered_s - 1e-9]
    assert rolling.mean_w == pytest.approx(summarize(covered).mean_w, rel=1e-6)
    longest_step_s = max(step_s for step_s, _ in steps)
    assert rolling.covered_s <= seconds + longest_step_s
    assert rolling.full == (at_s - everything[0].at_s >= seconds) or rolling.covered_s == pytest.approx(seconds)


def test_a_cleared_rolling_mean_starts_again() -> None:
    rolling = RollingMean(3.0)
    for at_s in range(5):
        rolling.add(Reading(float(at_s), 50.0))
    rolling.clear()
    rolling.add(Reading(10.0, 5.0))
    assert rolling.mean_w == 5.0
    assert not rolling.full
