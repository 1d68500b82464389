"""ReadingNoise: how much single power readings scatter, as observed in the session."""

from __future__ import annotations

import numpy as np

from powertrain.space import FloatArray

# Relative; a sensor is never trusted to be better than this.
LEAST = 0.002
# What is assumed before anything was seen, worth so many readings.
ASSUMED, ASSUMED_READINGS = 0.01, 10
# What the other modes of the session say about one, worth so many readings of its own.
OWN_READINGS = 10


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

    def of(self, readings: FloatArray) -> float:
        """Return the relative standard deviation in one mode, whose readings may scatter more or less than others."""
        if len(readings) < 2:
            return self.relative
        own = float((np.diff(readings) ** 2).sum()) / (2.0 * float(readings.mean()) ** 2)
        return max(LEAST, float(np.sqrt((OWN_READINGS * self.relative**2 + own) / (OWN_READINGS + len(readings) - 1))))

    @property
    def relative(self) -> float:
        """Return the relative standard deviation of a reading."""
        return max(LEAST, float(np.sqrt(self._squares / self._count)))
