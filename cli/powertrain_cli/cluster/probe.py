"""Asks an API server whether it is ready, by somebody's kubeconfig."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Any

from powertrain_cli.cluster.errors import BadInputError, ClusterError

_TIMEOUT_S = 5


def client(path: Path) -> Any:
    """An API client of this kubeconfig; one line when the file cannot be used."""
    from kubernetes import config  # slow to import, and most verbs do without

    try:
        return config.new_client_from_config(str(path))
    except Exception as error:  # the library raises many kinds, also for bad base64 and missing files
        raise BadInputError(f"kubeconfig {path}: {_first_line(error)}") from error


def version(path: Path, server: str) -> str:
    """The server's version."""
    from kubernetes.client import VersionApi
    from kubernetes.client.exceptions import ApiException

    api = client(path)
    api.configuration.retries = False
    try:
        return str(VersionApi(api).get_code(_request_timeout=_TIMEOUT_S).git_version)
    except ApiException as error:
        raise ClusterError(f"kubeconfig {path}: {server} refuses these credentials ({error.status})") from error
    except Exception as error:
        raise ClusterError(f"kubeconfig {path}: no answer from {server} ({_first_line(error)})") from error
    finally:
        api.close()


def ready(path: Path) -> bool:
    """Whether /readyz says ok."""
    from powertrain_cli.cluster.rest import Rest

    if not path.is_file():
        return False
    rest = Rest(path)
    try:
        return rest.status("/readyz") == HTTPStatus.OK
    except Exception:
        return False
    finally:
        rest.close()


def _first_line(error: Exception) -> str:
    text = str(getattr(error, "reason", None) or error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
