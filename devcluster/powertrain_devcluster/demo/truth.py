"""What the simulator would show in any mode: the yardsticks that a run is held against."""

from __future__ import annotations

from dataclasses import dataclass

from powertrain import devices
from powertrain.devices import Preset
from powertrain.modes import PowerMode
from powertrain_agent.simulate import workloads


@dataclass(frozen=True)
class Yardstick:
    """One mode with its true figures."""

    name: str
    mode: PowerMode
    step_s: float
    power_w: float


def at(board: str, workload: str, mode: PowerMode, name: str = "") -> Yardstick:
    """Return the true figures of a mode, without a sensor's noise."""
    batch_size = workloads.get(workload).batch_size
    point = workloads.evaluate(board, workload, batch_size, mode)
    return Yardstick(name, mode, point.step_s, point.power_w)


def full_clocks(board: str, workload: str) -> Yardstick:
    """Return MAXN: every clock at its end."""
    device = devices.get(board)
    top = PowerMode(*(int(value) for value in device.space().matrix.max(axis=0)))
    return at(board, workload, top, "MAXN")


def preset(board: str, workload: str, limit_w: float) -> Yardstick | None:
    """Return NVIDIA's preset for such a budget: of those that name no more watts, the one that names most."""
    device = devices.get(board)
    presets = [each for each in device.presets if each.watts is not None and each.watts <= limit_w]
    if not presets:
        return None
    best: Preset = max(presets, key=lambda each: (each.watts or 0.0, each.cores))
    return at(board, workload, device.preset_mode(best), best.name)


def brute_force(board: str, workload: str, limit_w: float) -> Yardstick:
    """Return the fastest of all modes within a limit, with every core online, as the agent leaves them."""
    device = devices.get(board)
    rows = (PowerMode(*(int(value) for value in row)) for row in device.space().matrix if row[0] == device.cores)
    within = [point for mode in rows if (point := at(board, workload, mode, "brute force")).power_w <= limit_w]
    return min(within, key=lambda each: each.step_s)
