"""What it costs to explore within a budget on the open Orin AGX tables, and whether any window exceeds it.

    python benchmarks/within_budget.py [--data DIR] [--seeds 4] [--step 1] [--noise 0.01] [--lag 0.3:1.2]
                                       [--caution high] [--tables "lstm,lstm inference 1"] [--jobs 2] [--cache FILE]

Readings are replayed (lag, noise, 10 Hz) through a ledger and visits. Budgets are every `--step` watts from 1.15 times
each table's least power up to the power of its fastest mode. The benchmark ends with 1 if a goal is missed.

With `--cache` every run (a table, a seed, a budget) is one line of a file: a benchmark that was stopped goes on where
it was. A cache belongs to one state of the code; give another file after a change.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from powertrain.evaluation import Settings
from powertrain.evaluation.evaluate import ROOM_TO_EXPLORE, summaries
from powertrain.evaluation.scores import BudgetScore, Score, Summary, WindowsAbove
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


@dataclass(frozen=True)
class Run:
    """One session: a table, a budget, a seed; and how readings come about."""

    table: str
    budget_w: float
    seed: int
    noise: float
    lag_s: tuple[float, float]
    caution: str

    @property
    def key(self) -> str:
        """Return the name under which a cache keeps its score."""
        return json.dumps(asdict(self), sort_keys=True)


class Cache:
    """Scores by run, one JSON line each; without a file they are kept for this process alone."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._scores: dict[str, Score] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                self._scores[entry["key"]] = _score(entry["score"])

    def __getitem__(self, run: Run) -> Score:
        return self._scores[run.key]

    def __contains__(self, run: Run) -> bool:
        return run.key in self._scores

    def add(self, run: Run, score: Score) -> None:
        """Keep a score."""
        self._scores[run.key] = score
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": run.key, "score": asdict(score)}) + "\n")


def _score(values: dict[str, Any]) -> Score:
    windows = values.pop("windows")
    budgets = tuple(BudgetScore(**budget) for budget in values.pop("budgets"))
    excess = tuple(values.pop("profiled_excess_w"))
    return Score(
        budgets=budgets,
        profiled_excess_w=excess,
        windows=None if windows is None else WindowsAbove(**windows),
        **values,
    )


def tables(data: Path) -> dict[str, SampleTable]:
    """Return the open tables: a training network, and two networks' inference at three batch sizes."""
    tables_by_name = {"lstm": read_csv(data / "orin-agx.train.lstm.csv")}
    for name in ("lstm", "resnet"):
        table = read_csv(data / f"orin-agx.infer.{name}.csv")
        tables_by_name |= {f"{name} inference {size}": table.at_batch_size(size) for size in SIZES}
    return tables_by_name


def budgets(table: SampleTable, step_w: float) -> tuple[float, ...]:
    """Return the budgets of a table that bind."""
    fastest_w = float(table.power_w[int(np.argmin(table.step_s))])
    return tuple(np.arange(np.ceil(float(table.power_w.min()) * ROOM_TO_EXPLORE), fastest_w, step_w).tolist())


def row(name: str, summary: Summary) -> str:
    """Return a line of the table."""
    result = summary.to_dict()
    raw, plausible, windows = result["penalty_binding_pct"], result["plausible"], result["windows_above"]
    cells = [name, str(len(summary.scores)), f"{raw['median']:.1f} / {raw['p90']:.1f}"]
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


# What every process of the pool holds: the tables by name, and the reference.
_shared: tuple[dict[str, SampleTable], Reference] | None = None


def hold(tables_by_name: dict[str, SampleTable], reference: Reference) -> None:
    """Keep tables and reference for the runs of this process."""
    global _shared
    _shared = tables_by_name, reference


def scored(run: Run) -> tuple[Run, Score]:
    """Replay one run."""
    assert _shared is not None, "call hold() first"
    table, reference = _shared[0][run.table], _shared[1]
    settings = Settings(
        samples=(15,),
        aim=Aim.BUDGET,
        within_budget=True,
        budgets_w=(run.budget_w,),
        seeds=1,
        first_seed=run.seed,
        noise=run.noise,
        lag_s=run.lag_s,
        caution=Caution(run.caution),
    )
    (summary,) = summaries(table, reference, settings)
    return run, summary.scores[0]


def scores(runs: list[Run], cache: Cache, pool: ProcessPoolExecutor | None) -> Iterator[Score]:
    """Yield the score of every run, from the cache or new."""
    yield from [cache[run] for run in runs if run in cache]
    missing = [run for run in runs if run not in cache]
    for run, score in pool.map(scored, missing) if pool is not None else map(scored, missing):
        cache.add(run, score)
        yield score


def main() -> int:
    """Print a Markdown table; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("POWERTRAIN_DATA", BESIDE)))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--step", type=float, default=1.0)
    parser.add_argument("--noise", type=float, default=0.01)
    parser.add_argument("--lag", type=parse_lag, default=(0.3, 1.2))
    parser.add_argument("--caution", type=Caution, default=Caution.NORMAL)
    parser.add_argument("--tables", help="names, with commas (default: all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cache", type=Path)
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        print(
            f"SKIPPED: the open tables are not at {arguments.data}; give --data or set POWERTRAIN_DATA", file=sys.stderr
        )
        return 0
    resnet = read_csv(arguments.data / "orin-agx.train.resnet.csv")
    reference = Reference.from_table(resnet, device="orin-agx", workload="resnet18")
    tables_by_name = tables(arguments.data)
    names = arguments.tables.split(",") if arguments.tables else list(tables_by_name)
    cache, whole = Cache(arguments.cache), Summary("transfer", 15)
    print("| table | runs | penalty % median / p90 | plausible rows | mean over 99 % | windows above ", end="")
    print("| worst % | visits / s |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    hold(tables_by_name, reference)
    with ProcessPoolExecutor(arguments.jobs, initializer=hold, initargs=(tables_by_name, reference)) as pool:
        for name in names:
            grid = product(range(arguments.seeds), budgets(tables_by_name[name], arguments.step))
            runs = [
                Run(name, watts, seed, arguments.noise, arguments.lag, arguments.caution.value) for seed, watts in grid
            ]
            summary = Summary("transfer", 15, list(scores(runs, cache, pool if arguments.jobs > 1 else None)))
            whole.scores.extend(summary.scores)
            print(row(name, summary), flush=True)
    print(row("all", whole))
    return 0 if goals_kept(whole) else 1


if __name__ == "__main__":
    sys.exit(main())
