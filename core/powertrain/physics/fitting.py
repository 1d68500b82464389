"""The maximum a posteriori fit of the physics to samples, and its Gaussian approximation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from powertrain.physics.batch import evaluate
from powertrain.physics.model import Evaluation, indices
from powertrain.physics.prior import Prior, Widths, residual_sd_for, workload_prior
from powertrain.physics.reference import PhysicsReference
from powertrain.physics.residual import SMOOTH_SHARE, correlation, regime_sd
from powertrain.physics.solver import least_squares
from powertrain.space import BoolArray, FloatArray

DEFAULT_NOISE = 0.005  # relative: the median of some forty steps
ROUNDS = 3  # the residual's size depends on the regime, which depends on the fit
FIRST_ITERATIONS, LATER_ITERATIONS = 40, 15
# A workload may be far more or far less bound by the CPU than the reference: starts on both sides of it.
CPU_STARTS = (1.0, -1.0)
JITTER = 1e-7


@dataclass(frozen=True, eq=False)
class Samples:
    """Measured modes: log features (4, n), log time and log power (2, n), relative noise (2, n)."""

    features: FloatArray
    logs: FloatArray
    noise: FloatArray

    def subset(self, keep: BoolArray) -> Samples:
        """Return the samples where the mask is true."""
        return Samples(self.features[:, keep], self.logs[:, keep], self.noise[:, keep])


@dataclass(frozen=True, eq=False)
class Fit:
    """The mode of the posterior and what a Gaussian around it needs; lists are per output (time, power)."""

    samples: Samples
    prior: Prior
    theta: FloatArray
    residual_sd: FloatArray
    residual: FloatArray  # (2, n): measured − physics
    smooth_sd: FloatArray  # (2, n)
    precision: tuple[FloatArray, FloatArray]  # (n, n): inverse covariance of residual and noise
    jacobian: tuple[FloatArray, FloatArray]  # (n, parameters)
    covariance: FloatArray  # (parameters, parameters): of the parameters, time and power jointly

    def leave_one_out_z(self) -> FloatArray:
        """Return how many standard deviations each sample lies from what the others and the prior predict: (2, n)."""
        stacked = np.vstack(self.jacobian)
        count = self.residual.shape[1]
        whole = np.zeros((2 * count, 2 * count))
        whole[:count, :count], whole[count:, count:] = self.precision
        # Inverse of (J·C0·Jᵀ + N) by Woodbury, applied to the deviation from the prior mean.
        weighted = whole @ stacked
        inverse = whole - weighted @ self.covariance @ weighted.T
        deviation = self.residual.ravel() + stacked @ (self.theta - self.prior.mean)
        z: FloatArray = (inverse @ deviation) / np.sqrt(np.maximum(np.diag(inverse), 1e-12))
        return z.reshape(2, count)

    def z_of(self, others: Samples) -> FloatArray:
        """Return how many standard deviations samples that were not fitted lie from what the fit predicts: (2, m)."""
        at = evaluate(others.features, self.theta)
        sd = regime_sd(self.residual_sd, at.cpu_share)
        similar = correlation(others.features, self.samples.features)
        z = []
        for output, (log_value, slope) in enumerate(
            ((at.log_time, at.time_jacobian), (at.log_power, at.power_jacobian))
        ):
            kernel = similar * np.outer(sd[output] * np.sqrt(SMOOTH_SHARE), self.smooth_sd[output])
            gain = kernel @ self.precision[output]
            remaining = -(gain @ self.jacobian[output])
            remaining[:, : slope.shape[0]] += slope.T
            explained = (gain * kernel).sum(axis=1)
            variance = ((remaining @ self.covariance) * remaining).sum(axis=1) + sd[output] ** 2 - explained
            deviation = others.logs[output] - log_value - gain @ self.residual[output]
            z.append(deviation / np.sqrt(variance + others.noise[output] ** 2))
        return np.stack(z)

    @property
    def residual_variance(self) -> FloatArray:
        """What physics is expected to leave over at each sample, without noise: (2, n)."""
        whole: FloatArray = self.smooth_sd**2 / SMOOTH_SHARE
        return whole

    def improbability(self) -> float:
        """Return −2 log of the samples' probability under prior and residual, by the Gaussian around the fit."""
        pairs = list(zip(self.residual, self.precision, strict=True))
        misfit = sum(float(residual @ precision @ residual) for residual, precision in pairs)
        moved = self.prior.whitener @ (self.theta - self.prior.mean)
        spread = -sum(_log_determinant(precision) for _, precision in pairs)
        information = _log_determinant(self.prior.covariance) - _log_determinant(self.covariance)
        return misfit + float(moved @ moved) + spread + information + self.residual.size * float(np.log(2.0 * np.pi))


