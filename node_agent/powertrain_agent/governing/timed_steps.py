"""TimedSteps: how many steps a window counted, how long they took, and how well their median is known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median, pstdev

from powertrain_agent.steps import StepsSeen

SPREAD_FROM = 3  # fewer values have no spread worth the name


@dataclass
class TimedSteps:
    """The steps of one window. The first message is dropped: its steps began before the mode was set."""

    count: int = 0
    step_s: list[float] = field(default_factory=list)  # seconds per step, one value per message
    _dropped_first: bool = False

    def take(self, message: StepsSeen) -> bool:
        """Take the steps of a message; say whether they count."""
        if not self._dropped_first or message.duration_s is None:
            self._dropped_first = True
            return False
        self.step_s.append(message.duration_s / message.count)
        self.count += message.count
        return True

    @property
    def median_s(self) -> float | None:
        """Return the median time of a step, None before the first."""
        return median(self.step_s) if self.step_s else None

    @property
    def spread_s(self) -> float | None:
        """Return the standard deviation, None of few values."""
        return pstdev(self.step_s) if len(self.step_s) >= SPREAD_FROM else None

    @property
    def error(self) -> float:
        """Return the relative standard error of the median."""
        return median_error(self.step_s)

    def is_tight(self, share: float) -> bool:
        """Say whether half of the 95 % interval of the median is within this share of it."""
        return len(self.step_s) >= SPREAD_FROM and 1.96 * self.error <= share

    @property
    def trend(self) -> float:
        """Return by what share the later half of the steps is faster or slower, beyond what their spread explains."""
        if len(self.step_s) < 4 * SPREAD_FROM:
            return 0.0
        half = len(self.step_s) // 2
        before, after = self.step_s[:half], self.step_s[half:]
        change = abs(median(after) / median(before) - 1.0)
        return change if change > 2.0 * (median_error(before) + median_error(after)) else 0.0


def median_error(values: list[float]) -> float:
    """Return the relative standard error of the median, from the spread of its neighbours: nothing need be normal."""
    if len(values) < SPREAD_FROM:
        return 0.0 if len(values) < 1 else 0.05
    ordered, count = sorted(values), len(values)
    reach = max(1.0, 0.98 * math.sqrt(count))
    low = ordered[max(0, math.floor((count - 1) / 2 - reach))]
    high = ordered[min(count - 1, math.ceil((count - 1) / 2 + reach))]
    return (high - low) / (2 * 1.96 * median(ordered))
