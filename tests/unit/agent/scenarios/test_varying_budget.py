"""A budget that varies: a schedule, what the site delivers; the limits are those that the operator would send."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest

from powertrain.api.v1alpha1 import NodePolicy, TrainingJobSpec
from powertrain_agent.governing.events import ApiAway
from powertrain_agent.telemetry import Reading
from powertrain_operator.limits import limits_for

from .conftest import WORKLOAD, Scenario, envelope

NewScenario = Callable[..., Scenario]
NOON = "2026-06-01T12:00:00Z"


def limits_on_the_wire(constraints: dict[str, Any], profiling: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the operator writes into the envelope of a job with these constraints."""
    template = {"spec": {"containers": [{"name": "train", "image": "example.org/train:1"}]}}
    job = {
        "constraints": constraints,
        "profiling": profiling or {},
        "workload": {"batchSizes": [16], "template": template},
    }
    limits = limits_for(TrainingJobSpec.model_validate(job), {}, NodePolicy())
    schedule = [entry.wire() for entry in limits.schedule]
    return {"limits": limits.limits.wire(), "schedule": schedule, "timeZone": constraints.get("timeZone", "UTC")}


def begin(scenario: Scenario, **options: Any) -> list[float]:
    """Start a job and return where every reading from the first step on will be."""
    scenario.simulation.envelope(envelope(**options))
    scenario.run(2)
    readings: list[float] = []
    handle = scenario.simulation.sessions.handle

    def watched(event: Any) -> None:
        if isinstance(event, Reading):
            readings.append(event.power_w)
        handle(event)

    scenario.simulation.sessions.handle = watched  # type: ignore[method-assign]
    scenario.simulation.train(WORKLOAD)
    return readings


def available(watts: float) -> dict[str, Any]:
    return {"availableWatts": {"watts": watts, "observedAt": NOON}}


def test_a_schedule_that_raises_the_budget_is_explored_and_used(running: Scenario) -> None:
    entry = {"from": "12:01", "to": "13:00", "watts": 40}
    running.simulation.envelope(
        envelope(generation=2, **limits_on_the_wire({"powerWatts": 30, "powerSchedule": [entry]}))
    )
    before_w = running.true_w()
    running.run(90, lambda: running.has_decided("30 W → 40 W (schedule entry from 12:01)"))
    running.run(200, running.is_settled)
    assert before_w <= 30.0 < running.true_w() <= 40.0


def test_under_a_lower_budget_better_modes_are_checked_for_anew(running: Scenario) -> None:
    running.run(120)
    before = len(running.modes_tried())
    assert running.session.record.checks == running.session.settings.checks, "those of the first choice are done"
    running.simulation.envelope(envelope(generation=2, limits={"powerWatts": 22}))
    first_s, at = running.status.predicted.step_seconds, len(running.decisions())
    running.run(120)
    assert [line for line in running.decisions()[at:] if line.startswith("Check: check ")]
    assert len(running.modes_tried()) > before
    assert running.status.predicted.step_seconds <= first_s
    assert running.true_w() <= 22.0


def test_a_limit_that_keeps_the_mode_begins_no_checks(running: Scenario) -> None:
    running.run(120)
    tried = len(running.modes_tried())
    running.simulation.envelope(envelope(generation=2, limits={"powerWatts": 29.9}))
    running.run(60)
    assert len(running.modes_tried()) == tried


def test_a_hard_limit_that_is_raised_is_used_again(running: Scenario) -> None:
    before_w = running.true_w()
    running.simulation.envelope(envelope(generation=2, limits={"powerWatts": 30, "hardLimitWatts": 25}))
    running.run(100)
    assert running.true_w() < 25.0
    running.simulation.envelope(envelope(generation=3, limits={"powerWatts": 30, "hardLimitWatts": 40}))
    assert running.has_decided("the limit of readings changes: 25 W → 40 W")
    assert running.true_w() == before_w, "proven already"
    running.run(200, running.is_settled)
    assert before_w <= running.true_w() <= 30.0


def test_a_limit_that_counts_for_the_mean_again_is_used_as_such(running: Scenario) -> None:
    running.simulation.envelope(envelope(generation=2, limits={"powerWatts": 25, "powerStatistic": "Peak"}))
    running.run(100, running.is_settled)
    held_s = running.status.predicted.step_seconds
    running.simulation.envelope(envelope(generation=3, limits={"powerWatts": 25}))
    assert running.has_decided("the limit of readings changes: 25 W → no limit")
    running.run(200, running.is_settled)
    assert running.status.predicted.step_seconds < held_s
    assert running.true_w() <= 25.0


