from __future__ import annotations

import json

import numpy as np
import pytest

from powertrain.sample_csv import write_csv
from powertrain.samples import SampleTable


@pytest.fixture
def target_csv(tmp_path, target_table):
    path = tmp_path / "target.csv"
    with path.open("w", encoding="utf-8") as stream:
        write_csv(target_table.take(np.arange(0, len(target_table), 3)), stream)
    return str(path)


def test_evaluate_prints_one_json_document_with_the_stable_fields(powertrain, target_csv):
    result = powertrain("evaluate", "--target", target_csv, "--samples", "6", "--seeds", "1", "--jobs", "1", "--json")
    assert result.code == 0
    document = json.loads(result.out)
    assert document["target"] == target_csv
    assert document["reference"] == "shipped"
    assert [r["samples"] for r in document["results"]] == [6]


def test_evaluate_warns_of_a_reference_that_was_fitted_to_the_target(powertrain, target_csv):
    options = ("--strategy", "random-pareto", "--samples", "6", "--seeds", "1", "--jobs", "1", "--json")
    assert "self-fit" in powertrain("evaluate", "--target", target_csv, "--reference", target_csv, *options).err
    assert "self-fit" not in powertrain("evaluate", "--target", target_csv, *options).err


def test_evaluate_as_a_table_names_the_strategy_and_explains_its_columns(powertrain, target_csv):
    options = ("--strategy", "random-pareto", "--samples", "6", "--seeds", "1", "--jobs", "1")
    result = powertrain("evaluate", "--target", target_csv, *options)
    assert result.code == 0
    assert "random-pareto" in result.out
    assert "Medians over seeds" in result.out


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--strategy", "magic"), 2, "unknown strategy 'magic'"),
        (("--samples", "100000"), 2, "only 252 modes"),
        (("--samples", "ten"), 2, "--samples takes whole numbers"),
        (("--budgets", "50:17:1"), 2, "--budgets takes watts"),
        (("--validate", "some"), 2, "--validate takes"),
        (("--reference", "nowhere.csv"), 2, "nowhere.csv: no such file"),
        (("--strategy", "preset"), 3, "presets are per board"),
        (("--device", "orin-agz"), 2, "unknown device 'orin-agz'; known: nano, orin-agx"),
    ],
)
def test_evaluate_says_what_is_wrong_with_its_input(powertrain, target_csv, options, code, message):
    result = powertrain("evaluate", "--target", target_csv, "--jobs", "1", "--seeds", "1", *options)
    assert result.code == code
    assert message in " ".join(result.err.split())
    assert result.err.startswith("error: ")
    assert result.out == ""


def test_evaluate_wants_to_know_which_of_several_batch_sizes(powertrain, tmp_path, target_table):
    few = target_table.take(np.arange(10))
    both = SampleTable(
        np.vstack([few.matrix] * 2), np.repeat([1, 32], 10), np.tile(few.step_s, 2), np.tile(few.power_w, 2)
    )
    path = tmp_path / "both.csv"
    with path.open("w", encoding="utf-8") as stream:
        write_csv(both, stream)
    result = powertrain("evaluate", "--target", str(path))
    assert result.code == 2
    assert "--batch-size" in result.err


def test_evaluate_adds_the_fronts_behind_the_pictures(powertrain, target_csv):
    options = ("--strategy", "transfer", "--strategy", "maxn", "--samples", "6", "--seeds", "1", "--jobs", "1")
    result = powertrain("evaluate", "--target", target_csv, *options, "--budgets", "20,30", "--fronts", "--json")
    assert result.code == 0
    (drawn,) = json.loads(result.out)["fronts"]
    assert drawn["strategy"] == "transfer"
    assert {"observed", "predicted", "predicted_observed", "choices"} <= set(drawn)


def test_fronts_without_json_are_refused(powertrain, target_csv):
    result = powertrain("evaluate", "--target", target_csv, "--fronts")
    assert result.code == 2
    assert "--fronts adds to --json" in " ".join(result.err.split())


@pytest.fixture
def other_csv(tmp_path, reference_table):
    path = tmp_path / "other.csv"
    with path.open("w", encoding="utf-8") as stream:
        write_csv(reference_table.take(np.arange(1, len(reference_table), 3)), stream)
    return str(path)


def test_a_matrix_has_every_table_as_reference_of_every_other(powertrain, target_csv, other_csv):
    options = ("--samples", "6", "--seeds", "1", "--jobs", "1", "--aim", "accuracy")
    result = powertrain("evaluate", "--matrix", target_csv, other_csv, *options)
    assert result.code == 0
    assert "picked" in result.out
    document = json.loads(powertrain("evaluate", "--matrix", target_csv, other_csv, *options, "--json").out)
    assert document["names"] == ["target", "other"]
    assert [(cell["reference"], cell["target"], cell["self_fit"]) for cell in document["cells"]] == [
        ("target", "target", True),
        ("target", "other", False),
        ("other", "target", False),
        ("other", "other", True),
    ]
    assert [list(pick["picked"]) for pick in document["picks"]] == [["other"], ["target"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--matrix", "TARGET"), "two tables or more"),
        (("--matrix", "TARGET", "TARGET"), "two tables are called target"),
        (("--matrix", "TARGET", "OTHER", "--strategy", "linear"), "learns from no reference"),
        (("--matrix", "TARGET", "OTHER", "--target", "TARGET"), "no --target"),
        (("TARGET", "OTHER"), "several with --matrix"),
        ((), "one table with --target"),
    ],
)
def test_evaluate_says_how_tables_are_given(powertrain, target_csv, other_csv, arguments, message):
    paths = {"TARGET": target_csv, "OTHER": other_csv}
    result = powertrain("evaluate", *(paths.get(argument, argument) for argument in arguments))
    assert result.code == 2
    assert message in " ".join(result.err.split())


def test_tune_shows_every_mode_and_ends_with_the_choice_and_why(powertrain, target_csv):
    result = powertrain("tune", "--csv", target_csv, "--power", "22", "--modes", "7")
    assert result.code == 0
    assert "low-power anchor" in result.out
    assert "choice " in result.out
    assert "why " in result.out


def test_tune_as_json_records_what_was_tried_and_keeps_the_budget(powertrain, target_csv):
    result = powertrain("tune", "--csv", target_csv, "--power", "22", "--modes", "8", "--within-budget", "--json")
    assert result.code == 0
    record = json.loads(result.out)
    assert 1 <= len(record["tried"]) <= 10
    assert sum(tried["power_w"] > 22 for tried in record["tried"]) <= 1
    assert record["true"]["power_w"] <= 22


def test_a_mistyped_board_is_no_silent_wide_prior(powertrain, target_csv, other_csv):
    for arguments in (("tune", "--csv", target_csv, "--power", "25"), ("evaluate", "--matrix", target_csv, other_csv)):
        result = powertrain(*arguments, "--device", "orin-agz")
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith("error: unknown device 'orin-agz'; known: nano, ")


def test_tune_under_a_budget_that_no_mode_keeps_has_no_solution(powertrain, target_csv):
    result = powertrain("tune", "--csv", target_csv, "--power", "3", "--modes", "4")
    assert result.code == 1
    assert "modes keeps the limits" in result.err
