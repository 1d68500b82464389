"""Acquisition: how much better than the best measured mode each mode is expected to be, under the limits."""

from __future__ import annotations

import numpy as np

from powertrain.choosing import break_probability
from powertrain.objectives import ASSUMED_PEAK_FACTOR, Limits, Objective, Work
from powertrain.prediction import Prediction
from powertrain.space import BoolArray, FloatArray

# A mode's cost divides its gain only to this power: a slow mode that teaches much is still worth its minutes.
COST_EXPONENT = 0.4


def log_goal(prediction: Prediction, objective: Objective) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the logarithm of what the objective minimises."""
    time_std = prediction.time_std_s / prediction.time_s
    power_std = prediction.power_std_w / prediction.power_w
    if objective is Objective.MIN_TIME:
        return np.log(prediction.time_s), time_std
    if objective is Objective.MIN_POWER:
        return np.log(prediction.power_w), power_std
    return np.log(prediction.time_s * prediction.power_w), np.hypot(time_std, power_std)


def improvement(mean: FloatArray, std: FloatArray, incumbent: float) -> FloatArray:
    """Return the expected amount by which a normal variable falls below the incumbent."""
    from scipy.special import ndtr

    spread = np.maximum(std, 1e-9)
    z = (incumbent - mean) / spread
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    gain: FloatArray = (incumbent - mean) * ndtr(z) + spread * density
    return np.maximum(gain, 0.0)


def constrained_gain(
    prediction: Prediction,
    measured: Prediction,
    is_measured: BoolArray,
    objective: Objective,
    limits: Limits,
    work: Work,
    risk: float,
    peak_factor: FloatArray | float = ASSUMED_PEAK_FACTOR,
) -> FloatArray:
    """Return for each mode P(limits hold) × expected relative improvement over the best feasible measured mode.

    `measured` holds what is known of measured modes (others are ignored). Without a feasible one, every likely
    feasible mode is a gain,
    the likelier the better.
    """
    holds = 1.0 - break_probability(prediction, limits, work, peak_factor)
    mean, std = log_goal(prediction, objective)
    feasible = is_measured & (break_probability(measured, limits, work, peak_factor) <= risk)
    if not feasible.any():
        return holds * (1.0 + improvement(mean, std, float(mean.max())))
    incumbent = float(log_goal(measured, objective)[0][feasible].min())
    return holds * improvement(mean, std, incumbent)


def front_budgets(prediction: Prediction, count: int = 12) -> FloatArray:
    """Return power levels that span the binding ones: above the least power, up to that of the fastest mode."""
    lowest = float(prediction.power_w.min())
    fastest = float(prediction.power_w[int(np.argmin(prediction.time_s))])
    low = lowest + 0.05 * (fastest - lowest)
    return np.linspace(low, max(fastest, low * 1.01), count)
