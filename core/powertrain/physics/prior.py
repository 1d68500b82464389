"""The prior over a new workload's parameters: centred on the reference, as wide as workloads and boards differ."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from powertrain.physics.batch import KNOBS, batch_prior, evaluate
from powertrain.physics.model import (
    COUNT,
    INDEX,
    POWER_AMPLITUDES,
    POWER_EXPONENTS,
    SOFTNESS,
    TIME_AMPLITUDES,
    indices,
)
from powertrain.physics.reference import PhysicsReference
from powertrain.space import FloatArray


@dataclass(frozen=True)
class Widths:
    """Standard deviations of log parameters. `speed` and `watts` are shared by all amplitudes of time and power."""

    speed: float = 3.0  # how much longer a step is: a matter of the model, not of the board
    time: float = 1.0  # each part's share of a step; a width of 1 transfers to new workloads, narrower ones do not
    core_exponent: float = 0.5
    clock_exponent: float = 0.35
    softness: float = 0.5
    watts: float = 0.3
    power: float = 0.7
    static: float = 0.25  # the board's own, hence nearly known
    memory: float = 0.5
    power_exponents: float = 0.2
    # Factors on the reference's residuals: a fit to a handful of samples leaves more over than one to a whole table.
    time_residual: float = 1.25
    power_residual: float = 1.0
    recentre_power: bool = False  # overall power is taken from the samples: another board than the reference's

    def scaled(self, factor: float) -> Widths:
        """Return widths that are so many times as wide; what a fit leaves over stays the same."""
        if not (np.isfinite(factor) and factor > 0):
            raise ValueError(f"a prior's width must be a number above zero, not {factor!r}")
        return replace(self, **{name: getattr(self, name) * factor for name in _OF_PARAMETERS})


_OF_PARAMETERS = (
    "speed", "time", "core_exponent", "clock_exponent", "softness", "watts", "power", "static", "memory",
    "power_exponents",
)  # fmt: skip
SMALLEST_RESIDUAL = np.array([0.012, 0.03])  # GPU-side, CPU-side: a calm reference does not promise a calm workload
SAME_BOARD = Widths()
OTHER_BOARD = Widths(
    time=1.2,
    clock_exponent=0.5,
    watts=1.0,
    power=1.0,
    static=0.6,
    memory=0.8,
    power_exponents=0.35,
    time_residual=1.6,
    power_residual=1.3,
    recentre_power=True,
)


def residual_sd_for(reference: PhysicsReference, widths: Widths) -> FloatArray:
    """Return the residual standard deviations to expect of a new workload (rows: time, power)."""
    factors = np.array([[widths.time_residual], [widths.power_residual]])
    expected: FloatArray = np.maximum(reference.residual_sd, SMALLEST_RESIDUAL) * factors
    return expected


@dataclass(frozen=True, eq=False)
class Prior:
    """A normal distribution over the log parameters."""

    mean: FloatArray
    covariance: FloatArray
    whitener: FloatArray  # inverse of the covariance's Cholesky factor
    widths: Widths


def widths_for(reference: PhysicsReference, modes: FloatArray) -> Widths:
    """Choose the widths: narrower on the board the reference was measured on."""
    return SAME_BOARD if reference.rows and reference.same_board(modes) else OTHER_BOARD


def workload_prior(
    reference: PhysicsReference, widths: Widths, features: FloatArray, log_time: FloatArray, log_power: FloatArray
) -> Prior:
    """Centre the reference on the new samples: overall speed always, overall power on another board."""
    mean = reference.theta if features.shape[0] == KNOBS else np.concatenate([reference.theta, batch_prior()[0]])
    mean = mean.copy()
    mean[indices(TIME_AMPLITUDES)] += np.median(log_time - evaluate(features, mean).log_time)
    if widths.recentre_power:
        mean[indices(POWER_AMPLITUDES)] += np.median(log_power - evaluate(features, mean).log_power)
    modes = prior_around(mean[:COUNT], reference.theta_sd, widths)
    return modes if features.shape[0] == KNOBS else _with_batch(modes)


def prior_around(mean: FloatArray, theta_sd: FloatArray, widths: Widths) -> Prior:
    """Build the prior with this mean; what the reference itself could not determine (`theta_sd`) widens it."""
    sd = np.zeros(COUNT)
    for names, width in (
        (TIME_AMPLITUDES, widths.time),
        (("wk_n",), widths.core_exponent),
        (("wk_c",), widths.clock_exponent),
        (SOFTNESS, widths.softness),
        (POWER_AMPLITUDES, widths.power),
        (POWER_EXPONENTS, widths.power_exponents),
    ):
        sd[indices(names)] = width
    sd[INDEX["static"]], sd[INDEX["mem"]] = widths.static, widths.memory
    covariance = np.diag(sd**2 + theta_sd**2)
    for names, shared in ((TIME_AMPLITUDES, widths.speed), (POWER_AMPLITUDES, widths.watts)):
        block = np.ix_(indices(names), indices(names))
        covariance[block] += shared**2
    return Prior(mean, covariance, np.linalg.inv(np.linalg.cholesky(covariance)), widths)


def _with_batch(modes: Prior) -> Prior:
    """Return the prior with the parameters of batch size behind those of the modes, independent of them."""
    mean, sd = batch_prior()
    covariance, whitener = np.diag(np.r_[np.zeros(COUNT), sd**2]), np.diag(np.r_[np.zeros(COUNT), 1.0 / sd])
    covariance[:COUNT, :COUNT], whitener[:COUNT, :COUNT] = modes.covariance, modes.whitener
    return Prior(np.concatenate([modes.mean, mean]), covariance, whitener, modes.widths)
