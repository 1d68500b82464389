from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from powertrain.evaluation.board import Board
from powertrain.modes import PowerMode
from powertrain.objectives import Limits
from powertrain.profiling import Aim, Problem
from powertrain.samples import Sample
from powertrain.session import Ask, Done, ProfilingSession, SessionStateError
from powertrain.strategies import UnknownStrategyError


@pytest.fixture(scope="module")
def board(target_table):
    return Board.of(target_table)


def profile(session: ProfilingSession, board: Board, at_most: int = 1000) -> list[PowerMode]:
    asked_modes = []
    while len(asked_modes) < at_most and isinstance(answer := session.ask(), Ask):
        asked_modes.append(answer.mode)
        session.tell(board.measure(answer.mode, 0))
    return asked_modes


def test_a_session_asks_for_different_modes_and_ends_at_max_modes(board, reference):
    session = ProfilingSession(Problem(board.space, max_modes=9, min_gain=0.0), "transfer", reference)
    asked_modes = profile(session, board)
    assert len(set(asked_modes)) == len(asked_modes) == 9
    ended = session.ask()
    assert isinstance(ended, Done)
    assert "9 modes measured" in ended.reason


def test_every_ask_says_why_in_one_line(board, reference):
    session = ProfilingSession(Problem(board.space, max_modes=8, min_gain=0.0), "transfer", reference)
    while isinstance(answer := session.ask(), Ask):
        assert answer.reason
        assert "\n" not in answer.reason
        session.tell(board.measure(answer.mode, 0))


def test_asking_again_without_telling_gives_the_same_mode(board, reference):
    session = ProfilingSession(Problem(board.space), "transfer", reference)
    first, again = session.ask(), session.ask()
    assert isinstance(first, Ask)
    assert isinstance(again, Ask)
    assert first.mode == again.mode


def test_a_session_stops_early_when_little_is_to_be_gained(board, reference):
    problem = Problem(board.space, aim=Aim.BUDGET, limits=Limits(power_w=25), min_gain=0.01, max_modes=200)
    session = ProfilingSession(problem, "transfer", reference)
    assert len(profile(session, board)) < 60
    ended = session.ask()
    assert isinstance(ended, Done)
    assert "expected to gain only" in ended.reason


@pytest.mark.parametrize("aim", list(Aim))
def test_a_session_goes_on_after_any_restart_as_if_nothing_had_happened(board, reference, aim):
    problem = Problem(board.space, aim=aim, limits=Limits(power_w=24), max_modes=9, min_gain=0.0, seed=3)
    whole = profile(ProfilingSession(problem, "transfer", reference), board)
    session = ProfilingSession(problem, "transfer", reference)
    interrupted = []
    for _ in range(9):
        answer = session.ask()
        assert isinstance(answer, Ask)
        session = ProfilingSession.from_dict(json.loads(json.dumps(session.to_dict())), reference)
        assert isinstance(pending := session.ask(), Ask)
        assert pending.mode == answer.mode
        interrupted.append(answer.mode)
        session.tell(board.measure(answer.mode, 0))
        session = ProfilingSession.from_dict(json.loads(json.dumps(session.to_dict())), reference)
    assert interrupted == whole


def test_a_stored_session_of_another_version_or_a_damaged_one_is_refused(board, reference):
    state = ProfilingSession(Problem(board.space), "transfer", reference).to_dict()
    with pytest.raises(SessionStateError, match="version 99"):
        ProfilingSession.from_dict({**state, "version": 99}, reference)
    with pytest.raises(SessionStateError, match="damaged"):
        ProfilingSession.from_dict({**state, "problem": {}}, reference)


def test_a_told_mode_that_differs_from_the_asked_one_teaches_what_it_is_and_neither_comes_again(board, reference):
    session = ProfilingSession(Problem(board.space, max_modes=12, min_gain=0.0), "transfer", reference)
    answer = session.ask()
    assert isinstance(answer, Ask)
    other = board.space.neighbours(answer.mode)[0]
    session.tell(board.measure(other, 0))
    later = profile(session, board)
    assert answer.mode not in later
    assert other not in later


def test_a_mode_outside_the_space_may_be_told_and_still_teaches(board, reference):
    session = ProfilingSession(Problem(board.space, max_modes=6, min_gain=0.0), "transfer", reference)
    session.tell(Sample(PowerMode(3, 500000, 400000000, 2133000000), 0.05, 17.0, 16))
    assert len(profile(session, board)) == 5
    assert len(session.history.modes) == 6


def test_failed_modes_are_not_asked_again_and_many_in_a_row_end_the_session(board, reference):
    session = ProfilingSession(Problem(board.space, max_modes=30), "transfer", reference)
    failed = []
    while isinstance(answer := session.ask(), Ask):
        failed.append(answer.mode)
        session.tell_failed(answer.mode, "the GPU clock was not applied")
    assert len(set(failed)) == len(failed) == 8
    assert "the GPU clock was not applied" in answer.reason


