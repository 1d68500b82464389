"""`make evaluate`: what is computed, kept, resumed and written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from benchmarks import blocks as marked
from benchmarks.evaluate import figures, paper, plan, style
from benchmarks.evaluate.__main__ import missing_tables, say_what_is_missing
from benchmarks.evaluate.cache import Cache
from benchmarks.evaluate.markdown import NO_DATA_HERE, Tables
from benchmarks.evaluate.plan import Cell
from benchmarks.evaluate.results import Results
from benchmarks.evaluate.tables import MEASURED, SHIPPED, Store, TableMissingError, simulated
from benchmarks.evaluate.work import SteppedBoard, compute

from powertrain.evaluation.board import Board

ROOT = Path(__file__).resolve().parents[3]
NANO = plan.NANO[0]
CELL = Cell("run", NANO, samples=(6,), aim="front")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store without any measured table, as in a fresh clone."""
    return Store(tmp_path / "nothing", tmp_path / "references")


def test_the_boards_have_the_papers_numbers_of_modes():
    assert [len(simulated(*name.split(":")[1:3], 16)) for name in (plan.MOBILENET, plan.XAVIER[0], NANO)] == [
        4368,
        1000,
        180,
    ]


def test_every_cell_is_computed_once_and_references_are_trained_before_they_are_used():
    cells = plan.all_cells()
    assert len(set(cells)) == len(cells)
    trained = {cell.reference for cell in cells if cell.trains}
    needed = {cell.reference for cell in cells if cell.strategy in ("powertrain", "powertrain-head-first")}
    assert needed <= trained | {"shipped"}
    assert [cell.trains for cell in cells] == sorted((cell.trains for cell in cells), reverse=True)


def test_a_cell_gives_the_same_json_twice_without_anything_that_depends_on_the_machine(store):
    first, again = (json.dumps(compute(CELL, store), sort_keys=True) for _ in range(2))
    assert first == again
    assert json.loads(first)["6"]["fit_predict_ms"] is None


def test_a_finished_cell_is_found_again_and_another_one_is_not(store, tmp_path):
    cache = Cache(tmp_path / "cells", store)
    assert cache.get(CELL) is None
    cache.put(CELL, {"6": 1.5})
    assert Cache(tmp_path / "cells", store).get(CELL) == {"6": 1.5}
    assert cache.get(Cell("run", NANO, samples=(6,), aim="front", seed=1)) is None
    assert [path.suffix for path in (tmp_path / "cells").iterdir()] == [".json"]


def test_without_measured_tables_the_rows_that_need_them_are_named_with_the_way_to_bring_them(store, capsys):
    cells = plan.all_cells()
    lost = [cell for cell in cells if missing_tables(cell, store)]
    assert {cell.target for cell in lost} >= {"lstm", "resnet18"}
    simulated_alone = [cell for cell in cells if cell.target.startswith("sim:xavier") and cell.reference == SHIPPED]
    assert simulated_alone
    assert all(not missing_tables(cell, store) for cell in simulated_alone)
    say_what_is_missing(cells, ["orin-agx.train.lstm.csv"], store)
    output = capsys.readouterr().out
    assert "orin-agx.train.lstm.csv: needed by the rows of" in output
    assert "--data DIR" in output
    with pytest.raises(TableMissingError, match="bring your own"):
        store.table("lstm")


def test_every_table_can_be_written_without_any_result(store):
    blocks = Tables(Results({}), store).blocks()
    for make in blocks.values():
        assert make().startswith(("|", NO_DATA_HERE))
    assert "no data here" in blocks["predictors-lstm"]()


def test_the_five_scenarios_are_there_each_with_the_modes_the_paper_validated_on():
    assert [row.scenario[0] for row in paper.ROWS if row.scenario[:1].isdigit()] == ["1", "2", "3", "4", "5"]
    assert all(row.validated for row in paper.ROWS)
    scenarios = plan.scenarios()
    assert {(row.target, row.reference) for row in paper.ROWS if row.target} == set(scenarios)


def test_pages_ask_only_for_blocks_and_figures_that_exist(store):
    blocks = Tables(Results({}), store).blocks()
    names = set()
    for page in (ROOT / "docs/evaluation").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        names |= {match["name"] for match in marked.BLOCK.finditer(text)}
        for picture in re.findall(r"\(figures/([\w.-]+)\)", text):
            assert (page.parent / "figures" / picture).is_file(), f"{page.name}: {picture} is missing"
    assert names == set(blocks)


def test_filling_a_page_keeps_the_text_around_a_block_and_can_be_repeated():
    text = "before\n<!-- generated: one -->\nold\n<!-- end -->\nafter\n"
    once = marked.fill(text, {"one": lambda: "| new |"}, "page.md")
    assert once == "before\n<!-- generated: one -->\n\n| new |\n\n<!-- end -->\nafter\n"
    assert marked.fill(once, {"one": lambda: "| new |"}, "page.md") == once
    with pytest.raises(KeyError, match="nothing is generated under the name 'one'"):
        marked.fill(text, {}, "page.md")


def test_more_steps_measure_a_mode_more_exactly():
    board = Board.of(simulated("orin-nano", "resnet18", 16))
    mode = board.space[100]

    def error(steps: int) -> float:
        stepped = SteppedBoard(board.truth, board.space, 0.0, steps, 0.1)
        return sum(abs(stepped.measure(mode, seed).step_s / board.truth.step_s[100] - 1) for seed in range(40))

    assert error(40) < error(5)


def test_figures_are_drawn_to_the_same_bytes_twice(store, tmp_path):
    target = plan.MOBILENET
    results_of = {cell: compute(cell, store) for cell in plan.choices(target)["maxn"]}
    style.apply()
    for name in ("one.svg", "two.svg"):
        figures.penalties(Results(results_of), target, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_minutes_have_quartiles_as_errors_have(store):
    cells = [Cell("run", NANO, samples=(6,), aim="front", seed=seed) for seed in range(2)]
    results_of = {cell: compute(CELL, store) for cell in cells}
    for cell, minutes in zip(cells, (1.0, 2.0), strict=True):
        results_of[cell] = {"6": results_of[cell]["6"] | {"profiling_minutes": minutes}}
    assert Results(results_of).minutes(cells, 6) == {"q1": 1.25, "median": 1.5, "q3": 1.75}


def test_one_figure_of_the_paper_is_the_same_wherever_it_stands():
    rows = {row.case: row.transfer for row in paper.ROWS}
    for name, target in (("MobileNet", plan.MOBILENET), ("YOLO", plan.YOLO)):
        assert rows[f"ResNet → {name}"].startswith(paper.MATRIX[plan.RESNET, target])


def test_measured_tables_have_file_names_that_say_board_and_workload():
    assert all(file.startswith("orin-agx.") and file.endswith(".csv") for file, _ in MEASURED.values())
