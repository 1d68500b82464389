from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from powertrain.evaluation import EvaluationError, Settings, evaluate
from powertrain.evaluation.board import Board
from powertrain.evaluation.plausibility import plausible_against_physics
from powertrain.evaluation.scores import budget_score
from powertrain.profiling import Aim, Caution
from powertrain.samples import SampleTable

FIGURES = {
    "strategy",
    "samples",
    "seeds",
    "mape_time_pct",
    "mape_power_pct",
    "penalty_pct",
    "penalty_binding_pct",
    "over_budget_pct",
    "over_budget_1w_pct",
    "excess_w",
    "unsafe_profiled_pct",
    "unsafe_profiled_1w_pct",
    "profiling_minutes",
    "fit_predict_ms",
    "calibration",
}


def one(target, reference, **options):
    results = evaluate(target, reference, replace(Settings(samples=(10,), seeds=2), **options))
    assert len(results) == 1
    return results[0]


def test_the_result_has_every_promised_figure_and_is_json(target_table, reference):
    result = one(target_table, reference, budgets_w=(20.0, 25.0))
    assert set(result) >= FIGURES
    assert set(result["mape_time_pct"]) == {"median", "q1", "q3", "worst"}
    assert set(result["penalty_pct"]) == {"median", "mean", "p90", "worst"}
    json.dumps(result, allow_nan=False)


def test_errors_are_given_over_unseen_modes_and_over_all_as_the_papers_score(target_table, reference):
    unseen = one(target_table, reference, samples=(30,), budgets_w=(20.0,), seeds=1)
    everything = one(target_table, reference, samples=(30,), budgets_w=(20.0,), seeds=1, validate_all=True)
    assert unseen["mape_all_time_pct"] == everything["mape_time_pct"] == everything["mape_all_time_pct"]
    assert unseen["mape_time_pct"] != unseen["mape_all_time_pct"]


def test_transfer_beats_random_modes_in_error_penalty_and_minutes(target_table, reference):
    budgets = (16.0, 20.0, 24.0, 28.0)
    ours = one(target_table, reference, samples=(12,), budgets_w=budgets, checks=2)
    theirs = one(target_table, reference, strategies=("random-pareto",), samples=(50,), budgets_w=budgets)
    assert ours["mape_time_pct"]["median"] < 6
    assert ours["mape_power_pct"]["median"] < 6
    assert ours["penalty_pct"]["mean"] < theirs["penalty_pct"]["mean"]
    assert ours["over_budget_pct"] == 0
    assert ours["profiling_minutes"] < theirs["profiling_minutes"] / 3


WITHIN = {"aim": Aim.BUDGET, "within_budget": True, "budgets_w": (18.0, 24.0), "noise": 0.01}


def test_with_high_caution_exploring_within_the_budget_is_reported_and_safe(target_table, reference):
    result = one(target_table, reference, caution=Caution.HIGH, **WITHIN)
    assert result["unsafe_profiled_pct"] <= 5
    assert result["unsafe_profiled_1w_pct"] == 0
    assert result["over_budget_pct"] == 0
    assert result["windows_above"] is None


def test_exploring_within_the_budget_tries_more_and_no_window_of_true_power_exceeds_it(target_table, reference):
    bold = one(target_table, reference, **WITHIN)
    timid = one(target_table, reference, caution=Caution.HIGH, **WITHIN)
    assert bold["windows_above"]["exploring"] == bold["windows_above"]["after"] == 0
    assert bold["windows_above"]["worst_excess_pct"] < 0.2
    assert bold["over_budget_pct"] == 0
    assert bold["penalty_binding_pct"]["mean"] <= timid["penalty_binding_pct"]["mean"]
    assert set(bold["plausible"]) == {"penalty_binding_pct", "excess_over_99_pct"}
    assert set(bold["plausible"]["excess_over_99_pct"]) == {"median", "mean", "p90"}
    assert bold["visits"] >= 10
    assert bold["board_seconds"] > 30
    json.dumps(bold, allow_nan=False)


def test_a_row_far_below_the_power_of_its_clocks_is_not_plausible(target_table, reference):
    power_w = target_table.power_w.copy()
    power_w[7] *= 0.5
    spoiled = replace(target_table, power_w=power_w)
    plausible = plausible_against_physics(spoiled, reference)
    assert not plausible[7]
    assert plausible.mean() > 0.95


def test_all_modes_profiled_means_no_penalty_and_validation_on_all(target_table, reference):
    small = target_table.take(np.arange(0, len(target_table), 9))
    result = one(small, reference, strategies=("brute-force",), samples=("all",), budgets_w=(22.0,), seeds=1)
    assert result["samples"] == "all"
    assert result["penalty_pct"]["worst"] == 0
    assert result["mape_time_pct"] is None


def test_same_seed_same_result(target_table, reference):
    first, again = (one(target_table, reference, noise=0.01, budgets_w=(20.0,)) for _ in range(2))
    assert first["mape_time_pct"] == again["mape_time_pct"]
    assert first["penalty_pct"] == again["penalty_pct"]


def test_two_processes_give_what_one_gives(target_table, reference):
    alone = one(target_table, reference, strategies=("random-pareto",), budgets_w=(20.0,))
    shared = one(target_table, reference, strategies=("random-pareto",), budgets_w=(20.0,), jobs=2)
    assert alone["penalty_pct"] == shared["penalty_pct"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": (5000,)}, "only 756 modes"),
        ({"samples": (0,)}, "at least 1"),
        ({"budgets_w": (1.0, 2.0)}, "least power"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_in_words(target_table, reference, options, message):
    with pytest.raises(EvaluationError, match=message):
        one(target_table, reference, **options)


def test_a_target_with_several_batch_sizes_is_refused(target_table, reference):
    both = SampleTable(
        np.vstack([target_table.matrix] * 2),
        np.repeat([1, 32], len(target_table)),
        np.tile(target_table.step_s, 2),
        np.tile(target_table.power_w, 2),
    )
    with pytest.raises(EvaluationError, match=r"\[1, 32\]"):
        one(both, reference)


def test_a_choice_over_budget_never_counts_as_better_than_the_best_feasible_mode(target_table):
    board = Board.of(target_table)
    fastest = int(np.argmin(board.truth.step_s))
    score = budget_score(board.truth, fastest, budget_w=18.0)
    assert score.penalty_pct == 0
    assert score.excess_w > 0
    assert score.binding
