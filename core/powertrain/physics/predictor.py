"""PhysicsPredictor: a workload's time and power at every mode from a handful of samples, with standard deviations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from powertrain.physics.batch import KNOBS, evaluate
from powertrain.physics.checks import checked_modes, checked_noise, checked_points, checked_targets
from powertrain.physics.fitting import DEFAULT_NOISE, Fit, Samples
from powertrain.physics.model import Evaluation, log_features
from powertrain.physics.outliers import fit_without_outliers
from powertrain.physics.prior import widths_for
from powertrain.physics.reference import PhysicsReference, generic_reference
from powertrain.physics.residual import SMOOTH_SHARE, correlation, regime_sd
from powertrain.prediction import Prediction
from powertrain.space import BoolArray, FloatArray

CHUNK = 1024  # modes at a time: fits a cache, and memory does not depend on the size of the space
LARGEST_FIT = 400  # samples beyond this are thinned out: the model has long converged, the algebra is cubic
# Predictions stay within these factors of what was measured, whatever the fit does (log units).
TIME_REACH, POWER_REACH, LARGEST_LOG_SD = np.log(200.0), np.log(10.0), 2.0


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is believed about each mode: normal in log time and log power; `power_w` is the median."""

    log_time: FloatArray
    log_time_std: FloatArray
    log_power: FloatArray
    log_power_std: FloatArray

    @property
    def power_w(self) -> FloatArray:
        """Median power."""
        return np.exp(self.log_power)

    @property
    def power_std_w(self) -> FloatArray:
        """Standard deviation of power; includes that of the time parameters behind the utilisations."""
        return self.power_w * self.log_power_std


@dataclass(frozen=True, eq=False)
class _Projection:
    """The posterior's ingredients at some modes; `gain` and `kernel` are per output (time, power)."""

    features: FloatArray
    mean: FloatArray  # (2, m)
    smooth_sd: FloatArray  # (2, m): of the Gaussian process
    rough_sd: FloatArray  # (2, m): of the rest
    jacobian: tuple[FloatArray, FloatArray]  # (m, COUNT): what parameter uncertainty is left to do here
    kernel: tuple[FloatArray, FloatArray]  # (m, samples)
    gain: tuple[FloatArray, FloatArray]  # (m, samples): kernel · inverse covariance


