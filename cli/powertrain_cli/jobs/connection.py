"""The way to the user's cluster, and its failures in one line: no cluster, no kinds, no permission."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from powertrain.api.resources import Resource
from powertrain_cli.errors import CliError, Exit
from powertrain_kube import ApiError, AwayError, ForbiddenError, KubeApi, NotFoundError, Object, credentials
from powertrain_kube.client import ANSWER_S

MANAGER = "powertrain-cli"

IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
KubeconfigOption = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="The cluster ($KUBECONFIG, ~/.kube/config).", show_default=False),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Where the job lives (the context's own).", show_default=False),
]


@dataclass(frozen=True)
class Connection:
    """A cluster and the namespace that is meant where none is named."""

    api: KubeApi
    namespace: str

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """Return one object; a missing one is the user's mistake, a missing kind the cluster's."""
        try:
            return self.api.get(resource.path(name, namespace))
        except NotFoundError:
            names = [each["metadata"]["name"] for each in self.list(resource, namespace)]
        where = f" in namespace {namespace!r}" if namespace else ""
        choices = f"there are: {', '.join(names[:20])}" if names else "there is none"
        raise CliError(f"no {resource.kind} {name!r}{where}; {choices}")

    def list(self, resource: Resource, namespace: str = "") -> list[Object]:
        """Return the objects of a kind of ours."""
        try:
            return list(self.api.list(resource.path(namespace=namespace), {})["items"])
        except NotFoundError:
            raise CliError(
                f"the cluster at {self.api.server} has no {resource.crd_name}: install PowerTrain there first "
                "(kubectl apply -f crds/, or the Helm chart)",
                Exit.ENVIRONMENT,
            ) from None


@contextmanager
def connected(kubeconfig: Path | None, namespace: str | None, answer_s: float = ANSWER_S) -> Iterator[Connection]:
    """Reach the cluster; whatever the API server refuses inside becomes one line with its exit code."""
    path, own = _find(kubeconfig)
    try:
        api = KubeApi(lambda: credentials(path), MANAGER, answer_s)
    except Exception as error:  # the library raises many kinds, also for files that can't be read
        raise CliError(
            f"{path or 'the pod'} can't be used as a kubeconfig: {_words(error)}", Exit.ENVIRONMENT
        ) from None
    try:
        yield Connection(api, namespace or own)
    except AwayError as error:
        raise CliError(
            f"no cluster answers at {api.server} (kubeconfig {path}): {_short(error)}; "
            "is it up? Name another one with --kubeconfig or $KUBECONFIG",
            Exit.ENVIRONMENT,
        ) from None
    except ForbiddenError as error:
        raise CliError(f"no permission: {error.words}", Exit.ENVIRONMENT) from None
    except ApiError as error:
        raise CliError(error.words) from None


def _find(kubeconfig: Path | None) -> tuple[Path | None, str]:
    """Return the kubeconfig to use and its context's namespace."""
    path = kubeconfig or Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube/config")
    if any(Path(part).is_file() for part in str(path).split(os.pathsep)):
        return path, _own_namespace(path)
    if kubeconfig is None and "KUBECONFIG" not in os.environ and IN_POD.is_file():
        return None, (IN_POD.parent / "namespace").read_text(encoding="utf-8").strip()
    raise CliError(
        f"no cluster: there is no kubeconfig {path}; name one with --kubeconfig or $KUBECONFIG, "
        "or start a cluster with simulated boards: make demo ARGS=--keep",
        Exit.ENVIRONMENT,
    )


def _own_namespace(path: Path) -> str:
    from kubernetes import config

    try:
        _, active = config.list_kube_config_contexts(config_file=str(path))
    except Exception as error:  # as above
        raise CliError(f"{path} can't be used as a kubeconfig: {_words(error)}", Exit.ENVIRONMENT) from None
    context: dict[str, Any] = active.get("context") or {}
    return str(context.get("namespace") or "default")


def _words(error: Exception) -> str:
    """Return the library's words in one line; of a file that holds only a text or a list it says nothing useful."""
    return "it holds no mapping" if isinstance(error, TypeError) else " ".join(str(error).split())


def _short(error: ApiError) -> str:
    """Return the heart of a network error: libraries wrap it many times."""
    return str(error).rpartition(": ")[2].strip("')\"") or str(error)
