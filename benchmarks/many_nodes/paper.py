"""The paper exercise of docs/scale.md: what a larger fleet would cost, from the figures of a run.

    python -m benchmarks.many_nodes.paper benchmarks/results/many_nodes.json [--nodes 5000] [--busy 0.9] [--job-hours 1]

Writes follow from the protocol's pace and the counted writes of a job; memory and idle CPU from the straight line
through the smallest and the largest run. Nothing here was run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from powertrain_agent.link.lease import RENEW_S
from powertrain_agent.link.status import Pace
from powertrain_operator.reconcile.training_job import FIGURES_S

Object = dict[str, Any]


@dataclass(frozen=True)
class Fleet:
    """A fleet in a steady state: that share of the nodes trains, a job takes that long."""

    nodes: int
    busy: float
    job_s: float


FLEET = Fleet(nodes=5000, busy=0.9, job_s=3600.0)


def estimate(small: Object, large: Object, fleet: Fleet) -> Iterator[tuple[str, float]]:
    """Return what such a fleet would ask of the API server and the operator."""
    pace, busy = Pace(), fleet.nodes * fleet.busy
    per_s = busy / fleet.job_s
    figures = busy / pace.in_session_s + (fleet.nodes - busy) / pace.idle_s
    decisions = sum(large["writes_per_job"].values()) * per_s
    transitions = large["replayed_writes"]["PowerNode by agents"] / large["size"]["jobs"] * per_s
    yield "jobs per second", per_s
    yield "Lease writes per second, agents", fleet.nodes / RENEW_S
    yield "figures per second, agents", figures
    yield "decisions per second, agents (at most)", transitions
    yield "writes per second for decisions, operator", decisions
    yield "writes per second for figures, operator", busy / FIGURES_S
    yield "events per second to the operator", fleet.nodes / RENEW_S + figures + transitions + busy / FIGURES_S
    yield "MiB per second to the operator, PowerNodes alone", (figures + transitions) * large["power_node_kib"] / 1024
    yield "operator's memory, MiB", _line(small, large, "peak_mib", fleet.nodes)
    yield "operator's idle CPU, cores", _line(small, large, "idle_cpu_share", fleet.nodes)
    yield "operator's CPU for jobs, cores", large["cpu_s_per_job"] * per_s


def _line(small: Object, large: Object, name: str, nodes: int) -> float:
    few, many = small["size"]["nodes"], large["size"]["nodes"]
    slope = (large[name] - small[name]) / (many - few) if many > few else 0.0
    return float(large[name] + slope * (nodes - many))


def table(small: Object, large: Object, fleet: Fleet) -> str:
    """Return the exercise as Markdown."""
    hours = fleet.job_s / 3600.0
    lines = [f"| {fleet.nodes} nodes, {fleet.busy:.0%} of them busy, jobs of {hours:g} h | |", "|---|---|"]
    return "\n".join(lines + [f"| {name} | {value:.3g} |" for name, value in estimate(small, large, fleet)])


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("results", type=Path)
    options.add_argument("--nodes", type=int, default=FLEET.nodes)
    options.add_argument("--busy", type=float, default=FLEET.busy)
    options.add_argument("--job-hours", type=float, default=FLEET.job_s / 3600.0)
    arguments = options.parse_args()
    sizes = json.loads(arguments.results.read_text(encoding="utf-8"))["sizes"]
    print(table(sizes[0], sizes[-1], Fleet(arguments.nodes, arguments.busy, 3600.0 * arguments.job_hours)))


if __name__ == "__main__":
    main()
