"""Statistics over a window of readings: peak, median, mean and energy, by real timestamps."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from powertrain_agent.telemetry.port import Reading


@dataclass(frozen=True)
class WindowStatistics:
    """What a window says; the mean is energy over time, so readings count by the time they stand for."""

    count: int
    duration_s: float
    peak_w: float
    median_w: float
    mean_w: float
    energy_j: float


def summarize(readings: Sequence[Reading]) -> WindowStatistics:
    """Return the statistics of a window; readings in order of time, at least one."""
    if not readings:
        raise ValueError("a window needs at least one reading")
    watts = [reading.power_w for reading in readings]
    energy_j = 0.0
    for before, after in pairwise(readings):
        if after.at_s < before.at_s:
            raise ValueError(f"readings must be in order of time: {after.at_s} comes after {before.at_s}")
        energy_j += 0.5 * (before.power_w + after.power_w) * (after.at_s - before.at_s)
    duration_s = readings[-1].at_s - readings[0].at_s
    mean_w = energy_j / duration_s if duration_s > 0 else fmean(watts)
    return WindowStatistics(len(readings), duration_s, max(watts), median(watts), mean_w, energy_j)


class RollingMean:
    """The mean power over the last seconds, kept up with every reading; what a budget guard looks at."""

    def __init__(self, seconds: float) -> None:
        if seconds <= 0:
            raise ValueError(f"a window must be longer than 0 s, not {seconds}")
        self.seconds = seconds
        self._readings: deque[Reading] = deque()
        self._energy_j = 0.0

    def __len__(self) -> int:
        return len(self._readings)

    def add(self, reading: Reading) -> None:
        """Take up a reading and let go of those that are older than the window."""
        if self._readings:
            self._energy_j += _area_j(self._readings[-1], reading)
        self._readings.append(reading)
        # One reading at or before the window's start stays: it is the edge of the first trapezoid.
        while len(self._readings) > 2 and self._readings[1].at_s <= reading.at_s - self.seconds:
            self._energy_j -= _area_j(self._readings[0], self._readings[1])
            self._readings.popleft()

    def clear(self) -> None:
        """Forget everything (the mode changed)."""
        self._readings.clear()
        self._energy_j = 0.0

    @property
    def full(self) -> bool:
        """Say whether the readings cover the whole window."""
        return self.covered_s >= self.seconds * (1.0 - 1e-9)

    @property
    def covered_s(self) -> float:
        """Return how many seconds the readings cover."""
        return self._readings[-1].at_s - self._readings[0].at_s if self._readings else 0.0

    @property
    def mean_w(self) -> float:
        """Return the mean over what is covered; 0 without a reading."""
        if self.covered_s > 0:
            return self._energy_j / self.covered_s
        return self._readings[-1].power_w if self._readings else 0.0


def _area_j(before: Reading, after: Reading) -> float:
    return 0.5 * (before.power_w + after.power_w) * (after.at_s - before.at_s)