class PhysicsPredictor:
    """Fits the physics to samples with the reference as prior; `space` (all modes of the board) tells boards apart.

    Samples are modes (n, 4), or modes at several batch sizes (n, 5). In the second case predictions are wanted at modes
    with a batch size too; where a mode comes without one, `batch_size` is meant.
    `prior_width` makes the prior so many times as wide: above 1 the reference is trusted less.
    """

    def __init__(
        self,
        reference: PhysicsReference | None,
        seed: int = 0,
        space: ArrayLike | None = None,
        *,
        batch_size: int | None = None,
        prior_width: float = 1.0,
    ) -> None:
        self.reference = reference
        self.prior_width = prior_width
        self.seed = seed
        self.batch_size = batch_size
        self.space = None if space is None else checked_modes(space)
        self.outliers_: BoolArray = np.zeros(0, dtype=np.bool_)
        self._fit: Fit | None = None
        self._scale: FloatArray = np.zeros(0)

    def fit(
        self,
        X: ArrayLike,
        step_s: ArrayLike,
        power_w: ArrayLike,
        noise_time: ArrayLike | None = None,
        noise_power: ArrayLike | None = None,
    ) -> PhysicsPredictor:
        """Learn from samples (one is enough). `noise_*`: relative standard deviations of the measurements."""
        modes = checked_points(X)
        log_time, log_power = checked_targets(modes, step_s, power_w)
        noise = np.stack([checked_noise(values, DEFAULT_NOISE, modes.shape[0]) for values in (noise_time, noise_power)])
        space = modes[:, :KNOBS] if self.space is None else self.space
        base = self.reference or generic_reference(space)
        widths = widths_for(base, space).scaled(self.prior_width)
        # Parts of a step are told per-sample from per-step work around the middle of the measured batch sizes.
        middle = np.exp(np.log(np.unique(modes[:, KNOBS:])).mean(keepdims=True)) if modes.shape[1] > KNOBS else []
        scale = np.concatenate([base.scale, middle])
        used = self._thinned(modes.shape[0])
        samples = Samples(log_features(modes[used], scale), np.stack([log_time, log_power])[:, used], noise[:, used])
        fit, keep = fit_without_outliers(base, widths, samples)
        self._scale, self._fit = scale, fit
        self.outliers_ = np.zeros(modes.shape[0], dtype=np.bool_)
        self.outliers_[used[~keep]] = True
        return self

    def predict(self, X: ArrayLike) -> Prediction:
        """Predict time and power with standard deviations of what a measurement there would give."""
        belief = self.posterior(X)
        time_s = np.exp(belief.log_time)
        return Prediction(time_s, time_s * belief.log_time_std, belief.power_w, belief.power_std_w)

    def posterior(self, X: ArrayLike) -> Posterior:
        """Return the joint posterior's marginals at these modes."""
        modes = self._points(X)
        columns = [self._marginals(modes[i : i + CHUNK]) for i in range(0, modes.shape[0], CHUNK)]
        mean_sd = np.concatenate(columns, axis=1) if columns else np.zeros((4, 0))
        return Posterior(*mean_sd)

    def lookahead(
        self, X_grid: ArrayLike, X_candidates: ArrayLike, noise: float = DEFAULT_NOISE
    ) -> tuple[FloatArray, FloatArray]:
        """Return the variances of log time and log power that each grid mode would have after measuring each candidate.

        Both arrays have the shape (grid, candidates); one measurement gives time and power together.
        """
        grid, candidates = self._project(self._points(X_grid)), self._project(self._points(X_candidates))
        own = [[self._diagonal(candidates, i, j) for j in (0, 1)] for i in (0, 1)]
        rough = candidates.rough_sd**2 + noise**2
        tt, pp, tp = own[0][0] + rough[0], own[1][1] + rough[1], own[0][1]
        determinant = tt * pp - tp**2
        after = []
        for output in (0, 1):
            by_time, by_power = (self._covariance(grid, candidates, output, j) for j in (0, 1))
            removed = (by_time**2 * pp - 2.0 * by_time * by_power * tp + by_power**2 * tt) / determinant
            before = self._diagonal(grid, output, output) + grid.rough_sd[output] ** 2
            after.append(np.maximum(before[:, None] - removed, grid.rough_sd[output][:, None] ** 2))
        return after[0], after[1]

    def law(self, X: ArrayLike) -> Evaluation:
        """Return the fitted physics alone at these modes, without what single samples taught beside it."""
        return evaluate(log_features(self._points(X), self._scale), self.fitted.theta)

    @property
    def fitted(self) -> Fit:
        """The fit behind the predictions."""
        if self._fit is None:
            raise RuntimeError("the predictor has not seen a sample yet; call fit first")
        return self._fit

    def _thinned(self, count: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        if count <= LARGEST_FIT:
            return np.arange(count)
        return np.sort(np.random.default_rng(self.seed).permutation(count)[:LARGEST_FIT])

    def _points(self, X: ArrayLike) -> FloatArray:
        """Return modes as the fit wants them: with a batch size where it was fitted to several."""
        points = checked_points(X)
        columns = self.fitted.samples.features.shape[0]
        if points.shape[1] < columns and self.batch_size is not None:
            return np.column_stack([points, np.full(len(points), float(self.batch_size))])
        if points.shape[1] != columns:
            raise ValueError(f"the fit was made with {columns} columns, modes to predict have {points.shape[1]}")
        return points

    def _project(self, modes: FloatArray) -> _Projection:
        fit = self.fitted
        features = log_features(modes, self._scale)
        at = evaluate(features, fit.theta)
        sd = regime_sd(fit.residual_sd, at.cpu_share)
        smooth, rough = sd * np.sqrt(SMOOTH_SHARE), sd * np.sqrt(1.0 - SMOOTH_SHARE)
        similar = correlation(features, fit.samples.features)
        kernels, gains, jacobians, means = [], [], [], []
        for output, (log_value, slope) in enumerate(
            ((at.log_time, at.time_jacobian), (at.log_power, at.power_jacobian))
        ):
            kernel = similar * smooth[output][:, None] * fit.smooth_sd[output]
            gain = kernel @ fit.precision[output]
            remaining = -(gain @ fit.jacobian[output])
            remaining[:, : slope.shape[0]] += slope.T
            kernels.append(kernel)
            gains.append(gain)
            jacobians.append(remaining)
            means.append(log_value + gain @ fit.residual[output])
        return _Projection(
            features, np.stack(means), smooth, rough, (jacobians[0], jacobians[1]), (kernels[0], kernels[1]),
            (gains[0], gains[1]),
        )  # fmt: skip

    def _diagonal(self, at: _Projection, i: int, j: int) -> FloatArray:
        by_parameters: FloatArray = ((at.jacobian[i] @ self.fitted.covariance) * at.jacobian[j]).sum(axis=1)
        if i != j:
            return by_parameters
        unexplained: FloatArray = np.maximum(at.smooth_sd[i] ** 2 - (at.gain[i] * at.kernel[i]).sum(axis=1), 0.0)
        return by_parameters + unexplained

    def _covariance(self, left: _Projection, right: _Projection, i: int, j: int) -> FloatArray:
        by_parameters: FloatArray = (left.jacobian[i] @ self.fitted.covariance) @ right.jacobian[j].T
        if i != j:
            return by_parameters
        similar = correlation(left.features, right.features)
        prior: FloatArray = similar * left.smooth_sd[i][:, None] * right.smooth_sd[i]
        return by_parameters + prior - left.gain[i] @ right.kernel[i].T

    def _marginals(self, modes: FloatArray) -> FloatArray:
        at = self._project(modes)
        observed = self.fitted.samples.logs
        rows = []
        for output, reach in enumerate((TIME_REACH, POWER_REACH)):
            variance = self._diagonal(at, output, output) + at.rough_sd[output] ** 2
            rows.append(np.clip(at.mean[output], observed[output].min() - reach, observed[output].max() + reach))
            rows.append(np.minimum(np.sqrt(variance), LARGEST_LOG_SD))
        return np.stack(rows)
