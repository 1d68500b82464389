"""Problem: everything a profiling session is asked to do, as one immutable value."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from powertrain.exploring.rules import MeanRules
from powertrain.objectives import Limits, Objective, Work
from powertrain.samples import Sample
from powertrain.space import FloatArray, ModeSpace


class Aim(StrEnum):
    """What the profile is for; a design that is good for one is poor for the others."""

    BUDGET = "budget"  # one limit, the best mode
    FRONT = "front"  # one profile that serves every later budget
    ACCURACY = "accuracy"  # least prediction error over all modes


class Caution(StrEnum):
    """How a mean limit is kept while modes are tried."""

    NORMAL = "normal"  # by a ledger over the guard window, which ends a visit in time
    HIGH = "high"  # a mode is tried only if it is unlikely to exceed the limit, and left at the first reading above


@dataclass(frozen=True, slots=True)
class Cost:
    """What measuring a mode takes: switching and settling, then steps (some are dropped)."""

    switch_s: float = 5.0
    steps: int = 40

    def seconds(self, step_s: FloatArray | float) -> FloatArray | float:
        """Return the seconds that a mode with this step time costs."""
        return self.switch_s + self.steps * step_s


@dataclass(frozen=True, eq=False)
class Problem:
    """The board's modes, the limits, and how to explore.

    `explore_limit_w` bounds the power of every mode that is tried (None: free); each is tried only if it keeps that
    with probability
    1 − `explore_risk`. `risk` is for the final choice. `noise` is the relative standard deviation of a measurement
    that names none.
    `min_gain` is the expected relative gain in step time below which profiling stops early. `elsewhere` holds samples
    of the same workload at other batch sizes than `work.batch_size`: they teach what does not depend on it.
    `prior_width` above 1 trusts the reference less, below 1 more. With `rules` the exploration limit is a mean over
    their window and a ledger keeps it, so that `explore_risk` does not apply; without them every reading counts.
    """

    space: ModeSpace
    aim: Aim = Aim.FRONT
    objective: Objective = Objective.MIN_TIME
    limits: Limits = field(default_factory=Limits)
    work: Work = field(default_factory=Work)
    risk: float = 0.05
    explore_limit_w: float | None = None
    explore_risk: float = 0.01
    max_modes: int | None = None
    min_gain: float = 0.002
    noise: float = 0.0
    cost: Cost = field(default_factory=Cost)
    device: str | None = None
    descending_only: bool = False
    seed: int = 0
    elsewhere: tuple[Sample, ...] = ()
    prior_width: float = 1.0
    rules: MeanRules | None = None

    def __post_init__(self) -> None:
        if not 0 < self.risk < 1 or not 0 < self.explore_risk < 1:
            raise ValueError(f"risks must lie between 0 and 1, not risk={self.risk}, explore_risk={self.explore_risk}")
        if self.max_modes is not None and self.max_modes < 1:
            raise ValueError(f"max_modes must be at least 1, not {self.max_modes}")
        if self.noise < 0 or self.min_gain < 0:
            raise ValueError(f"noise and min_gain can't be negative, not noise={self.noise}, min_gain={self.min_gain}")
        if any(sample.batch_size == self.work.batch_size for sample in self.elsewhere):
            raise ValueError(
                f"samples from elsewhere are of other batch sizes than {self.work.batch_size}; tell the others"
            )
        if not 0 < self.prior_width < np.inf:
            raise ValueError(f"prior_width must be a number above zero, not {self.prior_width}")

    @property
    def modes(self) -> FloatArray:
        """Return the matrix of all modes."""
        return self.space.matrix

    @property
    def ledger_rules(self) -> MeanRules | None:
        """Return the rules by which a ledger keeps the exploration limit; None where every reading counts."""
        return None if self.explore_limit_w is None else self.rules

    @property
    def budget_w(self) -> float | None:
        """Return the highest mean power that the limits allow, None without one."""
        bound = float(np.min(self.limits.mean_power_w()))
        return bound if np.isfinite(bound) else None
