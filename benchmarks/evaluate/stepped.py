"""A simulated board whose modes are measured by single steps and power readings, as the agent does it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from powertrain.evaluation.board import Board
from powertrain.modes import PowerMode
from powertrain.samples import Sample, SampleTable
from powertrain_agent.simtrain import JITTER
from powertrain_agent.simulate.behaviour import TYPICAL
from powertrain_agent.simulate.workloads import first_step_factor

WAIT_S = 3.0  # for the power to settle, before a window begins
MEDIAN_OF_MANY = 1.25  # the standard error of a median is that of the mean times this


@dataclass(frozen=True, eq=False)
class SteppedBoard(Board):
    """Measures a mode by so many steps that scatter by `jitter`, with a power reading each `period_s`."""

    steps: int = 40
    period_s: float = 0.1
    jitter: float = JITTER

    @classmethod
    def measured_by(cls, board: Board, steps: int, period_s: float, jitter: float = JITTER) -> SteppedBoard:
        """Return a board with the noise that such a measurement has in a typical mode."""
        window_s = steps * float(np.median(board.truth.step_s))
        readings = max(1.0, window_s / period_s)
        noise = MEDIAN_OF_MANY * max(jitter / steps**0.5, TYPICAL.noise / readings**0.5)
        return cls(board.truth, board.space, noise, steps, period_s, jitter)

    def measure(self, mode: PowerMode, seed: int) -> Sample:
        """Return the median of the steps (the first is dropped) and of the readings in the meantime.

        The sensor's clock does not know of steps: where no reading falls into the window, the next one counts.
        """
        row = self.space.index(mode)
        rng = np.random.default_rng([seed, row])
        step_s, power_w = float(self.truth.step_s[row]), float(self.truth.power_w[row])
        warming = np.array([first_step_factor(index) for index in range(self.steps + 1)])
        times = step_s * warming * np.maximum(rng.normal(1.0, self.jitter, self.steps + 1), 0.1)
        first_s = rng.uniform(0.0, self.period_s)
        at_s = WAIT_S + np.arange(first_s, max(float(times[1:].sum()), first_s + self.period_s / 2), self.period_s)
        before_w = float(self.truth.power_w.min())
        settling = power_w + (before_w - power_w) * np.exp(-at_s / TYPICAL.lag_s)
        readings = settling * rng.normal(1.0, TYPICAL.noise, at_s.size)
        return Sample(mode, float(np.median(times[1:])), float(np.median(readings)), int(self.truth.batch_size[row]))


def unread_pct(table: SampleTable, steps: int, period_s: float) -> float:
    """Return the expected share of modes whose steps are over before the sensor was read once."""
    return float(np.mean(np.maximum(0.0, 1.0 - steps * table.step_s / period_s)) * 100)
