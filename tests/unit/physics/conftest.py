"""Boards and workloads whose equations differ from the model: sums of rooflines, voltage floors, capped cores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from powertrain.physics import PhysicsReference, fit_reference

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Board:
    """The axes of a board and how many watts its parts take."""

    cores: tuple[float, ...]
    cpu_khz: tuple[float, ...]
    gpu_hz: tuple[float, ...]
    emc_hz: tuple[float, ...]
    static_w: float
    cpu_w: float
    gpu_w: float
    memory_w: float

    def modes(self) -> FloatArray:
        grid = np.meshgrid(self.cores, self.cpu_khz, self.gpu_hz, self.emc_hz, indexing="ij")
        return np.stack([axis.ravel() for axis in grid], axis=1)


LARGE = Board(
    cores=(2.0, 4.0, 8.0, 12.0),
    cpu_khz=(268800.0, 729600.0, 1344000.0, 1804800.0, 2201600.0),
    gpu_hz=(114.75e6, 318.75e6, 624.75e6, 930.75e6, 1300.5e6),
    emc_hz=(204e6, 665.6e6, 2133e6, 3199e6),
    static_w=11.0,
    cpu_w=1.3,
    gpu_w=28.0,
    memory_w=3.0,
)
SMALL = Board(
    cores=(1.0, 2.0, 4.0, 6.0),
    cpu_khz=(268800.0, 729600.0, 1190400.0, 1510400.0),
    gpu_hz=(306e6, 408e6, 510e6, 612e6),
    emc_hz=(204e6, 665.6e6, 2133e6),
    static_w=3.2,
    cpu_w=0.45,
    gpu_w=4.5,
    memory_w=0.9,
)


@dataclass(frozen=True)
class Workload:
    """Seconds of each kind of work at full clocks; `noise` is relative."""

    kernels_s: tuple[float, ...] = (0.02, 0.01, 0.03)
    traffic_s: tuple[float, ...] = (0.005, 0.02, 0.015)
    launch_s: float = 0.02
    loading_core_s: float = 0.06
    workers: int = 4
    noise: float = 0.01


def measure(board: Board, workload: Workload, seed: int = 0) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return modes, step times and powers of the whole board."""
    modes = board.modes()
    n, c, g, m = (modes / modes.max(axis=0)).T
    n = modes[:, 0]
    pairs = zip(workload.kernels_s, workload.traffic_s, strict=True)
    gpu = np.sum([np.maximum(k / g, t / m) for k, t in pairs], axis=0)
    launch = workload.launch_s / c
    loading = workload.loading_core_s / c / np.minimum(n, workload.workers) * (1.0 + 0.02 / m)
    step_s = (gpu**6 + launch**6 + loading**6) ** (1 / 6) + 0.001
    rng = np.random.default_rng(seed)
    step_s = step_s * np.exp(workload.noise * rng.standard_normal(step_s.size))
    cpu_use = np.minimum((loading * np.minimum(n, workload.workers) + launch) / step_s / n, 1.0)
    gpu_use, compute = np.minimum(gpu / step_s, 1.0), np.minimum(sum(workload.kernels_s) / g / step_s, 1.0)
    power_w = (
        board.static_w
        + board.memory_w * (0.4 * m + 0.5 * np.minimum(sum(workload.traffic_s) / step_s, m))
        + n * board.cpu_w * c * _volts(c) ** 2 * (0.25 + 0.75 * cpu_use)
        + board.gpu_w * g * _volts(g) ** 2 * (0.12 + 0.3 * gpu_use + 0.6 * compute)
    )
    return modes, step_s, power_w * np.exp(workload.noise * rng.standard_normal(step_s.size))


def _volts(clock: FloatArray) -> FloatArray:
    return np.maximum(0.6, 0.45 + 0.55 * clock)


@dataclass(frozen=True)
class Table:
    """What was measured, or would be."""

    modes: FloatArray
    step_s: FloatArray
    power_w: FloatArray

    def rows(self, indices: NDArray[np.int64]) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.modes[indices], self.step_s[indices], self.power_w[indices]


WORKLOADS = {
    "reference": Workload(),
    "cpu-bound": Workload(loading_core_s=0.5, launch_s=0.01),
    "gpu-bound": Workload(kernels_s=(0.1, 0.2, 0.1), traffic_s=(0.01, 0.02, 0.03), loading_core_s=0.02),
    "memory-bound": Workload(kernels_s=(0.01, 0.02, 0.01), traffic_s=(0.05, 0.08, 0.03), loading_core_s=0.02),
    "launch-bound": Workload(kernels_s=(0.002, 0.001, 0.003), traffic_s=(0.001, 0.002, 0.001), launch_s=0.02),
}


@pytest.fixture(scope="session")
def tables() -> dict[str, Table]:
    """Every workload on the large board, and on the small one under `small/…`."""
    large = {name: Table(*measure(LARGE, workload)) for name, workload in WORKLOADS.items()}
    small = {f"small/{name}": Table(*measure(SMALL, workload)) for name, workload in WORKLOADS.items()}
    return large | small


@pytest.fixture(scope="session")
def reference(tables: dict[str, Table]) -> PhysicsReference:
    table = tables["reference"]
    return fit_reference(table.modes, table.step_s, table.power_w)
