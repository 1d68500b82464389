"""Whole online sessions on a simulated board under one budget: what was chosen, against brute force on the same
simulator; what the budget saw; how long profiling took.

    python benchmarks/online_session.py [--power 30] [--workloads resnet18,lstm] [--strategies transfer,preset]
        [--board orin-agx] [--explore 33] [--then 22] [--max-modes 10] [--seeds 1] [--fit-seconds 1]
        [--load typical] [--caution High] [--out results.json] [--cache sessions.jsonl]

The agent's own loop, safe start, approach, windows, guard and in-flight checks, in virtual time (an hour takes
seconds). Loads behave as `--load` says (docs/reference/simulator.md), steps vary by 1 %, cores stay fixed. A fit takes
`--fit-seconds` of virtual time.
`--explore` lets profiling use more power than the budget; guard windows are then counted against that limit.
*At 98 %* is what the fastest mode within 98 % of the budget takes more: where readings scatter by 2 %, a mode that has
to keep every window can't be much closer. With `--cache` every session is one line of a file: a run that was stopped
goes on where it was (a cache belongs to one state of the code).
`--then` changes the budget of the running job: the mode in force three minutes later is judged against the new one, and
guard windows from when the power has had time to follow.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import math
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import median

from powertrain import PowerMode, devices
from powertrain.api.v1alpha1 import PROTOCOL, SessionSpec
from powertrain.limit_table import DEFAULT_WINDOW_S
from powertrain_agent.simulate import ManualClock, SimulatedBoard, behaviour, workloads
from powertrain_agent.simulate.simulation import Simulation
from powertrain_agent.telemetry import RollingMean
from powertrain_kube.log import Log

POD = "pod-1"
LONGEST_S, AFTERWARDS_S = 3600.0, 120.0
FOLLOWS_S, CHANGED_S = 2.5, 180.0
STRATEGIES = ("transfer", "powertrain", "random-pareto", "preset")


@dataclass(frozen=True)
class Limits:
    """The board, the budget of the job, the limit while it is profiled, and how many modes may be tried."""

    board: str
    power_w: float
    explore_w: float | None = None
    max_modes: int | None = None
    then_w: float | None = None
    load: str = behaviour.DEFAULT
    caution: str = "Normal"


@dataclass(frozen=True)
class Row:
    """One session."""

    workload: str
    strategy: str
    seed: int
    mode: str
    power_w: float
    penalty_pct: float
    modes: int
    unsafe: int
    profiling_min: float
    to_choice_min: float
    windows: int
    windows_above: int
    worst_window_w: float
    at_98_pct: float = 0.0  # penalty of the fastest mode within 98 % of the budget, by brute force


class Cache:
    """Sessions by what was asked for, one JSON line each; without a file nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        self._rows = {entry["key"]: Row(**entry["row"]) for entry in map(json.loads, lines)}

    def get(self, key: str) -> Row | None:
        """Return a session that was run before."""
        return self._rows.get(key)

    def add(self, key: str, row: Row) -> None:
        """Keep a session."""
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "row": asdict(row)}) + "\n")


class Witness:
    """Counts guard windows by itself, from the first reading to the last, one after each reading."""

    def __init__(self, limit_w: float) -> None:
        self.begin(limit_w)

    def begin(self, limit_w: float) -> None:
        """Begin anew, against this limit."""
        self.mean = RollingMean(DEFAULT_WINDOW_S)
        self.limit_w, self.windows, self.above, self.worst_w = limit_w, 0, 0, 0.0

    def take(self, event: object) -> None:
        """Take an event if it is a reading."""
        if not hasattr(event, "power_w"):
            return
        self.mean.add(event)  # type: ignore[arg-type]
        if self.mean.full:
            self.windows += 1
            self.above += self.mean.mean_w > self.limit_w
            self.worst_w = max(self.worst_w, self.mean.mean_w)


def best_modes(space: list[PowerMode], workload: str, batch_size: int, limits: Limits) -> tuple[float, float]:
    """Return the step time of the fastest mode within the limit, and within 98 % of it, by looking at all of them."""
    points = [workloads.evaluate(limits.board, workload, batch_size, mode) for mode in space]
    best_s = min(point.step_s for point in points if point.power_w <= limits.power_w)
    near_s = min((point.step_s for point in points if point.power_w <= 0.98 * limits.power_w), default=math.nan)
    return best_s, near_s


