"""Step time and power of named workloads on a simulated board: a small model of its own, with parameters from TOML.

It shares no code with the predictors: loaders that lose cores to the main thread, kernel launches that overlap with the
GPU only in part, a voltage curve, leakage that follows temperature, and a roughness that no smooth model can learn.
"""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from powertrain.modes import PowerMode

Number = float | NDArray[np.float64]

ROUGHNESS = 0.012  # standard deviation of the factor that only this very mode has, on time; half of it on power
FITTED_AT = 16  # the batch size of the open training tables
LEAKAGE_PER_K = 0.004
LEAKAGE_AT_C, AMBIENT_C = 45.0, 35.0


class UnknownWorkloadError(KeyError):
    """A workload that the simulator does not know; the message lists those it does."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Silicon:
    """A board: its speed per clock against the AGX Orin, and its power at 1 GHz and full voltage."""

    cpu_speed: float
    gpu_speed: float
    memory_speed: float
    cpu_power: float  # factor on the workload's CPU watts
    gpu_power: float
    memory_power: float
    static_w: float
    core_w: float  # one online core that waits
    memory_clock_w: float  # the memory's interface
    cpu_top_ghz: float  # the clock of full voltage
    gpu_top_ghz: float
    cpu_low_volt: float  # share of full voltage at a standstill, and how late the curve rises
    cpu_curve: float
    gpu_low_volt: float
    gpu_curve: float
    kelvin_per_watt: float


@dataclass(frozen=True)
class Workload:
    """What one step of 16 samples asks of a board, in seconds of an AGX Orin at 1 GHz and one core, and in watts."""

    title: str
    source: str
    batch_size: int  # the usual one
    samples_per_epoch: int
    load_s: float  # preparing the samples
    load_fixed: float  # share that does not grow with the batch
    load_serial: float  # share that does not spread over cores
    load_memory: float  # how much it waits for memory: factor 1 + this / GHz
    main_thread: float  # cores that the main thread keeps from the loaders
    launch_s: float  # starting the GPU's kernels
    launch_serial: float  # share of it that never overlaps with the GPU
    compute_s: float  # arithmetic
    compute_fixed: float
    half_batch: float  # samples that keep half of an AGX Orin's units busy; a smaller GPU needs fewer
    traffic_s: float  # memory traffic
    traffic_fixed: float
    constant_s: float  # what no clock changes
    overlap: float  # exponent of the soft maximum of CPU and GPU: high is a hard one
    roof: float  # exponent of the soft maximum of arithmetic and traffic
    cpu_w: float  # one busy core at 1 GHz and full voltage
    gpu_w: float  # the GPU while it has work
    arithmetic_w: float  # its arithmetic
    traffic_w: float  # full memory traffic


@dataclass(frozen=True)
class Clocks:
    """A mode, or many at once: cores and GHz."""

    cores: Number
    cpu: Number
    gpu: Number
    emc: Number

    @classmethod
    def of(cls, mode: PowerMode) -> Clocks:
        """Return a mode's clocks."""
        return cls(float(mode.cores), mode.cpu_khz / 1e6, mode.gpu_hz / 1e9, mode.emc_hz / 1e9)


@dataclass(frozen=True)
class Parts:
    """Where a step's time goes."""

    step_s: Number
    load_s: Number  # core seconds
    launch_s: Number
    gpu_s: Number
    arithmetic_s: Number  # compute time in which every unit of the GPU has something to do
    traffic_s: Number


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
    """Return a catalogue board's speed and power."""
    return Silicon(**_tables()["board"][board])  # type: ignore[arg-type]


def first_step_factor(index: int) -> float:
    """Return how much slower the first steps after a start are (kernels are chosen, caches are cold)."""
    return {0: 4.0, 1: 1.3}.get(index, 1.0)


def time_parts(work: Workload, part: Silicon, at: Clocks, batch_size: Number, contention: float = 1.0) -> Parts:
    """Return a step's time and what it is made of; numbers or arrays."""
    batch = batch_size / FITTED_AT
    cpu_ghz, emc_ghz = at.cpu * part.cpu_speed, at.emc * part.memory_speed
    # The main thread's share is taken smoothly: even a single core lets the loaders run a little.
    loaders = np.sqrt((at.cores - work.main_thread) ** 2 + 0.25)
    load_s = (
        work.load_s * _batch_growth(batch, work.load_fixed) / cpu_ghz * (1.0 + work.load_memory * contention / emc_ghz)
    )
    wall_s = load_s / loaders * (1.0 + work.load_serial * (loaders - 1.0))
    launch_s = work.launch_s / cpu_ghz
    compute_s = work.compute_s * _batch_growth(batch, work.compute_fixed) / (at.gpu * part.gpu_speed)
    arithmetic_s = compute_s * batch_size / (batch_size + work.half_batch * part.gpu_speed)
    traffic_s = work.traffic_s * _batch_growth(batch, work.traffic_fixed) * contention / emc_ghz
    gpu_s = _soft_max(work.roof, compute_s, traffic_s)
    main_s = _soft_max(work.overlap, gpu_s, launch_s) + work.launch_serial * launch_s
    step_s = _soft_max(work.overlap, main_s, wall_s) + work.constant_s
    return Parts(step_s, load_s, launch_s, gpu_s, arithmetic_s, traffic_s)


