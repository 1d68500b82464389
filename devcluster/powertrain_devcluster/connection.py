"""Opens the way to a cluster's API server by a kubeconfig, and follows a resource from a version on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from powertrain_devcluster.errors import BadInputError, first_line
from powertrain_kube import KubeApi, Object, credentials

MANAGER = "powertrain-devcluster"
# How long a quiet watch blocks before its reader may look at something else.
QUIET_S = 20.0


def connect(kubeconfig: Path) -> KubeApi:
    """Return a client of this kubeconfig's server; one line when the file cannot be used."""
    try:
        return KubeApi(lambda: credentials(kubeconfig), MANAGER)
    except Exception as error:  # the library raises many kinds, also for bad base64 and missing files
        raise BadInputError(f"kubeconfig {kubeconfig}: {first_line(error)}") from error


def follow(kube: KubeApi, path: str, version: str) -> Iterator[Object]:
    """Return the events after `version` until it has been quiet for a moment; the caller goes on from the last one."""
    return kube.watch(path, {"resourceVersion": version, "allowWatchBookmarks": "true"}, QUIET_S)
