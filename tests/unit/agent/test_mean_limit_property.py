"""Visits under a ledger, whatever the lag, the noise and the modes: no window of true power exceeds a mean limit."""

from __future__ import annotations

import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from powertrain.exploring.ledger import cap_w
from powertrain_agent.governing.mean_visit import MeanVisit
from powertrain_agent.governing.mean_watch import MeanLimitTerms, MeanWatch
from powertrain_agent.telemetry import Reading

LIMIT_W, REST_W, PERIOD_S, WINDOW = 20.0, 12.0, 0.1, 30
WHOLE_S, PLANNING_S = 3.0, 1.0
# What noise can hide: so many standard deviations of a window's mean of readings, and what a prediction may be off.
HIDDEN_SIGMAS, TOLERANCE = 3.0, 0.002


class LaggingBoard:
    """Power follows its mode first-order, the sensor scatters; the true power is remembered."""

    def __init__(self, lag_s: float, noise: float, seed: int) -> None:
        self.watch = MeanWatch(PERIOD_S)
        self.watch.keep(MeanLimitTerms(LIMIT_W, WINDOW * PERIOD_S))
        self.true_w: list[float] = [REST_W]
        self._share, self._noise = 1.0 - math.exp(-PERIOD_S / lag_s), noise
        self._random, self._mode_w, self._now_s, self._set_s = random.Random(seed), REST_W, 0.0, 0.0

    def set(self, power_w: float) -> None:
        self._mode_w, self._set_s = power_w, self._now_s

    def tick(self) -> tuple[float, int, float]:
        """Let a period pass: the reading, how many periods it stands for, and how long ago the mode was set."""
        self._now_s += PERIOD_S
        self.true_w.append(self.true_w[-1] + (self._mode_w - self.true_w[-1]) * self._share)
        watts = self.true_w[-1] * (1.0 + self._noise * self._random.gauss(0.0, 1.0))
        return watts, self.watch.power(Reading(self._now_s, watts)), self._now_s - self._set_s

    def visit(self, power_w: float, upper_w: float) -> None:
        """Do what the agent does: rest until there is room, visit, and stay while the next mode is planned."""
        visit, waited_s = MeanVisit(self.watch, None, REST_W, upper_w), 0.0
        while not visit.has_room:
            self.set(REST_W)
            self.tick()
            waited_s += PERIOD_S
            if waited_s > self.watch.patience_s:
                return
        self.set(power_w)
        visit.begin()
        left = None
        while left is None and self._now_s - self._set_s < WHOLE_S:
            left = visit.power(*self.tick())
        visit.end()
        if left is not None:
            self.set(REST_W)
        for _ in range(round(PLANNING_S / PERIOD_S)):
            self.tick()
            if self.watch.must_leave(REST_W):
                self.set(REST_W)

    def worst_share(self) -> float:
        sums = [0.0]
        for watts in self.true_w:
            sums.append(sums[-1] + watts)
        return max((sums[end] - sums[end - WINDOW]) / WINDOW for end in range(WINDOW, len(sums))) / LIMIT_W


HIGHEST_W = cap_w(LIMIT_W, REST_W)


@settings(max_examples=120, deadline=None)
@given(
    st.floats(0.3, 2.0),
    st.floats(0.0, 0.025),
    st.integers(0, 2**16),
    st.lists(st.tuples(st.floats(REST_W, HIGHEST_W), st.floats(1.0, 1.1)), min_size=1, max_size=8),
)
def test_no_window_of_true_power_exceeds_the_limit_beyond_what_noise_hides(
    lag_s: float, noise: float, seed: int, visits: list[tuple[float, float]]
) -> None:
    """Modes draw up to the cap of the policy, and no more than the upper power that the visit was planned with."""
    board = LaggingBoard(lag_s, noise, seed)
    for _ in range(WINDOW):
        board.tick()
    for power_w, above in visits:
        board.visit(power_w, min(power_w * above, HIGHEST_W))
    for _ in range(WINDOW):
        board.tick()
    assert board.worst_share() <= 1.0 + TOLERANCE + HIDDEN_SIGMAS * noise / math.sqrt(WINDOW)
