"""Approach, guard, schedule and drift: each decides alone, on values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from powertrain import ModeSpace, PowerMode
from powertrain.api.v1alpha1 import AvailableWatts, ScheduleEntry, SessionSpec
from powertrain.profiling.history import ModeReport
from powertrain.samples import Sample
from powertrain_agent.governing.approach import Approach, is_within, path
from powertrain_agent.governing.budget_guard import QUIET_S, Guard, GuardAction
from powertrain_agent.governing.drift import DriftWatch, Factors, deviating, is_uniform
from powertrain_agent.governing.revisit_round import Round
from powertrain_agent.governing.schedule import budget_at, budget_now, entry_at
from powertrain_agent.planning.asking import plan_request
from powertrain_agent.planning.front import Ceiling, Point, fastest_within, non_dominated
from powertrain_agent.planning.messages import Question
from powertrain_agent.telemetry import Reading

SPACE = ModeSpace.grid([12], range(100, 3000, 100), range(100, 1400, 100), [200, 600, 2100, 3200])
LOW, TOP = PowerMode(12, 100, 100, 200), PowerMode(12, 2900, 1300, 3200)


def knobs_apart(first: PowerMode, second: PowerMode) -> int:
    return sum(getattr(first, k) != getattr(second, k) for k in ("cores", "cpu_khz", "gpu_hz", "emc_hz"))


# The approach


def test_a_path_raises_one_clock_at_a_time_and_never_above_the_target() -> None:
    steps = path(SPACE, LOW, TOP)
    assert steps[-1] == TOP
    assert all(knobs_apart(before, after) == 1 for before, after in zip([LOW, *steps[:-1]], steps, strict=True))
    assert all(is_within(step, TOP) for step in steps)
    assert len(steps) <= 8 + 7 + 8


def test_a_path_lowers_everything_first() -> None:
    now, target = PowerMode(12, 2900, 100, 200), PowerMode(12, 500, 900, 2100)
    steps = path(SPACE, now, target)
    assert steps[0].cpu_khz == 500
    assert steps[0].gpu_hz == 100


def test_what_a_proven_mode_covers_is_not_climbed_again() -> None:
    target = PowerMode(12, 1500, 800, 2100)
    steps = path(SPACE, LOW, target, proven_modes=[PowerMode(12, 2000, 700, 2100)])
    assert steps == [PowerMode(12, 1500, 700, 2100), target]


def test_an_approach_waits_two_sample_periods_a_step() -> None:
    walk = Approach(path(SPACE, LOW, PowerMode(12, 100, 300, 200)), 30.0, 0.1)
    walk.next(0.0)
    assert not walk.power(Reading(0.1, 20.0))
    assert walk.power(Reading(0.2, 20.0))
    assert walk.next(0.2) == walk.target
    assert walk.has_arrived


def test_an_approach_ends_at_the_first_reading_above() -> None:
    walk = Approach(path(SPACE, LOW, TOP), 30.0, 0.1)
    walk.next(0.0)
    walk.power(Reading(0.1, 30.1))
    assert walk.above == Reading(0.1, 30.1)
    assert not walk.has_arrived


# The guard


def run_guard(
    guard: Guard, watts: float, seconds: float, start_s: float
) -> tuple[list[tuple[float, GuardAction]], float]:
    actions = []
    for tick in range(1, round(seconds * 10) + 1):
        at_s = start_s + tick / 10
        action = guard.power(Reading(at_s, watts))
        if action is not GuardAction.NONE:
            actions.append((at_s, action))
            guard.mode_changed(at_s)
    return actions, start_s + seconds


def test_a_mean_above_the_limit_over_the_window_asks_for_a_safer_point() -> None:
    actions, _ = run_guard(Guard(limit_w=30.0), 30.2, 5.0, 0.0)
    assert actions[0] == (pytest.approx(3.1), GuardAction.LOWER)


def test_a_short_peak_within_the_mean_is_allowed() -> None:
    guard = Guard(limit_w=30.0)
    run_guard(guard, 25.0, 5.0, 0.0)
    assert guard.power(Reading(5.1, 40.0)) is GuardAction.NONE
    assert guard.violations == 0


def test_far_above_the_limit_it_does_not_wait_for_the_whole_window() -> None:
    actions, _ = run_guard(Guard(limit_w=30.0), 45.0, 2.0, 0.0)
    assert actions[0][0] <= 1.2


def test_back_up_only_after_a_quiet_time_and_each_failure_doubles_it() -> None:
    guard = Guard(limit_w=30.0)
    _, at_s = run_guard(guard, 31.0, 3.2, 0.0)
    actions, at_s = run_guard(guard, 28.0, QUIET_S + 2, at_s)
    assert [action for _, action in actions] == [GuardAction.RAISE]
    actions, at_s = run_guard(guard, 31.0, 4.0, at_s)
    assert actions[0][1] is GuardAction.LOWER
    actions, at_s = run_guard(guard, 28.0, 1.5 * QUIET_S, at_s)
    assert actions == []
    actions, _ = run_guard(guard, 28.0, QUIET_S, at_s)
    assert [action for _, action in actions] == [GuardAction.RAISE]


def test_a_single_reading_above_the_hard_limit_is_counted_and_left() -> None:
    guard = Guard(limit_w=30.0, hard_limit_w=35.0)
    assert guard.power(Reading(0.1, 35.1)) is GuardAction.LOWER
    assert guard.hard_violations == 1


def test_a_peak_budget_is_for_single_readings() -> None:
    guard = Guard(limit_w=30.0, is_peak=True)
    assert guard.power(Reading(0.1, 30.1)) is GuardAction.LOWER
    assert guard.violations == 1


def test_a_lowered_limit_does_not_count_what_was_allowed_before() -> None:
    guard = Guard(limit_w=30.0)
    _, at_s = run_guard(guard, 29.0, 5.0, 0.0)
    guard.set_limits(20.0, None)
    run_guard(guard, 19.0, 5.0, at_s)
    assert guard.violations == 0


def fall(guard: Guard, from_w: float, to_w: float, start_s: float, seconds: float = 4.0) -> list[float]:
    """Change the mode and let the power follow as a board's does; return when another mode was asked for."""
    guard.mode_changed(start_s)
    asked_modes = []
    for tick in range(1, round(seconds * 10) + 1):
        power_w = to_w + (from_w - to_w) * math.exp(-tick / 10 / 0.8)
        if guard.power(Reading(start_s + tick / 10, power_w)) is GuardAction.LOWER:
            asked_modes.append(round(tick / 10, 1))
    return asked_modes


