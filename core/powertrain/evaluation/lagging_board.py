"""A measured table as a board whose power lags behind its clocks and whose sensor scatters, reading by reading."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from powertrain.evaluation.board import Board
from powertrain.evaluation.scores import WindowsAbove
from powertrain.exploring import MeanRules
from powertrain.space import FloatArray

# A window of true power counts as above the limit beyond this share: less than thirty noisy readings can tell.
TOLERANCE = 0.002


@dataclass(frozen=True, slots=True)
class SensorSettings:
    """How readings come about: relative noise of each, the range from which a run's lag is drawn, and their period.

    `delay_s` is how old the power is that a reading shows. A load may pulse: by `pulse_share` of its power, from the
    low to the high half of `pulse_s`.
    """

    noise: float = 0.01
    lag_s: tuple[float, float] = (0.3, 1.2)
    period_s: float = 0.1
    delay_s: float = 0.0
    pulse_share: float = 0.0
    pulse_s: float = 6.0

    def __post_init__(self) -> None:
        if not 0 <= self.noise < 1 or not 0 < self.lag_s[0] <= self.lag_s[1]:
            raise ValueError(f"noise must lie in [0, 1) and lags be above zero and in order, not {self}")
        if not 0 < self.period_s <= 1 or self.delay_s < 0 or not 0 <= self.pulse_share < 1 or self.pulse_s <= 0:
            raise ValueError(f"a period must lie in (0, 1] s, a delay be 0 or more, a pulse a share, not {self}")


class LaggingBoard:
    """Power follows the applied row first-order; every tick is one sensor period. It remembers the true power."""

    def __init__(self, board: Board, sensor: SensorSettings, rules: MeanRules, seed: tuple[int, ...]) -> None:
        self.board, self._sensor = board, sensor
        self._rng = np.random.default_rng([*seed, 1])
        lag_s = self._rng.uniform(*sensor.lag_s)
        self._share = 1.0 - float(np.exp(-rules.period_s / lag_s))
        self._rules = rules
        self.row = 0
        self._true_w: float | None = None
        self._log: list[float] = []

    def apply(self, row: int) -> None:
        """Set the mode; the first one is where the board already was."""
        self.row = row
        if self._true_w is None:
            self._true_w = float(self.board.truth.power_w[row])

    def tick(self) -> float:
        """Let one period pass and return the reading at its end."""
        assert self._true_w is not None, "apply a mode first"
        self._true_w += (float(self.board.truth.power_w[self.row]) - self._true_w) * self._share
        self._log.append(self._true_w * self._pulse)
        late = round(self._sensor.delay_s / self._rules.period_s)
        seen_w = self._log[max(0, len(self._log) - 1 - late)]
        return seen_w * (1.0 + self._sensor.noise * float(self._rng.standard_normal()))

    @property
    def _pulse(self) -> float:
        high = (len(self._log) * self._rules.period_s / self._sensor.pulse_s) % 1.0 < 0.5
        return 1.0 + self._sensor.pulse_share * (0.5 if high else -0.5)

    @property
    def ticks(self) -> int:
        """Return how many periods have passed."""
        return len(self._log)

    @property
    def true_w(self) -> FloatArray:
        """Return the true power at every tick."""
        return np.array(self._log)

    def windows_above(self, limit_w: float, chosen_at: int) -> WindowsAbove:
        """Count the windows of true power above the limit; those that end after `chosen_at` ticks are of the choice."""
        window = self._rules.window
        means: FloatArray = np.convolve(self.true_w, np.full(window, 1.0 / window), mode="valid")
        above = means > limit_w * (1.0 + TOLERANCE)
        before = max(0, chosen_at - window + 1)
        worst = (float(means.max()) / limit_w - 1.0) * 100
        return WindowsAbove(int(above[:before].sum()), int(above[before:].sum()), worst)
