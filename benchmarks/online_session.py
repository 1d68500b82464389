"""Whole online sessions on the simulated Orin AGX under one budget: what was chosen, against brute force on the same
simulator; what the budget saw; how long profiling took.

    python benchmarks/online_session.py [--power 30] [--workloads resnet18,lstm] [--strategies transfer,preset]
        [--fit-seconds 1] [--out results.json]

The agent's own loop, safe start, approach, windows, guard and in-flight checks, in virtual time (an hour takes
seconds). Sensor noise is 1 %, steps vary by 1 %, cores stay fixed. A fit takes `--fit-seconds` of virtual time.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from powertrain import PowerMode
from powertrain.api.v1alpha1 import SessionSpec
from powertrain_agent.log import Log
from powertrain_agent.simulate import ManualClock, SimulatedBoard, workloads
from powertrain_agent.simulate.rehearsal import Rehearsal
from powertrain_agent.telemetry import RollingMean

BOARD, POD, GUARD_S = "orin-agx", "pod-1", 3.0
LONGEST_S, AFTERWARDS_S = 3600.0, 120.0
STRATEGIES = ("transfer", "powertrain", "random-pareto", "preset")


@dataclass(frozen=True)
class Row:
    """One session."""

    workload: str
    strategy: str
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


class Witness:
    """Counts guard windows by itself, from the first reading to the last, one after each reading."""

    def __init__(self, limit_w: float) -> None:
        self.mean = RollingMean(GUARD_S)
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


def best_mode(space: list[PowerMode], workload: str, batch_size: int, limit_w: float) -> float:
    """Return the step time of the fastest mode within the limit, by looking at all of them."""
    points = [workloads.evaluate(BOARD, workload, batch_size, mode) for mode in space]
    return min(point.step_s for point in points if point.power_w <= limit_w)


def session(workload: str, strategy: str, power_w: float, fit_s: float, root: Path) -> Row:
    """Run one job from its envelope until its mode is chosen and checked, and two minutes more."""
    clock = ManualClock()
    board = SimulatedBoard.create(root, BOARD, now=clock, timeout_s=None)
    board.add_pod(POD)
    rehearsal = Rehearsal(board, clock, Log(io.StringIO()), fit_s=fit_s)
    witness, handle = Witness(power_w), rehearsal.governor.handle

    def watched(event: object) -> None:
        witness.take(event)
        handle(event)  # type: ignore[arg-type]

    rehearsal.governor.handle = watched  # type: ignore[method-assign, assignment]
    batch_size = workloads.get(workload).batch_size
    rehearsal.envelope(envelope(workload, batch_size, strategy, power_w))
    rehearsal.run(5.0)
    rehearsal.train(workload)
    started_s = clock()
    rehearsal.run(LONGEST_S, lambda: rehearsal.status.phase == "Running")
    chosen_s = clock()
    rehearsal.run(AFTERWARDS_S)
    status = rehearsal.status
    assert status.mode is not None
    assert rehearsal.governor.course is not None
    point = workloads.evaluate(BOARD, workload, batch_size, PowerMode.parse(status.mode))
    best_s = best_mode(list(rehearsal.governor.course.tools.board.space), workload, batch_size, power_w)
    samples = status.result.samples.samples() if status.result else []
    return Row(
        workload,
        strategy,
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
    )


def envelope(workload: str, batch_size: int, strategy: str, power_w: float) -> SessionSpec:
    """Return the envelope of a job that asks for nothing but a budget."""
    return SessionSpec.model_validate(
        {
            "protocol": 1,
            "uid": f"{workload}-{strategy}",
            "job": {"namespace": "bench", "name": workload},
            "podUIDs": [POD],
            "limits": {"powerWatts": power_w},
            "workload": {"name": workload, "batchSize": batch_size},
            "plan": {"strategy": strategy},
        }
    )


def table(rows: list[Row]) -> str:
    """Return the sessions as a Markdown table."""
    lines = [
        "| workload | strategy | chosen mode | W | penalty % | modes (left early) | profiling min | to the choice min "
        "| guard windows above (worst W) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.workload} | {r.strategy} | {r.mode} | {r.power_w:.1f} | {r.penalty_pct:.1f} | {r.modes} ({r.unsafe}) "
        f"| {r.profiling_min:.1f} | {r.to_choice_min:.1f} | {r.windows_above} of {r.windows} ({r.worst_window_w:.1f}) |"
        for r in rows
    ]
    return "\n".join(lines)


def summary(rows: list[Row], limit_w: float) -> str:
    """Return medians and worst by strategy."""
    lines = [
        "| strategy | penalty % median / worst | choices over budget | profiling min median / worst | windows above |",
        "|---|---|---|---|---|",
    ]
    for strategy in dict.fromkeys(row.strategy for row in rows):
        own = [row for row in rows if row.strategy == strategy]
        penalties, minutes = [r.penalty_pct for r in own], [r.profiling_min for r in own]
        lines.append(
            f"| {strategy} | {median(penalties):.1f} / {max(penalties):.1f} "
            f"| {sum(r.power_w > limit_w for r in own)} of {len(own)} "
            f"| {median(minutes):.1f} / {max(minutes):.1f} | {sum(r.windows_above for r in own)} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Run the sessions and print both tables; 1 if a choice of the default strategy is over the budget."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--power", type=float, default=30.0)
    options.add_argument("--workloads", default=",".join(workloads.names()))
    options.add_argument("--strategies", default=",".join(STRATEGIES))
    options.add_argument("--fit-seconds", type=float, default=1.0)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    wanted = given.strategies.split(",")
    if "powertrain" in wanted and importlib.util.find_spec("torch") is None:
        print("`powertrain` is left out: torch is not installed here (make setup-nn)\n")
        wanted.remove("powertrain")
    rows: list[Row] = []
    memory = Path("/dev/shm")
    for strategy in wanted:
        for workload in given.workloads.split(","):
            root = Path(tempfile.mkdtemp(prefix="powertrain-", dir=memory if memory.is_dir() else None))
            began_s = time.monotonic()
            rows.append(session(workload, strategy, given.power, given.fit_seconds, root / "board"))
            shutil.rmtree(root)
            print(f"{strategy} {workload}: {time.monotonic() - began_s:.0f} s", file=sys.stderr, flush=True)
    print(f"{table(rows)}\n\n{summary(rows, given.power)}")
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps([asdict(row) for row in rows], indent=2), encoding="utf-8")
    return int(any(row.power_w > given.power for row in rows if row.strategy == "transfer"))


if __name__ == "__main__":
    sys.exit(main())
