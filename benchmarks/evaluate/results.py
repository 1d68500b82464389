"""Finished cells put together: summaries over seeds, and the choices behind box plots and bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.evaluate.plan import Cell
from benchmarks.evaluate.work import score_of

from powertrain.evaluation import Score
from powertrain.evaluation.scores import BudgetScore, Summary


@dataclass(frozen=True)
class Excess:
    """Choices over their budget, in the paper's figures: area (mean excess), A/L and A/L+1 (shares)."""

    area_w: float
    over_pct: float
    over_1w_pct: float


@dataclass(frozen=True)
class Results:
    """Every finished cell; a cell whose table is not here is simply absent."""

    cells: Mapping[Cell, Any]

    def scores(self, cells: Sequence[Cell], count: int) -> list[Score]:
        """Return the scores of a cell's seeds at a number of modes; none if one is absent."""
        if any(self.cells.get(cell) is None for cell in cells):
            return []
        return [score_of(self.cells[cell][str(count)]) for cell in cells]

    def summary(self, cells: Sequence[Cell], count: int) -> dict[str, Any] | None:
        """Return the evaluator's own summary over the seeds, None without data."""
        scores = self.scores(cells, count)
        return Summary(cells[0].strategy, count, scores).to_dict() if scores else None

    def minutes(self, cells: Sequence[Cell], count: int) -> dict[str, float]:
        """Return median and quartiles of the seeds' profiling minutes."""
        all_minutes = [score.profiling_minutes for score in self.scores(cells, count)]
        q1, median, q3 = np.percentile(all_minutes, (25, 50, 75))
        return {"q1": float(q1), "median": float(median), "q3": float(q3)}

    def binding(self, cells: Sequence[Cell], count: int) -> list[BudgetScore]:
        """Return the choices of all seeds under budgets below the fastest mode's power."""
        return [budget for score in self.scores(cells, count) for budget in score.budgets if budget.binding]

    def excess(self, cells: Sequence[Cell], count: int) -> Excess | None:
        """Return how choices under binding budgets break them."""
        over = np.array([budget.excess_w for budget in self.binding(cells, count)])
        if not over.size:
            return None
        return Excess(float(over.mean()), float((over > 0).mean() * 100), float((over > 1).mean() * 100))

    def penalties(self, cells: Sequence[Cell], count: int) -> list[float]:
        """Return the penalties of choices that keep a binding budget."""
        return [budget.penalty_pct for budget in self.binding(cells, count) if budget.excess_w <= 0]
