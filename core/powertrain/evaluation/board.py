"""A measured table as the board of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from powertrain.modes import PowerMode
from powertrain.samples import Sample, SampleTable
from powertrain.space import ModeSpace


@dataclass(frozen=True, eq=False)
class Board:
    """A measured table as the board of a replay: rows of `truth` are rows of `space`. Noise is relative and seeded."""

    truth: SampleTable
    space: ModeSpace
    noise: float = 0.0

    @classmethod
    def of(cls, table: SampleTable, noise: float = 0.0) -> Board:
        """Build a board from a table with one batch size."""
        space = ModeSpace.covering(table.matrix)
        order = np.argsort(space.rows(table.matrix))
        return cls(table.take(order), space, noise)

    def measure(self, mode: PowerMode, seed: int) -> Sample:
        """Return what a session is told of a mode: the truth with noise; the same for the same mode and seed."""
        row = self.space.index(mode)
        rng = np.random.default_rng([seed, row])
        time_noise, power_noise = 1.0 + self.noise * rng.standard_normal(2)
        return Sample(
            mode,
            float(self.truth.step_s[row] * time_noise),
            float(self.truth.power_w[row] * power_noise),
            int(self.truth.batch_size[row]),
        )
