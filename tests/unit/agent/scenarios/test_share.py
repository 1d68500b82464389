"""A board's share of a PowerBudget while a job trains: kept at once, confirmed, and kept without the API server."""

from __future__ import annotations

from typing import Any

from powertrain.api.v1alpha1 import PowerShare

from .conftest import Scenario


def share(watts: float, revision: int, **fields: Any) -> PowerShare:
    return PowerShare.model_validate({"budget": "shed", "watts": watts, "revision": revision, **fields})


def test_a_lower_share_is_kept_at_once_and_confirmed_when_the_power_has_followed(running: Scenario) -> None:
    running.simulation.shares(share(20, 1))
    assert running.simulation.confirmed_shares == ()
    running.run(10, lambda: running.simulation.confirmed_shares != ())
    assert [(share.watts, share.revision) for share in running.simulation.confirmed_shares] == [(20, 1)]
    assert running.true_w() <= 20.0
    assert running.has_decided("30 W → 20 W (share of PowerBudget shed)")


def test_a_share_survives_a_restart_of_the_agent_without_the_api_server(running: Scenario) -> None:
    running.simulation.shares(share(20, 1))
    running.run(10, lambda: running.simulation.confirmed_shares != ())
    running.simulation.start_agent()
    running.run(30)
    assert running.true_w() <= 20.0
    assert [share.watts for share in running.simulation.confirmed_shares] == [20]


def test_a_share_below_the_lowest_mode_waits_and_does_not_fail_the_job(running: Scenario) -> None:
    running.simulation.shares(share(1, 1))
    running.run(30)
    assert running.simulation.confirmed_shares == ()
    condition = next(c for c in running.status.conditions if c.type == "BudgetReachable")
    assert (condition.status, condition.reason) == ("False", "WaitingForBudget")
