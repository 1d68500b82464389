"""Asks an API server for its version and whether it is ready, by somebody's kubeconfig."""

from __future__ import annotations

from pathlib import Path

from powertrain_devcluster.connection import connect
from powertrain_devcluster.errors import ClusterError, first_line
from powertrain_kube import ApiError, AwayError


def version(path: Path, server: str) -> str:
    """The server's version."""
    kube = connect(path)
    try:
        return str(kube.get("/version")["gitVersion"])
    except AwayError as error:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        raise ClusterError(f"kubeconfig {path}: no answer from {server} ({first_line(cause)})") from error
    except ApiError as error:
        raise ClusterError(f"kubeconfig {path}: {server} refuses these credentials ({error.status})") from error
    finally:
        kube.close()


def ready(path: Path) -> bool:
    """Whether /readyz says ok."""
    if not path.is_file():
        return False
    try:
        kube = connect(path)
    except ClusterError:
        return False
    try:
        return kube.text("/readyz") == "ok"
    except ApiError:
        return False
    finally:
        kube.close()
