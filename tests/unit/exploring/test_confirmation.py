"""A held mode runs for good only with the distance to the limit that follows from its noise."""

import numpy as np

from powertrain.exploring import NORMAL, LagBelief, Ledger, ReadingNoise, Visit

LIMIT_W = 20.0


def visit_of(readings: np.ndarray) -> Visit:
    ledger = Ledger(LIMIT_W)
    for _ in range(NORMAL.window):
        ledger.add(float(readings[0]))
    visit = Visit(ledger, LagBelief(), ReadingNoise(), rest_w=10.0)
    for watts in readings:
        visit.reading(float(watts))
    return visit


def test_a_quiet_mode_close_to_the_limit_is_kept_and_one_at_the_limit_is_not() -> None:
    count = NORMAL.readings(NORMAL.confirm_s)
    assert visit_of(np.full(count, 0.985 * LIMIT_W)).keeps()
    assert not visit_of(np.full(count, 0.999 * LIMIT_W)).keeps()


def test_a_mode_whose_windows_swing_above_the_limit_is_not_kept_although_its_mean_is_low() -> None:
    count = NORMAL.readings(NORMAL.confirm_s)
    swing = 1.0 + 0.1 * np.sign(np.sin(2 * np.pi * np.arange(count) * NORMAL.period_s / 10.0))
    assert not visit_of(0.93 * LIMIT_W * swing).keeps()
