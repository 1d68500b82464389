"""`random-pareto`: measure n random modes and take the best of them (the papers' RND baseline)."""

from __future__ import annotations

from typing import ClassVar

from powertrain.choosing import Choice
from powertrain.objectives import Limits
from powertrain.prediction import Prediction
from powertrain.profiling.history import History
from powertrain.profiling.problem import Problem
from powertrain.space import BoolArray
from powertrain.strategies.base import Proposal, random_order, select_measured
from powertrain.strategies.by_prediction import next_random


class RandomPareto:
    """Random modes, best measured."""

    name: ClassVar[str] = "random-pareto"
    default_max_modes: ClassVar[int | None] = 50
    summary: ClassVar[str] = "n random modes, the best measured one"

    def __init__(self, problem: Problem, reference: object | None = None) -> None:
        self._problem = problem
        self._rank = random_order(problem)

    def propose(self, history: History, allowed: BoolArray) -> Proposal | None:
        """Return the next mode of the seed's random order."""
        return next_random(self._rank, allowed)

    def predict(self, history: History) -> Prediction | None:
        """Return nothing: this strategy only measures."""
        return None

    def select(self, history: History, limits: Limits) -> Choice:
        """Return the best measured mode."""
        return select_measured(self._problem, history, limits)
