"""The history of a session: bounded in rows, marks and bytes, and faithful in its extremes and means."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powertrain.session_history import COMPACT_BYTES, COMPACT_ROWS, HOST_BYTES, MARKS, ROWS, Happening, SessionHistory

MODES = [f"{cores}c_{cpu}_1300500000_3199000000" for cores in range(1, 13) for cpu in range(1_000_000, 1_000_020)]


def long_history(hours: float = 24.0, period_s: float = 1.0) -> SessionHistory:
    history = SessionHistory("2026-03-01T10:00:00Z")
    for place in range(int(hours * 3600 / period_s)):
        at_s = place * period_s
        history.add(at_s, 20 + math.sin(at_s), 0.123456789, MODES[place % len(MODES)], 22.5)
        if place % 30 == 0:
            history.mark(at_s, Happening.TRIAL, "tries a mode that is expected to be faster " * 10)
    return history


def test_a_day_stays_within_the_bounds_of_host_and_object() -> None:
    history = long_history()
    assert len(history.rows) <= ROWS
    assert len(history.marks) <= MARKS
    assert len(history.to_text().encode()) <= HOST_BYTES
    assert len(history.compact().rows) <= COMPACT_ROWS
    assert len(history.compact().to_text().encode()) <= COMPACT_BYTES


def test_what_is_stored_reads_back_and_goes_on() -> None:
    history = long_history(hours=0.5)
    stored = json.loads(json.dumps(history.to_dict()))
    again = SessionHistory.from_dict(stored)
    assert again.to_dict() == stored
    again.add(1800.0, 25.0)
    assert again.rows[-1].power_max_w == 25.0


def test_a_guard_action_outlives_many_trials() -> None:
    history = SessionHistory("x")
    history.mark(0.0, Happening.GUARD, "left a mode")
    for place in range(5 * MARKS):
        history.mark(1.0 + place, Happening.TRIAL, "tries")
    assert history.marks[0].kind is Happening.GUARD
    assert len(history.marks) == MARKS


def test_the_mean_step_time_counts_only_readings_with_one() -> None:
    history = SessionHistory("x")
    history.add(0.0, 10.0)
    history.add(0.1, 20.0, step_s=0.5)
    (row,) = history.rows
    assert (row.power_mean_w, row.step_s) == (15.0, 0.5)


@given(
    powers=st.lists(st.floats(1.0, 60.0), min_size=1, max_size=400),
    gaps=st.lists(st.floats(0.1, 5000.0), min_size=1, max_size=20),
)
def test_merging_keeps_the_extremes_and_the_mean(powers: list[float], gaps: list[float]) -> None:
    history, at_s = SessionHistory("x", rows=16), 0.0
    for place, power_w in enumerate(powers):
        history.add(at_s, power_w)
        at_s += gaps[place % len(gaps)]
    rows = history.rows
    assert len(rows) <= 16
    assert [row.at_s for row in rows] == sorted(row.at_s for row in rows)
    assert min(row.power_min_w for row in rows) == min(powers)
    assert max(row.power_max_w for row in rows) == max(powers)
    total = sum(row.power_mean_w * row.readings for row in rows)
    assert total == pytest.approx(sum(powers))


@pytest.mark.parametrize("most_bytes", [1_500, 3_000, 8_000])
def test_a_compact_copy_keeps_any_limit_and_its_guard_actions(most_bytes: int) -> None:
    history = long_history(hours=2.0)
    history.mark(7200.0, Happening.GUARD, "the guard lowered the mode · ± 2 W " * 9)
    small = history.compact(most_bytes)
    assert len(small.to_text().encode()) <= most_bytes
    assert small.marks[-1].kind is Happening.GUARD
    assert SessionHistory.from_text(small.to_text()).to_dict() == small.to_dict()


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"began_at": 1}', "[" * 100_000])
def test_what_is_no_history_raises_one_error(text: str) -> None:
    with pytest.raises(ValueError, match="no history"):
        SessionHistory.from_text(text)
