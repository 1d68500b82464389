"""Checks of what comes in: mode matrices, step times and powers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from powertrain.space import FloatArray


def checked_modes(X: ArrayLike) -> FloatArray:
    """Return the modes as a float matrix (n, 4): cpu_cores, cpu_khz, gpu_hz, emc_hz."""
    modes = np.asarray(X, dtype=np.float64)
    if modes.ndim != 2 or modes.shape[1] != 4:
        raise ValueError(f"modes must have the shape (n, 4): cores, cpu_khz, gpu_hz, emc_hz; got {modes.shape}")
    if not np.all(np.isfinite(modes)) or np.any(modes <= 0):
        bad = modes[~np.all(np.isfinite(modes) & (modes > 0), axis=1)][0]
        raise ValueError(f"every knob of a mode must be finite and above zero; got {bad.tolist()}")
    return modes


def checked_points(X: ArrayLike) -> FloatArray:
    """Return modes (n, 4), or modes at batch sizes (n, 5) with the size as the last column."""
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 5:
        return checked_modes(points)
    checked_modes(points[:, :4])
    if not np.all(points[:, 4] >= 1):
        raise ValueError(f"batch sizes must be at least 1; got {points[~(points[:, 4] >= 1), 4][:5].tolist()}")
    return points


def checked_targets(modes: FloatArray, step_s: ArrayLike, power_w: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return log step time and log power, one per mode."""
    logs = []
    for name, values in (("step_s", step_s), ("power_w", power_w)):
        array = np.asarray(values, dtype=np.float64)
        if array.shape != (modes.shape[0],):
            raise ValueError(f"{name} must have one value per mode ({modes.shape[0]}); got {array.shape}")
        if array.size == 0 or not np.all(np.isfinite(array)) or np.any(array <= 0):
            raise ValueError(f"{name} must hold finite values above zero; got {array[:5].tolist()}")
        logs.append(np.log(array))
    return logs[0], logs[1]


def checked_noise(noise: ArrayLike | None, default: float, count: int) -> FloatArray:
    """Return the relative standard deviation of each measurement."""
    array = np.broadcast_to(np.asarray(default if noise is None else noise, dtype=np.float64), (count,))
    if not np.all(np.isfinite(array)) or np.any(array < 0):
        raise ValueError(f"noise must be a finite relative standard deviation, 0 or more; got {array[:5].tolist()}")
    return array
