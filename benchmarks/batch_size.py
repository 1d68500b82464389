"""Batch size and mode together on a simulated Nano and TX2 NX, against the second paper's baselines.

    python benchmarks/batch_size.py [--seeds 3] [--boards nano,tx2-nx] [--out results.json]

For every model, data set and limit (peak power; "none": no limit): time to accuracy of the paper's joint method
(`staircase`, GPU clocks alone) and of ours (`transfer`, all four knobs, nothing tried that may break the limit),
beside the largest batch and the proxy's best batch at worst-case safe clocks. Times are simulated; how many samples a
batch size needs is assumed (convergence.toml). Ends with 1 if the joint choice loses to a baseline, does not beat both
under a limit for some model, or breaks its limit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from powertrain.batching import BatchTable, Relation, choose_batch
from powertrain.batching.plans import worst_case_column
from powertrain.evaluation.batch_plans import PlanScore, Target, score_plans
from powertrain.objectives import Limits, Objective, PowerStatistic
from powertrain.reference import shipped
from powertrain_agent.simulate import batches

MODELS = ("resnet18-cifar", "mobilenet-v2", "efficientvit-m1", "char-transformer")
LIMITS = {"nano": (4.5, 7.0, None), "tx2-nx": (5.0, 7.5, None)}
PAPER = "1.00–2.33 × (Baseline 1), 1.00–2.14 × (Baseline 2)"


@dataclass(frozen=True)
class Row:
    """One model, data set and limit."""

    board: str
    model: str
    data_set: str
    limit_w: float | None
    scores: dict[str, PlanScore]

    def ratio(self, plan: str, baseline: str) -> float:
        """Return how many times longer a baseline takes than a plan."""
        return (self.scores[baseline].time_s or np.nan) / (self.scores[plan].time_s or np.nan)

    def energy(self, plan: str, baseline: str) -> float:
        """Return how many times the energy of a plan a baseline takes."""
        return (self.scores[baseline].energy_j or np.nan) / (self.scores[plan].energy_j or np.nan)


def tables(board: str) -> dict[str, BatchTable]:
    """Return the measured tables of all models on a board, over a thinned space of modes that keeps every GPU clock."""
    modes = batches.thinned_modes(board)
    sizes = {model: [b for b in batches.BATCH_SIZES if b <= batches.largest_batch(model)] for model in MODELS}
    return {model: BatchTable.of(batches.measured(board, model, sizes[model], modes)) for model in MODELS}


def rows(board: str, seeds: int) -> Iterator[Row]:
    """Score every model, data set and limit on a board; the relation is the proxy's, the same for every board."""
    truth = tables(board)
    along_gpu = {model: table.along_gpu() for model, table in truth.items()}
    reference = shipped()
    for model in MODELS:
        relation = _relation(model, "proxy")
        for data_set in (name for name in batches.data_sets(model) if name != "proxy"):
            target = Target(batches.samples_needed(model, data_set), relation)
            for limit_w in LIMITS[board]:
                safe = worst_case_column(list(along_gpu.values()), limit_w)
                paper = ("staircase", "largest-batch", "proxy-batch", "fastest")
                scores = {s.plan: s for s in score_plans(along_gpu[model], target, limit_w, safe, paper)}
                ours = [
                    score_plans(truth[model], target, limit_w, 0, ("transfer", "fastest"), reference, seed=seed)
                    for seed in range(seeds)
                ]
                scores["transfer"] = sorted((run[0] for run in ours), key=lambda s: s.time_s or np.inf)[seeds // 2]
                scores["fastest, four knobs"] = ours[0][1]
                yield Row(board, model, data_set, limit_w, scores)


def _relation(model: str, data_set: str) -> Relation:
    return Relation.measured({b: [n] for b, n in batches.samples_needed(model, data_set).items()})


def broken(results: list[Row]) -> list[str]:
    """Return what must hold and does not."""
    wrong = []
    for row in results:
        for plan in ("staircase", "transfer"):
            where = f"{plan}, {row.board}, {row.model}, {row.data_set}, {row.limit_w} W"
            if row.scores[plan].over_limit:
                wrong.append(f"{where}: peak {row.scores[plan].peak_w:.2f} W is above the limit")
            slower = [b for b in ("largest-batch", "proxy-batch") if row.ratio(plan, b) < 1 - 1e-9]
            wrong += [f"{where}: slower than {baseline}" for baseline in slower]
    for board, model in {(row.board, row.model) for row in results}:
        limited = [row for row in results if (row.board, row.model) == (board, model) and row.limit_w is not None]
        if not any(min(row.ratio("staircase", b) for b in ("largest-batch", "proxy-batch")) > 1 for row in limited):
            wrong.append(f"{board}, {model}: never strictly faster than both baselines under a limit")
    return wrong


def share(score: PlanScore) -> float:
    """Return what profiling takes, in % of the training."""
    return 100 * score.profiling_minutes * 60 / (score.time_s or np.nan)


def show(results: list[Row]) -> None:
    """Print the table."""
    print(f"Times longer than ours (paper: {PAPER}); energy the same way; % over the fastest configuration.\n")
    print(
        "| board | model | data | limit W | joint: b, MHz | ×B1 | ×B2 | energy ×B1 ×B2 | over fastest % "
        "| pairs, % of training | four knobs: b, mode | ×B1 | ×B2 | over fastest % | pairs, % of training, over limit |"
    )
    print("|" + "---|" * 15)
    for row in results:
        joint, ours = row.scores["staircase"], row.scores["transfer"]
        cells = [
            row.board, row.model, row.data_set, "none" if row.limit_w is None else f"{row.limit_w:g}",
            f"{joint.batch_size}, {int(str(joint.mode).split('_')[2]) // 1000000}",
            *(f"{row.ratio('staircase', b):.2f}" for b in ("largest-batch", "proxy-batch")),
            " ".join(f"{row.energy('staircase', b):.2f}" for b in ("largest-batch", "proxy-batch")),
            f"{joint.over_fastest_pct:.1f}", f"{joint.measured}, {share(joint):.1f}",
            f"{ours.batch_size}, {ours.mode}",
            *(f"{row.ratio('transfer', b):.2f}" for b in ("largest-batch", "proxy-batch")),
            f"{ours.over_fastest_pct:.1f}",
            f"{ours.measured}, {share(ours):.1f}, {ours.profiled_over_limit}",
        ]  # fmt: skip
        print("| " + " | ".join(cells) + " |", flush=True)


def frugal(board: str) -> list[str]:
    """Return where the least energy is another pair than the least time."""
    lines = []
    for model, truth in tables(board).items():
        for limit_w in LIMITS[board]:
            limits = Limits(power_w=limit_w, power_statistic=PowerStatistic.PEAK)
            profiles, relation = truth.along_gpu().profiles(), _relation(model, "proxy")
            fast, least = (
                choose_batch(profiles, relation, objective, limits).best
                for objective in (Objective.MIN_TIME, Objective.MIN_ENERGY)
            )
            if fast and least and (fast.batch_size, fast.row) != (least.batch_size, least.row):
                mhz = [truth.along_gpu().modes[c.row, 2] / 1e6 for c in (fast, least)]
                lines.append(
                    f"{board}, {model}, {limit_w or 'no'} limit: fastest {fast.batch_size} at {mhz[0]:.0f} MHz, "
                    f"least energy {least.batch_size} at {mhz[1]:.0f} MHz: {1 - least.energy / fast.energy:.1%} less "
                    f"energy, {least.time / fast.time - 1:.1%} more time"
                )
    return lines


def main(boards: list[str], seeds: int, out: Path | None) -> int:
    """Print the comparison, the energy cases and what is broken."""
    results = [row for board in boards for row in rows(board, seeds)]
    show(results)
    for plan in ("staircase", "transfer"):
        spans = [[row.ratio(plan, b) for row in results] for b in ("largest-batch", "proxy-batch")]
        words = ", ".join(f"{min(span):.2f}–{max(span):.2f} ×" for span in spans)
        print(f"\n{plan}: {words} (largest-batch, proxy-batch); paper: {PAPER}")
    print("\nLeast energy is not least time:", *[f"- {line}" for line in frugal(boards[0])], sep="\n")
    wrong = broken(results)
    print("\nbroken:", *(wrong or ["nothing"]), sep="\n- ")
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        document = [
            {"board": r.board, "model": r.model, "data_set": r.data_set, "limit_w": r.limit_w,
             "plans": {name: score.to_dict() for name, score in r.scores.items()}} for r in results
        ]  # fmt: skip
        out.write_text(json.dumps(document, indent=2), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--boards", default="nano,tx2-nx")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sys.exit(main(options.boards.split(","), options.seeds, options.out))
