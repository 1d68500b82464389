"""The equations: log step time and log power of a mode as functions of 25 log parameters, with analytic derivatives.

Time is a soft maximum of what can hold a step up, plus what nothing overlaps:

    workers = wk / (n^wk_n · c^wk_c) + wk_m / m           data loading on the cores
    launch  = la / c                                      the thread that feeds the GPU
    gpu     = softmax_p(gk / g, gm / m) + gl              compute against memory traffic, plus a constant
    time    = softmax_q(workers, softmax_r(launch, gpu)) + ser / c + const

with n, c, g, m = cores, CPU, GPU and memory clock relative to the scale, and softmax_p(a, b) = (a^p + b^p)^(1/p).
Power adds what is always paid to what the parts of that time cost per second:

    power = static + mem · m^e_mem + cpuidle · n · c^e_c + gidle · g^e_gi
          + (traf · gm + cpubusy · c^e_c · (workers + launch) + g^e_g · (gbusy · gpu + gcomp · gk / g)) / time

Every parameter is positive, hence kept as its logarithm; sums become log-sum-exp, which neither over- nor underflows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from powertrain.space import FloatArray

TIME_NAMES = ("wk", "wk_n", "wk_c", "wk_m", "la", "gk", "gm", "gl", "ser", "const", "p", "q", "r")
POWER_NAMES = (
    "static", "mem", "e_mem", "traf", "cpuidle", "cpubusy", "e_c", "gidle", "gbusy", "gcomp", "e_g", "e_gi",
)  # fmt: skip
NAMES = TIME_NAMES + POWER_NAMES
TIME_COUNT = len(TIME_NAMES)
COUNT = len(NAMES)
INDEX = {name: i for i, name in enumerate(NAMES)}

TIME_AMPLITUDES = ("wk", "wk_m", "la", "gk", "gm", "gl", "ser", "const")
TIME_EXPONENTS = ("wk_n", "wk_c")
SOFTNESS = ("p", "q", "r")
POWER_AMPLITUDES = ("static", "mem", "traf", "cpuidle", "cpubusy", "gidle", "gbusy", "gcomp")
POWER_EXPONENTS = ("e_mem", "e_c", "e_g", "e_gi")


def indices(names: tuple[str, ...]) -> list[int]:
    """Return the positions of these parameters in the parameter vector."""
    return [INDEX[name] for name in names]


def log_features(X: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the logarithms of the modes relative to the scale, one row per knob: (4, n)."""
    return np.ascontiguousarray(np.log(X / scale).T)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The model at n modes: logarithms, their derivatives by the log parameters (one row each), and the regime."""

    log_time: FloatArray
    log_power: FloatArray
    time_jacobian: FloatArray  # (TIME_COUNT, n)
    power_jacobian: FloatArray  # (COUNT, n)
    cpu_share: FloatArray  # share of the step that follows the CPU, 0 … 1


def evaluate(features: FloatArray, theta: FloatArray) -> Evaluation:
    """Evaluate time and power with all derivatives (reverse mode by hand: a few vector operations per parameter)."""
    value = dict(zip(NAMES, theta.tolist(), strict=True))
    time = _TimeParts(features, value)
    log_power, power_jacobian = _power(features, value, time)
    return Evaluation(time.total, log_power, time.jacobian, power_jacobian, time.cpu_share)


def _soft_max(a: FloatArray, b: FloatArray, log_p: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log (e^pa + e^pb)^(1/p), the weight of a in it, and its derivative by log p."""
    p = float(np.exp(log_p))
    difference = a - b
    weight = 1.0 / (1.0 + np.exp(np.clip(-p * difference, -700.0, 700.0)))
    # Written with the larger of both in front, so that the exponential never overflows.
    gap = np.abs(difference)
    correction = np.log1p(np.exp(-p * gap)) / p
    smaller = np.minimum(weight, 1.0 - weight)
    return np.maximum(a, b) + correction, weight, -correction - gap * smaller


def _weights(terms: list[FloatArray]) -> tuple[FloatArray, list[FloatArray]]:
    """Return the log of the sum of exponentials and each term's share in the sum."""
    top = terms[0]
    for term in terms[1:]:
        top = np.maximum(top, term)
    parts = [np.exp(term - top) for term in terms]
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return top + np.log(total), [part / total for part in parts]


