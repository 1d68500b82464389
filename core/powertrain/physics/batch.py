"""Batch size in the equations: how each part of a step's time and power follows the number of samples in it.

A part of a step is work per sample and work per step. At batch size b its time, relative to that at the middle size b0,
is

    (1 − φ) · b / b0 + φ                                  φ = 1: the same at every size; φ = 0: proportional

with one φ per part. Small batches leave units of the GPU idle, so the watts of a busy part follow its occupancy

    b / (b + h)                                           h: samples that occupy half of it

relative to that at b0. And a library may take other kernels at another size: the GPU's two parts move together by a
factor that is smooth over about an octave of sizes, known only near sizes that were measured. These parameters stand
behind the 25 of the modes: φ as its logit, h and the factor as logarithms.
"""

from __future__ import annotations

import numpy as np

from powertrain.physics import model
from powertrain.physics.model import COUNT, INDEX, Evaluation
from powertrain.space import FloatArray, IntArray

KNOBS = 4  # rows of features without batch size
# Mean of the logit of φ per part of the time: below zero for what samples bring, above for what a step costs anyway.
GROWTH = {"wk": -2.0, "wk_m": -2.0, "la": 2.0, "gk": -2.0, "gm": -2.0, "gl": 0.0, "ser": 0.0, "const": 2.0}
GROWTH_WIDTH = 3.0  # wide: a part may be nearly proportional or nearly constant, whatever it is called
FILLING = ("traf", "cpubusy", "gbusy", "gcomp")
HALF_FILLED, HALF_FILLED_WIDTH = -1.5, 1.5  # log of h over b0
KERNELS = ("gk", "gm")
OCTAVES = np.log(2.0) * np.arange(-6, 7)  # log of b over b0 where the kernels' factor has a value of its own
OCTAVE_WIDTH = 0.5
KERNELS_WIDTH = 0.15
BATCH_COUNT = len(GROWTH) + len(FILLING) + OCTAVES.size


def _positions(names: tuple[str, ...]) -> IntArray:
    return np.array([INDEX[name] for name in names], dtype=np.int64)


_GROWING, _FILLING, _KERNELS = _positions(tuple(GROWTH)), _positions(FILLING), _positions(KERNELS)
_GROWTH_SLICE = slice(COUNT, COUNT + len(GROWTH))
_FILLED = slice(_GROWTH_SLICE.stop, _GROWTH_SLICE.stop + len(FILLING))
_OFFSETS = slice(_FILLED.stop, None)


def batch_prior() -> tuple[FloatArray, FloatArray]:
    """Return means and standard deviations of the batch parameters."""
    filling, octaves = len(FILLING), OCTAVES.size
    mean = np.array([*GROWTH.values(), *[HALF_FILLED] * filling, *[0.0] * octaves])
    sd = np.array([*[GROWTH_WIDTH] * len(GROWTH), *[HALF_FILLED_WIDTH] * filling, *[KERNELS_WIDTH] * octaves])
    return mean, sd


def evaluate(features: FloatArray, theta: FloatArray) -> Evaluation:
    """Evaluate modes (4 rows of features), or modes at batch sizes (a fifth row: log of the size over the middle)."""
    if features.shape[0] == KNOBS:
        return model.evaluate(features, theta)
    count = features.shape[1]
    log_time, log_power, cpu_share = np.empty(count), np.empty(count), np.empty(count)
    by_time, by_power = np.zeros((theta.size, count)), np.zeros((theta.size, count))
    # One pass per batch size: there are a handful, and within one the parameters are plain numbers.
    for log_b in np.unique(features[KNOBS]):
        at = np.flatnonzero(features[KNOBS] == log_b)
        growth, growth_slope = _growth(float(log_b), theta[_GROWTH_SLICE])
        filled, filled_slope = _occupancy(float(log_b), theta[_FILLED])
        octave = np.exp(-0.5 * ((log_b - OCTAVES) / OCTAVE_WIDTH) ** 2)
        moved = theta[:COUNT].copy()
        moved[_GROWING] += growth
        moved[_FILLING] += filled
        moved[_KERNELS] += octave @ theta[_OFFSETS]
        here = model.evaluate(features[:KNOBS, at], moved)
        log_time[at], log_power[at], cpu_share[at] = here.log_time, here.log_power, here.cpu_share
        for whole, slopes in ((by_time, here.time_jacobian), (by_power, here.power_jacobian)):
            whole[: slopes.shape[0], at] = slopes
            whole[_GROWTH_SLICE, at] = slopes[_GROWING] * growth_slope[:, None]
            whole[_OFFSETS, at] = octave[:, None] * slopes[_KERNELS].sum(axis=0)
        by_power[_FILLED, at] = here.power_jacobian[_FILLING] * filled_slope[:, None]
    return Evaluation(log_time, log_power, by_time, by_power, cpu_share)


def _growth(log_b: float, logit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the log of each part's growth at this size, and its slope in the logit of φ."""
    ratio, fixed = np.exp(log_b), 1.0 / (1.0 + np.exp(-logit))
    growth = (1.0 - fixed) * ratio + fixed
    return np.log(growth), (1.0 - ratio) * fixed * (1.0 - fixed) / growth


def _occupancy(log_b: float, log_half: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the log of each part's occupancy at this size over that at the middle, and its slope in log h."""
    ratio, half = np.exp(log_b), np.exp(log_half)
    filled = log_b + np.log1p(half) - np.log(ratio + half)
    return filled, half / (1.0 + half) - half / (ratio + half)
