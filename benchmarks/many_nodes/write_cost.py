"""What one write of a full PowerNode costs the API server: CPU and time of an agent's status and of an envelope.

    python -m benchmarks.many_nodes.write_cost [--writes 300]

A control plane of its own, one client, one write after the other. Bodies are those of the recording, with its profile
as prior and result; each write brings new figures, as an agent's does.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.sampling import cpu_s

from powertrain.api.base import API_VERSION
from powertrain.api.power_node import KIND
from powertrain.api.resources import POWER_NODES
from powertrain_agent.link.api import FIELD_MANAGER
from powertrain_devcluster.builds import binaries
from powertrain_devcluster.builds.progress import for_stream
from powertrain_devcluster.connection import connect
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.fleet import install_kinds
from powertrain_kube import KubeApi
from powertrain_kube.credentials import credentials
from powertrain_operator.plan import ENVELOPE_MANAGER

from .nodes import LEASES, node_lease
from .recording import Recording, envelope, load

Object = dict[str, Any]
NAME = "orin-agx-0000"
START_S = 120.0


class Node:
    """One PowerNode in the middle of a session, and the writes that are made to it."""

    def __init__(self, api: KubeApi, recording: Recording) -> None:
        self._api, self._steps = api, 0
        session: Object = {}
        for cause in ("envelope", "generation", "training"):
            for write in recording.writes[cause]:
                session = {**session, **{k: v for k, v in write.session.items() if v is not None}}
        self._status = {**recording.status, "session": session}
        profile = recording.profile
        self._prior = {"match": "Exact", "samples": profile["samples"]}

    def envelope(self) -> Object:
        """Write an envelope of the next generation."""
        self._steps += 1
        spec = {"session": envelope(30.0, self._steps, ("pod-1",), self._prior)}
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": NAME}, "spec": spec}
        return self._api.apply(POWER_NODES.path(NAME), body, manager=ENVELOPE_MANAGER)

    def status(self) -> Object:
        """Write the agent's status with new figures."""
        self._steps += 1
        training = {"steps": self._steps, "samples": 16 * self._steps}
        status = {**self._status, "session": {**self._status["session"], "training": training}}
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": NAME}, "status": status}
        return self._api.apply(POWER_NODES.path(NAME, subresource="status"), body)

    def figures(self) -> Object:
        """Write only what is new of the agent's status: what could be saved if it did."""
        self._steps += 1
        body = {"status": {"session": {"training": {"steps": self._steps, "samples": 16 * self._steps}}}}
        return self._api.merge_patch(POWER_NODES.path(NAME, subresource="status"), body)

    def lease(self) -> Object:
        """Renew a kubelet's Lease: the smallest write, to compare with."""
        return self._api.merge_patch(f"{LEASES}/{NAME}", {"spec": node_lease(NAME)["spec"]})


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--writes", type=int, default=300)
    arguments = options.parse_args()
    with for_stream() as progress:
        programs = binaries.resolve(binaries.CONTROL_PLANE, progress)
    with (
        tempfile.TemporaryDirectory(prefix="powertrain-writes-") as folder,
        ControlPlane(programs, Path(folder) / "cluster", logs=Path(folder)) as cluster,
    ):
        rest = connect(cluster.kubeconfig)
        install_kinds(rest, START_S)
        rest.create(LEASES, node_lease(NAME))
        rest.close()
        node = Node(KubeApi(lambda: credentials(cluster.kubeconfig), FIELD_MANAGER), load()["orin-agx"])
        servers = {
            child.name: child.popen.pid for child in cluster.children if child.name in ("etcd", "kube-apiserver")
        }
        print("| write | KiB stored | of that managedFields | ms | API server's CPU ms | etcd's CPU ms |")
        print("|---|---|---|---|---|---|")
        for name in ("lease", "envelope", "status", "figures"):
            measure(name, getattr(node, name), arguments.writes, servers)


def measure(name: str, write: Callable[[], Object], writes: int, servers: dict[str, int]) -> None:
    """Print one row."""
    for _ in range(20):
        write()
    began_s, before_s = time.monotonic(), {each: cpu_s(pid) for each, pid in servers.items()}
    for _ in range(writes):
        answer = write()
    ms = 1e3 * (time.monotonic() - began_s) / writes
    cpu_ms = {each: 1e3 * (cpu_s(pid) - before_s[each]) / writes for each, pid in servers.items()}
    kib = len(json.dumps(answer)) / 1024
    managed_kib = len(json.dumps(answer["metadata"].get("managedFields", []))) / 1024
    cells = [f"{value:.1f}" for value in (kib, managed_kib, ms, cpu_ms["kube-apiserver"], cpu_ms["etcd"])]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
