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
    """How readings come about: relative noise of each, and the range from which a run's lag is drawn."""

    noise: float = 0.01
    lag_s: tuple[float, float] = (0.3, 1.2)

    def __post_init__(self) -> None:
        if not 0 <= self.noise < 1 or not 0 < self.lag_s[0] <= self.lag_s[1]:
            raise ValueError(f"noise must lie in [0, 1) and lags be above zero and in order, not {self}")


class LaggingBoard:
    """Power follows the applied row first-order; every tick is one sensor period. It remembers the true power."""

    def __init__(self, board: Board, sensor: SensorSettings, rules: MeanRules, seed: tuple[int, ...]) -> None:
        self.board, self._noise = board, sensor.noise
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
        self._log.append(self._true_w)
        return self._true_w * (1.0 + self._noise * float(self._rng.standard_normal()))

    @property
    def ticks(self) -> int:
        """Return how many periods have passed."""
        return len(self._log)

    def windows_above(self, limit_w: float, chosen_at: int) -> WindowsAbove:
        """Count the windows of true power above the limit; those that end after `chosen_at` ticks are of the choice."""
        window = self._rules.window
        means: FloatArray = np.convolve(np.array(self._log), np.full(window, 1.0 / window), mode="valid")
        above = means > limit_w * (1.0 + TOLERANCE)
        before = max(0, chosen_at - window + 1)
        worst = (float(means.max()) / limit_w - 1.0) * 100
        return WindowsAbove(int(above[:before].sum()), int(above[before:].sum()), worst)
