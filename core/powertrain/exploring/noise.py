"""ReadingNoise: how much single power readings scatter, as observed in the session."""

from __future__ import annotations

import numpy as np

from powertrain.space import FloatArray

# Relative; a sensor is never trusted to be better than this.
LEAST = 0.002
# What is assumed before anything was seen, worth so many readings.
ASSUMED, ASSUMED_READINGS = 0.01, 10
# What readings of real boards scatter by at most, mostly; it counts for so many readings where too little would harm.
MOST, MOST_READINGS = 0.03, 10
# Phases of a step that last for as many readings move the mean over them: so many are a block.
BLOCK = 5
# What the other modes of the session say about one, worth so many readings of its own.
OWN_READINGS = 10


class ReadingNoise:
    """Learns from differences between neighbouring readings of a mode: a slow ramp hardly moves them."""

    def __init__(self) -> None:
        self._squares, self._count = ASSUMED_READINGS * ASSUMED**2, float(ASSUMED_READINGS)
        self._block_squares, self._blocks = ASSUMED**2, 1.0

    def learn(self, readings: FloatArray) -> None:
        """Take the readings of a stretch in one mode, after its power has settled."""
        if len(readings) < 2:
            return
        relative = np.diff(readings) / float(readings.mean())
        self._squares += float((relative**2).sum()) / 2
        self._count += len(relative)
        self._learn_blocks(readings)

    def _learn_blocks(self, readings: FloatArray) -> None:
        count = len(readings) // BLOCK
        if count > 1:
            means = readings[: count * BLOCK].reshape(count, BLOCK).mean(axis=1) / float(readings.mean())
            self._block_squares += BLOCK * float(((means - means.mean()) ** 2).sum())
            self._blocks += count - 1

    def of(self, readings: FloatArray) -> float:
        """Return the relative standard deviation in one mode, whose readings may scatter more or less than others."""
        if len(readings) < 2:
            return self.relative
        own = float((np.diff(readings) ** 2).sum()) / (2.0 * float(readings.mean()) ** 2)
        return max(LEAST, float(np.sqrt((OWN_READINGS * self.relative**2 + own) / (OWN_READINGS + len(readings) - 1))))

    @property
    def cautious(self) -> float:
        """Return what a reading may scatter by where too little would harm.

        As long as few were seen, it is more than is expected. Phases of a step move the mean of several readings as
        much as only larger noise could that differs from reading to reading.
        """
        squares, count = self._squares + MOST_READINGS * MOST**2, self._count + MOST_READINGS
        return max(LEAST, float(np.sqrt(squares / count)), float(np.sqrt(self._block_squares / self._blocks)))

    def of_ramp(self, readings: FloatArray) -> float:
        """Return the relative standard deviation while the level still moves: second differences cancel its course."""
        if len(readings) < 3:
            return self.cautious
        own = float((np.diff(readings, 2) ** 2).sum()) / (6.0 * float(readings.mean()) ** 2)
        squares = (OWN_READINGS * self.cautious**2 + own) / (OWN_READINGS + len(readings) - 2)
        return max(self.cautious, float(np.sqrt(squares)))

    @property
    def relative(self) -> float:
        """Return the relative standard deviation of a reading."""
        return max(LEAST, float(np.sqrt(self._squares / self._count)))
