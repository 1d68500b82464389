"""What can be had at batch sizes that were not profiled: with samples of their own, few or many, and with most of their
rows.

    python benchmarks/batch_bounds.py TABLE.csv [--reference REFERENCE.csv] [--seeds 5]

The table holds at least four batch sizes. 40 samples are taken over the smallest, middle and largest, then 0, 1, 2, 4
at each of the others; error of time and power there in %, median over seeds (worst). `alone` spends 13 (a third of the
samples) or all 40 on the scored size itself, and knows no other: no interpolation can be expected to beat that. `two
thirds` is a fit to one size alone, to two thirds of its rows, scored on the rest (three-fold): what the table itself
allows. Whether the goal is hit is said below the first row.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from powertrain.batching.model import BatchModel
from powertrain.evaluation.batch_sizes import profile_sizes, shares
from powertrain.evaluation.board import Board
from powertrain.physics.predictor import PhysicsPredictor
from powertrain.reference import Reference, shipped
from powertrain.sample_csv import read_csv
from powertrain.samples import SampleTable
from powertrain.space import FloatArray

SAMPLES, EXTRA, ALONE, FOLDS = 40, (0, 1, 2, 4), (13, 40), 3
GOAL = (5.0, 4.0)  # error of time and of power in %, without a sample of the size itself


def errors(time_s: FloatArray, power_w: FloatArray, truth: SampleTable) -> tuple[float, float]:
    """Return the mean errors in %."""
    pairs = ((time_s, truth.step_s), (power_w, truth.power_w))
    time_pct, power_pct = (100 * float(np.abs(predicted / true - 1).mean()) for predicted, true in pairs)
    return time_pct, power_pct


def with_extra(boards: dict[int, Board], unseen: list[int], reference: Reference, extra: int, seed: int) -> FloatArray:
    """Return the errors at the unseen sizes after so many samples of each: (sizes, 2)."""
    sizes = tuple(boards)
    counts = shares((sizes[0], sizes[len(sizes) // 2], sizes[-1]), SAMPLES)
    if extra:
        counts |= dict.fromkeys(unseen, extra)
    samples, _ = profile_sizes(boards, counts, reference, seed)
    model = BatchModel(reference.physics, boards[sizes[0]].space.matrix, seed).fit(SampleTable.of(samples))
    predictions = [(size, model.predict(size)) for size in unseen]
    return np.array([errors(p.time_s, p.power_w, boards[size].truth) for size, p in predictions])


def alone(board: Board, size: int, reference: Reference, count: int, seed: int) -> tuple[float, float]:
    """Return the errors at a size after so many samples of it and none of another."""
    samples, _ = profile_sizes({size: board}, {size: count}, reference, seed)
    table, every = SampleTable.of(samples), board.truth
    predictor = PhysicsPredictor(reference.physics, seed, every.matrix)
    prediction = predictor.fit(table.matrix, table.step_s, table.power_w).predict(every.matrix)
    return errors(prediction.time_s, prediction.power_w, every)


def two_thirds(truth: SampleTable, reference: Reference) -> tuple[float, float]:
    """Return the three-fold errors of a fit to one size alone."""
    fold = np.random.default_rng(0).permutation(len(truth)) % FOLDS
    time_s, power_w = np.empty(len(truth)), np.empty(len(truth))
    for number in range(FOLDS):
        training, rest = truth.take(fold != number), fold == number
        predictor = PhysicsPredictor(reference.physics, space=truth.matrix)
        prediction = predictor.fit(training.matrix, training.step_s, training.power_w).predict(truth.matrix[rest])
        time_s[rest], power_w[rest] = prediction.time_s, prediction.power_w
    return errors(time_s, power_w, truth)


def show(label: str, errors_pct: FloatArray) -> list[tuple[float, float]]:
    """Print a row of errors (seeds, sizes, 2) and return the medians: of each size, and of their mean."""
    columns = [errors_pct[:, place] for place in range(errors_pct.shape[1])] + [errors_pct.mean(axis=1)]
    cells = [(*np.median(column, axis=0), *column.max(axis=0)) for column in columns]
    texts = [f"{time:.1f} / {power:.1f} ({worst:.1f} / {high:.1f})" for time, power, worst, high in cells]
    print(f"| {label} | {' | '.join(texts)} |", flush=True)
    return [(time, power) for time, power, *_ in cells]


def main(table: Path, reference: Reference, seeds: int) -> None:
    """Print a row per number of extra samples, then the bound by the table itself."""
    whole = read_csv(table)
    sizes = whole.batch_sizes()
    boards = {size: Board.of(whole.at_batch_size(size), 0.0) for size in sizes}
    unseen = [size for size in sizes if size not in (sizes[0], sizes[len(sizes) // 2], sizes[-1])]
    print(f"| samples | {' | '.join(map(str, unseen))} | together |\n|---|{'---|' * (len(unseen) + 1)}")
    for extra in EXTRA:
        errors_pct = np.array([with_extra(boards, unseen, reference, extra, seed) for seed in range(seeds)])
        cells = show(f"{SAMPLES} + {extra} each", errors_pct)
        if not extra:
            hits = ["hit" if time <= GOAL[0] and power <= GOAL[1] else "MISSED" for time, power in cells]
            print(f"| goal {GOAL[0]:g} / {GOAL[1]:g}, nothing measured there | {' | '.join(hits)} |", flush=True)
    for count in ALONE:
        seeded = [[alone(boards[size], size, reference, count, seed) for size in unseen] for seed in range(seeds)]
        show(f"{count}, alone", np.array(seeded))
    bound = np.array([two_thirds(boards[size].truth, reference) for size in unseen])
    print(f"| two thirds | {' | '.join(f'{t:.1f} / {p:.1f}' for t, p in [*bound, bound.mean(axis=0)])} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    reference_path = options.reference
    chosen_reference = (
        Reference.from_table(read_csv(reference_path), device=None, workload=reference_path.stem)
        if reference_path
        else shipped()
    )
    main(options.table, chosen_reference, options.seeds)
