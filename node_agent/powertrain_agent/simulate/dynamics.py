"""What changes by itself on a simulated board: real clocks, loads, watts, temperatures, counters at one instant."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass, replace
from functools import cache, cached_property

from powertrain.devices import SUM_OF_RAILS
from powertrain.modes import PowerMode
from powertrain_agent.simulate import workloads
from powertrain_agent.simulate.faults import ActiveFaults, FaultKind
from powertrain_agent.simulate.layout import Layout
from powertrain_agent.simulate.rules import Rules
from powertrain_agent.simulate.state import BoardState, Load
from powertrain_agent.simulate.workloads import Point

SETTLE_S = 0.8  # time constant of the power after a change: 95 % after 2.4 s, as the papers saw
WARM_S = 60.0  # time constant of the heat sink
NOISE = 0.01
NOISE_PERIOD_S = 0.05  # the sensor averages for about this long, so faster readings repeat themselves
DRIFT_S = 60.0
AMBIENT_C = 35.0


@dataclass(frozen=True)
class World:
    """Everything an instant follows from."""

    layout: Layout
    rules: Rules
    faults: ActiveFaults
    state: BoardState
    load: Load | None
    now_s: float


@dataclass(frozen=True)
class Instant:
    """The board at one moment; computed once, read by many files."""

    world: World

    @cached_property
    def busy(self) -> bool:
        """Say whether a training runs."""
        return self.world.load is not None and self.world.load.alive(self.world.now_s)

    @cached_property
    def mode(self) -> PowerMode:
        """Return the clocks that really run, with every fault that keeps them from what was asked."""
        world = self.world
        mode = world.rules.limit_mode(world.state.requests, top=self.busy)
        tables = world.layout.device.tables
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
        if not self.busy and world.state.requests.get(f"{world.layout.gpu}/railgate_enable", 1):
            mode = replace(mode, gpu_hz=tables.gpu_hz.values[0])
        return mode

    @cached_property
    def steady(self) -> Point:
        """Return what the board settles at in this mode."""
        world = self.world
        board = world.layout.device.name
        if not self.busy or world.load is None:
            return workloads.idle(board, self.mode)
        contention = world.faults.value(FaultKind.CONTENTION, 1.0)
        return workloads.evaluate(board, world.load.workload, world.load.batch_size, self.mode, contention)

    @cached_property
    def drift(self) -> float:
        """Return the factor by which workload and board have drifted from their parameters."""
        fault = self.world.faults.find(FaultKind.DRIFT)
        if fault is None:
            return 1.0
        return 1.0 + (fault.value - 1.0) * min(1.0, max(0.0, (self.world.now_s - fault.since_s) / DRIFT_S))

    @property
    def step_s(self) -> float:
        """Return the time of one settled step."""
        return self.steady.step_s * self.drift

    @cached_property
    def steady_w(self) -> float:
        """Return the power the board settles at."""
        return self.steady.static_w + (self.steady.power_w - self.steady.static_w) * self.drift

    @cached_property
    def power_w(self) -> float:
        """Return the power now: on its way from the last mode to this one, without the sensor's noise."""
        age_s = self._since_change_s
        return self.steady_w + (self._from_w - self.steady_w) * math.exp(-age_s / SETTLE_S)

    @property
    def _since_change_s(self) -> float:
        started = self.world.load.since_s if self.busy and self.world.load else 0.0
        return max(0.0, self.world.now_s - max(self.world.state.settle_since_s, started))

    @property
    def _from_w(self) -> float:
        world = self.world
        if self.busy and world.load is not None and world.load.since_s > world.state.settle_since_s:
            return workloads.idle(world.layout.device.name, self.mode).power_w
        return world.state.settle_from_w or self.steady_w

    @cached_property
    def measured_w(self) -> float:
        """Return what an ideal sum over the sensors reads: noise and offset included."""
        faults = self.world.faults
        stuck = faults.find(FaultKind.POWER_STUCK)
        if stuck is not None:
            return stuck.value
        noise = 1.0 + NOISE * _gauss(f"{self.world.state.seed}:{math.floor(self.world.now_s / NOISE_PERIOD_S)}")
        read_w = self.power_w * noise + faults.value(FaultKind.POWER_OFFSET, 0.0)
        return max(0.1, read_w * faults.value(FaultKind.POWER_SCALE, 1.0))

    @cached_property
    def rail_w(self) -> dict[str, float]:
        """Return the watts of each rail; those of a board without a total rail add up to the measured power."""
        names = [rail.name for rail in self.world.layout.rails]
        is_stuck = self.world.faults.find(FaultKind.POWER_STUCK) is not None
        shares = {name: 1.0 / len(names) if is_stuck else self._share(name) for name in names}
        total = self.world.layout.device.sensors.total
        if total != SUM_OF_RAILS:
            return {name: self.measured_w * (1.0 if name == total else shares[name]) for name in names}
        whole = sum(shares.values())
        return {name: self.measured_w * share / whole for name, share in shares.items()}

    def _share(self, name: str) -> float:
        point = self.steady
        gpu, cpu, static, memory = _fed_by(name)
        watts = gpu * point.gpu_w + cpu * point.cpu_w + static * point.static_w + memory * point.memory_w
        return 0.02 + watts / point.power_w

    @cached_property
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


def _gauss(key: str) -> float:
    """Return a normally distributed number that follows from the key alone (Box-Muller)."""
    digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
    first, second = (int.from_bytes(half, "big") / 2**64 for half in (digest[:8], digest[8:]))
    return math.sqrt(-2.0 * math.log(first + 1e-18)) * math.cos(2.0 * math.pi * second)