LIMITS_OF_READINGS: list[dict[str, Any]] = [{"limit_w": 30.0, "is_peak": True}, {"hard_limit_w": 30.0}]
LIMITS = [*LIMITS_OF_READINGS, {"limit_w": 30.0}]


@pytest.mark.parametrize("limits", LIMITS)
def test_power_that_falls_from_the_mode_before_costs_no_other_mode(limits: dict[str, Any]) -> None:
    guard = Guard(**limits)
    assert run_guard(guard, 45.0, 1.2, 0.0)[0]
    assert fall(guard, 45.0, 28.0, 1.2) == []


@pytest.mark.parametrize("limits", LIMITS_OF_READINGS)
def test_readings_above_are_counted_while_the_power_falls(limits: dict[str, Any]) -> None:
    guard = Guard(**limits)
    guard.power(Reading(0.0, 45.0))
    fall(guard, 45.0, 28.0, 0.0)
    above = sum(28.0 + 17.0 * math.exp(-tick / 8.0) > 30.0 for tick in range(1, 41))
    assert guard.violations + guard.hard_violations == 1 + above


@pytest.mark.parametrize("limits", LIMITS)
def test_a_mode_whose_own_power_is_above_is_left_once_that_shows(limits: dict[str, Any]) -> None:
    guard = Guard(**limits)
    run_guard(guard, 45.0, 1.2, 0.0)
    assert fall(guard, 45.0, 36.0, 1.2)[0] <= 1.2, "it falls, but not far enough"


def test_power_that_does_not_fall_or_rises_is_the_modes_own() -> None:
    guard = Guard(hard_limit_w=30.0)
    guard.power(Reading(0.0, 33.0))
    assert fall(guard, 33.0, 33.0, 0.0)[0] == 1.0
    assert fall(guard, 33.0, 45.0, 10.0)[0] <= 0.2


