from __future__ import annotations

import numpy as np
import pytest

from powertrain import devices, strategies
from powertrain.evaluation.runs import Board
from powertrain.objectives import Limits
from powertrain.profiling import Problem
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
    wanted = next(preset for preset in device.presets if preset.name == name)
    assert space[choice.row] == device.preset_mode(wanted)
    assert name in choice.reason


def test_preset_needs_to_know_the_board(board):
    with pytest.raises(StrategyUnavailableError, match="orin-agx"):
        ProfilingSession(Problem(board.space), "preset").choose(Limits(power_w=30))


def test_every_registered_strategy_has_its_own_name_and_summary():
    for name in strategies.names():
        found = strategies.strategy_class(name)
        assert found.name == name
        assert found.summary
