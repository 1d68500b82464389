"""The benchmark with many nodes, with two: replayed agents bring real jobs to their end, and the figures are whole."""

from __future__ import annotations

from pathlib import Path

from benchmarks.many_nodes.measurement import Measurement, Size, processes

from powertrain_devcluster.controlplane.control_plane import ControlPlane


def test_two_jobs_on_two_replayed_boards_are_measured(cluster_binaries: dict[str, Path], tmp_path: Path) -> None:
    size = Size(nodes=2, jobs=2, per_s=2.0, job_s=1.0, speed=10.0)
    with (
        ControlPlane(cluster_binaries, tmp_path / "cluster", logs=tmp_path) as cluster,
        Measurement(cluster.kubeconfig, size, tmp_path, cluster.environment()) as measurement,
    ):
        figures = measurement.measure(dict(processes(cluster.children)), idle_s=0.0)
    assert (figures.jobs_with_free_node, figures.unseen_decisions, figures.errors) == (2, 0, 0.0)
    assert figures.writes_per_job["Job create"] == 1.0
    assert figures.replayed_writes["Pod by kubelets"] == 6
    assert figures.cpu_s_per_job > 0.0
