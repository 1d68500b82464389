"""Step time and power of named workloads on a simulated board: a small model of its own, with parameters from TOML."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from powertrain.modes import PowerMode

Number = float | NDArray[np.float64]


class UnknownWorkloadError(KeyError):
    """A workload that the simulator does not know; the message lists those it does."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Silicon:
    """A board against the AGX Orin: speed per clock, and how much power the same activity costs."""

    cpu_speed: float
    gpu_speed: float
    memory_speed: float
    cpu_power: float
    gpu_power: float
    memory_power: float
    static_w: float
    cpu_volt: tuple[float, float]  # at the lowest and the highest clock
    gpu_volt: tuple[float, float]
    cpu_top_ghz: float
    gpu_top_ghz: float
    kelvin_per_watt: float


@dataclass(frozen=True)
class Workload:
    """What one training step asks of a board; seconds are those of an AGX Orin at 1 GHz of the clock in question."""

    title: str
    batch_size: int  # the one the parameters were fitted at
    steps_per_epoch: int
    load_cpu_s: float  # preparing the data of one step, on one core
    load_serial: float  # share of it that does not spread over cores
    load_memory: float  # how much of it waits for memory: factor (1 + this / GHz)
    launch_s: float  # starting the GPU's kernels, on one core, whatever the batch
    launch_memory: float
    compute_s: float  # arithmetic of one step
    compute_fixed: float  # share of it that does not shrink with the batch
    traffic_s: float  # memory traffic of one step
    traffic_fixed: float
    fixed_s: float  # what no clock changes
    sharpness: float  # of the soft maximum: high is a hard one
    cpu_core_w: float  # one busy core at 1 GHz and 1 V
    cpu_idle_w: float  # one online core that waits, at 1 GHz and 1 V
    gpu_busy_w: float  # the GPU's arithmetic at 1 GHz and 1 V
    gpu_clock_w: float  # its clock tree while it is powered
    memory_clock_w: float  # the memory's interface at 1 GHz
    memory_busy_w: float  # full traffic at 1 GHz


@dataclass(frozen=True)
class Point:
    """What a board does in one mode: one step's time, and watts by consumer."""

    step_s: float
    static_w: float
    cpu_w: float
    gpu_w: float
    memory_w: float
    cpu_share: float
    gpu_share: float
    memory_share: float

    @property
    def power_w(self) -> float:
        """Return the module's power."""
        return self.static_w + self.cpu_w + self.gpu_w + self.memory_w


@cache
def _tables() -> dict[str, dict[str, dict[str, object]]]:
    text = resources.files(__package__).joinpath("workloads.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def names() -> tuple[str, ...]:
    """Return the workloads the simulator knows, sorted."""
    return tuple(sorted(_tables()["workload"]))


@cache
def get(name: str) -> Workload:
    """Return a workload by its name."""
    if name not in names():
        raise UnknownWorkloadError(f"unknown workload {name!r}; known: {', '.join(names())}")
    return Workload(**_tables()["workload"][name])  # type: ignore[arg-type]


@cache
def silicon(board: str) -> Silicon:
    """Return how a board compares; one without an entry of its own behaves like the board it names."""
    return Silicon(**_tables()["board"][board])  # type: ignore[arg-type]


def first_step_factor(index: int) -> float:
    """Return how much slower the first steps after a start are (kernels are chosen, caches are cold)."""
    return {0: 4.0, 1: 1.3}.get(index, 1.0)


def idle(board: str, mode: PowerMode) -> Point:
    """Return what a board does without a load."""
    part = silicon(board)
    ghz = mode.cpu_khz / 1e6
    cpu_w = 0.05 * part.cpu_power * mode.cores * ghz
    memory_w = 0.8 * part.memory_power * mode.emc_hz / 1e9
    return Point(float("inf"), part.static_w, cpu_w, 0.05, memory_w, 0.02, 0.0, 0.01)


def evaluate(board: str, name: str, batch_size: int, mode: PowerMode, contention: float = 1.0) -> Point:
    """Return step time and power of a workload in a mode."""
    part = silicon(board)
    step_s = 0.1 * (1.3 / (mode.gpu_hz / 1e9)) * contention
    ghz = mode.cpu_khz / 1e6
    return Point(
        step_s, part.static_w, 0.5 * mode.cores * ghz, 20 * mode.gpu_hz / 1.3e9, mode.emc_hz / 1e9, 0.5, 0.9, 0.3
    )
