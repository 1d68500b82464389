"""What holds for every strategy that measures: no mode twice, the asked number, the same by seed, after any restart."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from powertrain import strategies
from powertrain.evaluation.board import Board
from powertrain.exploring import NORMAL
from powertrain.modes import PowerMode
from powertrain.objectives import Limits, PowerStatistic, Work
from powertrain.profiling import Aim, Problem
from powertrain.samples import Sample
from powertrain.session import Ask, Done, ProfilingSession
from powertrain.strategies import regressors
from powertrain.strategies.base import StrategyUnavailableError

REGRESSORS = ("linear", "tree", "forest", "mlp")
# scikit-learn is in the same extra as torch, and as slow to import.
LEARNED = [pytest.param(name, marks=pytest.mark.torch) for name in REGRESSORS]
MEASURING = ["transfer", "random-pareto", "brute-force", "ucb", *LEARNED]


@pytest.fixture(scope="module")
def board(target_table) -> Board:
    return Board.of(target_table)


def profile(session: ProfilingSession, board: Board) -> list[PowerMode]:
    asked_modes = []
    while isinstance(answer := session.ask(), Ask):
        asked_modes.append(answer.mode)
        session.tell(board.measure(answer.mode, 0))
    return asked_modes


def session_of(name: str, board: Board, reference, **options) -> ProfilingSession:
    return ProfilingSession(
        Problem(board.space, **{"max_modes": 12, "min_gain": 0.0, "risk": 0.5} | options), name, reference
    )


@pytest.mark.parametrize("aim", list(Aim))
@pytest.mark.parametrize("name", MEASURING)
def test_no_mode_is_proposed_twice_and_the_number_of_modes_is_kept(name, aim, board, reference):
    session = session_of(name, board, reference, aim=aim, limits=Limits(power_w=24))
    asked_modes = profile(session, board)
    assert len(asked_modes) == len(set(asked_modes)) == 12
    ended = session.ask()
    assert isinstance(ended, Done)
    assert "12 modes measured" in ended.reason


@pytest.mark.parametrize("name", MEASURING)
def test_the_seed_alone_decides_what_is_asked_predicted_and_chosen(name, board, reference):
    first, again = (session_of(name, board, reference, seed=3) for _ in range(2))
    assert profile(first, board) == profile(again, board)
    assert first.choose(Limits(power_w=22)) == again.choose(Limits(power_w=22))
    one, two = first.predict(), again.predict()
    if one is not None and two is not None:
        assert np.array_equal(one.time_s, two.time_s)
        assert np.array_equal(one.power_std_w, two.power_std_w)


@pytest.mark.parametrize("name", MEASURING)
def test_a_stored_session_goes_on_as_if_nothing_had_happened(name, board, reference):
    whole = session_of(name, board, reference, seed=1)
    asked_modes = profile(whole, board)
    session = session_of(name, board, reference, seed=1)
    for mode in asked_modes:
        answer = session.ask()
        assert isinstance(answer, Ask)
        assert answer.mode == mode
        session.tell(board.measure(answer.mode, 0))
        session = ProfilingSession.from_dict(json.loads(json.dumps(session.to_dict())), reference)
    assert session.choose(Limits(power_w=22)) == whole.choose(Limits(power_w=22))


@pytest.mark.parametrize("name", ["transfer", "random-pareto", "brute-force", "ucb", "staircase"])
def test_a_limit_on_peaks_counts_the_peaks_that_were_measured(name, board, reference):
    limits = [Limits(power_w=float(watts), power_statistic=PowerStatistic.PEAK) for watts in range(14, 41)]
    session = session_of(name, board, reference, limits=limits[-1], max_modes=40, risk=0.05, seed=2)
    while isinstance(answer := session.ask(), Ask):
        sample = board.measure(answer.mode, 0)
        session.tell(replace(sample, power_peak_w=1.1 * sample.power_w), noise=0.001)
    chosen = [(each.power_w, row) for each in limits if (row := session.choose(each).row) is not None]
    assert len(chosen) > 10
    assert [w for w, row in chosen if 1.1 * board.measure(board.space[row], 0).power_w > w] == []


@pytest.mark.parametrize("name", ["ucb", *LEARNED])
def test_predictions_are_finite_and_positive_with_a_spread_for_every_mode(name, board, reference):
    session = session_of(name, board, reference)
    profile(session, board)
    prediction = session.predict()
    assert prediction is not None
    for column in (prediction.time_s, prediction.power_w):
        assert np.isfinite(column).all()
        assert (column > 0).all()
    for spread in (prediction.time_std_s, prediction.power_std_w):
        assert np.isfinite(spread).all()
        assert (spread >= 0).all()


@pytest.mark.parametrize("name", ["ucb", *LEARNED])
def test_more_modes_mean_less_error(name, board, reference):
    def error(modes: int) -> float:
        session = session_of(name, board, reference, max_modes=modes, aim=Aim.ACCURACY)
        profile(session, board)
        prediction = session.predict()
        assert prediction is not None
        return float(np.mean(np.abs(prediction.power_w / board.truth.power_w - 1.0)))

    assert error(80) < error(8)


@pytest.mark.torch
@pytest.mark.parametrize("name", REGRESSORS)
def test_before_three_modes_nothing_is_predicted_and_the_best_measured_is_taken(name, board, reference):
    session = session_of(name, board, reference, max_modes=2)
    profile(session, board)
    assert session.predict() is None
    assert session.choose(Limits(power_w=60)).row in session.history.rows


def test_the_bandit_under_a_budget_finds_a_better_mode_than_as_many_random_ones(board, reference):
    def best(name: str) -> float:
        choices = []
        for seed in range(5):
            limits = Limits(power_w=20)
            session = session_of(name, board, reference, seed=seed, max_modes=30, aim=Aim.BUDGET, limits=limits)
            profile(session, board)
            row = session.choose().row
            assert row is not None
            choices.append(float(board.truth.step_s[row]))
        return float(np.mean(choices))

    assert best("ucb") < best("random-pareto")


def test_the_bandit_takes_only_what_it_measured(board, reference):
    session = session_of("ucb", board, reference)
    profile(session, board)
    assert session.choose(Limits(power_w=22)).row in session.history.rows


@pytest.mark.parametrize("name", REGRESSORS)
def test_without_scikit_learn_the_message_says_what_to_install(name, board, monkeypatch):
    monkeypatch.setattr(regressors, "find_spec", lambda module: None)
    with pytest.raises(StrategyUnavailableError, match=r"scikit-learn: pip install '\.\[nn\]'"):
        strategies.build(name, Problem(board.space))


def test_a_host_offers_only_strategies_whose_packages_it_has() -> None:
    bare = strategies.runnable(lambda package: False)
    assert bare[0] == "transfer"
    assert not {"powertrain", "powertrain-head-first", "nn", *REGRESSORS} & set(bare)
    assert set(REGRESSORS) <= set(strategies.runnable(lambda package: package == "sklearn"))
    assert strategies.runnable(lambda package: True) == strategies.names()


def test_under_a_ledger_another_batch_size_teaches_but_the_mode_of_least_power_comes_first(board):
    """What a rest takes is not known before the first sample of this batch size."""
    modes = [board.space[row] for row in (0, len(board.space) // 2)]
    elsewhere = tuple(Sample(mode, 0.2, 12.0 + 5.0 * place, 32) for place, mode in enumerate(modes))
    problem = Problem(
        board.space,
        limits=Limits(power_w=30),
        work=Work(batch_size=8),
        explore_limit_w=30.0,
        elsewhere=elsewhere,
        rules=NORMAL,
    )
    session = ProfilingSession(problem, "transfer")
    first = session.ask()
    assert isinstance(first, Ask)
    assert first.mode == min(board.space, key=lambda mode: (mode.cores, mode.cpu_khz, mode.gpu_hz, mode.emc_hz))
    session.tell(Sample(first.mode, 2.0, 11.0, 8))
    assert isinstance(session.ask(), Ask)


def test_a_class_says_whether_it_learns_from_a_reference_and_whether_it_minds_the_risk() -> None:
    marked = tuple(filter(strategies.learns_from_reference, strategies.names()))
    assert marked == ("transfer", "powertrain", "powertrain-head-first")
    assert tuple(filter(strategies.is_cautious, strategies.names())) == ("transfer",)
