"""Shares of PowerBudgets in the agent: what is kept, what is confirmed, and what survives a restart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from powertrain.api.v1alpha1 import NodePolicy, PowerShare, moment
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.shares import IDLE_KEPT_S, LEAD, IdlePower, Shares, share_at
from powertrain_agent.site import Site
from powertrain_agent.telemetry import Reading

NOW = datetime(2026, 6, 1, 21, 0, tzinfo=UTC)


def share(watts: float, revision: int = 1, **fields: Any) -> PowerShare:
    return PowerShare.model_validate({"budget": "shed", "watts": watts, "revision": revision, **fields})


def silent(event: str, **fields: object) -> None:
    """Take no note of log lines."""


@pytest.fixture
def shares(tmp_path: Path) -> Shares:
    return Shares(StateDir(tmp_path), silent)


def draw(shares: Shares, watts: float, seconds: float, start_s: float = 0.0, has_job: bool = True) -> float:
    """Let a board draw so much for a while, ten readings a second."""
    count = round(10 * seconds)
    for number in range(count + 1):
        shares.reading(Reading(start_s + number / 10, watts), has_job)
    return start_s + count / 10


def confirmed_shares(shares: Shares) -> list[tuple[float, int]]:
    return [(each.watts, each.revision) for each in shares.confirmed]


def test_a_share_is_confirmed_after_a_whole_window_below_it(shares: Shares) -> None:
    assert shares.take([share(20)])
    draw(shares, 18, 2.5)
    assert not shares.confirm(is_verified=True)
    draw(shares, 18, 1.0, 2.6)
    assert shares.confirm(is_verified=True)
    assert confirmed_shares(shares) == [(20, 1)]


def test_a_mode_that_was_not_verified_confirms_nothing(shares: Shares) -> None:
    shares.take([share(20)])
    draw(shares, 18, 5)
    assert not shares.confirm(is_verified=False)


def test_power_above_the_share_confirms_nothing(shares: Shares) -> None:
    shares.take([share(20)])
    draw(shares, 20.1, 5)
    assert not shares.confirm(is_verified=True)


def test_a_lowered_share_is_confirmed_only_by_readings_after_it(shares: Shares) -> None:
    shares.take([share(20)])
    after_s = draw(shares, 9, 5)
    shares.confirm(is_verified=True)
    shares.take([share(10, 2)])
    assert not shares.confirm(is_verified=True)
    assert confirmed_shares(shares) == [(20, 1)]
    draw(shares, 9, 3.5, after_s)
    assert shares.confirm(is_verified=True)
    assert confirmed_shares(shares) == [(10, 2)]


def test_a_raised_share_is_confirmed_at_once(shares: Shares) -> None:
    shares.take([share(20)])
    draw(shares, 18, 5)
    shares.confirm(is_verified=True)
    shares.take([share(25, 2)])
    assert shares.confirm(is_verified=False)
    assert confirmed_shares(shares) == [(25, 2)]


def test_an_older_write_that_comes_late_is_passed_over(shares: Shares) -> None:
    shares.take([share(10, 5)])
    assert not shares.take([share(30, 4)])
    limit = shares.limit_at(NOW)
    assert limit is not None
    assert limit.watts == 10


def test_shares_survive_a_restart(tmp_path: Path, shares: Shares) -> None:
    shares.take([share(20)])
    draw(shares, 18, 5)
    shares.confirm(is_verified=True)
    shares.take([share(10, 2)])
    again = Shares(StateDir(tmp_path), silent)
    assert again.newest == (share(10, 2),)
    assert confirmed_shares(again) == [(20, 1)]


def test_a_share_that_could_not_be_saved_is_not_confirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart without the API server the board would go back to the share before."""
    directory = StateDir(tmp_path)
    shares = Shares(directory, silent)

    def full(*arguments: object, **named: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(directory, "replace", full)
        shares.take([share(20)])
        draw(shares, 18, 5)
        assert not shares.confirm(is_verified=True)
    assert shares.confirm(is_verified=True)


def test_of_several_budgets_the_lowest_share_counts(shares: Shares) -> None:
    shares.take([share(20), share(15, budget="roof", guardWindowSeconds=1)])
    limit = shares.limit_at(NOW)
    assert limit is not None
    assert (limit.watts, limit.budget, shares.window_s) == (15, "roof", 1)


def test_a_share_falls_as_it_was_told_ahead_and_never_rises() -> None:
    at = NOW + timedelta(hours=1)
    bounds = [{"at": moment(at), "watts": 8}, {"at": moment(at + timedelta(hours=1)), "watts": 12}]
    falling = share(20, ahead=bounds)
    assert share_at(falling, NOW) == 20
    assert share_at(falling, at - LEAD) == 8
    assert share_at(falling, at + timedelta(hours=2)) == 8
    assert share_at(falling, NOW, clock_doubt="never set") == 8


@pytest.mark.parametrize(
    ("policy", "expected", "source"),
    [
        ({}, (20, 3), "share of PowerBudget shed"),
        ({"maxWatts": 15, "guardWindowSeconds": 30}, (15, 3), "maxWatts of the site's policy"),
        ({"maxWatts": 25, "guardWindowSeconds": 2}, (20, 2), "share of PowerBudget shed"),
    ],
)
def test_share_and_policy_are_kept_together(
    tmp_path: Path, policy: dict[str, float], expected: tuple[float, float], source: str
) -> None:
    site = Site(StateDir(tmp_path), NodePolicy.model_validate(policy), silent)
    site.shares.take([share(20)])
    limits, where = site.limits_at(NOW)
    assert (limits.max_watts, limits.guard_window_seconds) == expected
    assert where == source
    assert site.limits_power


def test_idle_power_is_the_highest_of_the_last_minutes_and_no_jobs() -> None:
    idle = IdlePower()

    def take(watts: float, start_s: float, seconds: float, has_job: bool = False) -> None:
        for number in range(round(10 * seconds)):
            idle.take(Reading(start_s + number / 10, watts), has_job)

    take(5, 0, 10)
    take(7, 10, 10)
    assert idle.watts == pytest.approx(7)
    take(30, 20, 10, has_job=True)
    take(20, 30, 8)  # comes down after the job
    take(5, 40, 10)
    assert idle.watts == pytest.approx(7)
    take(5, 50 + IDLE_KEPT_S, 10)
    assert idle.watts == pytest.approx(5)


def test_a_load_on_a_board_without_a_job_is_told_at_once(shares: Shares) -> None:
    shares.take([share(6)])
    after_s = draw(shares, 5, 5, has_job=False)
    shares.confirm(is_verified=True)
    assert not shares.is_exceeded
    draw(shares, 12, 5, after_s, has_job=False)
    assert shares.is_exceeded
