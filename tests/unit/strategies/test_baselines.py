from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from powertrain import devices, strategies
from powertrain.evaluation.board import Board
from powertrain.objectives import Limits, Work
from powertrain.profiling import Problem
from powertrain.samples import Sample
from powertrain.session import Ask, ProfilingSession
from powertrain.strategies.base import StrategyUnavailableError


@pytest.fixture(scope="module")
def board(target_table):
    return Board.of(target_table)


def finished(strategy: str, board: Board, **options) -> ProfilingSession:
    session = ProfilingSession(Problem(board.space, **options), strategy)
    while isinstance(answer := session.ask(), Ask):
        session.tell(board.measure(answer.mode, 0))
    return session


def test_brute_force_measures_every_mode_and_finds_the_best(board):
    session = finished("brute-force", board)
    assert session.measured == len(board.space)
    choice = session.choose(Limits(power_w=25))
    within = board.truth.power_w <= 25
    assert choice.row is not None
    assert board.truth.step_s[choice.row] == board.truth.step_s[within].min()


def test_random_pareto_takes_the_best_of_its_random_modes_and_follows_the_seed(board):
    session = finished("random-pareto", board, max_modes=20, seed=1)
    choice = session.choose(Limits(power_w=25))
    measured = session.history.rows
    within = measured[board.truth.power_w[measured] <= 25]
    assert choice.row == within[np.argmin(board.truth.step_s[within])]
    again, other = (finished("random-pareto", board, max_modes=20, seed=seed) for seed in (1, 2))
    assert again.history.rows.tolist() == measured.tolist()
    assert other.history.rows.tolist() != measured.tolist()


def ladder(session: ProfilingSession) -> list[float]:
    """The GPU clocks that were tried, as shares of the highest; the other knobs must be at their maximum."""
    modes, highest = session.history.modes, session.problem.modes.max(axis=0)
    assert np.array_equal(modes[:, [0, 1, 3]], np.tile(highest[[0, 1, 3]], (len(modes), 1)))
    return [float(gpu_hz / highest[2]) for gpu_hz in modes[:, 2]]


def test_the_staircase_climbs_to_the_limit_and_takes_the_last_step_that_kept_it(board):
    limits = Limits(power_w=25)
    free = ladder(finished("staircase", board))
    assert free == sorted(free)
    assert free[-1] == 1.0
    session = finished("staircase", board, limits=limits)
    climbed = session.history
    assert ladder(session) == free[: len(climbed.modes)]
    assert climbed.power_w[-2] <= 25 < climbed.power_w[-1]
    assert session.choose(limits).row == climbed.rows[-2]


@pytest.mark.parametrize("watts", [20.0, 40.0])
def test_a_smaller_batch_starts_where_a_larger_one_stopped_and_goes_up_or_down_from_there(board, watts):
    limits = Limits(power_w=25)
    larger = finished("staircase", board, limits=limits, work=Work(batch_size=64))
    reports = larger.history.reports
    elsewhere = tuple(replace(report.sample, batch_size=64) for report in reports if report.sample is not None)
    problem = Problem(board.space, limits=limits, work=Work(batch_size=8), elsewhere=elsewhere)
    smaller = ProfilingSession(problem, "staircase")
    last = larger.history.modes[-2]
    first = smaller.ask()
    assert isinstance(first, Ask)
    assert first.mode.gpu_hz == last[2]
    smaller.tell(Sample(first.mode, 0.1, watts, 8))
    then = smaller.ask()
    assert isinstance(then, Ask)
    assert (then.mode.gpu_hz > first.mode.gpu_hz) is (watts <= 25)


def test_maxn_takes_everything_whatever_the_budget(board):
    session = finished("maxn", board)
    assert session.measured == 0
    choice = session.choose(Limits(power_w=10))
    assert choice.row == len(board.space) - 1


@pytest.mark.parametrize(
    ("budget_w", "name"), [(15, "MODE_15W"), (29, "MODE_15W"), (30, "MODE_30W"), (80, "MODE_50W"), (9, "MODE_15W")]
)
def test_preset_goes_by_the_label_alone(budget_w, name):
    device = devices.get("orin-agx")
    space = device.space()
    choice = ProfilingSession(Problem(space, device="orin-agx"), "preset").choose(Limits(power_w=budget_w))
    assert choice.row is not None
    named_preset = next(preset for preset in device.presets if preset.name == name)
    assert space[choice.row] == device.preset_mode(named_preset)
    assert name in choice.reason


def test_preset_needs_to_know_the_board(board):
    with pytest.raises(StrategyUnavailableError, match="orin-agx"):
        ProfilingSession(Problem(board.space), "preset").choose(Limits(power_w=30))


def test_every_registered_strategy_has_its_own_name_and_summary():
    for name in strategies.names():
        recommendation = strategies.strategy_class(name)
        assert recommendation.name == name
        assert recommendation.summary
