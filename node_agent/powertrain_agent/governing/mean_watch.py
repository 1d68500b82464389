"""MeanWatch: the last readings of a session against its mean limits, and what it has learned of lag and noise."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from powertrain.exploring import (
    NORMAL,
    LagBelief,
    Ledger,
    Ledgers,
    LoadFinding,
    LoadWatch,
    MeanRules,
    ReadingNoise,
    Visit,
)
from powertrain.space import FloatArray
from powertrain_agent.telemetry import Reading

LONGEST_S = 10.0  # a longer window is kept by keeping its parts: a rest then takes no longer than a visit
STRETCH_S = 10.0  # readings of the mode that runs are looked at in stretches of this length
STARTS_S = (-0.2, -0.1, 0.0, 0.05)  # when a ramp may have begun, against the moment at which the mode was read back
RAMP_ERROR = 0.03  # no board's power follows the clocks exactly as the model says
STRETCHES_OF_A_STEP = 3  # a level that changed once is looked at for so much longer
ONE_STEP = 0.3  # … and is one step if two levels leave no more than this share of the variance
LOST_S = 2.0  # after a longer gap nobody knows what the board took
LATE_STEP_S, LATE_READINGS = 0.2, 100  # how late readings were of late, in steps, so that rules change seldom
CHOICE_RISK = 0.8  # each candidate is held before it runs: one that may keep its distance is worth the hold


@dataclass(frozen=True)
class MeanLimitTerms:
    """A limit on the mean over a window."""

    limit_w: float
    window_s: float


class MeanWatch:
    """Keeps readings at the sensor's period and answers for the limits of the moment. One for each session."""

    def __init__(self, period_s: float) -> None:
        self._usual = self._base = replace(NORMAL, period_s=period_s, starts_s=STARTS_S, ramp_error=RAMP_ERROR)
        self.lag, self.noise, self._load = LagBelief(self._base), ReadingNoise(), LoadWatch(self._base)
        self.finding = LoadFinding()
        self._terms: tuple[MeanLimitTerms, ...] = ()
        self._recent: deque[float] = deque(maxlen=round(LONGEST_S / period_s) + 1)
        self._ledgers: Ledgers | None = None
        self._stretch: list[float] = []  # of the mode that runs, since it was set
        self._at_s: float | None = None
        self._gaps_s: deque[float] = deque(maxlen=LATE_READINGS)
        self._late_s = 0.0  # what a decision waits for readings beyond their period: the board, or its agent, is busy

    def keep(self, *terms: MeanLimitTerms) -> None:
        """Keep these limits from now on. What was read under others counts no longer: it was allowed then."""
        if terms == self._terms:
            return
        self._terms = terms
        self._recent.clear()
        self._renew()

    def power(self, reading: Reading) -> int:
        """Record a reading; it stands for as many periods as have passed, and the number is returned."""
        since_s = self._base.period_s if self._at_s is None else reading.at_s - self._at_s
        self._at_s = reading.at_s
        if not 0.0 <= since_s <= LOST_S:
            self._recent.clear()
            self._renew()
            since_s = self._base.period_s
        self._note_gap(since_s)
        periods = max(1, round(since_s / self._base.period_s))
        for _ in range(periods):
            self._recent.append(reading.power_w)
            if self._ledgers is not None:
                self._ledgers.add(reading.power_w)
        return periods

    def _note_gap(self, since_s: float) -> None:
        """React as late as readings come: visits then begin lower and end earlier."""
        self._gaps_s.append(since_s)
        steps = math.ceil(round((max(self._gaps_s) - 1.5 * self._base.period_s) / LATE_STEP_S, 6))
        late_s = LATE_STEP_S * max(0, steps)
        if late_s != self._late_s:
            self._late_s = late_s
            self._renew()

    @property
    def ledgers(self) -> Ledgers:
        """Return the ledgers of the present limits."""
        assert self._ledgers is not None, "there is a limit to keep"
        return self._ledgers

    def _renew(self) -> None:
        ledgers = [Ledger(terms.limit_w, self._rules(terms.window_s)) for terms in self._terms]
        if not ledgers:
            self._ledgers = None
            return
        if self._ledgers is None:
            self._ledgers = Ledgers(ledgers)
        self._ledgers.replace(ledgers)
        for watts in self._recent:
            self._ledgers.add(watts)

    @property
    def limit_w(self) -> float:
        """Return the lowest limit."""
        return self.ledgers.limit_w

    @property
    def is_full(self) -> bool:
        """Say whether a whole window was read under the present limits."""
        return bool(self._terms) and len(self._recent) >= self.ledgers.rules.window

    def has_room(self, upper_w: float, rest_w: float) -> bool:
        """Say whether a mode of at most this power may be visited now."""
        return self.ledgers.has_room(upper_w, rest_w, self.lag.likely_s)

    def can_last(self, level_w: float) -> bool:
        """Say whether a mode of this power may begin now and stay."""
        return not self.is_full or self.ledgers.can_last(level_w, self.lag.likely_s)

    def must_leave(self, rest_w: float) -> bool:
        """Say whether the present level would break a window."""
        return self.is_full and self.ledgers.must_leave(rest_w, self.lag.slow_s)

    def visit(self, rest_w: float) -> Visit:
        """Begin to watch a mode that was just set."""
        return Visit(self.ledgers, self.lag, self.noise, rest_w, self._load)

    def mode_changed(self) -> None:
        """Note that another mode runs from now on."""
        self._stretch.clear()

    def runs(self, watts: float, step_s: float | None) -> None:
        """Take a reading of the mode that runs: a swing that no visit was long enough for shows there."""
        self._stretch.append(watts)
        settling, enough = self._base.readings(4.0 * self.lag.slow_s), self._base.readings(STRETCH_S)
        read = len(self._stretch) - settling
        if read < enough or read % enough:
            return
        stretch = np.array(self._stretch[settling:])
        once = is_one_step(stretch, self._base.readings(1.0))
        if once and read < STRETCHES_OF_A_STEP * enough:
            return  # a slow pulse changes again, another load stays or goes for good: for guard and drift
        if not once:
            self._load.learn_stretch(stretch, step_s)
        del self._stretch[settling:]

    def learn_load(self) -> bool:
        """Go on with the rules that the load asks for; say whether they are others than before."""
        finding = self._load.finding
        if finding == self.finding:
            return False
        self.finding = finding
        self._base = finding.applied_to(self._usual)
        if self._base.lags_s != self.lag.lags_s:
            self.lag = LagBelief(self._base)
        self._renew()
        return True

    def rules_for(self, windows: float) -> MeanRules:
        """Return the rules for the planner: with the distance that a choice keeps when so many windows follow."""
        rules = self.ledgers.rules
        share = rules.confirm_share(self.noise.relative, windows)
        return replace(rules, choice_share=share, choice_risk=CHOICE_RISK)

    def keeps(self, mean_w: float, error_w: float, windows: float, noise: float | None = None) -> bool:
        """Say whether a mode that was measured keeps the distance for good, beyond doubt; `noise` of its readings."""
        share = self.ledgers.rules.confirm_share(max(self.noise.relative, noise or 0.0), windows)
        return mean_w + SURE_SIGMAS * error_w <= share * self.limit_w

    @property
    def patience_s(self) -> float:
        """Return how long a rest may last: a window and the slowest way down are enough, or there is never room."""
        return 2.0 * self.ledgers.rules.window_s + 4.0 * self.lag.slow_s

    def _rules(self, window_s: float) -> MeanRules:
        rules, late_s = self._base, self._late_s
        return replace(
            rules,
            window_s=window_s / math.ceil(window_s / LONGEST_S),
            reaction_s=rules.reaction_s + late_s,
            leave_s=rules.leave_s + late_s,
        )


SURE_SIGMAS = 3.0  # so sure needs no longer look


def is_one_step(readings: FloatArray, block: int) -> bool:
    """Say whether most of what moves in a stretch is one change of its level, by means over blocks."""
    count = len(readings) // block
    if count < 4:
        return False
    means = readings[len(readings) - count * block :].reshape(count, block).mean(axis=1)
    whole = float(means.var()) * count
    parts = min(float(means[:at].var()) * at + float(means[at:].var()) * (count - at) for at in range(1, count))
    return parts <= ONE_STEP * whole
