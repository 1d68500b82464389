"""References of one's own: the agent picks the closest by what the training shows, and names it in its status."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from powertrain.reference import SHIPPED, train_reference
from powertrain_agent.governing.settings import SessionSettings
from powertrain_agent.planning.messages import SHIPPED_ONLY
from powertrain_agent.simulate import batches

from .conftest import Scenario, envelope

NewScenario = Callable[..., Scenario]
WORKLOADS = ("lstm", "mobilenet-v3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """References of two workloads on this board, as `powertrain reference train` writes them."""
    new_folder = tmp_path_factory.mktemp("references")
    modes = batches.thinned_modes("orin-agx")
    for workload in WORKLOADS:
        table = batches.measured("orin-agx", workload, [16], modes)
        train_reference(table, "orin-agx", workload, with_network=False).save(new_folder / workload)
    return new_folder


@pytest.mark.parametrize("workload", WORKLOADS)
def test_of_two_references_the_one_that_fits_the_training_is_used_and_named(
    new_scenario: NewScenario, folder: Path, workload: str
) -> None:
    scenario = new_scenario(SessionSettings(references=(*SHIPPED_ONLY, str(folder))))
    scenario.simulation.envelope(envelope(workload={"name": workload, "batchSize": 16}))
    scenario.simulation.train(workload)
    scenario.run(900, scenario.is_running)
    result = scenario.status.result
    assert result is not None
    assert result.reference == f"orin-agx-{workload}"
    assert scenario.true_w() <= 30.0


def test_without_folders_the_agent_knows_the_shipped_reference_only() -> None:
    assert SessionSettings().references == SHIPPED_ONLY == (SHIPPED,)
