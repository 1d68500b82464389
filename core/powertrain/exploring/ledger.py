"""Ledger: the readings of the last window, and what they leave room for."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from powertrain.exploring.rules import NORMAL, MeanRules
from powertrain.space import FloatArray


class Ledger:
    """Keeps the readings of the last window against a limit. It is told every reading, in order, at a fixed period.

    Before the first window is full, its first reading stands for the missing ones: the board was at that level before.
    `limit_w` is what the margin of the rules leaves of the limit.
    """

    def __init__(self, limit_w: float, rules: MeanRules = NORMAL) -> None:
        if not limit_w > 0:
            raise ValueError(f"a mean limit must be above zero, not {limit_w}")
        self.limit_w = rules.limit_w(limit_w)
        self.rules = rules
        self._recent: deque[float] = deque(maxlen=rules.window)

    def add(self, watts: float) -> None:
        """Record one reading."""
        self._recent.append(watts)

    @property
    def recent(self) -> FloatArray:
        """Return the readings of the last window, oldest first. Without any, all count as the limit."""
        first = self._recent[0] if self._recent else self.limit_w
        return np.array([first] * (self.rules.window - len(self._recent)) + list(self._recent))

    @property
    def level_w(self) -> float:
        """Return the level at the last reading, by a straight line through the last few."""
        return line(self.recent[-self.rules.trend_readings :], self.rules.period_s)[0]

    def highest_share(self, ahead: FloatArray) -> float:
        """Return the highest mean over any window that holds a coming reading, as a share of the limit."""
        return highest_mean(self.recent, ahead, self.rules.window) / self.limit_w

    def has_room(self, upper_w: float, rest_w: float, lags_s: Sequence[float]) -> bool:
        """Say whether a mode of at most this power may be visited now, whichever of the lags the power has.

        A mode below the limit is meant to last, so it must fit as long as a window. Any other must fit as the shortest
        visit that can be made: up, a reaction, and back to the rest mode.
        """
        rules, now = self.rules, self.level_w
        if upper_w <= rules.stay_share * self.limit_w:
            lasting = rise(now, upper_w, min(lags_s), rules.window_s, rules)
            return self.highest_share(lasting) <= rules.stay_plan_share
        visits = (short_visit(now, upper_w, rest_w, lag_s, rules) for lag_s in lags_s)
        return all(self.highest_share(visit) <= rules.plan_share for visit in visits)

    def can_last(self, level_w: float, lags_s: Sequence[float]) -> bool:
        """Say whether a mode of this level may begin now and stay: windows still hold what was read before it."""
        lasting = (rise(self.level_w, level_w, lag_s, self.rules.window_s, self.rules) for lag_s in lags_s)
        return all(self.highest_share(each) <= self.rules.last_share for each in lasting)

    def must_leave(self, rest_w: float, lag_s: float, lasting: bool = False) -> bool:
        """Say whether the present level, kept up until a decision is carried out, would break a window.

        A rising level is taken to rise on, ever slower by the lag; a falling one is not taken to fall. The level of a
        `lasting` visit, which fills the window, follows from more readings, so that noise needs less distance.
        """
        rules = self.rules
        readings = rules.lasting_readings if lasting else rules.trend_readings
        level, slope = trend(self.recent[-readings:], rules.period_s)
        at = rules.period_s * np.arange(1, rules.readings(rules.leave_s) + 1)
        ahead = level + slope * lag_s * (1.0 - np.exp(-at / lag_s))
        back = decay(float(ahead[-1]), rest_w, lag_s, rules)
        limit_share = rules.last_share if lasting else rules.visit_share
        return self.highest_share(np.concatenate([ahead, back])) > limit_share


def line(readings: FloatArray, period_s: float) -> tuple[float, float]:
    """Return the level at the last reading and the slope of a straight line through the readings."""
    if len(readings) < 2:
        return float(readings[-1]), 0.0
    at = (np.arange(len(readings)) - (len(readings) - 1) / 2) * period_s
    slope = float(at @ readings / (at @ at))
    return float(readings.mean() + slope * at[-1]), slope


def trend(readings: FloatArray, period_s: float) -> tuple[float, float]:
    """Return level and slope as `line`, but of a falling level the mean: it is not taken to have fallen."""
    level, slope = line(readings, period_s)
    return (level, slope) if slope > 0 else (float(readings.mean()), 0.0)


def rise(from_w: float, to_w: float, lag_s: float, duration_s: float, rules: MeanRules) -> FloatArray:
    """Return the readings of a first-order approach to a level."""
    at = np.arange(1, rules.readings(duration_s) + 1) * rules.period_s
    curve: FloatArray = to_w + (from_w - to_w) * np.exp(-at / lag_s)
    return curve


def decay(from_w: float, rest_w: float, lag_s: float, rules: MeanRules) -> FloatArray:
    """Return the readings of a window after a retreat to the rest mode."""
    return rise(from_w, min(rest_w, from_w), lag_s, rules.window_s, rules)


def short_visit(now_w: float, level_w: float, rest_w: float, lag_s: float, rules: MeanRules) -> FloatArray:
    """Return the readings of the shortest visit that can be made: up, a reaction, and back."""
    up = rise(now_w, level_w, lag_s, rules.reaction_s, rules)
    return np.concatenate([up, decay(float(up[-1]), rest_w, lag_s, rules)])


def highest_mean(past: FloatArray, ahead: FloatArray, window: int) -> float:
    """Return the highest mean over `window` readings among the windows that hold a coming reading."""
    readings = np.concatenate([past[len(past) - window + 1 :], ahead])
    sums = np.concatenate([[0.0], np.cumsum(readings)])
    return float((sums[window:] - sums[:-window]).max() / window)


def cap_w(limit_w: float, rest_w: float, rules: MeanRules = NORMAL) -> float:
    """Return the highest power of a mode that a short visit from a full rest can't make dangerous, whatever the lag."""
    visit_limit_w = rules.visit_share * limit_w
    if rest_w >= visit_limit_w:
        return visit_limit_w
    past = np.full(rules.window, rest_w)

    def fits(level_w: float) -> bool:
        visits = (short_visit(rest_w, level_w, rest_w, lag_s, rules) for lag_s in rules.plan_lags_s)
        return all(highest_mean(past, visit, rules.window) <= visit_limit_w for visit in visits)

    low, high = visit_limit_w, 20.0 * limit_w
    while high - low > 0.001 * limit_w:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
