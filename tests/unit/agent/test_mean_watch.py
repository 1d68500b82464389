"""MeanWatch: how late readings come decides how far a visit may go."""

from __future__ import annotations

from powertrain_agent.governing.mean_watch import LATE_READINGS, MeanLimitTerms, MeanWatch
from powertrain_agent.telemetry import Reading

LIMIT_W, REST_W, BOLD_W, PERIOD_S = 20.0, 12.0, 26.0, 0.1


def read(watch: MeanWatch, now_s: float, count: int, period_s: float = PERIOD_S) -> float:
    for _ in range(count):
        now_s += period_s
        watch.power(Reading(now_s, REST_W))
    return now_s


def test_an_agent_that_gets_its_readings_late_visits_less_boldly_until_they_come_in_time_again() -> None:
    watch = MeanWatch(PERIOD_S)
    watch.keep(MeanLimitTerms(LIMIT_W, 3.0))
    now_s = read(watch, 0.0, 60)
    usual = watch.ledgers.rules
    assert watch.has_room(BOLD_W, REST_W)
    now_s = read(watch, now_s, 1, period_s=1.5)
    late = watch.ledgers.rules
    assert late.reaction_s >= usual.reaction_s + 1.0
    assert late.leave_s >= usual.leave_s + 1.0
    assert not watch.has_room(BOLD_W, REST_W)
    read(watch, now_s, LATE_READINGS)
    assert watch.ledgers.rules == usual
    assert watch.has_room(BOLD_W, REST_W)