def power_parts(work: Workload, part: Silicon, at: Clocks, parts: Parts) -> tuple[Number, Number, Number, Number]:
    """Return static, CPU, GPU and memory watts; leakage makes the static part grow with all the heat."""
    busy = np.minimum((parts.load_s + parts.launch_s) / parts.step_s, at.cores)
    cpu = _volt2(at.cpu, part.cpu_top_ghz, part.cpu_low_volt, part.cpu_curve) * at.cpu
    gpu = _volt2(at.gpu, part.gpu_top_ghz, part.gpu_low_volt, part.gpu_curve) * at.gpu
    cpu_w = cpu * (part.core_w * at.cores + part.cpu_power * work.cpu_w * busy)
    active = work.gpu_w * parts.gpu_s + work.arithmetic_w * parts.arithmetic_s
    gpu_w = gpu * part.gpu_power * active / parts.step_s
    moving = np.minimum(parts.traffic_s / parts.step_s, 1.0)
    memory_w = at.emc * (part.memory_clock_w + part.memory_power * work.traffic_w * moving)
    return _with_leakage(part, cpu_w + gpu_w + memory_w), cpu_w, gpu_w, memory_w


@lru_cache(maxsize=4096)
def evaluate(board: str, name: str, batch_size: int, mode: PowerMode, contention: float = 1.0) -> Point:
    """Return step time and power of a workload on a board in a mode."""
    work, part, at = get(name), silicon(board), Clocks.of(mode)
    parts = time_parts(work, part, at, float(batch_size), contention)
    static_w, cpu_w, gpu_w, memory_w = (float(watts) for watts in power_parts(work, part, at, parts))
    rough_time, rough_power = _roughness(f"{board}:{name}:{batch_size}:{mode}")
    busy = min(1.0, float((parts.load_s + parts.launch_s) / parts.step_s) / mode.cores)
    return Point(
        float(parts.step_s) * rough_time,
        static_w * rough_power,
        cpu_w * rough_power,
        gpu_w * rough_power,
        memory_w * rough_power,
        busy,
        min(1.0, float(parts.gpu_s / parts.step_s)),
        min(1.0, float(parts.traffic_s / parts.step_s)),
    )


@lru_cache(maxsize=4096)
def idle(board: str, mode: PowerMode) -> Point:
    """Return what a board does without a load."""
    part, at = silicon(board), Clocks.of(mode)
    cpu_w = float(_volt2(at.cpu, part.cpu_top_ghz, part.cpu_low_volt, part.cpu_curve) * at.cpu * part.core_w * at.cores)
    memory_w = part.memory_clock_w * mode.emc_hz / 1e9
    static_w = 0.8 * float(_with_leakage(part, cpu_w + memory_w))  # idle blocks are switched off
    return Point(float("inf"), static_w, cpu_w, 0.0, memory_w, 0.02, 0.0, 0.01)


@cache
def _tables() -> dict[str, dict[str, dict[str, object]]]:
    text = resources.files(__package__).joinpath("workloads.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _batch_growth(batch: Number, fixed: float) -> Number:
    return fixed + (1.0 - fixed) * batch


def _soft_max(exponent: float, first: Number, second: Number) -> Number:
    big = np.maximum(first, second)
    result: Number = big * (1.0 + (np.minimum(first, second) / big) ** exponent) ** (1.0 / exponent)
    return result


def _volt2(ghz: Number, top_ghz: float, low: float, curve: float) -> Number:
    result: Number = (low + (1.0 - low) * (ghz / top_ghz) ** curve) ** 2
    return result


def _with_leakage(part: Silicon, dynamic_w: Number) -> Number:
    """Return the static watts at the temperature that they and the rest lead to (it is linear, so no loop)."""
    gain = LEAKAGE_PER_K * part.static_w
    base_w = part.static_w - gain * (LEAKAGE_AT_C - AMBIENT_C)
    return (base_w + gain * part.kelvin_per_watt * dynamic_w) / (1.0 - gain * part.kelvin_per_watt)


def _roughness(key: str) -> tuple[float, float]:
    """Return two factors near one that depend on the key alone: what is special about this mode."""
    digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
    uniform = [int.from_bytes(half, "big") / 2**64 for half in (digest[:8], digest[8:])]
    spread = [(value - 0.5) * 2.0 * 3.0**0.5 for value in uniform]  # standard deviation one, bounded
    return 1.0 + ROUGHNESS * spread[0], 1.0 + 0.5 * ROUGHNESS * spread[1]
