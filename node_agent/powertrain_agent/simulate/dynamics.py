"""What changes by itself on a simulated board: real clocks, loads, watts, temperatures, counters at one instant."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from powertrain.devices import SUM_OF_RAILS
from powertrain.modes import PowerMode
from powertrain_agent.simulate import workloads
from powertrain_agent.simulate.behaviour import SAMPLING_S, TYPICAL, Behaviour
from powertrain_agent.simulate.faults import ActiveFaults, FaultKind
from powertrain_agent.simulate.kernel_rules import KernelRules
from powertrain_agent.simulate.layout import Layout
from powertrain_agent.simulate.once import once
from powertrain_agent.simulate.state import BoardState, Load
from powertrain_agent.simulate.workloads import Point

WARM_S = 60.0  # time constant of the heat sink
NOISE_PERIOD_S = 0.05  # readings that follow each other faster repeat themselves
DRIFT_S = 60.0
AMBIENT_C = 35.0


@dataclass(frozen=True)
class World:
    """Everything an instant follows from."""

    layout: Layout
    rules: KernelRules
    faults: ActiveFaults
    state: BoardState
    load: Load | None
    now_s: float
    behaviour: Behaviour = TYPICAL


@dataclass(frozen=True)
class Instant:
    """The board at one moment; computed once, read by many files."""

    world: World

    @once
    def busy(self) -> bool:
        """Say whether a training runs."""
        return self.world.load is not None and self.world.load.alive(self.world.now_s)

    @once
    def mode(self) -> PowerMode:
        """Return the clocks that really run, with every fault that keeps them from what was asked."""
        world = self.world
        mode = world.rules.limit_mode(world.state.requests, top=self.busy)
        if world.faults.any:
            mode = self._at_fault(mode)
        if not self.busy and world.state.requests.get(f"{world.layout.gpu}/railgate_enable", 1):
            mode = _with_gpu(mode, world.layout.device.tables.gpu_hz.values[0])
        return mode

    def _at_fault(self, mode: PowerMode) -> PowerMode:
        """Return the clocks that faults leave of a mode."""
        world, tables = self.world, self.world.layout.device.tables
        for knob, field, table in (
            ("cpu", "cpu_khz", tables.cpu_khz.values),
            ("gpu", "gpu_hz", tables.gpu_hz.values),
            ("emc", "emc_hz", tables.emc_hz.values),
        ):
            fault = world.faults.find(FaultKind.CLOCK_NOT_APPLIED, knob)
            if fault is not None:
                mode = replace(mode, **{field: _shifted(table, getattr(mode, field), round(fault.value or -1))})
            throttle = world.faults.find(FaultKind.THROTTLE, knob) if knob != "emc" and self.busy else None
            if throttle is not None:
                mode = replace(mode, **{field: max(table[0], round(getattr(mode, field) * (throttle.value or 0.6)))})
        return mode

    @once
    def steady(self) -> Point:
        """Return what the board settles at in this mode."""
        world = self.world
        board = world.layout.device.name
        if not self.busy or world.load is None:
            return workloads.idle(board, self.mode)
        contention = world.faults.value(FaultKind.CONTENTION, 1.0)
        return workloads.evaluate(board, world.load.workload, world.load.batch_size, self.mode, contention)

    @once
    def drift(self) -> float:
        """Return the factor by which workload and board have drifted from their parameters."""
        fault = self.world.faults.find(FaultKind.DRIFT)
        if fault is None:
            return 1.0
        return 1.0 + (fault.value - 1.0) * min(1.0, max(0.0, (self.world.now_s - fault.since_s) / DRIFT_S))

    @property
    def step_s(self) -> float:
        """Return the time of one settled step; none ends while the training pauses or evaluates."""
        waits = self.world.behaviour.pauses(self._trained_s) or self.world.behaviour.evaluates(self._trained_s)
        return math.inf if waits else self.steady.step_s * self.drift

    @property
    def _trained_s(self) -> float:
        return self.world.now_s - self.world.load.since_s if self.busy and self.world.load is not None else 0.0

    @once
    def steady_w(self) -> float:
        """Return the power the board settles at."""
        return self.steady.static_w + (self.steady.power_w - self.steady.static_w) * self.drift

    @once
    def power_w(self) -> float:
        """Return the power now, on its way from the last mode to this one: without phases, pulses and noise."""
        return self._level_w(self.world.now_s)

    @property
    def earlier(self) -> dict[str, float]:
        """Return what a change that comes now leaves behind: the course of the power until it.

        A mode is set by several writes at once; the first of them ends the course.
        """
        if self._since_change_s < NOISE_PERIOD_S:
            return {}
        return {
            "earlier_from_w": self._from_w,
            "earlier_to_w": self.steady_w,
            "earlier_since_s": self._changed_s,
        }

    @once
    def true_w(self) -> float:
        """Return the power now with the phases, pulses and pauses of the load, before any sensor."""
        return self._true_w(self.world.now_s, self.world.now_s)

    def _level_w(self, at_s: float) -> float:
        """Return the power at a moment, now or a little earlier, without phases and pulses."""
        state, lag_s = self.world.state, self.world.behaviour.lag_s
        changed_s = self._changed_s
        if at_s >= changed_s or changed_s != state.settle_since_s:
            fading = math.exp(-max(0.0, at_s - changed_s) / lag_s)
            return self.steady_w + (self._from_w - self.steady_w) * fading
        if not state.earlier_to_w:
            return self._from_w
        fading = math.exp(-max(0.0, at_s - state.earlier_since_s) / lag_s)
        return state.earlier_to_w + (state.earlier_from_w - state.earlier_to_w) * fading

    def _true_w(self, from_s: float, to_s: float, earlier_s: float = 0.0) -> float:
        """Return the mean power over a span that is short against the lag, with the phases of a little earlier."""
        level_w = self._level_w((from_s + to_s) / 2)
        world = self.world
        if not self.busy or world.load is None:
            return level_w
        behaviour, since_s = world.behaviour, world.load.since_s
        if behaviour.pauses(to_s - since_s):
            return min(level_w, workloads.idle(world.layout.device.name, self.mode).power_w)
        if behaviour.evaluates(to_s - since_s):
            return level_w * behaviour.evaluate_power
        key = f"{world.layout.device.name}:{world.load.workload}:{world.load.batch_size}:{self.mode}"
        phase = behaviour.phase(key, from_s - earlier_s, to_s - earlier_s, self.steady.step_s * self.drift)
        return level_w * phase * behaviour.pulse(from_s, to_s)

    @property
    def _since_change_s(self) -> float:
        return max(0.0, self.world.now_s - self._changed_s)

    @property
    def _changed_s(self) -> float:
        started = self.world.load.since_s if self.busy and self.world.load else 0.0
        return max(self.world.state.settle_since_s, started)

    @property
    def _from_w(self) -> float:
        world = self.world
        if self.busy and world.load is not None and world.load.since_s > world.state.settle_since_s:
            return workloads.idle(world.layout.device.name, self.mode).power_w
        return world.state.settle_from_w or self.steady_w

    @once
    def measured_w(self) -> float:
        """Return what an ideal sum over the sensors reads: noise and offset included."""
        faults = self.world.faults
        stuck = faults.find(FaultKind.POWER_STUCK)
        if stuck is not None:
            return stuck.value
        read_w = self._sensed_w + faults.value(FaultKind.POWER_OFFSET, 0.0)
        return max(0.1, read_w * faults.value(FaultKind.POWER_SCALE, 1.0))

    @property
    def _sensed_w(self) -> float:
        """Return what a sound sensor shows: late, averaged or of one moment, with its noise."""
        behaviour, at_s = self.world.behaviour, self.world.now_s
        if behaviour.update_s:
            at_s = math.floor(at_s / behaviour.update_s + 1e-6) * behaviour.update_s
        key = f"{self.world.state.seed}:{math.floor(at_s / NOISE_PERIOD_S)}"
        until_s = at_s - behaviour.delay_s
        earlier_s = 0.0 if behaviour.averaging_s or not behaviour.phases else SAMPLING_S * _uniform(key)
        true_w = self._true_w(until_s - behaviour.averaging_s, until_s, earlier_s)
        return true_w * (1.0 + behaviour.noise * _gauss(key))

    @once
    def rail_w(self) -> dict[str, float]:
        """Return the watts of each rail; those of a board without a total rail add up to the measured power."""
        layout, measured_w = self.world.layout, self.measured_w
        is_stuck = self.world.faults.find(FaultKind.POWER_STUCK) is not None
        shares, whole = _shares(layout.rail_names, layout.device.sensors.total, None if is_stuck else self.steady)
        return {name: measured_w * share / whole for name, share in shares.items()}

    @once
    def celsius(self) -> float:
        """Return the junction's temperature; the heat sink follows the power slowly."""
        kelvin_per_watt = workloads.silicon(self.world.layout.device.name).kelvin_per_watt
        fade = math.exp(-self._since_change_s / WARM_S)
        watts = self.steady_w + (self._from_w - self.steady_w) * fade
        return AMBIENT_C + kelvin_per_watt * watts + (25.0 if self.throttled else 0.0)

    @property
    def throttled(self) -> bool:
        """Say whether the board slows itself down."""
        return self.busy and self.world.faults.find(FaultKind.THROTTLE) is not None

    def events(self, alarm: int) -> int:
        """Return an over-current counter: what happened before plus what a standing fault adds."""
        counted = self.world.state.over_current.get(str(alarm), 0)
        fault = self.world.faults.find(FaultKind.OVER_CURRENT) if alarm == 3 else None
        return counted + (int((self.world.now_s - fault.since_s) * (fault.value or 1.0)) if fault else 0)