def test_a_mode_that_was_raised_is_left_at_the_first_reading_above() -> None:
    guard = Guard(hard_limit_w=30.0)
    run_guard(guard, 29.0, 5.0, 0.0)
    guard.mode_changed(5.0)
    assert guard.power(Reading(5.1, 30.1)) is GuardAction.LOWER


def test_a_reading_from_before_the_change_says_nothing_about_the_mode() -> None:
    guard = Guard(hard_limit_w=30.0)
    guard.power(Reading(1.0, 45.0))
    guard.mode_changed(1.3)
    assert guard.power(Reading(1.1, 60.0)) is GuardAction.NONE
    assert guard.hard_violations == 2


def test_readings_that_are_seconds_apart_are_judged_without_a_trend() -> None:
    guard = Guard(hard_limit_w=30.0)
    guard.power(Reading(0.0, 33.0))
    guard.mode_changed(0.1)
    assert guard.power(Reading(2.0, 31.0)) is GuardAction.LOWER


def test_what_is_left_of_a_higher_limit_is_no_violation_of_the_lower_one() -> None:
    guard = Guard(limit_w=40.0)
    _, at_s = run_guard(guard, 38.0, 5.0, 0.0)
    guard.set_limits(25.0, None)
    assert fall(guard, 38.0, 24.5, at_s, seconds=10.0) == []
    assert guard.violations == 0


def test_without_a_budget_a_hard_limit_alone_lets_the_mode_go_back_up() -> None:
    guard = Guard(hard_limit_w=30.0)
    guard.power(Reading(0.1, 31.0))
    guard.set_limits(None, 30.0)
    actions, _ = run_guard(guard, 25.0, QUIET_S + 2, 0.1)
    assert [action for _, action in actions] == [GuardAction.RAISE]


# The front

POINTS = [Point(PowerMode(1, 1, 1, k), 1.0 / k, 10.0 * k, power_std_w=0.1) for k in (1, 2, 3)]


def test_the_fastest_point_within_a_limit_counts_its_uncertainty() -> None:
    assert fastest_within(POINTS, Ceiling(30.1)) == POINTS[1]
    assert fastest_within(POINTS, Ceiling(30.3)) == POINTS[2]


def test_a_limit_for_readings_counts_how_far_they_lie_above_the_power() -> None:
    mode = PowerMode(1, 1, 1, 1)
    steady, spiky = (Point.of(Sample(mode, 1.0, 28.0, power_peak_w=peak_w)) for peak_w in (28.1, 30.8))
    assert [Ceiling(30.0).holds(point) for point in (steady, spiky)] == [True, True]
    assert [Ceiling(30.0, is_peak=True).holds(point) for point in (steady, spiky)] == [True, False]
    assert [Ceiling(None, hard_w=30.0).holds(point) for point in (steady, spiky)] == [True, False]
    assert not Ceiling(28.5, is_peak=True).holds(steady), "a short window misses the highest readings"
    assert Point.from_dict(spiky.as_dict()) == spiky


def test_what_one_mode_takes_too_much_the_others_do_by_watts_or_by_times_whichever_is_more() -> None:
    low, _, high = POINTS
    assert low.burdened(20.0, 25.0).power_w == pytest.approx(15.0)
    assert high.burdened(20.0, 25.0).power_w == pytest.approx(37.5)
    assert high.burdened(20.0, 18.0) == high


def test_a_point_that_another_beats_is_not_on_the_front() -> None:
    assert non_dominated([*POINTS, Point(PowerMode(1, 1, 2, 9), 0.6, 25.0)]) == POINTS[::-1]


# The schedule


def spec(**options: object) -> SessionSpec:
    fields = {
        "protocol": 1,
        "uid": "u",
        "job": {"namespace": "n", "name": "j"},
        "workload": {"name": "w"},
        "limits": {"powerWatts": 30},
    }
    return SessionSpec.model_validate({**fields, **options})


NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
NIGHT = {"from": "22:00", "to": "06:00", "watts": 15}


