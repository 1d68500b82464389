"""PhysicsReference: what one thoroughly measured workload teaches about a board, and how it is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from powertrain.physics.checks import checked_modes, checked_targets
from powertrain.physics.model import (
    COUNT,
    INDEX,
    POWER_AMPLITUDES,
    POWER_EXPONENTS,
    SOFTNESS,
    TIME_AMPLITUDES,
    TIME_EXPONENTS,
    Evaluation,
    evaluate,
    indices,
    log_features,
)
from powertrain.physics.solver import least_squares
from powertrain.space import FloatArray

# Where every fit starts from: a plausible accelerated edge board, times relative to the middle of the table.
GENERIC: dict[str, float] = {
    "wk": 0.02, "wk_n": 1.5, "wk_c": 1.0, "wk_m": 0.005, "la": 0.02, "gk": 0.03, "gm": 0.03, "gl": 0.001, "ser": 0.002,
    "const": 0.001, "p": 2.5, "q": 5.0, "r": 5.0,
    "static": 10.0, "mem": 2.0, "e_mem": 1.5, "traf": 10.0, "cpuidle": 1.5, "cpubusy": 2.0, "e_c": 2.5, "gidle": 1.5,
    "gbusy": 4.0, "gcomp": 10.0, "e_g": 1.8, "e_gi": 3.5,
}  # fmt: skip
GENERIC_SCALE = (12.0, 2.2016e6, 1.3005e9, 3.199e9)

FIT_SCALE = 0.02  # a residual of 2 % is ordinary; the Cauchy loss discounts larger ones (clocks that were not applied)
AMPLITUDE_WIDTH, SHAPE_WIDTH = 2.0, 0.5
REWEIGHTINGS, STEPS_PER_REWEIGHTING = 15, 6
CPU_SHIFTS = (0.0, 1.5, -1.5)  # starts: as generic, bound by the CPU, hardly needing it
# An amplitude the reference can't see would drift to zero and then be denied to every new workload.
SMALLEST_TIME_SHARE, SMALLEST_POWER_W = 0.01, 0.1
RESIDUAL_CLIP = 4.0  # robust standard deviations; beyond lies a wrong row, not the model's error
RESIDUAL_RANGE = (0.006, 0.10)


@dataclass(frozen=True, eq=False)
class PhysicsReference:
    """The fitted parameters (logarithms), the size of what they leave over, and the extents of the measured space.

    `residual_sd` holds relative standard deviations: rows time and power, columns GPU-side and CPU-side regime.
    """

    theta: FloatArray  # (COUNT,)
    theta_sd: FloatArray  # (COUNT,): how well the table determines each
    scale: FloatArray  # (4,): the largest value of each knob, by which modes are made relative
    residual_sd: FloatArray  # (2, 2)
    levels: tuple[FloatArray, FloatArray, FloatArray, FloatArray]
    mape_pct: FloatArray  # (2,): time and power on its own table
    rows: int

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return named arrays for an npz file."""
        arrays = {name: getattr(self, name) for name in ("theta", "theta_sd", "scale", "residual_sd", "mape_pct")}
        arrays["rows"] = np.array([float(self.rows)])
        return arrays | {f"levels_{k}": values for k, values in enumerate(self.levels)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray]) -> PhysicsReference:
        """Rebuild a reference from `to_arrays`."""
        try:
            values = {name: np.asarray(arrays[name], dtype=np.float64) for name in _ARRAYS}
        except KeyError as missing:
            raise ValueError(f"a physics reference needs the array {missing}; it holds {sorted(arrays)}") from None
        if values["theta"].shape != (COUNT,):
            raise ValueError(f"theta must hold {COUNT} parameters, not {values['theta'].shape}")
        levels = (values["levels_0"], values["levels_1"], values["levels_2"], values["levels_3"])
        return cls(
            theta=values["theta"],
            theta_sd=values["theta_sd"],
            scale=values["scale"],
            residual_sd=values["residual_sd"],
            levels=levels,
            mape_pct=values["mape_pct"],
            rows=int(values["rows"][0]),
        )

    def evaluate(self, X: FloatArray) -> Evaluation:
        """Evaluate the reference workload itself at these modes."""
        return evaluate(log_features(checked_modes(X), self.scale), self.theta)

    def same_board(self, X: FloatArray) -> bool:
        """Tell whether these modes can be of the reference's board: known clocks only, or the same maxima."""
        maxima = X.max(axis=0)
        if np.all(np.abs(maxima / self.scale - 1.0) < 0.02):
            return True
        if maxima[0] > self.scale[0] or maxima[1] > 1.02 * self.scale[1]:
            return False
        return all(_on_levels(np.unique(X[:, k]), self.levels[k]) for k in (2, 3))


_ARRAYS = (
    "theta",
    "theta_sd",
    "scale",
    "residual_sd",
    "mape_pct",
    "rows",
    "levels_0",
    "levels_1",
    "levels_2",
    "levels_3",
)


def _on_levels(values: FloatArray, levels: FloatArray) -> bool:
    return bool(np.all(np.min(np.abs(values[:, None] / levels[None, :] - 1.0), axis=1) < 0.005))


def generic_theta() -> FloatArray:
    """Return the parameters to start from when nothing was measured."""
    return np.log(np.array([GENERIC[name] for name in INDEX], dtype=np.float64))


