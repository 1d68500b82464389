"""Objectives and limits: what a choice minimises, and what it must not break."""

from __future__ import annotations

import math
from dataclasses import dataclass, make_dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from powertrain.limit_table import LIMITS, LimitEntry, Quantity, Span
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
        return None if self.samples_per_epoch is None else -(-self.samples_per_epoch // self.batch_size)

    @property
    def steps(self) -> int | None:
        """Return the steps of the whole training."""
        return None if self.steps_per_epoch is None or self.epochs is None else self.steps_per_epoch * self.epochs

    def steps_in(self, span: Span) -> int | None:
        """Return how many steps a span has; None where that is not known."""
        return {Span.STEP: 1, Span.EPOCH: self.steps_per_epoch, Span.TRAINING: self.steps}[span]


_NUMBERS = tuple(limit.attribute for limit in LIMITS if limit.attribute is not None)


def _check_values(limits: Any) -> None:
    for name in _NUMBERS:
        value = getattr(limits, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            raise LimitError(f"{name} must be a number above zero, not {value!r}")


_TableLimits = make_dataclass(
    "_TableLimits",
    [
        ("power_w", float | None, None),
        ("power_statistic", PowerStatistic, PowerStatistic.MEAN),
        *((name, float | None, None) for name in _NUMBERS if name != "power_w"),
    ],
    namespace={"__post_init__": _check_values},
    frozen=True,
    slots=True,
)


class Limits(_TableLimits):  # type: ignore[misc, valid-type]
    """What must hold; None means no limit. The attributes are those of the table of limits, and power_statistic."""

    __slots__ = ()

    def values(self, *, of: tuple[Quantity, ...] = tuple(Quantity), per: tuple[Span, ...] = tuple(Span)) -> Values:
        """Return the limits that are set on these quantities over these spans, with their entries of the table."""
        return tuple(
            (limit, value)
            for limit in LIMITS
            if limit.attribute is not None and limit.quantity in of and limit.span in per
            if (value := getattr(self, limit.attribute)) is not None
        )

    def alone(self, limit: LimitEntry) -> Limits:
        """Return this limit without the others."""
        assert limit.attribute is not None
        return Limits(power_statistic=self.power_statistic, **{limit.attribute: getattr(self, limit.attribute)})

    def check(self, objective: Objective, work: Work) -> None:
        """Refuse what can't be decided: an objective without the limit it needs, a limit without the work it is for."""
        if objective is Objective.MIN_TIME and not self.values(of=(Quantity.POWER, Quantity.ENERGY)):
            raise LimitError(
                "MinTime needs a power or an energy limit: without one the answer is always the fastest mode"
            )
        if objective is Objective.MIN_POWER and not self.values(of=(Quantity.TIME, Quantity.ENERGY)):
            raise LimitError(
                "MinPower needs a time or an energy limit: without one the answer is always the least power"
            )
        if self.values(per=(Span.EPOCH,)) and work.steps_per_epoch is None:
            raise LimitError("a limit per epoch needs the number of samples per epoch")
        if self.values(per=(Span.TRAINING,)) and work.steps is None:
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
        return self._per_step(Quantity.TIME, work)

    def step_j(self, work: Work) -> float:
        """Return the most energy a step may take."""
        return self._per_step(Quantity.ENERGY, work)

    def _per_step(self, quantity: Quantity, work: Work) -> float:
        shares = (value / steps for limit, value in self.values(of=(quantity,)) if (steps := work.steps_in(limit.span)))
        return min(shares, default=math.inf)

    @property
    def needs_peak(self) -> bool:
        """Say whether single readings matter, not only the mean."""
        return self.hard_limit_w is not None or (
            self.power_w is not None and self.power_statistic is PowerStatistic.PEAK
        )


Values = tuple[tuple[LimitEntry, float], ...]
