"""Levenberg–Marquardt for a handful of parameters: no import cost, bounded steps, never returns a worse point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from powertrain.space import FloatArray

Residuals = Callable[[FloatArray], tuple[FloatArray, FloatArray]]

STEP_LIMIT = 1.5  # in log units: one step changes no parameter by more than a factor of 4.5
DAMPING_START, DAMPING_FLOOR, DAMPING_FACTOR = 1e-2, 1e-8, 5.0
REJECTIONS = 6


def least_squares(
    residuals: Residuals, start: FloatArray, iterations: int, tolerance: float = 1e-4
) -> tuple[FloatArray, float]:
    """Minimise |r(x)|² from `start`; return the best point and its cost. `residuals` gives r and its Jacobian."""
    x = start
    r, jacobian = residuals(x)
    cost = float(r @ r)
    damping = DAMPING_START
    for _ in range(iterations):
        normal, gradient = jacobian.T @ jacobian, jacobian.T @ r
        diagonal = np.diag(np.diag(normal))
        for _ in range(REJECTIONS):
            step = np.clip(np.linalg.solve(normal + damping * diagonal, -gradient), -STEP_LIMIT, STEP_LIMIT)
            r_new, jacobian_new = residuals(x + step)
            cost_new = float(r_new @ r_new)
            if cost_new < cost:
                break
            damping *= DAMPING_FACTOR
        else:
            return x, cost
        improvement = cost - cost_new
        x, r, jacobian, cost = x + step, r_new, jacobian_new, cost_new
        damping = max(damping / DAMPING_FACTOR, DAMPING_FLOOR)
        if improvement < tolerance * (1.0 + cost):
            break
    return x, cost
