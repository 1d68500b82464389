"""What several batch sizes cost beside one: modes per further size until its predictions are as good as alone.

    python benchmarks/batch_cost.py [--board nano] [--seeds 1]

The first size (the largest) is profiled with 12 modes. Each further one is then profiled with 1, 2, 4 modes, with and
without the samples of the sizes before it; the error is over all its modes, in % (median over sizes, models, seeds).
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from batch_size import MODELS, tables

from powertrain.batching import BatchTable
from powertrain.objectives import Work
from powertrain.profiling import Aim, Problem
from powertrain.reference import Reference, shipped
from powertrain.samples import Sample
from powertrain.session import Done, ProfilingSession
from powertrain.space import ModeSpace

FIRST, FURTHER = 12, (1, 2, 4, 12)
NEARLY_PCT = 1.0


def profile(
    truth: BatchTable, size: int, count: int, elsewhere: list[Sample], reference: Reference, seed: int
) -> tuple[list[Sample], float, float]:
    """Return the samples of one size and the error of time and power over all its modes."""
    space = ModeSpace.covering(truth.modes)
    columns, row = np.argsort(space.rows(truth.modes)), truth.row(size)
    problem = Problem(
        space, aim=Aim.ACCURACY, work=Work(batch_size=size), max_modes=count, min_gain=0.0, seed=seed,
        elsewhere=tuple(elsewhere),
    )  # fmt: skip
    session, samples = ProfilingSession(problem, "transfer", reference), []
    while not isinstance(answer := session.ask(), Done):
        column = int(columns[space.index(answer.mode)])
        sample = Sample(answer.mode, float(truth.step_s[row, column]), float(truth.power_w[row, column]), size)
        session.tell(sample)
        samples.append(sample)
    prediction = session.predict()
    assert prediction is not None
    time_pct = 100 * np.abs(prediction.time_s / truth.step_s[row, columns] - 1).mean()
    power_pct = 100 * np.abs(prediction.power_w / truth.power_w[row, columns] - 1).mean()
    return samples, float(time_pct), float(power_pct)


def main(board: str, seeds: int) -> int:
    """Print the errors; 1 if four modes with the others' samples are not nearly as good as twelve alone."""
    errors: dict[tuple[str, int], list[tuple[float, float]]] = {}
    reference = shipped()
    for seed, (model, truth) in (
        (s, item) for s in range(seeds) for item in tables(board).items() if item[0] in MODELS
    ):
        sizes = truth.batch_sizes
        first, *alone = profile(truth, sizes[-1], FIRST, [], reference, seed)
        errors.setdefault(("first size", FIRST), []).append((alone[0], alone[1]))
        for count in FURTHER:
            samples_so_far = list(first)
            for size in (sizes[0], *sizes[1:-1]):
                samples, *helped = profile(truth, size, count, samples_so_far, reference, seed)
                samples_so_far += samples
                errors.setdefault(("further, with the others'", count), []).append((helped[0], helped[1]))
                _, *alone = profile(truth, size, count, [], reference, seed)
                errors.setdefault(("further, alone", count), []).append((alone[0], alone[1]))
        print(f"{model}, seed {seed}: done", file=sys.stderr, flush=True)
    print("| batch size | modes | time % | power % |\n|---|---|---|---|")
    median = {key: np.median(values, axis=0) for key, values in errors.items()}
    for (kind, count), (time_pct, power_pct) in sorted(median.items()):
        print(f"| {kind} | {count} | {time_pct:.1f} | {power_pct:.1f} |")
    is_enough = bool(np.all(median["further, with the others'", 4] <= median["further, alone", 12] + NEARLY_PCT))
    print(f"\nsix sizes: {FIRST} + 5 × 4 = {FIRST + 20} modes instead of {6 * FIRST}; one size: {FIRST}")
    return 0 if is_enough else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--board", default="nano")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    sys.exit(main(options.board, options.seeds))
