"""Fronts of one profile, and what a table says by itself."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

from powertrain import devices
from powertrain.evaluation import Settings, fronts, knob_worth, preset_watts
from powertrain.modes import PowerMode
from powertrain.samples import SampleTable

SETTINGS = Settings(budgets_w=(18.0, 24.0))


@pytest.fixture(scope="module")
def ours(target_table, reference):
    return fronts(target_table, reference, "transfer", 12, SETTINGS)


def values(points, name: str) -> list[float]:
    return [point[name] for point in points]


def test_the_observed_front_has_every_mode_that_no_other_beats_on_both(ours, target_table):
    assert values(ours["observed"], "step_s")[0] == target_table.step_s.min()
    assert values(ours["observed"], "power_w")[-1] == target_table.power_w.min()
    for fast, slow in pairwise(ours["observed"]):
        assert fast["step_s"] < slow["step_s"]
        assert fast["power_w"] > slow["power_w"]


def test_the_third_front_is_the_truth_at_the_modes_of_the_predicted_one(ours, target_table):
    assert values(ours["predicted"], "mode") == values(ours["predicted_observed"], "mode")
    truth = {str(target_table.mode(row)): row for row in range(len(target_table))}
    for point in ours["predicted_observed"]:
        assert point["power_w"] == target_table.power_w[truth[point["mode"]]]
    assert json.loads(json.dumps(ours, allow_nan=False)) == ours


def test_each_budget_has_its_choice_beside_the_best_mode(ours):
    assert [choice["budget_w"] for choice in ours["choices"]] == [18.0, 24.0]
    for choice in ours["choices"]:
        assert choice["best"][0]["power_w"] <= choice["budget_w"]
        assert choice["observed"][0]["step_s"] >= choice["best"][0]["step_s"]
        assert choice["observed"][0]["power_w"] <= choice["budget_w"]


def test_a_strategy_that_predicts_nothing_draws_what_it_measured(target_table, reference):
    front = fronts(target_table, reference, "random-pareto", 12, SETTINGS)
    assert front is not None
    assert front["predicted"] == front["predicted_observed"]
    assert len(front["predicted"]) <= 12


def test_a_strategy_that_measures_nothing_has_no_front(target_table):
    assert fronts(target_table, None, "maxn", 12, SETTINGS) is None


def made_up(cores_help: bool) -> SampleTable:
    """Return four modes: few cores save power and cost time only where cores help."""
    modes = [(cores, 1000, gpu, 100) for cores in (2, 4) for gpu in (10, 20)]
    few_s = 3.0 if cores_help else 1.0
    return SampleTable(
        np.array(modes, dtype=np.float64), np.full(4, 1), np.array([few_s, few_s, 1.0, 0.5]),
        np.array([10.0, 12.0, 14.0, 20.0]),
    )  # fmt: skip


def test_keeping_cores_online_costs_what_the_best_mode_with_fewer_cores_would_save():
    worth = knob_worth(made_up(cores_help=False), [12.0, 14.0, 18.0])
    assert worth["all cores online"] == {
        "median": 0.0,
        "p90": 0.0,
        "worst": 0.0,
        "unreachable_pct": pytest.approx(100 / 3),
    }
    assert worth["memory at maximum"]["worst"] == 0.0


def test_the_watts_of_presets_are_those_of_the_nearest_measured_mode():
    device = devices.get("orin-agx")
    labelled = [preset for preset in device.presets if preset.watts is not None]
    modes = [device.preset_mode(preset) for preset in labelled]
    table = SampleTable(
        np.array([[m.cores, m.cpu_khz, m.gpu_hz, m.emc_hz] for m in modes], dtype=np.float64),
        np.full(len(modes), 16), np.full(len(modes), 0.1), np.array([(p.watts or 0.0) + 1.5 for p in labelled]),
    )  # fmt: skip
    for entry in preset_watts(table, device):
        assert entry["exact"]
        assert entry["power_w"] == entry["label_w"] + 1.5
        assert PowerMode.parse(entry["mode"]) == PowerMode.parse(entry["nearest"])
