"""ReadingNoise: how much single power readings scatter, as observed in the session."""

from __future__ import annotations

import numpy as np

from powertrain.space import FloatArray

# Relative; a sensor is never trusted to be better than this.
LEAST = 0.002
# What is assumed before anything was seen, worth so many readings.
ASSUMED, ASSUMED_READINGS = 0.01, 10


class ReadingNoise:
    """Learns from differences between neighbouring readings of a mode: a slow ramp hardly moves them."""

    def __init__(self) -> None:
        self._squares, self._count = ASSUMED_READINGS * ASSUMED**2, float(ASSUMED_READINGS)

    def learn(self, readings: FloatArray) -> None:
        """Take the readings of a stretch in one mode, after its power has settled."""
        if len(readings) < 2:
            return
        relative = np.diff(readings) / float(readings.mean())
        self._squares += float((relative**2).sum()) / 2
        self._count += len(relative)

    @property
    def relative(self) -> float:
        """Return the relative standard deviation of a reading."""
        return max(LEAST, float(np.sqrt(self._squares / self._count)))
