"""The learning rate that fits a batch size, from the one that was found for another."""

from __future__ import annotations

import math
from enum import StrEnum


class Scaling(StrEnum):
    """How the learning rate follows the batch size: with its root (Adam, AdamW), in proportion (SGD), or not at all."""

    SQRT = "Sqrt"
    LINEAR = "Linear"
    NONE = "None"


def scaled_learning_rate(base: float, at_batch_size: int, batch_size: int, scaling: Scaling = Scaling.SQRT) -> float:
    """Return the learning rate at `batch_size`, given that `base` fits `at_batch_size`."""
    if not (math.isfinite(base) and base > 0):
        raise ValueError(f"a learning rate must be a number above zero, not {base!r}")
    for size in (at_batch_size, batch_size):
        if size < 1:
            raise ValueError(f"a batch size must be at least 1, not {size}")
    ratio = batch_size / at_batch_size
    return base * {Scaling.SQRT: math.sqrt(ratio), Scaling.LINEAR: ratio, Scaling.NONE: 1.0}[scaling]
