"""The site's limit holds over the site's own window, whatever window a tenant writes into their job."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.unit.agent.scenarios.conftest import Scenario, envelope
from tests.unit.agent.scenarios.test_breaches import load

from powertrain.api.v1alpha1 import NodePolicy
from powertrain.limit_table import MAX_WINDOW_S
from powertrain_agent.governing.budget_guard import Guard, GuardAction
from powertrain_agent.site import POLICY
from powertrain_agent.telemetry import Reading, RollingMean

PERIOD_S = 0.1


def feed(guard: Guard, power_w: float, seconds: float, since_s: float = 0.0) -> list[tuple[float, GuardAction]]:
    times = [since_s + PERIOD_S * number for number in range(round(seconds / PERIOD_S))]
    return [(at_s, guard.power(Reading(at_s, power_w))) for at_s in times]


@pytest.mark.parametrize("window_s", [60.0, 86_400.0])
def test_the_sites_limit_holds_over_its_own_window(window_s: float) -> None:
    guard = Guard(window_s, 3.0)
    guard.set_limits(30.0, None, site_limit_w=30.0)
    actions = feed(guard, 32.9, 4.0)
    first_s = next(at_s for at_s, action in actions if action is GuardAction.LOWER)
    assert 3.0 <= first_s <= 3.2
    assert guard.violations == 1


def test_a_lower_job_limit_keeps_its_own_longer_window() -> None:
    guard = Guard(20.0, 3.0)
    guard.set_limits(20.0, None, site_limit_w=30.0)
    feed(guard, 15.0, 20.0)
    assert {action for _, action in feed(guard, 21.5, 5.0, 20.0)} == {GuardAction.NONE}, "the job's mean is below 20 W"
    assert guard.violations == 0


def test_one_breach_of_equal_limits_counts_once() -> None:
    guard = Guard(3.0, 3.0)
    guard.set_limits(30.0, None, site_limit_w=30.0)
    feed(guard, 31.0, 5.5)
    assert guard.violations == 1


def test_buffers_are_bounded_by_the_longest_window_that_is_allowed() -> None:
    guard = Guard(86_400.0, 3.0)
    guard.set_limits(30.0, None, site_limit_w=None)
    feed(guard, 25.0, 300.0)
    assert guard.window_s == MAX_WINDOW_S
    assert guard.buffered <= 2 * (MAX_WINDOW_S + 3.0) / PERIOD_S + 20


def test_a_day_long_window_of_the_tenant_does_not_hide_a_load_from_the_site(running: Scenario) -> None:
    running.simulation.policy(NodePolicy(max_watts=30.0))
    running.simulation.envelope(envelope(generation=2, limits={"powerWatts": 30, "guardWindowSeconds": 86_400}))
    running.run(120, running.is_settled)
    readings: list[Reading] = []
    handle = running.simulation.sessions.handle

    def watched(event: Any) -> None:
        if isinstance(event, Reading):
            readings.append(event)
        handle(event)

    running.simulation.sessions.handle = watched  # type: ignore[method-assign]
    load(running, 32.0 - running.true_w())
    running.run(30)
    assert running.has_decided("over 3 s"), running.decisions()[-3:]
    mean = RollingMean(3.0)
    above_s = 0.0
    for before, after in pairwise(readings):
        mean.add(after)
        above_s += (after.at_s - before.at_s) if mean.full and mean.mean_w > 30.0 else 0.0
    assert above_s <= 6.0, "one window to see it, one to leave it"


def test_the_sites_window_is_kept_over_a_restart_without_the_api_server(running: Scenario) -> None:
    running.simulation.policy(NodePolicy(max_watts=30.0, guard_window_seconds=5.0))
    running.restart_agent()
    running.run(1)
    assert (running.session.guard.site_window_s, POLICY in str(list(running.board.root.rglob(POLICY)))) == (5.0, True)
