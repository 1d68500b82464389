"""Credentials: how to reach the API server and who we are there, from a kubeconfig or from a pod's own files."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def credentials(kubeconfig: Path | None) -> Any:
    """Return the settings of a kubeconfig, or those that a pod finds in its own file system."""
    from kubernetes import client, config  # slow to import, and a standalone agent does without

    settings = client.Configuration()
    if kubeconfig is None:
        config.load_incluster_config(client_configuration=settings)
    else:
        config.load_kube_config(config_file=str(kubeconfig), client_configuration=settings)
    return settings


def authorization(settings: Any) -> str:
    """Return the header's value with the token, read again by the library where it is time; empty with certificates."""
    parts = settings.auth_settings().values()
    return next((str(part["value"]) for part in parts if part["in"] == "header" and part["value"]), "")
