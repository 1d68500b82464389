"""A limit on the mean: modes above it are tried for moments, no window exceeds it, and a choice is held first."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest

from powertrain_agent.telemetry import Reading

from .conftest import WORKLOAD, Scenario, envelope

NewScenario = Callable[..., Scenario]
WINDOW = 30


def begin(scenario: Scenario, watts: float, **options: Any) -> list[float]:
    """Start a job under a limit and return where every reading will be."""
    readings: list[float] = []
    handle = scenario.simulation.sessions.handle

    def watched(event: Any) -> None:
        if isinstance(event, Reading):
            readings.append(event.power_w)
        handle(event)

    scenario.simulation.sessions.handle = watched  # type: ignore[method-assign]
    scenario.simulation.envelope(envelope(limits={"powerWatts": watts}, **options))
    scenario.run(2)
    scenario.simulation.train(WORKLOAD)
    return readings


def means(readings: list[float]) -> list[float]:
    return [fmean(readings[end - WINDOW : end]) for end in range(WINDOW, len(readings) + 1)]


def test_a_mode_above_the_limit_is_tried_for_a_moment_and_no_window_exceeds_it(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    readings = begin(scenario, 20)
    scenario.run(300, scenario.is_settled)
    scenario.run(60)
    assert max(readings) > 20.0, "single readings decide nothing"
    assert max(means(readings)) <= 20.0
    assert scenario.status.violations == 0
    assert scenario.has_decided(" left: left b")
    reports = scenario.session.record.reports
    assert any(report.left_early for report in reports)
    left = {report.mode for report in reports if report.left_early}
    assert left.isdisjoint(point.mode for point in scenario.session.record.proven_points())
    assert 19.0 < scenario.true_w() <= 20.0


def test_high_caution_reaches_modes_clock_by_clock_and_no_reading_exceeds_the_limit_for_long(
    new_scenario: NewScenario,
) -> None:
    scenario = new_scenario()
    readings = begin(scenario, 20, plan={"maxModes": 8, "caution": "High"})
    scenario.run(300, scenario.is_settled)
    assert not scenario.has_decided(" left: left b")
    assert sum(watts > 20.0 for watts in readings) <= len(readings) // 50


def test_a_choice_close_to_the_limit_is_held_before_it_runs(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    begin(scenario, 20)
    scenario.run(300, scenario.is_running)
    chosen = scenario.session.record.chosen
    assert chosen is not None
    confirmed = scenario.session.record.confirmed.get(chosen.mode)
    sure = any(sample.mode == chosen.mode and sample.power_spread_w for sample in scenario.session.record.samples)
    assert confirmed == 20.0 or sure


def test_a_lowered_limit_is_explored_and_no_window_exceeds_it(running: Scenario) -> None:
    running.simulation.envelope(envelope(generation=2, limits={"powerWatts": 22}))
    assert running.true_w() <= 22.0, "the best that is proven follows at once"
    running.run(10)
    tried, violations = len(running.modes_tried()), running.status.violations
    running.run(150, running.is_settled)
    assert len(running.modes_tried()) > tried
    running.run(60)
    assert running.status.violations == violations == 0
    assert 20.0 < running.true_w() <= 22.0


@pytest.mark.parametrize(
    "limits", [{"powerWatts": 20, "powerStatistic": "Peak"}, {"powerWatts": 20, "hardLimitWatts": 24}]
)
def test_limits_of_single_readings_are_kept_by_readings(new_scenario: NewScenario, limits: dict[str, Any]) -> None:
    scenario = new_scenario()
    scenario.simulation.envelope(envelope(limits=limits))
    assert not scenario.turn().by_ledger


def test_a_load_that_pulses_is_named_and_no_window_exceeds_the_limit_after_that(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    scenario.board.behave("pulsing")
    readings = begin(scenario, 20)
    scenario.run(120, lambda: scenario.condition("LoadSteady") is not None)
    status, reason = scenario.condition("LoadSteady") or ("", "")
    assert status == "False"
    assert reason in ("LoadPulses", "PowerLags", "LoadPulsesAndPowerLags"), "a ramp may show a pulse as a lag first"
    readings_before = len(readings)
    scenario.run(300, scenario.is_settled)
    scenario.run(60)
    assert max(means(readings[readings_before:])) <= 20.0


def test_a_load_that_pulses_is_not_taken_for_a_load_beside_the_training(new_scenario: NewScenario) -> None:
    """A pulse that ends the hold of a mode is no reason to wait in the lowest one: the next mode is tried."""
    scenario = new_scenario()
    scenario.board.behave("pulsing")
    begin(scenario, 20)
    scenario.run(300, lambda: scenario.condition("LoadSteady") is not None and scenario.is_settled())
    scenario.run(120)
    assert not scenario.has_decided("more than was measured")
