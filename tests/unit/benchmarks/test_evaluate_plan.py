"""What `make evaluate` computes: no row is judged with a reference that saw the row's own table."""

from __future__ import annotations

import pytest
from benchmarks.evaluate import paper, plan
from benchmarks.evaluate.plan import Cell
from benchmarks.evaluate.tables import SHIPPED, Store, descent
from benchmarks.evaluate.work import SelfFitError, unbiased_reference

TARGET = "sim:orin-nano:bert:16"


def source(reference: str) -> str:
    return plan.RESNET if reference == SHIPPED else reference.split("#", maxsplit=1)[0]


def judged() -> list[Cell]:
    return [cell for cell in plan.all_cells() if cell.kind not in ("self-fit", "picks")]


def test_no_judged_cell_has_a_reference_of_its_own_table():
    assert [cell for cell in judged() if cell.target == source(cell.reference)] == []


def test_a_simulated_target_of_the_references_own_table_stands_only_in_the_papers_rows_and_beside_a_fair_one():
    related = {(c.target, c.reference) for c in judged() if descent(c.target) == source(c.reference)}
    assert related == {(target, SHIPPED) for target in (plan.XAVIER[0], plan.NANO[0], *plan.BATCHES[:2])}
    rows = {(row.target, row.reference) for row in paper.ROWS}
    assert {(target, plan.LSTM) for target, _ in related} <= rows


@pytest.mark.parametrize(
    ("target", "reference"),
    [(plan.RESNET, plan.LSTM), (plan.XAVIER[0], plan.LSTM), (plan.LSTM, SHIPPED), (plan.MOBILENET, SHIPPED)],
)
def test_every_study_takes_the_same_reference_for_a_target(target, reference):
    assert plan.unbiased(target) == reference
    for study in (plan.cores(), plan.prior_widths()):
        assert {c.reference for cells in study.values() for c in cells if c.target == target} <= {reference}


def test_a_cell_whose_reference_was_fitted_to_the_target_is_refused(tmp_path):
    store = Store(tmp_path, tmp_path)
    with pytest.raises(SelfFitError, match="fitted to the table"):
        unbiased_reference(Cell("run", TARGET, reference=TARGET), store)
    assert unbiased_reference(Cell("run", TARGET), store).card.name == "orin-agx-resnet18"


def test_every_row_of_the_paper_has_its_cells_and_says_what_it_was_validated_on():
    scenarios = plan.scenarios()
    for row in paper.ROWS:
        assert row.validated
        assert row.target is None or (row.target, row.reference) in scenarios
    assert {row.scenario[0] for row in paper.ROWS if row.scenario} >= set("12345")


def test_error_is_known_for_every_predictor_at_10_to_100_modes():
    for target in (plan.LSTM, plan.MOBILENET):
        curve = plan.curve(target)
        for name in ("linear", "tree", "forest", "mlp", "ucb", "nn", "powertrain", "transfer"):
            assert curve[name][0].samples == (10, 20, 50, 100)


def test_a_clone_without_tables_says_which_rows_need_one(tmp_path):
    store = Store(tmp_path, tmp_path)
    assert store.missing(plan.RESNET) == "orin-agx.train.resnet.csv"
    assert store.missing(f"{plan.RESNET}#500") == "orin-agx.train.resnet.csv"
    assert store.missing(plan.MOBILENET) is None
    assert store.missing(SHIPPED) is None
