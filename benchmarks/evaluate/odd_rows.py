"""Rows of a measured table that fit no neighbour, and what penalties are without them.

A mode whose clock was not applied, or whose power was read too early, can look like the best one of its budget. Nobody
can find such a row but by measuring that very mode, and nobody would want it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from powertrain.evaluation.scores import BudgetScore
from powertrain.physics import PhysicsReference
from powertrain.samples import SampleTable

# The physics leaves less than 2 % over of half of the rows of ResNet, and less than 7 % of nine in ten.
ODD = 0.08


@dataclass(frozen=True)
class Best:
    """The fastest row within a budget, and how much slower the fastest one is that is not odd."""

    odd: bool
    ratio: float


def best_rows(table: SampleTable, physics: PhysicsReference, budgets_w: Sequence[float]) -> dict[float, Best]:
    """Return, for each binding budget, whether its fastest row is odd: off the table's own fit by more than 8 %."""
    expected = physics.evaluate(table.matrix)
    off = np.maximum(
        np.abs(np.log(table.step_s) - expected.log_time), np.abs(np.log(table.power_w) - expected.log_power)
    )
    fastest_w = float(table.power_w[int(np.argmin(table.step_s))])
    best = {}
    for budget_w in budgets_w:
        within = table.power_w <= budget_w
        if not (within & (off <= ODD)).any() or budget_w >= fastest_w:
            continue
        best_s = float(table.step_s[within].min())
        usual_s = float(table.step_s[within & (off <= ODD)].min())
        best[budget_w] = Best(usual_s > best_s, usual_s / best_s)
    return best


def rebased(choice: BudgetScore, best: Mapping[float, Best]) -> float:
    """Return a choice's penalty against the fastest row that is not odd; one that is faster still has none."""
    return max(0.0, ((1.0 + choice.penalty_pct / 100) / best[choice.budget_w].ratio - 1.0) * 100)
