"""BatchModel: time and power of every mode at every batch size between the measured ones, with standard deviations."""

from __future__ import annotations

import numpy as np

from powertrain.physics.predictor import PhysicsPredictor
from powertrain.physics.reference import PhysicsReference
from powertrain.prediction import Prediction
from powertrain.profiling.belief import calibrated
from powertrain.samples import SampleTable
from powertrain.space import FloatArray


class BatchSizeError(ValueError):
    """A batch size that the samples do not cover; the message says which they do."""


class BatchModel:
    """Learns from samples of some batch sizes and answers for any between the smallest and the largest of them.

    `modes` are all modes of the board, in the order of the answers; `noise` is the relative noise of a sample.
    """

    def __init__(
        self, reference: PhysicsReference | None, modes: FloatArray, seed: int = 0, noise: float = 0.0
    ) -> None:
        self.modes = modes
        self._noise = noise
        self._predictor = PhysicsPredictor(reference, seed=seed, space=modes)
        self._samples: SampleTable | None = None

    def fit(self, samples: SampleTable) -> BatchModel:
        """Learn from samples; throttled ones teach nothing."""
        usable = samples if samples.throttled is None else samples.take(~samples.throttled.astype(np.bool_))
        X = np.column_stack([usable.matrix, usable.batch_size.astype(np.float64)])
        noise = np.full(len(usable), self._noise) if self._noise else None
        self._predictor.fit(X, usable.step_s, usable.power_w, noise, noise)
        self._samples = usable
        return self

    @property
    def batch_sizes(self) -> list[int]:
        """Return the batch sizes that were measured."""
        return [] if self._samples is None else self._samples.batch_sizes()

    def predict(self, batch_size: int) -> Prediction:
        """Return a step's time and power in every mode. Outside the measured sizes: BatchSizeError."""
        sizes = self.batch_sizes
        if not sizes or not sizes[0] <= batch_size <= sizes[-1]:
            covered = f"{sizes[0]} to {sizes[-1]}" if sizes else "none yet"
            raise BatchSizeError(
                f"batch size {batch_size} is outside the measured ones ({covered}), and never extrapolated: measure it"
            )
        points = np.column_stack([self.modes, np.full(len(self.modes), float(batch_size))])
        return calibrated(self._predictor, self._predictor.predict(points))
