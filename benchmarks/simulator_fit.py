"""Fits the simulator's AGX Orin and its four measured workloads to the open tables and prints the parameters.

    python benchmarks/simulator_fit.py [--data DIRECTORY]      (some seconds)

The result is copied by hand into workloads.toml; boards and workloads without a table are set there, not fitted.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from simulator import BESIDE, TABLES

from powertrain_agent.simulate import workloads
from powertrain_agent.simulate.workloads import Clocks, Silicon, Workload, power_parts, time_parts

Array = NDArray[np.float64]

TIME = ["load_s", "load_serial", "load_memory", "main_thread", "launch_s", "launch_serial", "compute_s", "traffic_s",
        "constant_s", "overlap", "roof"]  # fmt: skip
BATCH = ["load_fixed", "compute_fixed", "traffic_fixed"]
POWER = ["cpu_w", "gpu_w", "arithmetic_w", "traffic_w"]
BOARD = ["static_w", "core_w", "memory_clock_w", "cpu_low_volt", "cpu_curve", "gpu_low_volt", "gpu_curve"]
AT_LEAST = {"overlap": 1.2, "roof": 1.2, "cpu_low_volt": 0.3, "gpu_low_volt": 0.3, "cpu_curve": 1.0, "gpu_curve": 1.0}
AT_MOST = {"load_serial": 0.5, "main_thread": 1.6, "overlap": 10.0, "roof": 8.0, "launch_serial": 2.0,
           "load_fixed": 0.999, "compute_fixed": 0.999, "traffic_fixed": 0.999,
           "cpu_low_volt": 0.95, "gpu_low_volt": 0.95, "cpu_curve": 4.0, "gpu_curve": 4.0}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """One open table."""

    at: Clocks
    batch: Array
    step_s: Array
    power_w: Array


def read(path: Path) -> Table:
    """Read a table's columns."""
    rows = np.genfromtxt(path, delimiter=",", skip_header=1)
    at = Clocks(rows[:, 0], rows[:, 1] / 1e6, rows[:, 2] / 1e9, rows[:, 3] / 1e9)
    return Table(at, rows[:, 4], rows[:, 5] / 1e3, rows[:, 6])


def fit(names: Sequence[str], start: Sequence[float], residual: Callable[[Array], Array], scale: float) -> Array:
    """Return positive parameters by robust least squares in log space (the tables hold wrong rows)."""
    low = np.log([AT_LEAST.get(name, 1e-6) for name in names])
    high = np.log([AT_MOST.get(name, 1e3) for name in names])
    first = np.clip(np.log(np.maximum(start, 1e-5)), low + 1e-4, high - 1e-4)
    pull = 1e-3 * np.sqrt(residual(np.exp(first)).size)
    solution = least_squares(
        lambda x: np.r_[residual(np.exp(x)), (x - first) * pull],
        first,
        bounds=(low, high),
        loss="soft_l1",
        f_scale=scale,
    )
    return np.exp(solution.x)


def changed(work: Workload, names: Sequence[str], values: Array) -> Workload:
    """Return the workload with other parameters."""
    return replace(work, **{name: float(value) for name, value in zip(names, values, strict=True)})


def fit_time(work: Workload, board: Silicon, table: Table) -> Workload:
    """Fit a workload's times; the batch dependence only where the table has several batch sizes."""
    names = TIME + (BATCH if np.unique(table.batch).size > 1 else [])

    def residual(values: Array) -> Array:
        step_s = time_parts(changed(work, names, values), board, table.at, table.batch).step_s
        return np.log(step_s / table.step_s)

    return changed(work, names, fit(names, [getattr(work, name) for name in names], residual, 0.03))


def fit_power(works: list[Workload], board: Silicon, tables: list[Table]) -> tuple[list[Workload], Silicon]:
    """Fit the board's power together with each workload's; every table weighs the same."""
    names = BOARD + POWER * len(works)
    start = [getattr(board, name) for name in BOARD] + [getattr(work, name) for work in works for name in POWER]

    def unpack(values: Array) -> tuple[list[Workload], Silicon]:
        silicon = replace(board, **{name: float(v) for name, v in zip(BOARD, values, strict=False)})
        chunks = values[len(BOARD) :].reshape(len(works), len(POWER))
        return [changed(work, POWER, chunk) for work, chunk in zip(works, chunks, strict=True)], silicon

    def residual(values: Array) -> Array:
        parts = []
        fitted, silicon = unpack(values)
        for work, table in zip(fitted, tables, strict=True):
            watts = sum(power_parts(work, silicon, table.at, time_parts(work, silicon, table.at, table.batch)))
            parts.append(np.log(watts / table.power_w) * np.sqrt(441 / table.power_w.size))
        return np.concatenate(parts)

    return unpack(fit(names, start, residual, 0.02))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("POWERTRAIN_DATA", BESIDE)))
    data = parser.parse_args().data
    tables = [read(data / name) for name in TABLES.values()]
    orin = workloads.silicon("orin-agx")
    works = [fit_time(workloads.get(name), orin, table) for name, table in zip(TABLES, tables, strict=True)]
    works, orin = fit_power(works, orin, tables)
    print("[board.orin-agx]", *(f"{name} = {getattr(orin, name):.4g}" for name in BOARD), sep="\n")
    for name, work in zip(TABLES, works, strict=True):
        values = {key: value for key, value in asdict(work).items() if isinstance(value, float)}
        print(f"\n[workload.{name}]", *(f"{key} = {value:.4g}" for key, value in values.items()), sep="\n")
