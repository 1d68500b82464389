"""The tables of the study in a clone that has no measured tables: every block is there and says what is missing."""

from __future__ import annotations

import pytest
from benchmarks.evaluate.markdown import NO_DATA_HERE, Tables
from benchmarks.evaluate.results import Results
from benchmarks.evaluate.tables import Store

NEED_A_TABLE = {"choices-lstm", "choices-resnet", "odd-rows", "predictors-lstm", "profiled-modes", "noise", "presets"}


@pytest.fixture(scope="module")
def blocks(tmp_path_factory) -> dict[str, str]:
    nowhere = tmp_path_factory.mktemp("nowhere")
    return {name: make() for name, make in Tables(Results({}), Store(nowhere, nowhere)).blocks().items()}


def test_every_block_can_be_made_without_data_and_says_so(blocks):
    assert {name for name in NEED_A_TABLE if NO_DATA_HERE not in blocks[name]} == set()


def test_rows_whose_simulated_target_was_fitted_to_the_references_table_are_marked(blocks):
    marked = [line for line in blocks["scenarios"].splitlines() if "‡" in line]
    assert len(marked) == 4
    assert all("ResNet" in line.split("→")[1] for line in marked)


def test_every_row_has_as_many_cells_as_the_header(blocks):
    for name, block in blocks.items():
        assert len({line.count(" | ") for line in block.splitlines()}) == 1, name
