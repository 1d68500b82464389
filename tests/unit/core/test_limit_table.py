"""One entry in the table of limits is a limit everywhere: API, rules, core, feasibility, command line."""

import subprocess
import sys

import pytest

from powertrain.api.v1alpha1 import Constraints, NodeConstraints, SessionLimits
from powertrain.limit_table import LIMITS, LimitEntry
from powertrain.objectives import Limits, Quantity, Span

# In a process of its own, so that the entry is there before anything reads the table.
ADD_ONE = """
import numpy as np
from powertrain import limit_table as table

table.LIMITS += (
    table.LimitEntry(
        "energy_joules_per_step", "energy_per_step_j", table.Quantity.ENERGY, table.Span.STEP, unit="J",
        words="energy per step", sentence="{} J for a step", description="Most energy of a step.",
        option="energy_joules_per_step", help="Most energy a step may take.",
    ),
)
from typer.testing import CliRunner
from powertrain.api.v1alpha1 import Constraints, SessionLimits, TrainingJobSpec
from powertrain.choosing import choose
from powertrain.feasibility import break_probability
from powertrain.objectives import Limits, Objective, Work
from powertrain.prediction import Prediction
from powertrain_cli.jobs import documents
from powertrain_cli.main import app

assert Constraints.model_validate({"energyJoulesPerStep": 2}).wire()["energyJoulesPerStep"] == 2
needs = [each["rule"] for each in TrainingJobSpec.model_json_schema()["x-kubernetes-validations"]]
assert sum("has(self.constraints.energyJoulesPerStep)" in rule for rule in needs) == 2, needs
limits = SessionLimits(energy_joules_per_step=2.0).core_limits(None, None)
assert limits == Limits(energy_per_step_j=2.0)
time_s, power_w = np.array([0.05, 0.1, 0.2]), np.array([50.0, 15.0, 9.0])
exact = np.zeros(3)
prediction = Prediction(time_s, exact, power_w, exact)
assert break_probability(prediction, limits, Work()).tolist() == [1.0, 0.0, 0.0]
choice = choose(prediction, Objective.MIN_TIME, limits, Work())
assert (choice.row, choice.excluded) == (1, {"energyJoulesPerStep": 1})
assert documents.limits({"energyJoulesPerStep": 2.0}) == "2 J for a step"
assert "--energy-joules-per-step" in CliRunner().invoke(app, ["choose", "--help"], env={"COLUMNS": "200"}).output
"""


def test_one_entry_adds_a_limit_everywhere() -> None:
    result = subprocess.run([sys.executable, "-c", ADD_ONE], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.wire_name)
def test_the_api_has_every_limit(limit: LimitEntry) -> None:
    for model in (Constraints, SessionLimits):
        assert model.model_fields[limit.field].alias == limit.wire_name
    assert (limit.field in NodeConstraints.model_fields) == limit.may_override


def test_limits_are_grouped_by_quantity_and_span() -> None:
    limits = Limits(power_w=30.0, epoch_s=60.0, energy_j=5e6)
    assert [value for _, value in limits.values()] == [30.0, 60.0, 5e6]
    assert [value for _, value in limits.values(of=(Quantity.TIME,))] == [60.0]
    assert [value for _, value in limits.values(per=(Span.TRAINING,))] == [5e6]
