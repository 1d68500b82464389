"""The relation vector r: how many samples a batch size needs to reach the target, relative to the one that needs most.

It depends on the model and hardly on the data, and not at all on the device: measured once on a proxy data set, it
serves every board.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np


class RelationError(ValueError):
    """A relation that makes no sense, or a batch size that it does not cover; the message says what would do."""


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What the relation says of one batch size. `spread` is the standard deviation of r over seeds, None if unknown."""

    r: float
    spread: float | None = None
    interpolated: bool = False


@dataclass(frozen=True)
class Relation:
    """r per studied batch size, in (0, 1], and why others are missing (they did not converge, all runs failed …).

    Nothing is assumed of its shape: r may fall, rise, or do both. Only ratios matter, so the largest value is 1 where
    the relation was measured and may be less where a part of one is given.
    """

    r: Mapping[int, float]
    spread: Mapping[int, float] = field(default_factory=dict)
    missing: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.r:
            reasons = "; ".join(f"{size}: {why}" for size, why in sorted(self.missing.items()))
            raise RelationError(f"a relation needs at least one batch size{f' ({reasons})' if reasons else ''}")
        for size, value in self.r.items():
            if size < 1:
                raise RelationError(f"a batch size must be at least 1, not {size}")
            if not 0 < value <= 1:
                raise RelationError(f"r of batch size {size} must lie above 0 and be at most 1, not {value!r}")
        both = sorted(set(self.r) & set(self.missing))
        if both:
            raise RelationError(f"batch sizes {both} can't have a value of r and be missing")

    @classmethod
    def measured(
        cls, samples_needed: Mapping[int, Sequence[float]], missing: Mapping[int, str] | None = None
    ) -> Relation:
        """Build r from what each seed of each batch size needed (samples, steps × size or multiples of s).

        The means are what counts; their spread is the standard deviation over seeds on the same scale, 0 for a single
        seed.
        """
        for size, values in samples_needed.items():
            wrong = [value for value in values if not (math.isfinite(value) and value > 0)]
            if wrong or not len(values):
                raise RelationError(
                    f"batch size {size} needs at least one finite number of samples above zero per seed, "
                    f"not {list(values)}"
                )
        means = {size: float(np.mean(values)) for size, values in sorted(samples_needed.items())}
        most = max(means.values(), default=1.0)
        spread = {
            size: float(np.std(values, ddof=1)) / most if len(values) > 1 else 0.0
            for size, values in sorted(samples_needed.items())
        }
        return cls({size: mean / most for size, mean in means.items()}, spread, dict(missing or {}))

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """Return the sizes with a value, ascending."""
        return tuple(sorted(self.r))

    @property
    def is_monotone(self) -> bool:
        """Say whether r only rises or only falls with the batch size."""
        steps = np.diff([self.r[size] for size in self.batch_sizes])
        return bool(np.all(steps >= 0) or np.all(steps <= 0))

    def at(self, batch_size: int) -> Efficiency:
        """Return r of a batch size; between two studied sizes it is interpolated (log-log) and marked so.

        A size beyond the studied ones, or one that was studied without success, has no value: RelationError.
        """
        if batch_size in self.r:
            return Efficiency(self.r[batch_size], self.spread.get(batch_size))
        if batch_size in self.missing:
            raise RelationError(self.missing[batch_size])
        sizes = self.batch_sizes
        if not sizes[0] < batch_size < sizes[-1]:
            raise RelationError(
                f"outside the studied batch sizes {sizes[0]} to {sizes[-1]}; r is never extrapolated, study it"
            )
        above = next(i for i, size in enumerate(sizes) if size > batch_size)
        low, high = sizes[above - 1], sizes[above]
        share = math.log(batch_size / low) / math.log(high / low)
        r = math.exp((1 - share) * math.log(self.r[low]) + share * math.log(self.r[high]))
        spreads = [self.spread[size] for size in (low, high) if size in self.spread]
        return Efficiency(r, max(spreads) if len(spreads) == 2 else None, interpolated=True)
