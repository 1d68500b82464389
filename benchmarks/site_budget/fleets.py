"""Fleets for the comparison: fronts of measured tables where they are there, of the simulator's boards else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from powertrain import devices
from powertrain.pareto import pareto_front
from powertrain.sample_csv import read_csv
from powertrain.sharing import Demand
from powertrain.space import FloatArray, ModeSpace
from powertrain_agent.simulate import workloads
from powertrain_agent.simulate.workloads import Clocks

BOARDS = ("orin-agx", "orin-nx-16", "orin-nano")
NETWORKS = ("resnet18", "mobilenet-v3", "yolov8n", "bert", "lstm")
# The open tables, by the simulator's name of what was measured.
TABLES = {
    ("orin-agx", "resnet18"): "orin-agx.train.resnet.csv",
    ("orin-agx", "lstm"): "orin-agx.train.lstm.csv",
}
BATCH_SIZE = 16
# Jobs last from half an hour to eight hours at full speed, on a log scale.
SHORTEST_H, LONGEST_H = 0.5, 8.0


@dataclass(frozen=True, eq=False)
class Front:
    """What one board can do with one network: watts, samples per second, and what it draws when idle."""

    title: str
    watts: FloatArray
    speed: FloatArray
    idle_w: float
    measured: bool

    def demand(self, name: str, full_speed_s: float) -> Demand:
        """Return a job that would take so long at full speed."""
        work = full_speed_s * float(self.speed[-1])
        low, high = float(self.watts[0]), float(self.watts[-1])
        return Demand(name, self.watts, self.speed, work, low, high, idle_w=min(self.idle_w, low))


def fronts(tables: Path | None = None, boards: tuple[str, ...] = BOARDS) -> list[Front]:
    """Return the front of each network on each board, from its measured table if there is one."""
    all_fronts = []
    for board in boards:
        for network in NETWORKS:
            path = tables / TABLES[board, network] if tables and (board, network) in TABLES else None
            all_fronts.append(_measured(board, network, path) if path and path.exists() else _simulated(board, network))
    return all_fronts


def fleet(all_fronts: list[Front], boards: int, rng: np.random.Generator) -> list[Demand]:
    """Return random jobs of different length on random boards."""
    hours = np.exp(rng.uniform(np.log(SHORTEST_H), np.log(LONGEST_H), boards))
    picked = rng.integers(0, len(all_fronts), boards)
    return [all_fronts[pick].demand(f"board-{place}", 3600.0 * hours[place]) for place, pick in enumerate(picked)]


def cap_at(fleet: list[Demand], tightness: float) -> float:
    """Return the cap that lies so far between the fleet's lowest and highest draw."""
    low, high = sum(demand.lowest_w for demand in fleet), sum(demand.max_w for demand in fleet)
    return low + tightness * (high - low)


@cache
def _space(board: str) -> ModeSpace:
    device = devices.get(board)
    return device.space().subgrid(cores=device.cores)  # the agent leaves the cores alone by default


def _idle_w(board: str) -> float:
    space = _space(board)
    return workloads.idle(board, space[0]).power_w


def _measured(board: str, network: str, path: Path) -> Front:
    table = read_csv(path)
    return _front(f"{network} on {board}, measured", table.step_s, table.power_w, _idle_w(board), measured=True)


@cache
def _simulated(board: str, network: str) -> Front:
    cores, cpu_khz, gpu_hz, emc_hz = _space(board).matrix.T
    work, part = workloads.get(network), workloads.silicon(board)
    at = Clocks(cores, cpu_khz / 1e6, gpu_hz / 1e9, emc_hz / 1e9)
    parts = workloads.time_parts(work, part, at, float(BATCH_SIZE))
    power_w = sum(np.asarray(watts) for watts in workloads.power_parts(work, part, at, parts))
    title = f"{network} on {board}, simulated"
    return _front(title, np.asarray(parts.step_s), np.asarray(power_w), _idle_w(board), measured=False)


def _front(title: str, step_s: FloatArray, power_w: FloatArray, idle_w: float, *, measured: bool) -> Front:
    rows = pareto_front(step_s, power_w)[::-1]
    if rows.size > 256:
        rows = rows[np.unique(np.linspace(0, rows.size - 1, 256).round().astype(np.int64))]
    return Front(title, power_w[rows], BATCH_SIZE / step_s[rows], idle_w, measured)
