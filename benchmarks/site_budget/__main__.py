"""One cap over many boards: how much sooner the last job ends than with equal and proportional limits, as Markdown.

    python -m benchmarks.site_budget [--data DIRECTORY] [--fleets 100] [--out FILE.json]

The open tables (orin-agx.train.resnet.csv and the like) are looked for in $POWERTRAIN_DATA, else beside the repository;
what is not there is simulated. Ends with 1 if a promise is missed: the makespan at a cap of 40 % between lowest and
highest draw for 6 boards, the distance from the best of all combinations, the time of a plan for 200 boards.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from benchmarks.site_budget.fleets import fronts
from benchmarks.site_budget.measurement import Figures, measure
from benchmarks.site_budget.report import missed, tables

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"


def main() -> int:
    """Measure, print, and say which promises were missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("POWERTRAIN_DATA", BESIDE)))
    parser.add_argument("--fleets", type=int, default=100)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    all_fronts = fronts(arguments.data)
    measured = [front.title for front in all_fronts if front.measured]
    print(f"fronts: {len(all_fronts)}, of these measured: {', '.join(measured) or 'none'}\n", flush=True)
    figures: Figures = measure(all_fronts, arguments.fleets)
    print(tables(figures))
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(figures.as_json(), indent=1) + "\n", encoding="utf-8")
    broken = missed(figures)
    print("\nmissed promises: " + ("; ".join(broken) or "none"))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