def generic_reference(X: FloatArray) -> PhysicsReference:
    """Return a reference that knows only the shape of the physics; for a board nobody has profiled."""
    levels = (np.unique(X[:, 0]), np.unique(X[:, 1]), np.unique(X[:, 2]), np.unique(X[:, 3]))
    residual_sd = np.array([[0.02, 0.06], [0.02, 0.04]])
    unknown = np.zeros(COUNT)
    unknown[indices(TIME_AMPLITUDES + POWER_AMPLITUDES)] = 1.0
    return PhysicsReference(
        generic_theta(), unknown, np.array(GENERIC_SCALE), residual_sd, levels, np.full(2, np.nan), 0
    )


def fit_reference(X: FloatArray, step_s: FloatArray, power_w: FloatArray) -> PhysicsReference:
    """Fit the model to a whole table, robustly (Cauchy loss); deterministic."""
    modes = checked_modes(X)
    log_time, log_power = checked_targets(modes, step_s, power_w)
    scale = modes.max(axis=0)
    features = log_features(modes, scale)
    start = generic_theta()
    start[indices(TIME_AMPLITUDES)] += np.median(log_time - evaluate(features, start).log_time)
    fits = [_robust_fit(features, log_time, log_power, start, shift) for shift in CPU_SHIFTS]
    theta, theta_sd, _ = min(fits, key=lambda fit: fit[2])
    theta = _with_floors(theta, float(log_time.min()))
    fitted = evaluate(features, theta)
    residuals = np.stack([log_time - fitted.log_time, log_power - fitted.log_power])
    levels = (np.unique(modes[:, 0]), np.unique(modes[:, 1]), np.unique(modes[:, 2]), np.unique(modes[:, 3]))
    mape_pct = 100.0 * np.mean(np.abs(np.expm1(-residuals)), axis=1)
    residual_sd = _regime_sd(residuals, fitted.cpu_share)
    return PhysicsReference(theta, theta_sd, scale, residual_sd, levels, mape_pct, modes.shape[0])


def _robust_fit(
    features: FloatArray, log_time: FloatArray, log_power: FloatArray, start: FloatArray, cpu_shift: float
) -> tuple[FloatArray, FloatArray, float]:
    """Return the parameters, their standard deviations and the robust cost."""
    width = np.full(COUNT, AMPLITUDE_WIDTH)
    width[indices(TIME_EXPONENTS + SOFTNESS + POWER_EXPONENTS)] = SHAPE_WIDTH
    theta = start.copy()
    theta[indices(("wk", "la"))] += cpu_shift
    prior_jacobian = np.diag(1.0 / width)
    for _ in range(REWEIGHTINGS):
        now = evaluate(features, theta)
        # Cauchy loss by iterated weights: w = 1 / (1 + (r/s)²).
        time_weight = 1.0 / np.hypot(FIT_SCALE, log_time - now.log_time)
        power_weight = 1.0 / np.hypot(FIT_SCALE, log_power - now.log_power)

        def residuals(
            x: FloatArray, time_weight: FloatArray = time_weight, power_weight: FloatArray = power_weight
        ) -> tuple[FloatArray, FloatArray]:
            at = evaluate(features, x)
            jacobian = np.zeros((2 * log_time.size + COUNT, COUNT))
            jacobian[: log_time.size, : at.time_jacobian.shape[0]] = (at.time_jacobian * time_weight).T
            jacobian[log_time.size : -COUNT] = (at.power_jacobian * power_weight).T
            jacobian[-COUNT:] = prior_jacobian
            r = [(at.log_time - log_time) * time_weight, (at.log_power - log_power) * power_weight, (x - start) / width]
            return np.concatenate(r), jacobian

        theta, _ = least_squares(residuals, theta, STEPS_PER_REWEIGHTING)
    _, slopes = residuals(theta)
    now = evaluate(features, theta)
    misfit = np.concatenate([now.log_time - log_time, now.log_power - log_power]) / FIT_SCALE
    cost = float(np.log1p(misfit**2).sum() + (((theta - start) / width) ** 2).sum())
    return theta, np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes))), cost


def _with_floors(theta: FloatArray, shortest_log_s: float) -> FloatArray:
    floored = theta.copy()
    times, powers = indices(TIME_AMPLITUDES), indices(POWER_AMPLITUDES)
    floored[times] = np.maximum(floored[times], shortest_log_s + np.log(SMALLEST_TIME_SHARE))
    floored[powers] = np.maximum(floored[powers], np.log(SMALLEST_POWER_W))
    return floored


def _regime_sd(residuals: FloatArray, cpu_share: FloatArray) -> FloatArray:
    """Split the residuals' variance between the GPU-side and the CPU-side regime (least squares on r², clipped)."""
    design = np.stack([1.0 - cpu_share, cpu_share], axis=1)
    rows = []
    for r in residuals:
        spread = 1.4826 * float(np.median(np.abs(r))) + 1e-4
        squared = np.minimum(np.abs(r), RESIDUAL_CLIP * spread) ** 2
        variance = np.linalg.lstsq(design, squared, rcond=None)[0]
        rows.append(np.sqrt(np.clip(variance, RESIDUAL_RANGE[0] ** 2, RESIDUAL_RANGE[1] ** 2)))
    return np.array(rows)
