"""Writes what a run has measured: JSON, the curve, and the generated blocks of docs/scale.md.

python -m benchmarks.many_nodes.pages benchmarks/results/many_nodes.json --page docs/scale.md [--svg FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.blocks import fill

from . import paper, report
from .measurement import Figures


def blocks(figures: Sequence[Figures], broken: Sequence[str]) -> dict[str, Callable[[], str]]:
    """Return what the page shows, by the name of its block."""
    first, last = figures[0], figures[-1]
    return {
        "many-nodes-verdict": lambda: report.verdict(broken),
        "many-nodes": lambda: report.table(figures),
        "many-nodes-writes": lambda: f"On {last.size.nodes} nodes:\n\n{report.writes(last)}",
        "many-nodes-beside": lambda: report.beside(last),
        "many-nodes-paper": lambda: paper.table(first.wire(), last.wire(), paper.FLEET),
    }


def write(
    figures: Sequence[Figures], broken: Sequence[str], out: Path | None, svg: Path | None, page: Path | None
) -> None:
    """Write what was asked for; of a run in which no size was finished only the JSON."""
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        whole = {"missed": list(broken), "sizes": [each.wire() for each in figures]}
        out.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    if not figures:
        return
    if svg:
        svg.parent.mkdir(parents=True, exist_ok=True)
        svg.write_text(report.curve(figures), encoding="utf-8")
    if page:
        text = fill(page.read_text(encoding="utf-8"), blocks(figures, broken), page.name)
        page.write_text(text, encoding="utf-8")


def main() -> None:
    """Write curve and page from the JSON of an earlier run."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("results", type=Path)
    options.add_argument("--svg", type=Path)
    options.add_argument("--page", type=Path)
    arguments = options.parse_args()
    whole = json.loads(arguments.results.read_text(encoding="utf-8"))
    write([Figures.read(raw) for raw in whole["sizes"]], whole["missed"], None, arguments.svg, arguments.page)


if __name__ == "__main__":
    main()
