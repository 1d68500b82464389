"""Objectives and limits: what a choice minimises, and what it must not break."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from powertrain.space import FloatArray

# Without measured peaks, single readings are taken to lie this far above the median (method of the hard-limit study).
ASSUMED_PEAK_FACTOR = 1.03


class LimitError(ValueError):
    """Limits that make no sense or do not fit the objective; the message says what to give."""


class Objective(StrEnum):
    """What to make as small as the limits allow."""

    MIN_TIME = "MinTime"
    MIN_POWER = "MinPower"
    MIN_ENERGY = "MinEnergy"


class PowerStatistic(StrEnum):
    """Which power the limit is for: the mean, or the highest single reading."""

    MEAN = "Mean"
    PEAK = "Peak"


@dataclass(frozen=True, slots=True)
class Work:
    """How much there is to train; it turns step time into epoch and training time."""

    batch_size: int = 1
    samples_per_epoch: int | None = None
    epochs: int | None = None

    def __post_init__(self) -> None:
        for name in ("batch_size", "samples_per_epoch", "epochs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise LimitError(f"{name} must be at least 1, not {value}")

    @property
    def steps_per_epoch(self) -> int | None:
        """Return the steps of one epoch, the last partial batch included."""
        return None if self.samples_per_epoch is None else math.ceil(self.samples_per_epoch / self.batch_size)

    @property
    def steps(self) -> int | None:
        """Return the steps of the whole training."""
        return None if self.steps_per_epoch is None or self.epochs is None else self.steps_per_epoch * self.epochs


@dataclass(frozen=True, slots=True)
class Limits:
    """What must hold; None means no limit."""

    power_w: float | None = None
    power_statistic: PowerStatistic = PowerStatistic.MEAN
    hard_limit_w: float | None = None
    epoch_s: float | None = None
    training_s: float | None = None
    energy_per_epoch_j: float | None = None
    energy_j: float | None = None

    def __post_init__(self) -> None:
        for name in ("power_w", "hard_limit_w", "epoch_s", "training_s", "energy_per_epoch_j", "energy_j"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise LimitError(f"{name} must be a number above zero, not {value!r}")

    def check(self, objective: Objective, work: Work) -> None:
        """Refuse what can't be decided: an objective without the limit it needs, a limit without the work it is for."""
        energy = self.energy_per_epoch_j is not None or self.energy_j is not None
        if objective is Objective.MIN_TIME and self.power_w is None and self.hard_limit_w is None and not energy:
            raise LimitError(
                "MinTime needs a power or an energy limit: without one the answer is always the fastest mode"
            )
        if objective is Objective.MIN_POWER and self.epoch_s is None and self.training_s is None and not energy:
            raise LimitError(
                "MinPower needs a time or an energy limit: without one the answer is always the least power"
            )
        if (self.epoch_s is not None or self.energy_per_epoch_j is not None) and work.steps_per_epoch is None:
            raise LimitError("a limit per epoch needs the number of samples per epoch")
        if (self.training_s is not None or self.energy_j is not None) and work.steps is None:
            raise LimitError("a limit on the whole training needs samples per epoch and the number of epochs")

    def mean_power_w(self, peak_factor: FloatArray | float = ASSUMED_PEAK_FACTOR) -> FloatArray | float:
        """Return the highest mean power that keeps the power limits, given how far peaks lie above the mean."""
        bound: FloatArray | float = np.inf
        if self.power_w is not None:
            bound = self.power_w / (peak_factor if self.power_statistic is PowerStatistic.PEAK else 1.0)
        if self.hard_limit_w is not None:
            bound = np.minimum(bound, self.hard_limit_w / peak_factor)
        return bound

    def step_s(self, work: Work) -> float:
        """Return the longest step that keeps the time limits."""
        return min(_per(self.epoch_s, work.steps_per_epoch), _per(self.training_s, work.steps))

    def step_j(self, work: Work) -> float:
        """Return the most energy a step may take."""
        return min(_per(self.energy_per_epoch_j, work.steps_per_epoch), _per(self.energy_j, work.steps))

    @property
    def needs_peak(self) -> bool:
        """Say whether single readings matter, not only the mean."""
        return self.hard_limit_w is not None or (
            self.power_w is not None and self.power_statistic is PowerStatistic.PEAK
        )


def _per(limit: float | None, steps: int | None) -> float:
    return math.inf if limit is None or steps is None else limit / steps