def session(workload: str, strategy: str, seed: int, limits: Limits, fit_s: float, root: Path) -> Row:
    """Run one job from its envelope until its mode is chosen and checked, and two minutes more."""
    clock = ManualClock()
    board = SimulatedBoard.create(root, limits.board, seed=seed, now=clock, timeout_s=None, behaviour=limits.load)
    board.add_pod(POD)
    simulation = Simulation(board, clock, Log(io.StringIO()), seed=seed, fit_s=fit_s)
    witness, handle = Witness(limits.explore_w or limits.power_w), simulation.sessions.handle

    def watched(event: object) -> None:
        witness.take(event)
        handle(event)  # type: ignore[arg-type]

    simulation.sessions.handle = watched  # type: ignore[method-assign, assignment]
    batch_size = workloads.get(workload).batch_size
    simulation.envelope(envelope(workload, batch_size, strategy, seed, limits))
    simulation.run(5.0)
    simulation.train(workload)
    started_s = clock()
    simulation.run(LONGEST_S, lambda: simulation.status.phase == "Running")
    chosen_s = clock()
    simulation.run(AFTERWARDS_S)
    if limits.then_w is not None:
        limits = replace(limits, power_w=limits.then_w, explore_w=None)
        simulation.envelope(envelope(workload, batch_size, strategy, seed, limits, generation=2))
        simulation.run(FOLLOWS_S)
        witness.begin(limits.power_w)
        simulation.run(CHANGED_S)
    status = simulation.status
    assert status.mode is not None
    point = workloads.evaluate(limits.board, workload, batch_size, PowerMode.parse(status.mode))
    best_s, near_s = best_modes(list(simulation.sessions.ports.board.space), workload, batch_size, limits)
    samples = status.result.samples.samples() if status.result else []
    return Row(
        workload,
        strategy,
        seed,
        PowerMode.parse(status.mode).human,
        point.power_w,
        100.0 * (point.step_s / best_s - 1.0),
        len(samples),
        sum(sample.unsafe for sample in samples),
        status.profiling.seconds / 60.0,
        (chosen_s - started_s) / 60.0,
        witness.windows,
        witness.above,
        witness.worst_w,
        100.0 * (near_s / best_s - 1.0),
    )


def cached_session(cache: Cache, workload: str, strategy: str, seed: int, limits: Limits, fit_s: float) -> Row:
    """Run one job on a board of its own, unless the cache has it."""
    key = f"{workload} {strategy} {seed} {limits} {fit_s}"
    cached_row = cache.get(key)
    if cached_row is not None:
        return cached_row
    memory, began_s = Path("/dev/shm"), time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="powertrain-", dir=memory if memory.is_dir() else None))
    row = session(workload, strategy, seed, limits, fit_s, root / "board")
    shutil.rmtree(root)
    print(f"{strategy} {workload} {seed}: {time.monotonic() - began_s:.0f} s", file=sys.stderr, flush=True)
    cache.add(key, row)
    return row


def envelope(
    workload: str, batch_size: int, strategy: str, seed: int, limits: Limits, generation: int = 1
) -> SessionSpec:
    """Return the envelope of a job that asks for nothing but a budget."""
    return SessionSpec.model_validate(
        {
            "protocol": PROTOCOL,
            "uid": f"{workload}-{strategy}-{seed}",
            "generation": generation,
            "job": {"namespace": "bench", "name": workload},
            "podUIDs": [POD],
            "limits": {"powerWatts": limits.power_w, "exploreWatts": limits.explore_w},
            "workload": {"name": workload, "batchSize": batch_size},
            "plan": {"strategy": strategy, "caution": limits.caution}
            | ({"maxModes": limits.max_modes} if limits.max_modes else {}),
        }
    )


def table(rows: list[Row]) -> str:
    """Return the sessions as a Markdown table."""
    lines = [
        "| workload | strategy | seed | chosen mode | W | penalty % | modes (left early) "
        "| profiling min | to the choice min | guard windows above (worst W) |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.workload} | {r.strategy} | {r.seed} | {r.mode} | {r.power_w:.1f} | {r.penalty_pct:.1f} "
        f"| {r.modes} ({r.unsafe}) | {r.profiling_min:.1f} | {r.to_choice_min:.1f} "
        f"| {r.windows_above} of {r.windows} ({r.worst_window_w:.1f}) |"
        for r in rows
    ]
    return "\n".join(lines)


