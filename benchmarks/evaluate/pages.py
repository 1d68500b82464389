"""Writes the pages of docs/evaluation: figures, and generated tables between markers in hand-written text."""

from __future__ import annotations

from pathlib import Path

from benchmarks.blocks import fill
from benchmarks.evaluate import figures, plan, settings_figures, style
from benchmarks.evaluate.markdown import Tables
from benchmarks.evaluate.plan import Cell
from benchmarks.evaluate.results import Results
from benchmarks.evaluate.tables import Store
from benchmarks.evaluate.work import BUDGETS_W


def write_pages(cells: dict[Cell, object], store: Store, sources: Path, target: Path) -> None:
    """Draw every figure and fill every generated block of the pages in `sources`; `target` may be the same folder."""
    results = Results(cells)
    draw(results, store, target / "figures")
    blocks = Tables(results, store).blocks()
    for page in sorted(sources.glob("*.md")):
        text = fill(page.read_text(encoding="utf-8"), blocks, page.name)
        (target / page.name).write_text(text, encoding="utf-8")


def draw(results: Results, store: Store, folder: Path) -> None:
    """Draw all figures; one whose data is not here is left out."""
    style.apply()
    for name, target in (("lstm", plan.LSTM), ("resnet", plan.RESNET), ("mobilenet", plan.MOBILENET)):
        if store.missing(target) or store.missing(plan.unbiased(target)):
            continue
        figures.penalties(results, target, folder / f"penalty-{name}.svg")
        figures.excess_bars(results, target, folder / f"excess-{name}.svg")
        if target == plan.RESNET:
            continue
        figures.errors(results, target, folder / f"error-{name}.svg")
        for part, (strategies, together) in figures.FRONTS.items():
            figures.fronts(results, target, strategies, together, folder / f"fronts{part}-{name}.svg")
    settings_figures.reference_sizes(results, folder / "reference-modes.svg")
    settings_figures.profiled_modes(results, folder / "profiled-modes.svg")
    settings_figures.steps(results, store, folder / "steps.svg")
    settings_figures.noise(results, folder / "noise.svg")
    settings_figures.prior_widths(results, folder / "prior-width.svg")
    settings_figures.knobs(store, BUDGETS_W, folder / "knobs.svg")
    settings_figures.presets(store, folder / "presets.svg")