def _log_determinant(matrix: FloatArray) -> float:
    return float(np.linalg.slogdet(matrix)[1])


def fit_samples(reference: PhysicsReference, widths: Widths, samples: Samples, start: FloatArray | None = None) -> Fit:
    """Fit physics and residual to samples. `start`: a nearby solution, which then replaces the several starts."""
    prior = workload_prior(reference, widths, samples.features, samples.logs[0], samples.logs[1])
    residual_sd = residual_sd_for(reference, widths)
    similar = correlation(samples.features, samples.features)
    starts = _starts(prior.mean) if start is None else [start]
    at = evaluate(samples.features, starts[0])
    theta = starts[0]
    for round_ in range(ROUNDS):
        whiteners, smooth_sd = _whiteners(similar, regime_sd(residual_sd, at.cpu_share), samples.noise)
        objective = _Objective(samples, prior, whiteners)
        iterations = FIRST_ITERATIONS if round_ == 0 else LATER_ITERATIONS
        theta, _ = min((least_squares(objective, s, iterations) for s in starts), key=lambda solution: solution[1])
        starts = [theta]
        at = evaluate(samples.features, theta)
    return _gaussian(samples, prior, theta, residual_sd, at, whiteners, smooth_sd)


def _starts(mean: FloatArray) -> list[FloatArray]:
    starts = [mean]
    for shift in CPU_STARTS:
        moved = mean.copy()
        moved[indices(("wk", "la"))] += shift
        starts.append(moved)
    return starts


def _whiteners(similar: FloatArray, sd: FloatArray, noise: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """Return, per output, the inverse Cholesky factor of the covariance of residual and noise."""
    smooth = sd * np.sqrt(SMOOTH_SHARE)
    variance = sd**2 * (1.0 - SMOOTH_SHARE) + noise**2 + JITTER
    identity = np.eye(similar.shape[0])
    whiteners = [
        np.linalg.solve(np.linalg.cholesky(similar * np.outer(smooth[k], smooth[k]) + np.diag(variance[k])), identity)
        for k in (0, 1)
    ]
    return whiteners, smooth


class _Objective:
    """Whitened residuals of time, power and prior with their Jacobian, as the solver wants them."""

    def __init__(self, samples: Samples, prior: Prior, whiteners: list[FloatArray]) -> None:
        self.samples, self.prior, self.whiteners = samples, prior, whiteners
        self.count = samples.logs.shape[1]

    def __call__(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        at, n = evaluate(self.samples.features, theta), self.count
        parameters = theta.size
        jacobian = np.zeros((2 * n + parameters, parameters))
        jacobian[:n, : at.time_jacobian.shape[0]] = self.whiteners[0] @ at.time_jacobian.T
        jacobian[n : 2 * n] = self.whiteners[1] @ at.power_jacobian.T
        jacobian[2 * n :] = self.prior.whitener
        r = np.empty(2 * n + parameters)
        r[:n] = self.whiteners[0] @ (at.log_time - self.samples.logs[0])
        r[n : 2 * n] = self.whiteners[1] @ (at.log_power - self.samples.logs[1])
        r[2 * n :] = self.prior.whitener @ (theta - self.prior.mean)
        return r, jacobian


def _gaussian(
    samples: Samples,
    prior: Prior,
    theta: FloatArray,
    residual_sd: FloatArray,
    at: Evaluation,
    whiteners: list[FloatArray],
    smooth_sd: FloatArray,
) -> Fit:
    by_time = np.zeros((samples.logs.shape[1], theta.size))
    by_time[:, : at.time_jacobian.shape[0]] = at.time_jacobian.T
    jacobian = (by_time, np.ascontiguousarray(at.power_jacobian.T))
    information: FloatArray = prior.whitener.T @ prior.whitener
    for whitener, slopes in zip(whiteners, jacobian, strict=True):
        white = whitener @ slopes
        information = information + white.T @ white
    residual = samples.logs - np.stack([at.log_time, at.log_power])
    precision = (whiteners[0].T @ whiteners[0], whiteners[1].T @ whiteners[1])
    covariance = np.linalg.inv(information).astype(np.float64)
    return Fit(samples, prior, theta, residual_sd, residual, smooth_sd, precision, jacobian, covariance)
