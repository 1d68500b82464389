"""Measuring by single steps, odd rows, and what a zoom must show."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from benchmarks.evaluate.figures import zoom_limits
from benchmarks.evaluate.odd_rows import best_rows, rebased
from benchmarks.evaluate.stepped import SteppedBoard, unread_pct
from benchmarks.evaluate.style import log_ticks

from powertrain.evaluation.board import Board
from powertrain.evaluation.scores import BudgetScore
from powertrain.physics import fit_reference
from powertrain.samples import SampleTable


def errors(table: SampleTable, steps: int, period_s: float, jitter: float) -> tuple[float, float]:
    """Return the mean error of told step times and watts, in percent."""
    board = SteppedBoard.measured_by(Board.of(table), steps, period_s, jitter)
    samples = [board.measure(board.space[row], 0) for row in range(0, len(board.space), 5)]
    truth = [board.truth.sample(row) for row in range(0, len(board.space), 5)]
    time_pct = np.mean([abs(a.step_s / b.step_s - 1) for a, b in zip(samples, truth, strict=True)]) * 100
    power_pct = np.mean([abs(a.power_w / b.power_w - 1) for a, b in zip(samples, truth, strict=True)]) * 100
    return float(time_pct), float(power_pct)


def test_few_steps_that_scatter_make_step_times_worse(target_table):
    assert errors(target_table, 5, 0.1, 0.1)[0] > 2 * errors(target_table, 40, 0.1, 0.1)[0]
    assert errors(target_table, 5, 0.1, 0.01)[0] < 1.0


def test_few_readings_make_watts_worse(target_table):
    assert errors(target_table, 5, 1.0, 0.01)[1] > errors(target_table, 100, 0.05, 0.01)[1]


def test_the_strategy_is_told_the_larger_noise_of_steps_and_readings(target_table):
    board = Board.of(target_table)
    assert SteppedBoard.measured_by(board, 5, 0.1, 0.1).noise == pytest.approx(1.25 * 0.1 / 5**0.5)
    assert SteppedBoard.measured_by(board, 5, 100.0).noise == pytest.approx(1.25 * 0.01)


def test_the_same_mode_and_seed_are_measured_alike(target_table):
    board = SteppedBoard.measured_by(Board.of(target_table), 5, 1.0)
    assert board.measure(board.space[3], 1) == board.measure(board.space[3], 1)
    assert board.measure(board.space[3], 1) != board.measure(board.space[3], 2)


def test_modes_without_a_reading_are_those_whose_steps_are_over_before():
    table = SampleTable(np.array([[1.0, 1, 1, 1], [2, 1, 1, 1]]), np.ones(2), np.array([0.01, 0.2]), np.ones(2))
    assert unread_pct(table, 10, 1.0) == pytest.approx((90 + 0) / 2)
    assert unread_pct(table, 10, 0.1) == 0.0


def test_a_row_that_fits_no_neighbour_and_looks_best_is_told_apart(target_table):
    physics = fit_reference(target_table.matrix, target_table.step_s, target_table.power_w)
    budget_w = float(np.percentile(target_table.power_w, 50))
    assert not best_rows(target_table, physics, [budget_w])[budget_w].odd
    hungry = int(np.argmin(np.abs(target_table.power_w - 1.4 * budget_w)))
    power_w = target_table.power_w.copy()
    power_w[hungry] = budget_w - 0.1
    broken = SampleTable(target_table.matrix, target_table.batch_size, target_table.step_s, power_w)
    best = best_rows(broken, physics, [budget_w])
    assert best[budget_w].odd
    usual_s = float(target_table.step_s[target_table.power_w <= budget_w].min())
    assert best[budget_w].ratio == pytest.approx(usual_s / target_table.step_s[hungry])
    choice = BudgetScore(budget_w, (best[budget_w].ratio - 1) * 100, 0.0, binding=True)
    assert rebased(choice, best) == pytest.approx(0.0)


def point(power_w: float, step_s: float) -> dict[str, float]:
    return {"power_w": power_w, "step_s": step_s}


@pytest.mark.parametrize(("power_w", "step_s"), list(product((12.0, 29.0, 44.0), (0.02, 0.1, 0.9))))
def test_the_zoom_holds_every_choice_foretold_and_true_however_far_off(power_w, step_s):
    fronts = [
        {
            "observed": [point(24.0, 0.2), point(30.0, 0.1), point(50.0, 0.05)],
            "choices": [
                {
                    "budget_w": 30.0,
                    "best": [point(30.0, 0.1)],
                    "predicted": [point(*foretold)],
                    "observed": [point(*true)],
                }
            ],
        }
        for foretold, true in (((29.0, 0.09), (power_w, step_s)), ((power_w, step_s), (30.5, 0.11)))
    ]
    (low_w, high_w), (low_ms, high_ms) = zoom_limits(fronts, 30.0)
    assert low_w < min(power_w, 25.1)
    assert high_w > max(power_w, 34.9)
    assert low_ms < step_s * 1e3 < high_ms


def test_a_strategy_that_chose_nothing_does_not_break_the_zoom():
    choice = {"budget_w": 30.0, "best": [point(30.0, 0.1)], "predicted": [], "observed": []}
    (low_w, high_w), _ = zoom_limits([{"observed": [point(30.0, 0.1)], "choices": [choice]}], 30.0)
    assert (low_w, high_w) == (25.0, 35.0)


def test_ticks_of_a_logarithmic_axis_are_plain_numbers_within_it():
    assert log_ticks(90.0, 15000.0) == [100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0]
    assert log_ticks(101.0, 680.0) == [200.0, 300.0, 500.0]  # 200 and 500 alone would say little
    short = log_ticks(11.0, 17.5)
    assert len(short) >= 4
    assert np.ptp(np.diff(short)) == pytest.approx(0.0, abs=1e-9)
