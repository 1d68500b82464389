"""What physics leaves over: a Gaussian process on log inputs, larger where the step follows the CPU."""

from __future__ import annotations

import numpy as np

from powertrain.space import FloatArray

# Length scales in log units of cores, CPU, GPU and memory clock: a factor of 1.6 – 2.7 in a clock decorrelates.
# The last is for batch size, where samples have one.
LENGTH_SCALES = np.array([1.0, 0.5, 0.5, 0.7, 2.0])
SMOOTH_SHARE = 0.5  # of the residual variance; the rest differs from mode to mode and can't be learnt from neighbours


def correlation(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the correlations between two sets of log features (k, a) and (k, b)."""
    lengths = LENGTH_SCALES[: left.shape[0]]
    a, b = left.T / lengths, right.T / lengths
    squared: FloatArray = a @ b.T
    squared *= -2.0
    squared += (a * a).sum(axis=1)[:, None]
    squared += (b * b).sum(axis=1)[None, :]
    np.maximum(squared, 0.0, out=squared)
    squared *= -0.5
    np.exp(squared, out=squared)
    return squared


def regime_sd(residual_sd: FloatArray, cpu_share: FloatArray) -> FloatArray:
    """Return the standard deviation of time and power residuals at each mode: (2, n)."""
    gpu_side, cpu_side = residual_sd[:, :1] ** 2, residual_sd[:, 1:] ** 2
    mixed: FloatArray = np.sqrt(gpu_side * (1.0 - cpu_share) + cpu_side * cpu_share)
    return mixed
