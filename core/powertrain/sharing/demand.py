"""Demand: what one board can do with how many watts, and how much work it has left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from powertrain.space import FloatArray

# A board without a front gets this many points between its bounds; the guess below is a straight line.
_ASSUMED_POINTS = 32


class Goal(StrEnum):
    """What the shares are for."""

    MIN_MAKESPAN = "MinMakespan"
    MAX_THROUGHPUT = "MaxThroughput"
    EQUAL = "Equal"


@dataclass(frozen=True, eq=False)
class Demand:
    """One board's job: its front, its work, and the bounds of its share.

    `watts` are the ascending points of the front, `speed` is the work per second at each. No points mean that the front
    is not known yet: the speed is then assumed to grow in proportion to the watts.
    """

    name: str
    watts: FloatArray
    speed: FloatArray
    remaining: float | None
    """Work left, in the unit of `speed`. None: the length is not known, so the board gets an equal relative speed."""
    lowest_w: float
    """Below this the board can't train: the power of its lowest allowed mode, or the job's own minimum."""
    max_w: float
    """The job never gets more than this: the lower of its own limit and the site policy's."""
    priority: int = 0
    unit: str = ""
    """Boards with the same non-empty unit run in step: each round lasts as long as the slowest of them needs."""
    idle_w: float = 0.0
    """What the board draws while it does not train. A share of 0 still takes this from the available watts."""

    def __post_init__(self) -> None:
        watts, speed = np.asarray(self.watts, dtype=np.float64), np.asarray(self.speed, dtype=np.float64)
        object.__setattr__(self, "watts", watts)
        object.__setattr__(self, "speed", speed)
        if watts.ndim != 1 or watts.shape != speed.shape:
            raise ValueError(
                f"{self.name}: watts and speed must be vectors of one length, not {watts.shape} and {speed.shape}"
            )
        if not (np.isfinite(watts).all() and np.isfinite(speed).all() and (speed >= 0).all()):
            raise ValueError(f"{self.name}: watts and speed must be finite, speed not negative")
        if (np.diff(watts) < 0).any():
            raise ValueError(f"{self.name}: the watts of a front must ascend")
        for field, value in (("lowest_w", self.lowest_w), ("max_w", self.max_w), ("idle_w", self.idle_w)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{self.name}: {field} must be finite and not negative, not {value}")
        if self.remaining is not None and not (math.isfinite(self.remaining) and self.remaining >= 0):
            raise ValueError(f"{self.name}: remaining must be finite and not negative, not {self.remaining}")

    @property
    def can_train(self) -> bool:
        """Whether any share is both high enough for its lowest mode and within its maximum."""
        return self.max_w > 0 and self.lowest_w <= self.max_w

    @cached_property
    def curve(self) -> tuple[FloatArray, FloatArray]:
        """The useful points as (watts, speed): within the bounds, the watts ascending, the speed never falling.

        The first point costs `lowest_w`. If the front begins above it, its speed is the front's first, reduced in
        proportion to the watts. Empty if the board can't train.
        """
        if not self.can_train:
            return np.empty(0), np.empty(0)
        watts, speed = self.watts, np.maximum.accumulate(self.speed) if self.speed.size else self.speed
        if not watts.size:
            watts = np.linspace(max(self.lowest_w, 1e-9), self.max_w, _ASSUMED_POINTS)
            return watts, watts / self.max_w
        if watts[0] > self.lowest_w > 0:
            watts = np.insert(watts, 0, self.lowest_w)
            speed = np.insert(speed, 0, speed[0] * self.lowest_w / watts[1])
        cost = np.maximum(watts, self.lowest_w)
        is_kept = watts <= self.max_w
        is_kept[:-1] &= cost[1:] > cost[:-1]  # of points at one cost the last is the fastest
        return cost[is_kept], speed[is_kept]


def check_names(demands: Sequence[Demand]) -> None:
    """Refuse two demands of one name: shares are returned by name."""
    names = [demand.name for demand in demands]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"each board must be listed once; listed more often: {', '.join(twice)}")
