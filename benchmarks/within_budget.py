"""What it costs to explore within a budget on the open Orin AGX tables, and whether any window exceeds it.

    python benchmarks/within_budget.py [--data DIR] [--seeds 4] [--step 1] [--noise 0.01] [--lag 0.3:1.2]
                                       [--caution high]

Readings are replayed (lag, noise, 10 Hz) through a ledger and visits. Budgets are every `--step` watts from 1.15 times
each table's least power up to the power of its fastest mode. The benchmark ends with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np

from powertrain.evaluation import Settings
from powertrain.evaluation.evaluate import ROOM_TO_EXPLORE, summaries
from powertrain.evaluation.scores import Summary
from powertrain.profiling import Aim, Caution
from powertrain.reference import Reference
from powertrain.sample_csv import read_csv
from powertrain.samples import SampleTable
from powertrain_cli.evaluate import parse_lag

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
SIZES = (1, 16, 32)
# Percent, over plausible rows of all tables together: median and 90th percentile of the penalty, mean excess over
# somebody who knows every mode and keeps 1 % distance.
MEDIAN, P90, MEAN_OVER_99 = 1.5, 15.0, 4.0


def tables(data: Path) -> dict[str, SampleTable]:
    """Return the open tables: a training network, and two networks' inference at three batch sizes."""
    found = {"lstm": read_csv(data / "orin-agx.train.lstm.csv")}
    for name in ("lstm", "resnet"):
        table = read_csv(data / f"orin-agx.infer.{name}.csv")
        found |= {f"{name} inference {size}": table.at_batch_size(size) for size in SIZES}
    return found


def budgets(table: SampleTable, step_w: float) -> tuple[float, ...]:
    """Return the budgets of a table that bind."""
    fastest_w = float(table.power_w[int(np.argmin(table.step_s))])
    return tuple(np.arange(np.ceil(float(table.power_w.min()) * ROOM_TO_EXPLORE), fastest_w, step_w).tolist())


def row(name: str, summary: Summary) -> str:
    """Return a line of the table."""
    result = summary.to_dict()
    raw, plausible, windows = result["penalty_binding_pct"], result["plausible"], result["windows_above"]
    cells = [name, f"{raw['median']:.1f} / {raw['p90']:.1f}"]
    if plausible is None:
        return " | ".join(["", *cells, "–", "–", "–", "–", "–", ""]).strip()
    believed, over_99 = plausible["penalty_binding_pct"], plausible["excess_over_99_pct"]
    cells += [
        f"{believed['median']:.1f} / {believed['p90']:.1f}",
        f"{over_99['mean']:.1f}",
        f"{windows['exploring']} + {windows['after']}",
        f"{windows['worst_excess_pct']:+.2f}",
        f"{result['visits']:.0f} / {result['board_seconds']:.0f}",
    ]
    return " | ".join(["", *cells, ""]).strip()


def goals_kept(summary: Summary) -> bool:
    """Say whether the joined figures reach what they must."""
    result = summary.to_dict()
    plausible, windows = result["plausible"], result["windows_above"]
    if plausible is None or windows is None:
        return True
    penalty = plausible["penalty_binding_pct"]
    return bool(
        penalty["median"] <= MEDIAN
        and penalty["p90"] <= P90
        and plausible["excess_over_99_pct"]["mean"] <= MEAN_OVER_99
        and windows["exploring"] == windows["after"] == 0
    )


def main() -> int:
    """Print a Markdown table; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("POWERTRAIN_DATA", BESIDE)))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--step", type=float, default=1.0)
    parser.add_argument("--noise", type=float, default=0.01)
    parser.add_argument("--lag", type=parse_lag, default=(0.3, 1.2))
    parser.add_argument("--caution", type=Caution, default=Caution.NORMAL)
    given = parser.parse_args()
    if not given.data.is_dir():
        print(f"SKIPPED: the open tables are not at {given.data}; give --data or set POWERTRAIN_DATA", file=sys.stderr)
        return 0
    resnet = read_csv(given.data / "orin-agx.train.resnet.csv")
    reference = Reference.from_table(resnet, device="orin-agx", workload="resnet18")
    print("| table | penalty % median / p90 | plausible rows | mean over 99 % | windows above | worst % | visits / s |")
    print("|---|---|---|---|---|---|---|", flush=True)
    whole = Summary("transfer", 15)
    for name, table in tables(given.data).items():
        settings = Settings(
            samples=(15,),
            aim=Aim.BUDGET,
            within_budget=True,
            budgets_w=budgets(table, given.step),
            seeds=given.seeds,
            noise=given.noise,
            lag_s=given.lag,
            caution=given.caution,
            jobs=os.cpu_count() or 1,
        )
        (summary,) = summaries(table, reference, settings)
        whole.scores.extend(summary.scores)
        print(row(name, summary), flush=True)
    print(row("all", whole))
    return 0 if goals_kept(whole) else 1


if __name__ == "__main__":
    sys.exit(main())
