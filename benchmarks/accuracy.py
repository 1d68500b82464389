"""How well strategies predict and choose on the open Orin AGX tables, against the figures they must reach.

    python benchmarks/accuracy.py [--data DIR] [--seeds 10] [--out results.json] [--only NAME]

Each row is one `powertrain evaluate` run: the same code, the same definitions (docs/reference/cli.md).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from powertrain.evaluation import Settings, evaluate
from powertrain.profiling import Aim
from powertrain.reference import Reference
from powertrain.sample_csv import read_csv
from powertrain.samples import SampleTable

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
BUDGETS = tuple(float(watts) for watts in range(17, 51))
ONE_LIMIT = Settings(samples=(15,), aim=Aim.BUDGET)


@dataclass(frozen=True)
class Case:
    """One run and the figures that it must reach: path in the result → highest allowed value."""

    name: str
    target: str
    settings: Settings
    reach: dict[str, float]


def mape(time_pct: float, power_pct: float, **more: float) -> dict[str, float]:
    """Return the limits of both median errors."""
    return {"mape_time_pct.median": time_pct, "mape_power_pct.median": power_pct, **more}


def accuracy(samples: int, reach: dict[str, float], strategy: str = "transfer", target: str = "lstm") -> Case:
    """Return a case for prediction error."""
    settings = Settings((strategy,), (samples,), aim=Aim.ACCURACY, budgets_w=BUDGETS)
    return Case(f"{strategy}, {samples} modes, ResNet → {target}", target, settings, reach)


def cases() -> list[Case]:
    """Return every run that docs and tests speak of."""
    front = Settings(samples=(20,), aim=Aim.FRONT, budgets_w=BUDGETS, checks=2)
    penalty, safe = "penalty_binding_pct", {"over_budget_pct": 0.0}
    worst = {"mape_time_pct.worst": 5.0, "mape_power_pct.worst": 3.5}
    return [
        accuracy(5, mape(4.5, 3.0)),
        accuracy(10, mape(2.7, 2.1) | worst),
        accuracy(20, mape(2.3, 1.9)),
        accuracy(50, mape(1.8, 1.6)),
        *(accuracy(10, mape(5.5, 4.2), target=name) for name in INFERENCE),
        accuracy(50, mape(7.5, 3.8), "powertrain"),
        accuracy(50, mape(5.5, 2.2), "powertrain-head-first"),
        accuracy(50, {}, "nn"),
        Case("one 20-mode front, all budgets", "lstm", front, {f"{penalty}.median": 0.8, f"{penalty}.p90": 4.5} | safe),
        Case(
            "the same with 1 % noise",
            "lstm",
            replace(front, noise=0.01),
            {f"{penalty}.median": 3.0, "over_budget_pct": 2.0, "over_budget_1w_pct": 0.0},
        ),
        Case(
            "one budget, 15 modes",
            "lstm",
            replace(ONE_LIMIT, budgets_w=BUDGETS),
            {f"{penalty}.median": 0.3, f"{penalty}.p90": 3.0} | safe,
        ),
        Case("50 random modes", "lstm", Settings(("random-pareto",), (50,), budgets_w=BUDGETS), {}),
    ]


INFERENCE = {
    "lstm inference 1": ("lstm", 1),
    "lstm inference 32": ("lstm", 32),
    "resnet inference 1": ("resnet", 1),
    "resnet inference 32": ("resnet", 32),
}


def targets(data: Path) -> dict[str, Callable[[], SampleTable]]:
    """Return the open tables by the names that cases use."""
    readers: dict[str, Callable[[], SampleTable]] = {"lstm": lambda: read_csv(data / "orin-agx.train.lstm.csv")}
    for name, (model, size) in INFERENCE.items():
        readers[name] = lambda model=model, size=size: read_csv(data / f"orin-agx.infer.{model}.csv").at_batch_size(
            size
        )
    return readers


def figure(result: dict[str, Any], path: str) -> float:
    """Return a nested figure."""
    value: Any = result
    for key in path.split("."):
        value = value[key]
    return float(value)


def main(data: Path, seeds: int, only: str, out: Path | None) -> int:
    """Print a Markdown table with each figure over what it must reach; return 1 if one is missed."""
    if not data.is_dir():
        print(f"SKIPPED: the open tables are not at {data}; give --data or set POWERTRAIN_DATA", file=sys.stderr)
        return 0
    table = read_csv(data / "orin-agx.train.resnet.csv")
    reference = Reference.from_table(table, device="orin-agx", workload="resnet18")
    tables, results, all_reached = targets(data), [], True
    print(
        "| run | reached / must reach | calibration time, power | minutes | fit + predict ms |\n|---|---|---|---|---|",
        flush=True,
    )
    for case in (case for case in cases() if only in case.name):
        settings = replace(case.settings, seeds=seeds, jobs=os.cpu_count() or 1)
        result = evaluate(tables[case.target](), reference, settings)[0]
        reached = {path: figure(result, path) for path in case.reach}
        all_reached = all_reached and all(reached[path] <= limit for path, limit in case.reach.items())
        words = ", ".join(f"{path} {reached[path]:.2f} / {limit:g}" for path, limit in case.reach.items())
        if not case.reach:
            words = _without_goal(result)
        print(
            f"| {case.name} | {words} | {_calibration(result)} | {result['profiling_minutes']:.1f} | {_ms(result)} |",
            flush=True,
        )
        results.append({"case": case.name, "reach": case.reach, "reached": reached, "result": result})
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(results, indent=2), encoding="utf-8")
    return 0 if all_reached else 1


def _without_goal(result: dict[str, Any]) -> str:
    errors = [f"{result[key]['median']:.2f}" for key in ("mape_time_pct", "mape_power_pct") if result[key]]
    penalty = result["penalty_binding_pct"]
    return f"MAPE {'/'.join(errors) or '–'}, penalty {penalty['median']:.1f}, over {result['over_budget_pct']:.0f} %"


def _calibration(result: dict[str, Any]) -> str:
    values = result["calibration"].values()
    return "–" if None in values else ", ".join(f"{value:.3f}" for value in values)


def _ms(result: dict[str, Any]) -> str:
    return "–" if result["fit_predict_ms"] is None else f"{result['fit_predict_ms']:.0f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("POWERTRAIN_DATA", BESIDE)))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sys.exit(main(options.data, options.seeds, options.only, options.out))