def test_a_job_that_starts_inside_a_lower_entry_is_profiled_within_it(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    entry = {"from": "12:00", "to": "13:00", "watts": 15}
    readings = begin(scenario, **limits_on_the_wire({"powerWatts": 30, "powerSchedule": [entry]}))
    scenario.run(300, scenario.is_settled)
    assert len(scenario.modes_tried()) >= 3
    assert max(fmean(readings[end - 30 : end]) for end in range(30, len(readings) + 1)) <= 15.0, "the limit is a mean"
    assert scenario.condition("BudgetReachable") == ("True", "Kept")


def test_available_watts_bound_what_is_tried_also_where_profiling_may_take_more(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    begin(scenario, **limits_on_the_wire({"powerWatts": 20}, {"maxWatts": 40}), **available(15))
    assert (scenario.session.budget.power_w, scenario.turn().limits.explore_w) == (15, 15)


def test_a_tried_mode_is_left_at_once_when_the_site_delivers_less_than_profiling_may_take(
    new_scenario: NewScenario,
) -> None:
    scenario = new_scenario()
    limits = {**limits_on_the_wire({"powerWatts": 20}, {"maxWatts": 40}), "plan": {"maxModes": 8, "aim": "front"}}
    begin(scenario, **limits)
    scenario.run(120, lambda: scenario.visit is not None and scenario.true_w() > 25.0)
    scenario.simulation.envelope(envelope(generation=2, **limits, **available(25)))
    assert scenario.has_decided("the limit of tried modes changes: 40 W → 25 W")
    assert scenario.true_w() <= 25.0
    scenario.run(200, scenario.is_settled)
    assert scenario.true_w() <= 20.0


def test_a_supply_below_idle_is_waited_for_at_the_lowest_mode(running: Scenario) -> None:
    chosen = running.status.mode
    running.simulation.envelope(envelope(generation=2, **available(6)))
    running.run(20, lambda: running.condition("BudgetReachable") == ("False", "WaitingForBudget"))
    running.run(100)
    assert running.true_w() < 14.0
    assert running.condition("BudgetReachable") == ("False", "WaitingForBudget")
    message = next(c.message for c in running.status.conditions if c.type == "BudgetReachable")
    assert message.endswith("it is held until the limit is above 6 W (availableWatts)")
    running.simulation.envelope(envelope(generation=3))
    assert running.status.mode == chosen
    assert running.condition("BudgetReachable") == ("True", "Kept")


def test_a_supply_below_idle_before_the_first_step_is_forgotten_when_it_is_back(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    scenario.simulation.envelope(envelope(**available(6)))
    scenario.run(20, lambda: scenario.condition("BudgetReachable") == ("False", "WaitingForBudget"))
    scenario.simulation.envelope(envelope(generation=2))
    assert scenario.condition("BudgetReachable") is None
    scenario.run(20)
    assert scenario.condition("BudgetReachable") is None


def spiky(scenario: Scenario, share: float = 0.1) -> None:
    """Let one reading a second lie above the mean by a share, as the phases of a step do."""
    plain = scenario.simulation._reading

    def reading(now_s: float) -> Any:
        read = plain(now_s)
        due = isinstance(read, Reading) and round(now_s * 10) % 10 == 0
        return Reading(read.at_s, (1 + share) * read.power_w) if due else read

    scenario.simulation._reading = reading  # type: ignore[method-assign]


def test_no_reading_is_above_a_limit_on_peaks_also_when_a_schedule_lowers_it(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    spiky(scenario)
    entry = {"from": "12:05", "to": "13:00", "watts": 24}
    limits = limits_on_the_wire({"powerWatts": 30, "powerStatistic": "Peak", "powerSchedule": [entry]})
    begin(scenario, **limits, plan={"maxModes": 8, "aim": "front"})
    scenario.run(250, scenario.is_settled)
    assert scenario.true_w() > 22.0
    scenario.run(300, lambda: scenario.has_decided("30 W → 24 W (schedule entry from 12:05)"))
    scenario.run(120)
    assert scenario.status.violations == 0
    assert 1.1 * scenario.true_w() <= 24.0


@pytest.mark.parametrize("restarts", [False, True])
def test_an_entry_that_begins_while_the_api_server_is_away_is_kept_within_seconds(
    running: Scenario, restarts: bool
) -> None:
    entry = {"from": "14:01", "to": "14:03", "watts": 20}
    constraints = {"powerWatts": 30, "powerSchedule": [entry], "timeZone": "Europe/Berlin"}
    running.simulation.envelope(envelope(generation=2, **limits_on_the_wire(constraints)))
    chosen = running.status.mode
    if restarts:
        running.restart_agent()
    running.simulation.sessions.handle(ApiAway(running.clock() - 3600.0))
    # The simulation's clock began at noon UTC, five seconds ago.
    running.run(48)
    assert running.status.mode == chosen
    running.run(9)
    assert running.status.mode != chosen
    assert running.session.guard.mean_w <= 20.0, "modes may be tried above it for moments"
    assert running.has_decided("30 W → 20 W (schedule entry from 14:01)")
    running.run(125, lambda: running.status.mode == chosen)
    assert running.has_decided("20 W → 30 W (powerWatts)")
