"""Measures what the core promises in CPU time: the AGX Orin space under 5 ms, a front of 100,000 points under 20 ms,
the next mode under a mean limit within 150 ms.

    python benchmarks/core_speed.py

Best of several runs of CPU time, so that a busy machine does not count. Ends with 1 if a promise is broken.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from powertrain import devices
from powertrain.exploring import NORMAL
from powertrain.objectives import Limits
from powertrain.pareto import pareto_front
from powertrain.profiling import Aim, Problem
from powertrain.reference import shipped
from powertrain.samples import Sample
from powertrain.session import Ask, ProfilingSession
from powertrain.space import ModeSpace
from powertrain_agent.simulate import workloads

RUNS = 15
POINTS = 100_000
BOARD, WORKLOAD, BATCH_SIZE, TOLD, LIMIT_W = "orin-agx", "mobilenet-v3", 16, 10, 20.0


def best_ms(work: Callable[[], object]) -> float:
    """Return the least CPU time of several runs."""
    times_s = []
    for _ in range(RUNS):
        start = time.process_time()
        work()
        times_s.append(time.process_time() - start)
    return min(times_s) * 1e3


def planned_session() -> Callable[[], object]:
    """Return the question for the next mode after ten, as the agent's planner asks it: rebuilt from what was stored."""
    reference, axes = shipped(), devices.get(BOARD).space().axes
    space = ModeSpace.grid(axes[0][-1:], *axes[1:])
    limits = Limits(power_w=LIMIT_W)
    problem = Problem(space=space, aim=Aim.BUDGET, limits=limits, explore_limit_w=LIMIT_W, noise=0.01, rules=NORMAL)
    session = ProfilingSession(problem, "transfer", reference)
    for _ in range(TOLD):
        answer = session.ask()
        assert isinstance(answer, Ask)
        true = workloads.evaluate(BOARD, WORKLOAD, BATCH_SIZE, answer.mode)
        session.tell(Sample(answer.mode, true.step_s, true.power_w, BATCH_SIZE))
    state = session.to_dict()
    return lambda: ProfilingSession.from_dict(state, reference).ask()


def cases() -> dict[str, tuple[float, Callable[[], object]]]:
    """Return what is measured: name, promise in ms, work."""
    rng = np.random.default_rng(0)
    board = devices.get(BOARD)
    time_s, power_w = rng.uniform(1, 2, POINTS), rng.uniform(10, 50, POINTS)
    tied_s, tied_w = (rng.integers(1, 50, POINTS).astype(float) for _ in range(2))
    return {
        "orin-agx space, 18,096 modes as a matrix": (5, lambda: board.space().matrix),
        "front of 100,000 scattered points": (20, lambda: pareto_front(time_s, power_w)),
        "front of 100,000 points, all on it": (20, lambda: pareto_front(time_s, 3 - time_s)),
        "front of 100,000 points with ties": (20, lambda: pareto_front(tied_s, tied_w)),
        "next of 1,508 modes under a mean limit, ten told": (150, planned_session()),
    }


def main() -> int:
    """Print a Markdown table; return 1 if a promise is broken."""
    print("| work | promised ms | best of 15, ms | ratio |\n|---|---|---|---|")
    keeps_promises = True
    for name, (promise, work) in cases().items():
        time_ms = best_ms(work)
        keeps_promises = keeps_promises and time_ms <= promise
        print(f"| {name} | {promise:g} | {time_ms:.2f} | {time_ms / promise:.2f} |")
    return 0 if keeps_promises else 1


if __name__ == "__main__":
    sys.exit(main())
