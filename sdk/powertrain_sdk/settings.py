"""What the cluster chose for this training: batch size, learning rate and target accuracy, from the environment."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional, Set, TypeVar

    Number = TypeVar("Number", int, float)

ENV_BATCH_SIZE = "POWERTRAIN_BATCH_SIZE"
ENV_LEARNING_RATE = "POWERTRAIN_LEARNING_RATE"
ENV_TARGET_ACCURACY = "POWERTRAIN_TARGET_ACCURACY"
ENV_MAX_SAMPLES = "POWERTRAIN_MAX_SAMPLES"

_complained: "Set[str]" = set()
_own_batch_size: "Optional[int]" = None


def batch_size(default: int) -> int:
    """Return the batch size the cluster chose, or the training's own default where it chose none."""
    global _own_batch_size
    _own_batch_size = default
    chosen = chosen_batch_size()
    return default if chosen is None else chosen


def learning_rate(default: float) -> float:
    """Return the learning rate that fits the chosen batch size, or the training's own default."""
    chosen = chosen_learning_rate()
    return default if chosen is None else chosen


def chosen_batch_size() -> "Optional[int]":
    """Return the cluster's batch size, None where it chose none."""
    return _positive(ENV_BATCH_SIZE, int, "a whole number above 0")


def chosen_learning_rate() -> "Optional[float]":
    """Return the cluster's learning rate, None where it chose none."""
    return _positive(ENV_LEARNING_RATE, float, "a number above 0")


def target_accuracy() -> "Optional[float]":
    """Return the accuracy at which this training has reached its aim, None where the training itself knows."""
    return _positive(ENV_TARGET_ACCURACY, float, "a number above 0")


def max_samples() -> "Optional[int]":
    """Return after how many samples a study gives this training up, None where it does not."""
    return _positive(ENV_MAX_SAMPLES, int, "a whole number above 0")


def known_batch_size() -> "Optional[int]":
    """Return the batch size in use as far as it is known: the cluster's, else the default last asked with."""
    chosen = chosen_batch_size()
    return _own_batch_size if chosen is None else chosen


def _positive(name: str, kind: "Callable[[str], Number]", right: str) -> "Optional[Number]":
    text = os.environ.get(name)
    if not text:
        return None
    try:
        value = kind(text)
    except ValueError:
        value = kind("0")
    if 0 < value < float("inf"):
        return value
    # Training goes on, so the only harm is a wrong batch size that nobody notices: say it, once.
    if name not in _complained:
        _complained.add(name)
        sys.stderr.write("powertrain: %s=%r is not used, it must be %s\n" % (name, text, right))
    return None