@pytest.mark.parametrize(("hour", "watts"), [(21, 30), (22, 15), (2, 15), (5, 15), (6, 30)])
def test_an_entry_holds_over_midnight_and_replaces_the_budget(hour: int, watts: float) -> None:
    assert budget_at(spec(schedule=[NIGHT]), NOON.replace(hour=hour)).power_w == watts


def test_a_lower_entry_is_chosen_by_before_it_begins_and_guarded_when_it_does() -> None:
    def around(hour: int, seconds: float) -> tuple[float | None, float | None]:
        budget = budget_now(spec(schedule=[NIGHT]), NOON.replace(hour=hour) + timedelta(seconds=seconds))
        return budget.power_w, budget.guarded_w

    assert [around(22, seconds) for seconds in (-10, -3, 0)] == [(30, 30), (15, 30), (15, 15)]
    assert [around(6, seconds) for seconds in (-3, 0)] == [(15, 15), (30, 30)], "a higher one is not used early"


def test_the_schedule_is_read_in_its_time_zone() -> None:
    summer = spec(schedule=[{"from": "13:30", "to": "14:30", "watts": 10}], timeZone="Europe/Berlin")
    assert budget_at(summer, NOON).power_w == 10
    assert budget_at(summer, NOON.replace(month=1)).power_w == 30


def test_an_unknown_time_zone_is_named() -> None:
    with pytest.raises(ValueError, match=r"Mars/Base.*Europe/Berlin"):
        budget_at(spec(timeZone="Mars/Base"), NOON)


def test_an_entry_without_an_end_holds_until_the_next_begins() -> None:
    entries = [ScheduleEntry.model_validate({"from": f, "watts": w}) for f, w in (("08:00", 20), ("18:00", 40))]
    assert [entry.watts for hour in (7, 8, 17, 18) if (entry := entry_at(entries, time(hour)))] == [40, 20, 20, 40]


def available(watts: float, minutes_ago: float) -> AvailableWatts:
    at = (NOON - timedelta(minutes=minutes_ago)).isoformat()
    return AvailableWatts.model_validate({"watts": watts, "observedAt": at})


@pytest.mark.parametrize(("watts", "minutes", "limit"), [(20, 1, 20), (50, 1, 30), (20, 11, 20), (50, 11, 30)])
def test_available_watts_only_lower_and_their_last_value_counts_when_stale(
    watts: float, minutes: float, limit: float
) -> None:
    assert budget_at(spec(availableWatts=available(watts, minutes)), NOON).power_w == limit


def test_stale_available_watts_bring_a_higher_schedule_down_to_the_base_budget() -> None:
    raised = spec(availableWatts=available(45, 11), schedule=[{"from": "10:00", "to": "14:00", "watts": 60}])
    assert budget_at(raised, NOON).power_w == 30


# Drift

MODES = [PowerMode(12, c, g, 3200) for c, g in ((500, 300), (1500, 800), (2500, 1300))]
FRONT = [Point(mode, 1.0, 20.0, measured=True) for mode in MODES]


def corrected(factors: dict[PowerMode, Factors]) -> list[Sample]:
    """The front after a round has found these factors."""
    reports = [ModeReport(p.mode, None, Sample(p.mode, p.step_s, p.power_w, 1)) for p in FRONT]
    moved = Round([], reports_before=len(reports), factors=factors).corrected(reports)
    return [report.sample for report in moved if report.sample is not None]


def watched(step_s: float, power_w: float, seconds: float) -> DriftWatch:
    watch = DriftWatch()
    watch.expect(Point(MODES[0], 0.1, 20.0, 0.001, 0.1))
    for tick in range(round(seconds * 10)):
        watch.step(tick / 10, step_s)
        watch.power(tick / 10, power_w)
    return watch


def test_what_is_as_expected_is_no_drift() -> None:
    assert watched(0.101, 20.2, 300.0).shifted is None


def test_a_shift_counts_only_when_it_lasts() -> None:
    assert watched(0.115, 20.0, 50.0).shifted is None
    shifted = watched(0.115, 22.0, 70.0).shifted
    assert shifted is not None
    assert (shifted.time, shifted.power) == (pytest.approx(1.15), pytest.approx(1.1))


