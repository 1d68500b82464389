"""Every workload as the reference of every other, and the rule that picks one of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from powertrain import devices
from powertrain.evaluation import EvaluationError, Settings, evaluate_matrix, workloads_of
from powertrain.profiling import Aim
from powertrain.samples import Sample, SampleTable
from powertrain_agent.simulate import workloads as simulator

NAMES = ("resnet18", "bert", "mobilenet-v3", "yolov8n")
SETTINGS = Settings(("transfer",), (10,), seeds=2, aim=Aim.ACCURACY, budgets_w=(60.0,))


def simulated(workload: str, every: int) -> SampleTable:
    space = devices.get("orin-agx").profiled_space()
    assert space is not None
    points = ((mode, simulator.evaluate("orin-agx", workload, 16, mode)) for mode in list(space)[::every])
    return SampleTable.of(Sample(mode, point.step_s, point.power_w, 16) for mode, point in points)


@pytest.fixture(scope="module")
def document():
    return evaluate_matrix(workloads_of({name: simulated(name, 9) for name in NAMES}, "orin-agx"), SETTINGS)


def error(document, source: str, target: str) -> float:
    (cell,) = (c for c in document["cells"] if (c["reference"], c["target"]) == (source, target))
    return cell["mape_time_pct"]["median"] + cell["mape_power_pct"]["median"]


def test_every_pair_has_a_cell_and_the_document_is_json(document):
    assert len(document["cells"]) == len(NAMES) ** 2
    assert {cell["reference"] for cell in document["cells"] if cell["self_fit"]} == set(NAMES)
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_the_diagonal_is_fitted_to_all_modes_and_scored_on_them_the_rest_on_unseen_ones(document):
    for cell in document["cells"]:
        assert cell["self_fit"] == (cell["reference"] == cell["target"])
        assert cell["validated_on"] == ("all modes" if cell["self_fit"] else "unseen modes")


def test_a_reference_of_its_own_beats_the_average_of_the_others(document):
    for name in NAMES:
        others = [error(document, source, name) for source in NAMES if source != name]
        assert error(document, name, name) < np.mean(others)


def test_the_rule_never_picks_the_target_itself_and_loses_little_against_the_best_of_the_column(document):
    losses = []
    for pick in document["picks"]:
        assert pick["target"] not in pick["picked"]
        assert sum(pick["picked"].values()) == SETTINGS.seeds
        losses.append(pick["loss"])
    assert np.mean(losses) < 1.3


def test_the_rule_is_better_than_picking_blindly(document):
    by_rule, blindly = [], []
    for pick in document["picks"]:
        errors = [error(document, source, pick["target"]) for source in NAMES if source != pick["target"]]
        by_rule.append(pick["loss"] * min(errors))
        blindly.append(np.mean(errors))
        assert pick["loss"] <= pick["loss_worst"]
    assert np.mean(by_rule) < np.mean(blindly)


@pytest.mark.parametrize(
    ("tables", "settings", "message"),
    [
        (1, SETTINGS, "at least two tables"),
        (2, Settings(("nn",), (10,), 1, budgets_w=(60.0,)), "learns from no reference"),
        (2, Settings(("transfer",), (10, 20), 1), "one number of samples"),
    ],
)
def test_what_makes_no_matrix_is_refused(tables, settings, message):
    few = {name: simulated(name, 60) for name in NAMES[:tables]}
    with pytest.raises(EvaluationError, match=message):
        evaluate_matrix(workloads_of(few), settings)