@lru_cache(maxsize=4096)
def _shares(names: tuple[str, ...], total: str, point: Point | None) -> tuple[dict[str, float], float]:
    """Return each rail's part of the measured power, and what of them is the whole; equal parts without a point."""
    shares = {name: 1.0 / len(names) if point is None else _share(name, point) for name in names}
    if total == SUM_OF_RAILS:
        return shares, sum(shares.values())
    return shares | {name: 1.0 for name in names if name == total}, 1.0


def _share(name: str, point: Point) -> float:
    gpu, cpu, static, memory = _fed_by(name)
    watts = gpu * point.gpu_w + cpu * point.cpu_w + static * point.static_w + memory * point.memory_w
    return 0.02 + watts / point.power_w


@lru_cache(maxsize=4096)
def _with_gpu(mode: PowerMode, gpu_hz: int) -> PowerMode:
    return replace(mode, gpu_hz=gpu_hz)


@cache
def _fed_by(rail: str) -> tuple[float, float, float, float]:
    """Return which shares of the GPU's, the CPU's, the static and the memory's power a rail of this name feeds."""
    gpu, cpu = float("GPU" in rail), float("CPU" in rail)
    soc, memory = bool(re.search("SOC|CORE", rail)), bool(re.search("DDR|VDDQ|VDDRQ", rail))
    system = bool(re.search("SYS5V|SYS_5V0", rail))
    return gpu, cpu, 0.5 * (soc + system), 0.3 * (soc + system) + 0.4 * memory


def _shifted(table: tuple[int, ...], value: int, steps: int) -> int:
    at = min(range(len(table)), key=lambda index: abs(table[index] - value))
    return table[min(len(table) - 1, max(0, at + steps))]


def _uniform(key: str) -> float:
    """Return a number from 0 to 1 that follows from the key alone."""
    return int.from_bytes(hashlib.blake2b(f"moment:{key}".encode(), digest_size=8).digest(), "big") / 2**64


def _gauss(key: str) -> float:
    """Return a normally distributed number that follows from the key alone (Box-Muller)."""
    digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
    first, second = (int.from_bytes(half, "big") / 2**64 for half in (digest[:8], digest[8:]))
    return math.sqrt(-2.0 * math.log(first + 1e-18)) * math.cos(2.0 * math.pi * second)
