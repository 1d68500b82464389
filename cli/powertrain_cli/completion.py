"""What the shell completes: boards, strategies, and the jobs and nodes of the cluster at hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from powertrain.api.resources import Resource

# A shell waits for this while somebody types.
CLUSTER_ANSWER_S = 2.0


def devices(incomplete: str) -> list[str]:
    """Return the boards of the catalogue that a half-typed name can become."""
    from powertrain import devices as catalogue

    return _starting(incomplete, catalogue.names())


def targets(incomplete: str) -> list[str]:
    """Return what `tune --device` takes: this board, or a simulated one."""
    from powertrain import devices as catalogue

    return _starting(incomplete, ["local", *(f"sim:{name}" for name in catalogue.names())])


def strategies(incomplete: str) -> list[str]:
    """Return the strategies that a half-typed name can become."""
    from powertrain.strategies import names

    return _starting(incomplete, names())


def jobs(incomplete: str) -> list[str]:
    """Return the TrainingJobs of the context's namespace."""
    from powertrain.api.resources import TRAINING_JOBS

    return _starting(incomplete, _names(TRAINING_JOBS, namespaced=True))


def nodes(incomplete: str) -> list[str]:
    """Return the nodes with a board."""
    from powertrain.api.resources import POWER_NODES

    return _starting(incomplete, _names(POWER_NODES, namespaced=False))


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _names(resource: Resource, namespaced: bool) -> list[str]:
    """Return the names in the cluster of the default kubeconfig; nothing where there is none, or no quick answer."""
    from powertrain_cli.jobs.connection import connected

    try:
        with connected(None, None, CLUSTER_ANSWER_S) as cluster:
            objects = cluster.list(resource, cluster.namespace if namespaced else "")
        return sorted(str(each["metadata"]["name"]) for each in objects)
    except Exception:  # whatever is wrong with the cluster, a shell must not show it in the middle of a line
        return []