def by_workload(rows: list[Row]) -> str:
    """Return penalty, true power and profiling minutes of each workload and strategy side by side."""
    names = list(dict.fromkeys(row.strategy for row in rows))
    lines = [f"| workload | {' | '.join(names)} |", "|---" * (1 + len(names)) + "|"]
    for workload in dict.fromkeys(row.workload for row in rows):
        cells = []
        for name in names:
            own = [row for row in rows if (row.workload, row.strategy) == (workload, name)]
            figures = [median(getattr(r, f) for r in own) for f in ("penalty_pct", "power_w", "profiling_min")]
            cells.append("{:.1f} %, {:.1f} W, {:.1f} min".format(*figures))
        lines.append(f"| {workload} | {' | '.join(cells)} |")
    return "\n".join(lines)


def summary(rows: list[Row], limit_w: float) -> str:
    """Return medians and worst by strategy."""
    lines = [
        "| strategy | penalty % median / worst | at 98 % median / worst | choices over budget "
        "| profiling min median / worst | to the choice min median / worst | windows above |",
        "|---|---|---|---|---|---|---|",
    ]
    for strategy in dict.fromkeys(row.strategy for row in rows):
        own = [row for row in rows if row.strategy == strategy]
        penalties, minutes = [r.penalty_pct for r in own], [r.profiling_min for r in own]
        waited, near = [r.to_choice_min for r in own], [r.at_98_pct for r in own]
        lines.append(
            f"| {strategy} | {median(penalties):.1f} / {max(penalties):.1f} | {median(near):.1f} / {max(near):.1f} "
            f"| {sum(r.power_w > limit_w for r in own)} of {len(own)} "
            f"| {median(minutes):.1f} / {max(minutes):.1f} | {median(waited):.1f} / {max(waited):.1f} "
            f"| {sum(r.windows_above for r in own)} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Run the sessions and print the tables; 1 if a choice is over the budget or a guard window over its limit."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--board", default="orin-agx", choices=devices.names())
    options.add_argument("--power", type=float, default=30.0)
    options.add_argument("--explore", type=float, help="limit while profiling (default: the budget)")
    options.add_argument("--then", type=float, help="budget that replaces the first one while the job runs")
    options.add_argument("--workloads", default=",".join(workloads.names()))
    options.add_argument("--strategies", default=",".join(STRATEGIES))
    options.add_argument("--max-modes", type=int, help="modes that may be tried (default: the strategy's own)")
    options.add_argument("--seeds", type=int, default=1, help="sessions of each pair: other noise, other random modes")
    options.add_argument("--load", default=behaviour.DEFAULT, help="how loads and the sensor behave")
    options.add_argument("--caution", default="Normal", choices=("Normal", "High"))
    options.add_argument("--fit-seconds", type=float, default=1.0)
    options.add_argument("--out", type=Path)
    options.add_argument("--cache", type=Path, help="file that keeps finished sessions")
    arguments = options.parse_args()
    strategies = arguments.strategies.split(",")
    if "powertrain" in strategies and importlib.util.find_spec("torch") is None:
        print("`powertrain` is left out: torch is not installed here (make setup-nn)\n")
        strategies.remove("powertrain")
    limits = Limits(
        arguments.board,
        arguments.power,
        arguments.explore,
        arguments.max_modes,
        arguments.then,
        arguments.load,
        arguments.caution,
    )
    budget_w = arguments.power if arguments.then is None else arguments.then
    rows: list[Row] = []
    cache = Cache(arguments.cache)
    for strategy in strategies:
        for workload, seed in product(arguments.workloads.split(","), range(arguments.seeds)):
            rows.append(cached_session(cache, workload, strategy, seed, limits, arguments.fit_seconds))
    print(f"{table(rows)}\n\n{by_workload(rows)}\n\n{summary(rows, budget_w)}")
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps([asdict(row) for row in rows], indent=2), encoding="utf-8")
    return int(any(row.power_w > budget_w or row.windows_above for row in rows))


if __name__ == "__main__":
    sys.exit(main())
