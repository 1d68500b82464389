"""Simulated workloads over batch sizes: what a board measures, and how many samples each size needs to converge."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from powertrain import devices
from powertrain.modes import PowerMode
from powertrain.samples import SampleTable
from powertrain.space import as_matrix
from powertrain_agent.simulate import workloads
from powertrain_agent.simulate.behaviour import TYPICAL

BATCH_SIZES = (4, 8, 16, 32, 64, 128)
# The highest reading of a training lies about this many standard deviations above the mean.
PEAK_DEVIATIONS = 3.0


@cache
def _tables() -> dict[str, dict[str, Any]]:
    text = resources.files(__package__).joinpath("convergence.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def convergent() -> tuple[str, ...]:
    """Return the workloads whose convergence is known."""
    return tuple(sorted(_tables()))


def data_sets(workload: str) -> tuple[str, ...]:
    """Return the data sets of a workload: a proxy and targets."""
    return tuple(name for name, value in _convergence(workload).items() if isinstance(value, dict))


def largest_batch(workload: str) -> int:
    """Return the largest batch size that fits into a board of 4 GB."""
    return int(_convergence(workload)["largest_batch"])


def samples_needed(workload: str, data_set: str, batch_sizes: Sequence[int] = BATCH_SIZES) -> dict[int, float]:
    """Return how many samples each batch size needs until the target accuracy."""
    if data_set not in data_sets(workload):
        raise workloads.UnknownWorkloadError(
            f"workload {workload!r} has no data set {data_set!r}; known: {', '.join(data_sets(workload))}"
        )
    law = _convergence(workload)[data_set]
    return {size: law["n"] * (1.0 + size / law["critical"] + law["small"] / size) for size in batch_sizes}


def thinned_modes(board: str) -> list[PowerMode]:
    """Return modes of all four knobs that keep every GPU clock, and of the other knobs a part with their maximum."""
    space = devices.get(board).space()
    modes = [space[row] for row in range(len(space))]
    axes = [sorted({getattr(mode, knob) for mode in modes}) for knob in ("cpu_khz", "emc_hz")]
    cpu_khz, emc_hz = (set(axis[::-3]) for axis in axes)
    return [mode for mode in modes if mode.cpu_khz in cpu_khz and mode.emc_hz in emc_hz and mode.cores % 2 == 0]


def along_gpu(board: str) -> list[PowerMode]:
    """Return the modes that differ in the GPU clock alone, the other knobs at their maximum: the second paper's."""
    device = devices.get(board)
    tables = device.tables
    highest = (device.cores, tables.cpu_khz.values[-1], tables.emc_hz.values[-1])
    return [PowerMode(highest[0], highest[1], gpu_hz, highest[2]) for gpu_hz in tables.gpu_hz.values]


def measured(board: str, workload: str, batch_sizes: Sequence[int], modes: Sequence[PowerMode]) -> SampleTable:
    """Return a table of step time, power and peak power at every batch size and mode."""
    points = [workloads.evaluate(board, workload, size, mode) for size in batch_sizes for mode in modes]
    power_w = np.array([point.power_w for point in points])
    return SampleTable(
        matrix=np.tile(as_matrix(modes), (len(batch_sizes), 1)),
        batch_size=np.repeat(np.array(batch_sizes, dtype=np.int64), len(modes)),
        step_s=np.array([point.step_s for point in points]),
        power_w=power_w,
        power_peak_w=power_w * (1.0 + PEAK_DEVIATIONS * TYPICAL.noise),
    )


def _convergence(workload: str) -> dict[str, Any]:
    if workload not in _tables():
        raise workloads.UnknownWorkloadError(
            f"the convergence of workload {workload!r} is not known; known: {', '.join(convergent())}"
        )
    return _tables()[workload]
