"""What is measured: makespan and throughput against other ways to share, the best combination, and the plan's time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from benchmarks.site_budget.dynamics import Sharing, run
from benchmarks.site_budget.fleets import Front, cap_at, fleet
from benchmarks.site_budget.optimum import optimum

from powertrain.sharing import Demand, Goal, equal, makespan_s, proportional, share, throughput

BOARDS, TIGHTNESS = 6, (0.1, 0.2, 0.4, 0.6)
SMALL, SMALL_POINTS = 4, 20
MANY, MANY_POINTS = 200, 256
OTHERS: dict[str, Sharing] = {"equal": equal, "proportional": proportional}


@dataclass(frozen=True)
class Gain:
    """How many times better than another sharing, over fleets: 10th, 50th and 90th percentile."""

    other: str
    tightness: float
    what: str
    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Figures:
    """All that is reported."""

    fleets: int
    gains: tuple[Gain, ...]
    makespan_gap: float
    throughput_gap: float
    plan_ms: dict[str, float]

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return asdict(self)

    def median(self, other: str, tightness: float, what: str) -> float:
        """Return one median."""
        (gain,) = (g for g in self.gains if (g.other, g.tightness, g.what) == (other, tightness, what))
        return gain.median


def min_makespan(demands: Sequence[Demand], available_w: float) -> dict[str, float]:
    """Share for the shortest makespan."""
    return share(demands, available_w, Goal.MIN_MAKESPAN)


def measure(all_fronts: list[Front], fleets: int, seed: int = 0) -> Figures:
    """Compare on random fleets; the same for the same seed."""
    rng = np.random.default_rng(seed)
    gains = [gain for tightness in TIGHTNESS for gain in _gains(all_fronts, tightness, fleets, rng)]
    makespan_gap, throughput_gap = _gaps(all_fronts, max(fleets // 2, 1), rng)
    plan = {goal.value: _plan_ms(all_fronts, goal, rng) for goal in Goal}
    return Figures(fleets, tuple(gains), makespan_gap, throughput_gap, plan)


def _gains(all_fronts: list[Front], tightness: float, fleets: int, rng: np.random.Generator) -> list[Gain]:
    ratios: dict[tuple[str, str], list[float]] = {}
    for _ in range(fleets):
        site = fleet(all_fronts, BOARDS, rng)
        for key, ratio in _ratios(site, cap_at(site, tightness)).items():
            ratios.setdefault(key, []).append(ratio)
    percentiles = {key: np.percentile(values, (10, 50, 90)) for key, values in ratios.items()}
    return [Gain(other, tightness, what, *map(float, three)) for (other, what), three in percentiles.items()]


def _ratios(site: list[Demand], cap_w: float) -> dict[tuple[str, str], float]:
    """Return by how much sharing is better than each other way: how many times sooner, or faster in sum."""
    ours, ours_again = (run(site, cap_w, min_makespan, again=again).makespan_s for again in (False, True))
    fastest = throughput(site, share(site, cap_w, Goal.MAX_THROUGHPUT))
    ratios = {}
    for name, other in OTHERS.items():
        fixed, again = (run(site, cap_w, other, again=again).makespan_s for again in (False, True))
        ratios[name, "makespan, shares kept"] = fixed / ours
        ratios[name, "makespan, fixed limits against shares handed on"] = fixed / ours_again
        ratios[name, "makespan, both handed on"] = again / ours_again
        ratios[name, "throughput"] = fastest / throughput(site, other(site, cap_w))
    return ratios


def _gaps(all_fronts: list[Front], fleets: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return how far shares are from the best of all combinations at worst: of makespan and of throughput."""
    worst = {Goal.MIN_MAKESPAN: 0.0, Goal.MAX_THROUGHPUT: 0.0}
    for place in range(fleets):
        site = [_thinned(demand, SMALL_POINTS) for demand in fleet(all_fronts, SMALL, rng)]
        cap_w = cap_at(site, TIGHTNESS[place % len(TIGHTNESS)])
        for goal in (Goal.MIN_MAKESPAN, Goal.MAX_THROUGHPUT):
            shares, best = share(site, cap_w, goal), optimum(site, cap_w, goal)
            gap = makespan_s(site, shares) / best - 1
            if goal is Goal.MAX_THROUGHPUT:
                gap = best / throughput(site, shares) - 1
            worst[goal] = max(worst[goal], gap)
    return worst[Goal.MIN_MAKESPAN], worst[Goal.MAX_THROUGHPUT]


def _thinned(demand: Demand, points: int) -> Demand:
    rows = np.unique(np.linspace(0, demand.watts.size - 1, points).round().astype(np.int64))
    return replace(demand, watts=demand.watts[rows], speed=demand.speed[rows], idle_w=0.0)


def _plan_ms(all_fronts: list[Front], goal: Goal, rng: np.random.Generator) -> float:
    """Return the milliseconds of processor time for one plan of many boards: the median of five."""
    times_ms = []
    for _ in range(5):
        site = [_widened(demand, MANY_POINTS) for demand in fleet(all_fronts, MANY, rng)]
        began = time.process_time()
        share(site, cap_at(site, 0.4), goal)
        times_ms.append(1e3 * (time.process_time() - began))
    return float(np.median(times_ms))


def _widened(demand: Demand, points: int) -> Demand:
    watts = np.linspace(demand.watts[0], demand.watts[-1], points)
    return replace(demand, watts=watts, speed=np.interp(watts, demand.watts, demand.speed))
