"""Which of the known modes keep the limits now, also with what the present one takes too much."""

from __future__ import annotations

import math
from collections.abc import Iterable

from powertrain import PowerMode
from powertrain.objectives import ASSUMED_PEAK_FACTOR
from powertrain_agent.governing.approach import is_within, one_step_lower
from powertrain_agent.governing.drift import FLOOR_SHARE
from powertrain_agent.governing.turn import Turn, windows_to_come
from powertrain_agent.planning.front import Point, fastest_within, lowest
from powertrain_agent.telemetry import Reading

MARGIN = 0.99  # a guard that lands on the limit acts again


def point_of(turn: Turn, mode: PowerMode | None) -> Point | None:
    """Return what is known of a mode, measured before predicted."""
    record = turn.record
    return next((p for p in (*record.measured_points(), *record.points) if p.mode == mode), None)


def excess(turn: Turn) -> float:
    """Return how many times more than is expected of it the present mode takes; 1 where that is no more than noise.

    A load beside the training, or a drift that is not corrected yet: other modes will take more, too.
    """
    point, mean_w = point_of(turn, turn.record.mode), turn.guard.mean_of_mode_w
    times = 1.0 if point is None or mean_w is None else mean_w / point.power_w
    return times if times > 1.0 + FLOOR_SHARE else 1.0


def best_of(turn: Turn, points: Iterable[Point]) -> Point | None:
    """Return the fastest point that keeps the limits of this moment, also with what is taken too much now."""
    here, mean_w = point_of(turn, turn.record.mode), turn.guard.mean_of_mode_w
    if here is not None and mean_w is not None and excess(turn) > 1.0:
        points = [point.burdened(here.power_w, mean_w) for point in points]
    best = fastest_within(points, turn.limits.ceiling)
    return None if best is None else point_of(turn, best.mode)


def chosen_or_best(turn: Turn) -> Point | None:
    """Return the chosen point if it keeps the limits of this moment, else the best one that does.

    What it takes too much by little is for the guard.
    """
    chosen = turn.record.chosen
    if chosen is not None and turn.limits.ceiling.holds(chosen.scaled(1.0, 1.0 - FLOOR_SHARE), 0.0):
        return chosen
    return best_of(turn, turn.record.proven_points())


def has_room(turn: Turn) -> bool:
    """Say whether what would be chosen keeps the limits also with what the present mode takes too much."""
    record, times, ceiling = turn.record, excess(turn), turn.limits.ceiling
    fastest = fastest_within(record.proven_points() or record.points, ceiling)
    return times == 1.0 or fastest is None or ceiling.holds(fastest.scaled(1.0, times), 0.0)


def within_limit(turn: Turn, mode: PowerMode) -> PowerMode | None:
    """Step down from a mode that was seen to break the limit, itself or (if not measured) a mode below it."""
    candidate: PowerMode | None = mode
    while candidate is not None and _breaks(turn, candidate):
        candidate = one_step_lower(turn.session.board.space, candidate)
    return candidate


def _breaks(turn: Turn, mode: PowerMode) -> bool:
    limit_w, record, ceiling = turn.session.budget.power_w, turn.record, turn.limits.ceiling
    if limit_w is None:
        return False
    point, left = point_of(turn, mode), record.left_above(limit_w)
    if mode in left or (mode in record.fresh and point is not None and not ceiling.holds(point, 0.0)):
        return True
    proven_modes = [p.mode for p in record.proven_points() if ceiling.holds(p, 0.0)]
    # A single reading in a mode below one that was measured within the limit was noise.
    telling = [m for m in left if not any(is_within(m, safe) for safe in proven_modes)]
    return mode not in proven_modes and any(is_within(m, mode) for m in telling)


