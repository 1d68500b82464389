"""What learning costs: fit, predict every mode with intervals, front and choice, against the papers' network in one
run.

    python benchmarks/learning_speed.py [--out results.json] [--without-network]

CPU seconds, best of several. One unit is a fixed numpy kernel (Cholesky of a 400 × 400 matrix), so that the owner of a
small board can scale the figures: time that kernel there and multiply.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from powertrain import devices
from powertrain.objectives import Limits
from powertrain.pareto import stored_front
from powertrain.profiling import Aim, Problem
from powertrain.reference import shipped
from powertrain.samples import Sample
from powertrain.session import Ask, ProfilingSession

FIRST_ASK = """
import time; start = time.process_time()
from powertrain import devices
from powertrain.profiling import Problem
from powertrain.reference import shipped
from powertrain.session import ProfilingSession
imported = time.process_time()
ProfilingSession(Problem(devices.get("orin-agx").space()), "transfer", shipped()).ask()
print(imported - start, time.process_time() - imported)
"""


def best_s(work: Callable[[], object], runs: int = 5) -> float:
    """Return the least CPU seconds of several runs."""
    times_s = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times_s.append(time.process_time() - start)
    return min(times_s)


def kernel() -> float:
    """Return the CPU seconds of the fixed numpy kernel."""
    matrix = np.random.default_rng(0).random((400, 400))
    spd = matrix @ matrix.T + 400 * np.eye(400)
    return best_s(lambda: np.linalg.cholesky(spd), runs=50)


def session_after(strategy: str, count: int) -> ProfilingSession:
    """Return a session on the full Orin AGX space that was told `count` random modes of a made-up workload."""
    space = devices.get("orin-agx").space()
    problem = Problem(space, aim=Aim.FRONT, limits=Limits(power_w=30), max_modes=count + 1, min_gain=0.0)
    session = ProfilingSession(problem, strategy, shipped())
    rng = np.random.default_rng(1)
    for row in rng.choice(len(space), count, replace=False):
        cores, cpu, gpu, emc = space.matrix[row] / space.matrix.max(axis=0)
        step_s = 0.02 / gpu**0.8 + 0.004 / (cpu * cores**0.5) + 0.003 / emc
        session.tell(Sample(space[int(row)], step_s, 12 + 5 * cores * cpu**2 + 18 * gpu**1.6 + 3 * emc, 16))
    return session


def learn_and_choose(session: ProfilingSession) -> object:
    """Fit, predict, front, choice, from nothing but the samples."""
    fresh = ProfilingSession.from_dict(session.to_dict(), session.reference)
    prediction = fresh.predict()
    assert prediction is not None
    stored_front(prediction.time_s, prediction.power_w, prediction.time_std_s, prediction.power_std_w)
    return fresh.choose()


def next_ask(session: ProfilingSession) -> object:
    """Ask a session that knows only its samples."""
    answer = ProfilingSession.from_dict(session.to_dict(), session.reference).ask()
    assert isinstance(answer, Ask)
    return answer


def measure(with_network: bool) -> dict[str, float]:
    """Return all figures, in CPU seconds unless the name says otherwise."""
    figures = {"kernel_s": kernel()}
    for count in (10, 20, 50):
        session = session_after("transfer", count)
        figures[f"transfer_{count}_s"] = best_s(lambda session=session: learn_and_choose(session))
        figures[f"ask_{count}_s"] = best_s(lambda session=session: next_ask(session))
    imported, first = map(float, subprocess.check_output([sys.executable, "-c", FIRST_ASK], text=True).split())
    figures["import_s"], figures["first_ask_s"] = imported, first
    figures["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if with_network:
        session = session_after("powertrain", 50)
        figures["powertrain_50_s"] = best_s(lambda: learn_and_choose(session), runs=1)
        figures["times_faster"] = figures["powertrain_50_s"] / figures["transfer_50_s"]
    return figures


def main(out: Path | None, with_network: bool) -> int:
    """Print the figures against what they must reach; return 1 if one is missed."""
    figures = measure(with_network)
    unit = figures["kernel_s"]
    must = {"transfer_50_s": 0.2, "ask_50_s": 0.15, "first_ask_s": 1.0, "rss_mb": 200.0}
    print("| figure | value | must be at most | in kernels |\n|---|---|---|---|")
    for name, value in figures.items():
        kernels = f"{value / unit:.0f}" if name.endswith("_s") else "–"
        print(f"| {name} | {value:.4g} | {must.get(name, '–')} | {kernels} |")
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(figures, indent=2), encoding="utf-8")
    # The ratio to the network is shown, not bounded: it also moves when the network's training gets faster.
    return 0 if all(figures[name] <= limit for name, limit in must.items()) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--without-network", action="store_true")
    options = parser.parse_args()
    sys.exit(main(options.out, not options.without_network))
