"""`staircase`: the second paper's profiling under a known limit, one batch size at a time."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from powertrain.choosing import Choice
from powertrain.objectives import Limits
from powertrain.prediction import Prediction
from powertrain.profiling.history import History, peak_factor
from powertrain.profiling.problem import Problem
from powertrain.samples import Sample
from powertrain.space import BoolArray
from powertrain.strategies.base import Proposal, select_measured


class Staircase:
    """Climbs the GPU clocks, the other knobs at their maximum, from the lowest until one is over the limit.

    Power grows with the batch size: where larger ones were measured, it begins at the last clock that they could keep.
    If that is over the limit already (power need not grow), it steps down. As long as the first step is not known to be
    safe, modes that are come ever closer to it.
    """

    name: ClassVar[str] = "staircase"
    default_max_modes: ClassVar[int | None] = None
    summary: ClassVar[str] = "GPU clocks upward to the limit, the best measured one"

    def __init__(self, problem: Problem, reference: object | None = None) -> None:
        self._problem = problem
        modes = problem.modes
        top = np.all(modes[:, [0, 1, 3]] == modes[:, [0, 1, 3]].max(axis=0), axis=1)
        rows = np.flatnonzero(top)
        self._ladder = rows[np.argsort(modes[rows, 2])]

    def propose(self, history: History, allowed: BoolArray) -> Proposal | None:
        """Return the next step, None where the limit, the top or the bottom is reached."""
        keeps = {report.mode: self._keeps(report.sample) for report in history.reports if report.sample is not None}
        steps = [keeps.get(self._problem.space[int(row)]) for row in self._ladder]
        kept_places = [place for place, keeps_limit in enumerate(steps) if keeps_limit]
        visited_places = [place for place, keeps_limit in enumerate(steps) if keeps_limit is not None]
        step = kept_places[-1] + 1 if kept_places else visited_places[0] - 1 if visited_places else self._start()
        if not 0 <= step < self._ladder.size or history.visited[self._ladder[step]]:
            return None
        row = int(self._ladder[step])
        if allowed[row]:
            return Proposal(row, "next step of the staircase")
        return None if visited_places else self._toward(row, history, allowed)

    def _toward(self, row: int, history: History, allowed: BoolArray) -> Proposal | None:
        """Return the allowed mode nearest to a step, if it is nearer than all that were visited."""
        logs = np.log(self._problem.modes)
        distance = np.abs(logs - logs[row]).sum(axis=1)
        nearest = int(np.argmin(np.where(allowed, distance, np.inf)))
        if not allowed[nearest] or distance[nearest] >= distance[history.visited].min(initial=np.inf):
            return None
        return Proposal(nearest, "on the way to the first step of the staircase, which is not known to be safe yet")

    def predict(self, history: History) -> Prediction | None:
        """Return nothing: this strategy only measures."""
        return None

    def select(self, history: History, limits: Limits) -> Choice:
        """Return the best measured mode."""
        return select_measured(self._problem, history, limits)

    def _start(self) -> int:
        """Return the step that larger batches could keep last, the lowest where none was measured."""
        larger = [s for s in self._problem.elsewhere if s.batch_size > self._problem.work.batch_size and self._keeps(s)]
        measured_modes = {sample.mode for sample in larger}
        return max(
            (place for place, row in enumerate(self._ladder) if self._problem.space[int(row)] in measured_modes),
            default=0,
        )

    def _keeps(self, sample: Sample) -> bool:
        return not sample.unsafe and bool(sample.power_w <= self._problem.limits.mean_power_w(peak_factor(sample)))