class _TimeParts:
    """Log of the parts of a step's time; each part's derivative is kept as shares of the leaf terms."""

    def __init__(self, features: FloatArray, value: dict[str, float]) -> None:
        n, c, g, m = features
        self.count = n.size
        self.exponent_rows = (-np.exp(value["wk_n"]) * n, -np.exp(value["wk_c"]) * c)
        self.workers, (self.wk_in_workers, self.wkm_in_workers) = _weights(
            [value["wk"] + self.exponent_rows[0] + self.exponent_rows[1], value["wk_m"] - m]
        )
        self.compute, self.traffic, self.launch = value["gk"] - g, value["gm"] - m, value["la"] - c
        kernels, self.compute_weight, self.p_slope = _soft_max(self.compute, self.traffic, value["p"])
        self.gpu, (self.kernels_in_gpu, self.gl_in_gpu) = _weights([kernels, np.full(self.count, value["gl"])])
        device, launch_in_device, r_slope = _soft_max(self.launch, self.gpu, value["r"])
        overlapped, workers_in_all, q_slope = _soft_max(self.workers, device, value["q"])
        self.total, (overlap, serial, constant) = _weights(
            [overlapped, value["ser"] - c, np.full(self.count, value["const"])]
        )
        in_workers, in_device = overlap * workers_in_all, overlap * (1.0 - workers_in_all)
        in_launch, in_gpu = in_device * launch_in_device, in_device * (1.0 - launch_in_device)
        self.jacobian = np.zeros((TIME_COUNT, self.count))
        self.add_workers(self.jacobian, in_workers)
        self.add_gpu(self.jacobian, in_gpu)
        self.jacobian[INDEX["la"]] += in_launch
        self.jacobian[INDEX["ser"]] = serial
        self.jacobian[INDEX["const"]] = constant
        self.jacobian[INDEX["q"]] = overlap * q_slope
        self.jacobian[INDEX["r"]] = in_device * r_slope
        self.cpu_share = np.clip(in_workers + in_launch + serial, 0.0, 1.0)

    def add_workers(self, jacobian: FloatArray, weight: FloatArray) -> None:
        """Add weight × d(log workers)."""
        leaf = weight * self.wk_in_workers
        jacobian[INDEX["wk"]] += leaf
        jacobian[INDEX["wk_n"]] += leaf * self.exponent_rows[0]
        jacobian[INDEX["wk_c"]] += leaf * self.exponent_rows[1]
        jacobian[INDEX["wk_m"]] += weight * self.wkm_in_workers

    def add_gpu(self, jacobian: FloatArray, weight: FloatArray) -> None:
        """Add weight × d(log gpu)."""
        kernels = weight * self.kernels_in_gpu
        jacobian[INDEX["gk"]] += kernels * self.compute_weight
        jacobian[INDEX["gm"]] += kernels * (1.0 - self.compute_weight)
        jacobian[INDEX["p"]] += kernels * self.p_slope
        jacobian[INDEX["gl"]] += weight * self.gl_in_gpu


def _power(features: FloatArray, value: dict[str, float], time: _TimeParts) -> tuple[FloatArray, FloatArray]:
    n, c, g, m = features
    memory, cpu, gpu, gpu_idle = (
        np.exp(value[name]) * f for name, f in (("e_mem", m), ("e_c", c), ("e_g", g), ("e_gi", g))
    )
    busy, (workers_in_busy, launch_in_busy) = _weights([time.workers, time.launch])
    log_power, shares = _weights(
        [
            np.full(time.count, value["static"]),
            value["mem"] + memory,
            value["traf"] + m + time.traffic - time.total,
            value["cpuidle"] + n + cpu,
            value["cpubusy"] + cpu + busy - time.total,
            value["gidle"] + gpu_idle,
            value["gbusy"] + gpu + time.gpu - time.total,
            value["gcomp"] + gpu + time.compute - time.total,
        ]
    )
    _, mem, traf, cpu_idle, cpu_busy, g_idle, g_busy, g_comp = shares
    jacobian = np.empty((COUNT, time.count))
    by_time = jacobian[:TIME_COUNT]
    np.multiply(time.jacobian, -(traf + cpu_busy + g_busy + g_comp), out=by_time)
    time.add_workers(by_time, cpu_busy * workers_in_busy)
    by_time[INDEX["la"]] += cpu_busy * launch_in_busy
    time.add_gpu(by_time, g_busy)
    by_time[INDEX["gm"]] += traf
    by_time[INDEX["gk"]] += g_comp
    for name, share in zip(POWER_AMPLITUDES, shares, strict=True):
        jacobian[INDEX[name]] = share
    jacobian[INDEX["e_mem"]] = mem * memory
    jacobian[INDEX["e_c"]] = (cpu_idle + cpu_busy) * cpu
    jacobian[INDEX["e_g"]] = (g_busy + g_comp) * gpu
    jacobian[INDEX["e_gi"]] = g_idle * gpu_idle
    return log_power, jacobian
