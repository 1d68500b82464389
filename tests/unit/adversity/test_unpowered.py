"""A site that can deliver nothing: the lowest mode until there is power again, and never "no limit"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.agent.scenarios.conftest import Scenario, envelope
from tests.unit.agent.scenarios.test_breaches import mode_of, start_of
from tests.unit.agent.scenarios.test_varying_budget import begin

from powertrain_agent.governing.schedule import budget_at

NewScenario = Callable[..., Scenario]


def available(watts: float, at: str = "2026-06-01T12:00:00Z", **more: str) -> dict[str, Any]:
    return {"availableWatts": {"watts": watts, "observedAt": at, **more}}


@pytest.mark.parametrize(
    "annotations",
    [
        available(0),
        available(0, "2026-06-01T10:00:00Z"),
        available(0, "2027-01-01T00:00:00Z"),
        available(0, problem="'12W' is not a number"),
    ],
    ids=["now", "stale", "in the future", "unreadable"],
)
def test_without_power_a_running_job_goes_to_the_lowest_mode_and_comes_back(
    running: Scenario, annotations: dict[str, Any]
) -> None:
    chosen = running.status.mode
    running.simulation.envelope(envelope(generation=2, **annotations))
    running.run(30)
    assert mode_of(running) == start_of(running)
    assert running.condition("BudgetReachable") == ("False", "WaitingForBudget")
    running.simulation.envelope(envelope(generation=3, **available(60)))
    running.run(200, lambda: running.is_settled() and running.status.mode == chosen)
    assert running.condition("BudgetReachable") == ("True", "Kept")


def test_an_agent_that_restarts_without_power_holds_the_lowest_mode(running: Scenario) -> None:
    running.simulation.envelope(envelope(generation=2, **available(0)))
    running.run(30)
    running.restart_agent()
    running.run(30)
    assert mode_of(running) == start_of(running)


def test_a_job_that_begins_without_power_tries_nothing_until_there_is_some(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    begin(scenario, **available(0))
    scenario.run(60)
    assert mode_of(scenario) == start_of(scenario)
    scenario.simulation.envelope(envelope(generation=2, **available(30)))
    scenario.run(400, scenario.is_settled)
    assert mode_of(scenario) != start_of(scenario)


def test_a_reason_that_the_site_gives_is_the_source_of_the_limit(running: Scenario) -> None:
    spec = envelope(**available(0, problem="'12W' is not a number"))
    limit = budget_at(spec, running.simulation.sessions.ports.now())
    assert (limit.power_w, limit.source) == (0.0, "availableWatts: '12W' is not a number")
