"""Plans: which pairs of batch size and mode are measured for a job with several batch sizes, and which pair is taken.

The second paper's own method and what it compares itself with, beside our default. All work by peak power.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from powertrain.batching.choice import choose_batch
from powertrain.batching.relation import Relation
from powertrain.batching.table import BatchTable
from powertrain.objectives import ASSUMED_PEAK_FACTOR, Limits, Objective, PowerStatistic, Work
from powertrain.profiling import Aim, Problem
from powertrain.profiling.problem import Cost
from powertrain.samples import Sample
from powertrain.session import Done, ProfilingSession
from powertrain.space import BoolArray, ModeSpace
from powertrain.strategies.base import HasPhysics

# What `transfer` measures: enough at the first size to know the workload, a few at each other.
FIRST_MODES, FURTHER_MODES = 12, 4
# A few minibatches are enough for a table of relative times (the paper's own words); large batches are slow on a Nano.
PROFILING = Cost(switch_s=5.0, steps=5)


@dataclass(frozen=True)
class Assignment:
    """What a plan is asked: r of the proxy data set, the limit on peak power, and the mode that is safe for any
    workload.

    `worst_case_column` is what a site without profiles would allow under the limit; only the two baselines use it.
    """

    relation: Relation
    limit_w: float | None
    worst_case_column: int
    objective: Objective = Objective.MIN_TIME
    reference: HasPhysics | None = None
    seed: int = 0

    @property
    def limits(self) -> Limits:
        """Return the limit as one on peak power."""
        return Limits(power_w=self.limit_w, power_statistic=PowerStatistic.PEAK)


@dataclass(frozen=True)
class Outcome:
    """The pair that was taken (None: nothing keeps the limit) and the pairs that were measured, in order."""

    batch_size: int | None
    column: int | None
    measured: tuple[tuple[int, int], ...] = ()  # (batch size, column)
    reason: str = ""


@dataclass
class Board:
    """The truth as a plan may see it: one measurement at a time, each remembered."""

    truth: BatchTable
    measured: list[tuple[int, int]] = field(default_factory=list)

    def peak_w(self, batch_size: int, column: int) -> float:
        """Measure a pair and return its peak power."""
        self.measured.append((batch_size, column))
        return float(self.truth.peak_w[self.truth.row(batch_size), column])

    def sample(self, batch_size: int, column: int) -> Sample:
        """Measure a pair and return the sample."""
        self.measured.append((batch_size, column))
        row = self.truth.row(batch_size)
        return Sample(
            self.truth.mode(column),
            float(self.truth.step_s[row, column]),
            float(self.truth.power_w[row, column]),
            batch_size,
            power_peak_w=float(self.truth.peak_w[row, column]),
        )

    def measured_mask(self) -> BoolArray:
        """Return what was measured: (sizes, modes)."""
        mask = np.zeros(self.truth.step_s.shape, dtype=np.bool_)
        for size, column in self.measured:
            mask[self.truth.row(size), column] = True
        return mask


def staircase(truth: BatchTable, assignment: Assignment) -> Outcome:
    """Measure as the second paper does under a known limit, then choose among what was measured.

    Power grows with batch size and clock, so the largest batch climbs the GPU clocks from the lowest until one is over
    the limit, and the next smaller batch starts where that one had to stop. Where a batch is over the limit already
    there (power need not grow), it steps down instead.
    """
    board, ladder = Board(truth), truth.ladder()
    limit = np.inf if assignment.limit_w is None else assignment.limit_w
    step = 0
    for size in reversed(truth.batch_sizes):
        if board.peak_w(size, int(ladder[step])) <= limit:
            while step + 1 < ladder.size and board.peak_w(size, int(ladder[step + 1])) <= limit:
                step += 1
        else:
            while step > 0:
                step -= 1
                if board.peak_w(size, int(ladder[step])) <= limit:
                    break
    return _best(board, assignment)


def transfer(truth: BatchTable, assignment: Assignment) -> Outcome:
    """Measure with the default strategy, one batch size after the other; each learns from those before it.

    All four knobs are free, and no mode is tried that may break the limit.
    """
    board, space = Board(truth), ModeSpace.covering(truth.modes)
    columns = np.argsort(space.rows(truth.modes))
    samples: list[Sample] = []
    sizes = truth.batch_sizes
    for position, size in enumerate((sizes[-1], *sizes[:-1])):
        problem = Problem(
            space,
            aim=Aim.BUDGET,
            objective=assignment.objective,
            limits=assignment.limits,
            work=Work(batch_size=size),
            explore_limit_w=None if assignment.limit_w is None else assignment.limit_w / ASSUMED_PEAK_FACTOR,
            max_modes=FURTHER_MODES if position else FIRST_MODES,
            cost=PROFILING,
            seed=assignment.seed,
            elsewhere=tuple(samples),
        )
        session = ProfilingSession(problem, "transfer", assignment.reference)
        while not isinstance(answer := session.ask(), Done):
            sample = board.sample(size, int(columns[space.index(answer.mode)]))
            session.tell(sample)
            samples.append(sample)
    return _best(board, assignment)


def largest_batch(truth: BatchTable, assignment: Assignment) -> Outcome:
    """Take the largest batch at the worst-case safe clocks (Baseline 1): nothing is measured."""
    return Outcome(truth.batch_sizes[-1], assignment.worst_case_column, reason="largest batch, worst-case safe clocks")


def proxy_batch(truth: BatchTable, assignment: Assignment) -> Outcome:
    """Take the batch that needs the fewest samples on the proxy, at the worst-case safe clocks (Baseline 2)."""
    ratios = {size: assignment.relation.r[size] for size in truth.batch_sizes if size in assignment.relation.r}
    best = min(ratios, key=lambda size: (ratios[size], size))
    return Outcome(best, assignment.worst_case_column, reason="fewest samples on the proxy, worst-case safe clocks")


def fastest(truth: BatchTable, assignment: Assignment) -> Outcome:
    """Measure everything and choose: the bound for all others, if `asked.relation` is the target's own."""
    board = Board(truth, [(size, c) for size in truth.batch_sizes for c in range(len(truth.modes))])
    return _best(board, assignment)


Plan = Callable[[BatchTable, Assignment], Outcome]
PLANS: Mapping[str, Plan] = {
    "transfer": transfer,
    "staircase": staircase,
    "largest-batch": largest_batch,
    "proxy-batch": proxy_batch,
    "fastest": fastest,
}


def worst_case_column(tables: list[BatchTable], limit_w: float | None) -> int:
    """Return the highest GPU clock (column of the first table) at which no table breaks the limit at any batch size.

    The lowest clock where none is safe.
    """
    ladder = tables[0].ladder()
    if limit_w is None:
        return int(ladder[-1])
    peaks = np.max([table.peak_w[:, table.ladder()].max(axis=0) for table in tables], axis=0)
    safe = np.flatnonzero(np.maximum.accumulate(peaks) <= limit_w)
    return int(ladder[safe[-1] if safe.size else 0])


def _best(board: Board, assignment: Assignment) -> Outcome:
    choice = choose_batch(
        board.truth.profiles(board.measured_mask()), assignment.relation, assignment.objective, assignment.limits
    )
    measured = tuple(board.measured)
    if choice.best is None:
        return Outcome(None, None, measured, choice.reason)
    return Outcome(choice.best.batch_size, choice.best.row, measured, choice.reason)
