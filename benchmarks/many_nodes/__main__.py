"""What the operator costs with many nodes: decision latency, memory, CPU and API writes per job, over 20 to 200 nodes.

    python -m benchmarks.many_nodes [--nodes 20,50,100,200] [--jobs-per-node 2.5] [--per-node-s 0.025]
        [--site-watts-per-node 15] [--out FILE] [--svg FILE] [--page docs/scale.md]

A real control plane and a real operator process; one process replays the agents and kubelets (recording.py, replay.py).
A decision takes from the TrainingJob's creation (the API server has answered) until its envelope is seen in a watch of
PowerNodes, for jobs that find a free node and have a profile. Jobs run for 30 s. Load is in proportion to the nodes, so
that equal cost per job means cost linear in the number of nodes. Everything shares this machine, the clients included.
`--site-watts-per-node` puts one PowerBudget of so many watts a node over all of them; a job then waits for its share.
About three minutes for each size; ends with 1 if a promise is broken or a size is not finished.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from powertrain_devcluster.builds import binaries
from powertrain_devcluster.builds.progress import for_stream
from powertrain_devcluster.controlplane.control_plane import ControlPlane

from .load import UnfinishedError
from .measurement import Figures, Measurement, Size, processes
from .pages import blocks, write
from .report import missed


def run(size: Size, programs: dict[str, Path]) -> Figures:
    """Measure one size on a cluster of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="powertrain-scale-") as folder,
        ControlPlane(programs, Path(folder) / "cluster", logs=Path(folder)) as cluster,
        Measurement(cluster.kubeconfig, size, Path(folder), cluster.environment()) as measurement,
    ):
        return measurement.measure(dict(processes(cluster.children)))


def main() -> int:
    """Measure every size, print tables, write JSON and the curve; 1 if a promise is broken."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", default="20,50,100,200")
    options.add_argument("--jobs-per-node", type=float, default=2.5)
    options.add_argument("--per-node-s", type=float, default=0.025, help="jobs per second and node")
    options.add_argument("--speed", type=float, default=4.0, help="how much faster than recorded the agents are")
    options.add_argument("--site-watts-per-node", type=float)
    options.add_argument("--out", type=Path)
    options.add_argument("--svg", type=Path)
    options.add_argument("--page", type=Path, help="a page whose generated blocks are renewed")
    given = options.parse_args()
    with for_stream() as progress:
        programs = binaries.resolve(binaries.CONTROL_PLANE, progress)
    watts = given.site_watts_per_node
    sizes = [
        Size(
            nodes,
            round(nodes * given.jobs_per_node),
            nodes * given.per_node_s,
            speed=given.speed,
            site_watts=None if watts is None else watts * nodes,
        )
        for nodes in map(int, given.nodes.split(","))
    ]
    found, unfinished = measured(sizes, programs)
    broken = [*missed(found), *unfinished]
    if found:
        print("\n\n".join(block() for block in blocks(found, broken).values()))
    print("\n".join(f"missed: {words}" for words in broken))
    write(found, broken, given.out, given.svg, given.page)
    return int(bool(broken))


def measured(sizes: Sequence[Size], programs: dict[str, Path]) -> tuple[list[Figures], list[str]]:
    """Return the figures of the sizes up to the first that was not finished, and which that was."""
    found: list[Figures] = []
    for size in sizes:
        try:
            found.append(run(size, programs))
        except UnfinishedError as error:
            return found, [f"{size.nodes} nodes: {error}"]  # more nodes would not do better
        print(f"{size.nodes} nodes: {found[-1].seconds:.0f} s", file=sys.stderr, flush=True)
    return found, []


if __name__ == "__main__":
    sys.exit(main())
