"""Acquisition functions: what measuring a mode is worth, by what it may gain and by what it may show to be safe."""

from __future__ import annotations

import numpy as np

from powertrain.choosing import break_probability
from powertrain.objectives import ASSUMED_PEAK_FACTOR, Limits, Objective, Work
from powertrain.physics.predictor import PhysicsPredictor
from powertrain.prediction import Prediction
from powertrain.space import BoolArray, FloatArray

# A mode's cost divides its gain only to this power: a slow mode that teaches much is still worth its minutes.
COST_EXPONENT = 0.4
# Under an exploration limit a measurement is also worth what it makes safe, discounted because that needs one more
# measurement.
EXPANSION_DISCOUNT = 0.7
# Some modes need several measurements to be shown safe: a share of the uncertainty removed is worth this share of
# their gain.
CLEARER_WEIGHT = 0.5
# The bound that the theorem of GP-UCB asks for is known to be far too wide; its authors divide the width by five.
UCB_SCALE = 0.2
UCB_CONFIDENCE = 0.1  # δ of the bound


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

    `measured` holds the posterior of measured modes (others are ignored). Without a feasible one, every likely
    feasible mode is a gain, the likelier the better.
    """
    holds = 1.0 - break_probability(prediction, limits, work, peak_factor)
    mean, std = log_goal(prediction, objective)
    feasible = is_measured & (break_probability(measured, limits, work, peak_factor) <= risk)
    if not feasible.any():
        return holds * (1.0 + improvement(mean, std, float(mean.max())))
    incumbent = float(log_goal(measured, objective)[0][feasible].min())
    return holds * improvement(mean, std, incumbent)


def front_gain(
    prediction: Prediction, measured: Prediction, is_measured: BoolArray, work: Work, risk: float
) -> FloatArray:
    """Return the expected gain in time, averaged over the power budgets that bind."""
    gains = [
        constrained_gain(
            prediction, measured, is_measured, Objective.MIN_TIME, Limits(power_w=float(budget_w)), work, risk
        )
        for budget_w in front_budgets(prediction)
    ]
    mean: FloatArray = np.mean(gains, axis=0)
    return mean


def expansion_gain(
    predictor: PhysicsPredictor,
    candidates: FloatArray,
    targets: FloatArray,
    target_gain: FloatArray,
    limit_w: float,
    risk: float,
    noise: float,
) -> FloatArray:
    """Return for each candidate mode the best gain among targets, weighed by the chance that the candidate's
    measurement makes the target safe within the limit.

    Measuring a candidate shrinks a target's standard deviation from s to s' and moves its mean by a normal amount
    of variance s² − s'².
    """
    from scipy.special import ndtr, ndtri

    if not len(targets):
        return np.zeros(len(candidates))
    now = predictor.posterior(targets)
    _, variance_after = predictor.lookahead(targets, candidates, noise=noise)
    variance_after = np.minimum(variance_after, now.log_power_std[:, None] ** 2)
    mean_std = np.sqrt(now.log_power_std[:, None] ** 2 - variance_after) + 1e-9
    guard = -float(ndtri(risk)) * np.sqrt(variance_after)
    becomes_safe = ndtr((np.log(limit_w) - guard - now.log_power[:, None]) / mean_std)
    clearer = 1.0 - np.sqrt(variance_after) / now.log_power_std[:, None]
    likely = np.maximum(becomes_safe, CLEARER_WEIGHT * clearer)
    best: FloatArray = (target_gain[:, None] * likely).max(axis=0)
    return best


def confidence_width(modes: int, measured: int) -> float:
    """Return how many standard deviations GP-UCB's bound is wide after so many measurements."""
    return float(np.sqrt(UCB_SCALE * 2.0 * np.log(modes * (measured * np.pi) ** 2 / (6.0 * UCB_CONFIDENCE))))


def front_budgets(prediction: Prediction, count: int = 12) -> FloatArray:
    """Return power levels that span the binding ones: above the least power, up to that of the fastest mode."""
    lowest = float(prediction.power_w.min())
    fastest = float(prediction.power_w[int(np.argmin(prediction.time_s))])
    low = lowest + 0.05 * (fastest - lowest)
    return np.linspace(low, max(fastest, low * 1.01), count)
