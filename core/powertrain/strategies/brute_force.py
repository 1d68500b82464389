"""`brute-force`: measure every mode and take the best (for a training of days that is never repeated)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from powertrain.choosing import Choice
from powertrain.objectives import Limits
from powertrain.prediction import Prediction
from powertrain.profiling.history import History
from powertrain.profiling.problem import Problem
from powertrain.space import BoolArray
from powertrain.strategies.base import Proposal, select_measured


class BruteForce:
    """Every mode, in the order of the grid."""

    name: ClassVar[str] = "brute-force"
    default_max_modes: ClassVar[int | None] = None
    summary: ClassVar[str] = "every mode of the board, the best measured one"

    def __init__(self, problem: Problem, reference: object | None = None) -> None:
        self._problem = problem

    def propose(self, history: History, allowed: BoolArray) -> Proposal | None:
        """Return the next mode of the grid, from the highest down (some boards want that order)."""
        if not allowed.any():
            return None
        return Proposal(int(np.flatnonzero(allowed)[-1]), "next of the grid")

    def predict(self, history: History) -> Prediction | None:
        """Return nothing: this strategy only measures."""
        return None

    def select(self, history: History, limits: Limits) -> Choice:
        """Return the best measured mode."""
        return select_measured(self._problem, history, limits)
