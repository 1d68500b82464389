"""Whatever a policy visits, whatever the lag: no window exceeds the limit beyond what the sensor could tell.

Precisely: a board rests at the least power it knows, and visits modes in any order. A visit begins once the ledger has
room for its expected power plus two standard deviations, and the true power is at most three above. It ends when the
ledger says so or after the time it was meant to last, and the board goes back to rest. Power follows first-order with
any lag from 0.3 to 2 s. Then, with readings without noise, no 3 s window of true power exceeds the limit by more than
0.2 %. With noise, a mean of a window's readings is uncertain by noise / √readings: windows exceed the limit by no more
than 0.2 % and four times that.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from powertrain import devices
from powertrain.exploring import NORMAL, LagBelief, Ledger, ReadingNoise, Verdict, Visit
from powertrain.exploring.ledger import cap_w
from powertrain_agent.simulate import workloads

TOLERANCE = 0.002
BOARD = "orin-agx"
SPACE = devices.get(BOARD).space()


class Course:
    """A board whose true power follows first-order, with a sensor of some noise; it remembers the true power."""

    def __init__(self, watts: float, lag_s: float, noise: float, seed: int) -> None:
        self.level_w, self.target_w, self.noise = watts, watts, noise
        self.share = 1.0 - np.exp(-NORMAL.period_s / lag_s)
        self.rng, self.log = np.random.default_rng(seed), [watts] * NORMAL.window

    def tick(self) -> float:
        self.level_w += (self.target_w - self.level_w) * self.share
        self.log.append(self.level_w)
        return self.level_w * (1.0 + self.noise * float(self.rng.standard_normal()))


def highest_share(course: Course, limit_w: float) -> float:
    means = np.convolve(np.array(course.log), np.full(NORMAL.window, 1.0 / NORMAL.window), mode="valid")
    return float(means.max()) / limit_w


@settings(max_examples=80, deadline=None)
@given(
    workload=st.sampled_from(workloads.names()),
    rows=st.lists(st.integers(0, len(SPACE) - 1), min_size=1, max_size=12),
    misses=st.lists(st.floats(-2.0, 3.0), min_size=12, max_size=12),
    spreads=st.lists(st.floats(0.005, 0.08), min_size=12, max_size=12),
    room=st.floats(1.1, 3.0),
    lag_s=st.floats(0.3, 2.0),
    noise=st.sampled_from([0.0, 0.005, 0.01, 0.02]),
    seed=st.integers(0, 10**6),
)
def test_no_window_of_true_power_exceeds_the_limit_beyond_what_the_sensor_could_tell(
    workload: str,
    rows: list[int],
    misses: list[float],
    spreads: list[float],
    room: float,
    lag_s: float,
    noise: float,
    seed: int,
) -> None:
    batch_size = workloads.get(workload).batch_size
    rest_w = workloads.evaluate(BOARD, workload, batch_size, SPACE[0]).power_w
    limit_w = room * rest_w
    course, ledger = Course(rest_w, lag_s, noise, seed), Ledger(limit_w)
    lag, scatter = LagBelief(), ReadingNoise()
    for _ in range(NORMAL.window):
        ledger.add(course.tick())
    for row, miss, spread in zip(rows, misses, spreads, strict=False):
        true_w = workloads.evaluate(BOARD, workload, batch_size, SPACE[row]).power_w
        # The truth lies `miss` standard deviations above what is expected.
        expected_w = true_w / (1.0 + miss * spread)
        std_w = spread * expected_w
        within = expected_w + NORMAL.limit_sigmas * std_w <= limit_w
        if not within and expected_w + NORMAL.cap_sigmas * std_w > cap_w(limit_w, rest_w):
            continue
        course.target_w = rest_w
        for _ in range(120):
            if ledger.has_room(expected_w + NORMAL.plan_sigmas * std_w, rest_w, lag.likely_s):
                break
            ledger.add(course.tick())
        else:
            continue
        course.target_w, visit = true_w, Visit(ledger, lag, scatter, rest_w)
        while len(visit) < 40 and visit.reading(course.tick()) is Verdict.STAY:
            pass
        visit.end()
        course.target_w = rest_w
        for _ in range(3):
            ledger.add(course.tick())
    for _ in range(NORMAL.window):
        ledger.add(course.tick())
    hidden = 4.0 * noise / np.sqrt(NORMAL.window)
    assert highest_share(course, limit_w) <= 1.0 + TOLERANCE + hidden