def may_run(turn: Turn, point: Point) -> bool:
    """Say whether a mode may run under the ledger's limit without a hold: it was held, or is far enough below."""
    watch, is_proven = turn.watch, any(each.mode == point.mode for each in turn.record.proven_points())
    if is_proven and turn.record.confirmed.get(point.mode, math.inf) <= watch.limit_w:
        return True
    if not is_proven or point.mode not in turn.record.fresh:
        return False
    # The mode that runs was watched for longer than its visit.
    error_w = 0.0 if turn.is_running and point.mode == turn.record.mode else point.power_std_w
    samples = (each for each in reversed(turn.record.samples) if each.mode == point.mode)
    spread_w = next((each.power_spread_w for each in samples if each.power_spread_w is not None), None)
    # Readings of some modes scatter far more than of others: what no visit was long enough to see needs a hold.
    if spread_w is None:
        return False
    return watch.keeps(point.power_w, error_w, windows_to_come(turn), spread_w / point.power_w)


def must_rest(turn: Turn, point: Point) -> bool:
    """Say whether windows that hold an earlier visit have no room yet for a mode that stays."""
    return turn.by_ledger and not turn.watch.can_last(point.power_w)


def rest_point(turn: Turn) -> Point | None:
    """Return the point of least power: where a ledger lets the board rest. The safe start, unless less was measured."""
    start = point_of(turn, turn.record.start)
    return lowest([*turn.record.proven_points(), *([] if start is None else [start])])


def safe_mode(turn: Turn, left: PowerMode | None = None, power_w: float = 0.0) -> PowerMode | None:
    """Return the fastest mode that is known to keep the limit of tried modes, else the safe start.

    A mode that was left at some power shows what the others may take too much now; one that covers it does. A ledger
    counts on the mode of least power that was measured.
    """
    if turn.by_ledger:
        rest = rest_point(turn)
        return turn.record.start if rest is None else rest.mode
    points, limits = turn.record.proven_points(), turn.limits
    if left is not None:
        most_w = _most_w(left, points) or power_w
        points = [point.burdened(most_w, power_w) for point in points if not is_within(left, point.mode)]
    fastest = fastest_within(points, limits.ceiling_of(limits.explore_w))
    return fastest.mode if fastest is not None else turn.record.start


def lower_mode(turn: Turn, reading: Reading, limit_w: float) -> PowerMode | None:
    """Return the fastest mode that is expected to keep the limit by what is observed now, else the lowest.

    Every mode that is returned takes less than the one before as far as anything is known, else it is nowhere above it:
    however often the guard asks, it ends at the lowest.
    """
    record = turn.record
    now, left = record.mode, record.left_above(limit_w)
    if now is None:
        return record.start
    point_of_mode = {point.mode: point for point in (*record.points, *record.measured_points())}
    most_w = _most_w(now, point_of_mode.values())
    if most_w is not None:
        points = [p for p in point_of_mode.values() if p.power_w < most_w]
    else:
        points = [p for p in point_of_mode.values() if p.mode != now and is_within(p.mode, now)]
    here_w = point_of_mode[now].power_w if now in point_of_mode else most_w
    if here_w is not None:
        observed_w = _observed_w(turn, here_w, point_of_mode.get(now), reading)
        points = [point.burdened(here_w, observed_w) for point in points]
    candidates = [point for point in points if point.mode not in left]
    target = fastest_within(candidates, turn.limits.ceiling_of(MARGIN * limit_w)) or lowest(points)
    if target is not None:
        return target.mode
    if record.start is not None and record.start != now and is_within(record.start, now):
        return record.start
    return one_step_lower(turn.session.board.space, now)


def _observed_w(turn: Turn, expected_w: float, point: Point | None, reading: Reading) -> float:
    """Return what the present mode takes; a reading beyond the usual peaks is the first of a new level."""
    usual_w = expected_w * (ASSUMED_PEAK_FACTOR if point is None else point.peak_factor)
    observed_w = turn.guard.observed_w
    return max(observed_w, reading.power_w) if reading.power_w > usual_w else observed_w


def _most_w(mode: PowerMode, points: Iterable[Point]) -> float | None:
    """Return what a mode takes at most: the least that is known of itself or of a mode that is nowhere below it."""
    return min((point.power_w for point in points if is_within(mode, point.mode)), default=None)
