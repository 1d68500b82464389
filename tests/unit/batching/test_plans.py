"""Plans: what the staircase measures, what the baselines take, and how all are scored."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powertrain.batching import BatchTable, Relation
from powertrain.batching.plans import PLANS, Assignment, Board, staircase, worst_case_column
from powertrain.evaluation import EvaluationError
from powertrain.evaluation.batch_plans import Target, proxy_matrix, score_plans
from powertrain.objectives import Limits, PowerStatistic, Work
from powertrain.profiling import Problem
from powertrain.samples import Sample
from powertrain.session import Ask, ProfilingSession
from powertrain.space import ModeSpace

CLOCKS = np.array([1.0, 2.0, 3.0, 4.0, 5.0])


def table(sizes: tuple[int, ...], peak_w: list[list[float]], sample_s: list[list[float]]) -> BatchTable:
    modes = np.column_stack([np.full(5, 4.0), np.full(5, 1e6), CLOCKS * 1e8, np.full(5, 1.6e9)])
    step_s = np.array(sample_s) * np.array(sizes)[:, None]
    return BatchTable(modes, sizes, step_s, np.array(peak_w) / 1.03, np.array(peak_w))


def smooth() -> BatchTable:
    """Return a board whose power grows with batch size and clock, and whose time falls with both."""
    sizes = (4, 16, 64)
    peak = [[3 + 0.2 * np.log2(b) + 0.1 * c * np.log2(b) for c in CLOCKS] for b in sizes]
    return table(sizes, peak, [[1 / c + 2 / b for c in CLOCKS] for b in sizes])


RELATION = Relation({4: 0.5, 16: 0.6, 64: 1.0})


def test_the_staircase_climbs_from_the_largest_batch_and_never_goes_back() -> None:
    outcome = staircase(smooth(), Assignment(RELATION, 5.2, 0))
    assert outcome.measured == ((64, 0), (64, 1), (16, 0), (16, 1), (16, 2), (16, 3), (4, 2), (4, 3), (4, 4))
    assert (outcome.batch_size, outcome.column) == (16, 2)


def test_without_a_limit_the_smaller_batches_are_measured_once_at_the_top() -> None:
    outcome = staircase(smooth(), Assignment(RELATION, None, 4))
    assert outcome.measured == (*((64, c) for c in range(5)), (16, 4), (4, 4))


def test_where_a_smaller_batch_takes_more_power_the_staircase_steps_down() -> None:
    odd = table((8, 32), [[4, 5, 6, 7, 8], [3, 4, 5, 6, 7]], [[5, 4, 3, 2, 1]] * 2)
    outcome = staircase(odd, Assignment(Relation({8: 0.1, 32: 1.0}), 5.5, 0))
    assert (outcome.batch_size, outcome.column) == (8, 1)


@pytest.mark.parametrize("limit_w", [5.2, 6.0, None])
def test_a_session_s_staircase_measures_what_the_paper_s_does_one_size_after_the_other(limit_w: float | None) -> None:
    truth = smooth()
    space, board = ModeSpace.covering(truth.modes), Board(truth)
    limits = Limits(power_w=limit_w, power_statistic=PowerStatistic.PEAK)
    samples: list[Sample] = []
    for size in reversed(truth.batch_sizes):
        problem = Problem(space, limits=limits, work=Work(batch_size=size), elsewhere=tuple(samples))
        session = ProfilingSession(problem, "staircase", filtered=False)
        while isinstance(answer := session.ask(), Ask):
            samples.append(board.sample(size, space.index(answer.mode)))
            session.tell(samples[-1])
    assert tuple(board.measured) == staircase(truth, Assignment(RELATION, limit_w, 0)).measured


@pytest.mark.parametrize("plan", list(PLANS))
def test_no_plan_that_measures_takes_a_pair_above_the_limit(plan: str, batch_table) -> None:
    truth = BatchTable.of(batch_table.take(batch_table.matrix[:, 2] > 5e8).take(np.arange(0, 2520, 1)))
    truth = truth.take(np.arange(0, len(truth.modes), 6)).only((1, 4, 16))
    relation = Relation({1: 0.7, 4: 0.6, 16: 1.0})
    scores = score_plans(truth, Target({1: 7e5, 4: 6e5, 16: 1e6}, relation), 25.0, 0, (plan,))
    assert scores[0].plan == plan
    if plan not in ("largest-batch", "proxy-batch"):
        assert scores[0].peak_w is not None
        assert scores[0].peak_w <= 25.0


def test_the_baselines_take_worst_case_clocks_and_measure_nothing() -> None:
    truth = smooth()
    safe = worst_case_column([truth], 5.2)
    assert safe == 0
    by_plan = {s.plan: s for s in score_plans(truth, Target({4: 50, 16: 60, 64: 100}, RELATION), 5.2, safe)}
    assert (by_plan["largest-batch"].batch_size, by_plan["largest-batch"].measured) == (64, 0)
    assert (by_plan["proxy-batch"].batch_size, by_plan["proxy-batch"].mode) == (4, by_plan["largest-batch"].mode)
    assert by_plan["fastest"].over_fastest_pct == 0
    assert by_plan["staircase"].time_s == pytest.approx((1 / 3 + 2 / 16) * 60)
    assert by_plan["staircase"].energy_j == pytest.approx(by_plan["staircase"].time_s * (3.8 + 1.2) / 1.03)


def test_a_limit_that_nothing_keeps_leaves_no_choice() -> None:
    scores = score_plans(smooth(), Target({4: 50, 16: 60, 64: 100}, RELATION), 1.0, 0, ("staircase",))
    assert scores[0].batch_size is None
    assert scores[0].time_s is None


def test_unknown_plans_and_sizes_are_named() -> None:
    with pytest.raises(EvaluationError, match=r"magic.*known: transfer, staircase"):
        score_plans(smooth(), Target({4: 1, 16: 1, 64: 1}, RELATION), None, 0, ("magic",))
    with pytest.raises(EvaluationError, match=r"\[64\]"):
        score_plans(smooth(), Target({4: 1, 16: 1}, RELATION), None, 0)


def test_studies_of_different_sizes_choose_among_their_own() -> None:
    studies = {"a": {4: 50.0, 16: 60.0, 64: 100.0}, "b": {4: 90.0, 64: 100.0}}
    matrix = proxy_matrix(smooth(), studies, [None])[None]
    assert matrix["b"]["b"] == 0.0
    assert matrix["a"]["b"] == np.inf, "16 was never trained there"
    assert 0 < matrix["b"]["a"] < np.inf
    with pytest.raises(EvaluationError, match=r"no batch size of \['c'\]; it has \[4, 16, 64\]"):
        proxy_matrix(smooth(), {"c": {8: 1.0}}, [None])


@given(st.lists(st.floats(0.2, 5.0), min_size=9, max_size=9), st.sampled_from([4.6, 5.2, 6.0, None]))
@settings(max_examples=40)
def test_the_matrix_is_zero_for_a_data_set_as_its_own_proxy_and_never_negative(
    needed: list[float], limit_w: float | None
) -> None:
    studies = {
        name: dict(zip((4, 16, 64), needed[i : i + 3], strict=True)) for i, name in ((0, "a"), (3, "b"), (6, "c"))
    }
    matrix = proxy_matrix(smooth(), studies, [limit_w])[limit_w]
    for proxy, row in matrix.items():
        assert row[proxy] == pytest.approx(0, abs=1e-9)
        assert all(value >= -1e-9 for value in row.values())