def test_equal_factors_are_one_uniform_shift() -> None:
    factors = {mode: Factors(1.2 + 0.005 * k, 1.1) for k, mode in enumerate(MODES)}
    assert is_uniform(list(factors.values()))
    assert deviating(factors) == []
    assert [sample.step_s for sample in corrected(factors)] == pytest.approx([1.205] * 3)


def test_a_relative_change_is_interpolated_between_the_visited_points() -> None:
    factors = {MODES[0]: Factors(1.0, 1.0), MODES[2]: Factors(1.4, 0.9)}
    assert not is_uniform(list(factors.values()))
    first, middle, last = corrected(factors)
    assert (first.step_s, last.step_s) == (1.0, pytest.approx(1.4))
    assert 1.0 < middle.step_s < 1.4
    assert 18.0 < middle.power_w < 20.0


def test_the_points_that_moved_differently_are_named() -> None:
    factors = {MODES[0]: Factors(1.1, 1.0), MODES[1]: Factors(1.1, 1.0), MODES[2]: Factors(1.3, 1.0)}
    assert deviating(factors) == [MODES[2]]


def test_what_was_left_as_unsafe_tells_nothing_once_all_takes_less() -> None:
    unsafe = ModeReport(MODES[0], None, Sample(MODES[0], 1.0, 31.0, 1, unsafe=True))
    alone = ModeReport(LOW, None, Sample(LOW, 1.0, 32.0, 1, unsafe=True))
    reports = [ModeReport(MODES[0], None, Sample(MODES[0], 1.0, 40.0, 1)), unsafe, alone]
    less = Round([], reports_before=3, factors={MODES[0]: Factors(1.0, 0.5)}).corrected(reports)
    assert [report.sample.power_w for report in less if report.sample] == [20.0, 16.0]
    more = Round([], reports_before=3, factors={MODES[0]: Factors(1.0, 1.5)}).corrected(reports)
    assert [report.sample.power_w for report in more if report.sample] == [60.0, 46.5, 48.0]


def test_a_round_that_could_measure_only_a_predicted_point_has_found_a_shift() -> None:
    alone, beside = Round([]), Round([])
    for due in (alone, beside):
        due.note(FRONT[0], Sample(MODES[0], 1.0, 30.0, 1), is_proven=False)
    beside.note(FRONT[1], Sample(MODES[1], 1.0, 20.0, 1))
    for due in (alone, beside):
        due.close()
    assert alone.factors == {MODES[0]: Factors(1.0, 1.5)}
    assert beside.factors == {MODES[1]: Factors(1.0, 1.0)}, "there the prediction was off"


# What the planner is told


def problem_of(uid: str = "a", reports: Sequence[ModeReport] = (), hard_w: float | None = None, **limits: Any) -> Any:
    job = {"namespace": "a", "name": "b"}
    fields = {"protocol": 1, "uid": uid, "job": job, "workload": {"name": "lstm"}, "limits": limits}
    request = plan_request(
        Question.NEXT_MODE,
        SessionSpec.model_validate(fields),
        SPACE,
        reports,
        power_w=30.0,
        explore_w=30.0,
        hard_limit_w=hard_w,
        strategy="random-pareto",
        device=None,
        descending_only=False,
    )
    return request.problem


def seed_of(uid: str) -> int:
    return int(problem_of(uid).seed)


def test_what_is_tried_leaves_room_for_readings_above_the_mean_where_they_count() -> None:
    spiky = [ModeReport(SPACE[0], None, Sample(SPACE[0], 1.0, 20.0, power_peak_w=22.0))]
    assert problem_of(reports=spiky).explore_limit_w == 30.0
    assert problem_of(powerStatistic="Peak").explore_limit_w == pytest.approx(30.0 / 1.03)
    assert problem_of(reports=spiky, powerStatistic="Peak").explore_limit_w == pytest.approx(30.0 / 1.1)
    assert problem_of(reports=spiky, hard_w=60.0).explore_limit_w == 30.0
    assert problem_of(reports=spiky, hard_w=30.0).explore_limit_w == pytest.approx(30.0 / 1.1)


def test_a_restarted_session_draws_the_same_random_modes_and_the_next_one_others() -> None:
    assert seed_of("session-1") == seed_of("session-1")
    assert seed_of("session-1") != seed_of("session-2")