def test_throttled_samples_teach_nothing_and_are_not_repeated(board, reference):
    session = ProfilingSession(Problem(board.space, max_modes=4, min_gain=0.0), "transfer", reference)
    answer = session.ask()
    assert isinstance(answer, Ask)
    session.tell(replace(board.measure(answer.mode, 0), throttled=True))
    assert len(session.history.modes) == 0
    assert answer.mode not in profile(session, board)


def test_repeated_measurements_of_a_mode_count_by_their_median_with_less_noise(board, reference):
    session = ProfilingSession(Problem(board.space, noise=0.02), "transfer", reference)
    mode = board.space[40]
    for step_s in (0.040, 0.050, 0.041):
        session.tell(Sample(mode, step_s, 20.0, 16))
    assert session.history.step_s.tolist() == [0.041]
    assert session.history.noise[0] == pytest.approx(0.02 / np.sqrt(3))


def test_a_space_that_shrinks_is_honoured_and_keeps_what_was_learnt(board, reference):
    session = ProfilingSession(Problem(board.space, max_modes=12, min_gain=0.0), "transfer", reference)
    profile(session, board, at_most=6)
    smaller = board.space.subgrid(emc_hz=[3199000000])
    session.shrink(smaller)
    later = profile(session, board)
    assert len(later) == 6
    assert all(mode.emc_hz == 3199000000 for mode in later)
    assert len(session.history.modes) == 12


def test_an_unknown_strategy_is_named_with_those_that_exist(board):
    with pytest.raises(UnknownStrategyError, match=r"'magic'.*transfer"):
        ProfilingSession(Problem(board.space), "magic").ask()


def test_a_board_that_only_lowers_its_clocks_gets_one_descending_batch(board, reference):
    problem = Problem(board.space, limits=Limits(power_w=24), descending_only=True, max_modes=14, min_gain=0.0)
    session = ProfilingSession(problem, "transfer", reference)
    asked_modes = profile(session, board)
    assert len(asked_modes) >= 10
    for before, after in pairwise(asked_modes):
        assert after.cpu_khz <= before.cpu_khz
        assert after.gpu_hz <= before.gpu_hz
    assert isinstance(session.ask(), Done)
    choice = session.choose()
    assert choice.row is not None
    assert "lower clocks only" in choice.reason


@pytest.mark.parametrize("strategy", ["transfer", "random-pareto", "brute-force"])
@pytest.mark.parametrize("limit_w", [16.0, 22.0])
def test_no_strategy_leaves_the_exploration_limit(board, reference, strategy, limit_w):
    problem = Problem(
        board.space, aim=Aim.BUDGET, limits=Limits(power_w=limit_w), explore_limit_w=limit_w, max_modes=12, min_gain=0.0
    )
    session = ProfilingSession(problem, strategy, reference)
    asked_modes = profile(session, board)
    assert len(asked_modes) >= 5
    powers = board.truth.power_w[[board.space.index(mode) for mode in asked_modes]]
    assert (powers <= limit_w).all()


def test_with_a_limit_the_first_mode_is_the_one_of_least_power(board, reference):
    problem = Problem(board.space, limits=Limits(power_w=20), explore_limit_w=20.0)
    first = ProfilingSession(problem, "transfer", reference).ask()
    assert isinstance(first, Ask)
    truth = board.truth.power_w
    assert truth[board.space.index(first.mode)] <= np.quantile(truth, 0.02)


def test_nothing_is_tried_twice_when_even_the_least_mode_breaks_the_limit(board, reference):
    problem = Problem(board.space, limits=Limits(power_w=5), explore_limit_w=5.0, aim=Aim.BUDGET)
    session = ProfilingSession(problem, "transfer", reference)
    assert len(profile(session, board)) == 1
    ended = session.ask()
    assert isinstance(ended, Done)
    assert "no further mode is safe within 5 W" in ended.reason
    choice = session.choose()
    assert choice.row is None
    assert choice.closest is not None


def test_in_flight_checks_only_ever_improve_the_choice(board, reference):
    session = ProfilingSession(Problem(board.space, max_modes=8, min_gain=0.0), "transfer", reference)
    profile(session, board)
    limits = Limits(power_w=24)
    before = session.choose(limits)
    for _ in range(3):
        answer = session.ask_check(limits)
        if isinstance(answer, Done):
            break
        session.tell(board.measure(answer.mode, 0))
    after = session.choose(limits)
    assert before.row is not None
    assert after.row is not None
    assert board.truth.step_s[after.row] <= board.truth.step_s[before.row]
    assert board.truth.power_w[after.row] <= 24


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_choice_among_exact_measurements_never_breaks_its_budget(board, reference, data):
    seed = data.draw(st.integers(0, 1000))
    budget = data.draw(st.floats(12.0, 45.0))
    session = ProfilingSession(Problem(board.space, max_modes=7, min_gain=0.0, seed=seed), "transfer", reference)
    profile(session, board)
    choice = session.choose(Limits(power_w=budget))
    measured = session.history.power_w <= budget
    assert (choice.row is None) <= (not measured.any())
    if measured.any() and choice.row is not None:
        assert board.truth.power_w[choice.row] <= budget
