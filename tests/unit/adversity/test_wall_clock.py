"""Boards whose clock is wrong: the hours of a schedule can't be told, so its lowest entry holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.agent.scenarios.conftest import Scenario, envelope

from powertrain_agent.governing.schedule import budget_at
from powertrain_agent.wall_clock import WallClock

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
SCHEDULE = [{"from": "22:00", "to": "06:00", "watts": 25}, {"from": "06:00", "to": "08:00", "watts": 20}]


@pytest.mark.parametrize(
    ("ahead_s", "words"), [(0, ""), (29, ""), (-29, ""), (31, "31 s ahead of"), (-7200, "7200 s behind")]
)
def test_a_clock_is_in_doubt_beyond_half_a_minute(ahead_s: float, words: str) -> None:
    differences: list[float] = []
    wall = WallClock(lambda: NOON, differences.append)
    wall.compare(NOON - timedelta(seconds=ahead_s))
    assert words in wall.doubt
    assert bool(words) == bool(wall.doubt)
    assert differences == [ahead_s]


def test_a_clock_that_was_never_set_is_in_doubt_until_it_was_compared() -> None:
    assert "never set" in WallClock(lambda: datetime(1970, 1, 1, 0, 5, tzinfo=UTC)).doubt
    assert WallClock(lambda: NOON).doubt == ""


@pytest.mark.parametrize("hour", [1, 7, 12])
def test_in_doubt_the_lowest_entry_holds_at_any_hour(hour: int) -> None:
    spec = envelope(schedule=SCHEDULE)
    assert budget_at(spec, NOON.replace(hour=hour), clock_doubt="off").power_w == 20
    assert budget_at(envelope(), NOON.replace(hour=hour), clock_doubt="off").power_w == 30, "without a schedule"


def test_a_running_job_goes_down_while_the_clock_is_in_doubt_and_up_again_after_it(running: Scenario) -> None:
    chosen = running.status.mode
    running.simulation.envelope(envelope(generation=2, schedule=SCHEDULE))
    running.run(5)
    assert running.status.mode == chosen
    running.simulation.clock_doubt = "the board's clock is 7200 s behind the API server's"
    running.run(30, lambda: running.status.mode != chosen)
    assert running.condition("Clock") == ("False", "ClockInDoubt")
    running.run(10)
    assert running.true_w() <= 20.0
    running.simulation.clock_doubt = ""
    running.run(200, lambda: running.status.mode == chosen)
    assert running.condition("Clock") == ("True", "ClockAgrees")
