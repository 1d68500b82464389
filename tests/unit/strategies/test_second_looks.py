"""Under a mean limit, modes get a visit that the model alone would not ask for."""

from dataclasses import replace

import numpy as np

from powertrain.evaluation.board import Board
from powertrain.exploring import NORMAL
from powertrain.objectives import Limits
from powertrain.profiling import Aim, Problem
from powertrain.profiling.second_looks import beside_unexplained, unseen_memory_clock
from powertrain.samples import Sample, SampleTable
from powertrain.session import ProfilingSession
from powertrain.strategies.base import HasPhysics

LIMIT_W = 22.0


def session_of(table: SampleTable, reference: HasPhysics) -> tuple[Board, ProfilingSession]:
    board = Board.of(table)
    limits = {"limits": Limits(power_w=LIMIT_W), "explore_limit_w": LIMIT_W}
    problem = Problem(space=board.space, aim=Aim.BUDGET, noise=0.005, rules=NORMAL, max_modes=15, **limits)
    return board, ProfilingSession(problem, "transfer", reference)


def report_rows(
    board: Board, session: ProfilingSession, rows: list[int], power: dict[int, float] | None = None
) -> None:
    for row in rows:
        sample = board.measure(board.space[row], 0)
        watts = (power or {}).get(row, 1.0) * sample.power_w
        session.tell(Sample(sample.mode, sample.step_s, watts, sample.batch_size), 0.005, 0.005)


def rows_at(board: Board, memory_hz: int, within_w: float, count: int) -> list[int]:
    truth = board.truth
    rows = np.flatnonzero((truth.matrix[:, 3] == memory_hz) & (truth.power_w <= within_w))
    return [int(row) for row in rows[:: max(1, len(rows) // count)][:count]]


def test_a_high_memory_clock_without_a_visit_gets_one(target_table: SampleTable, reference: HasPhysics) -> None:
    board, session = session_of(target_table, reference)
    levels = [int(level) for level in np.unique(board.truth.matrix[:, 3])]
    report_rows(board, session, rows_at(board, levels[0], LIMIT_W, 5))
    allowed = ~session.history.visited
    row = unseen_memory_clock(session.problem, session._belief, session.history, allowed)
    assert row is not None
    assert int(board.truth.matrix[row, 3]) in levels[-2:]
    for level in levels[-2:]:
        report_rows(board, session, rows_at(board, level, LIMIT_W, 1))
    assert unseen_memory_clock(session.problem, session._belief, session.history, allowed) is None


def test_nothing_is_looked_at_without_the_rules_of_a_ledger(target_table: SampleTable, reference: HasPhysics) -> None:
    board, session = session_of(target_table, reference)
    report_rows(board, session, rows_at(board, int(board.truth.matrix[:, 3].min()), LIMIT_W, 5))
    hard = replace(session.problem, rules=None)
    assert unseen_memory_clock(hard, session._belief, session.history, ~session.history.visited) is None
    assert beside_unexplained(hard, session._belief, session.history) is None


def test_a_mode_that_takes_far_less_than_physics_allows_gets_a_neighbour_visited(
    target_table: SampleTable, reference: HasPhysics
) -> None:
    board, session = session_of(target_table, reference)
    truth = board.truth
    spread = np.argsort(truth.power_w)[:: len(truth) // 14]
    odd = int(np.flatnonzero((truth.power_w > 1.15 * LIMIT_W) & (truth.power_w < 1.3 * LIMIT_W))[0])
    usual = [int(row) for row in spread if row != odd and truth.power_w[row] < LIMIT_W]
    report_rows(board, session, [*usual, odd], {odd: 0.6})
    assert session._belief.predictor(session.history).outliers_[len(session.history.modes) - 1]
    row = beside_unexplained(session.problem, session._belief, session.history)
    assert row is not None
    assert (truth.matrix[row] >= truth.matrix[odd]).all()
    assert row != odd
