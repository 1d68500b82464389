"""Kubeconfig files: written for a cluster of ours, checked for somebody else's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from powertrain_devcluster.controlplane.certificates import KeyPair
from powertrain_devcluster.errors import BadInputError


def render(name: str, server: str, ca: Path, user: dict[str, Any]) -> str:
    """A kubeconfig of one cluster and one user.

    It names the files of the cluster and holds none of them: of what it held, Python clients make copies in the
    temporary folder, keys too, and one that is killed leaves them there.
    """
    cluster = {"server": server, "certificate-authority": str(ca.absolute())}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return yaml.safe_dump(document, sort_keys=False)


def write(path: Path, name: str, server: str, ca: Path, pair: KeyPair) -> Path:
    """Write a kubeconfig for the holder of a client certificate, readable by its owner only."""
    user = {"client-certificate": str(pair.certificate.absolute()), "client-key": str(pair.key.absolute())}
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(render(name, server, ca, user))
    return path


def check(path: Path) -> str:
    """The server's address in somebody's kubeconfig; says in one line what is wrong with the file."""
    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise BadInputError(f"kubeconfig {path}: {(error.strerror or str(error)).lower()}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInputError(f"kubeconfig {path}: not YAML") from error
    if not isinstance(document, dict) or document.get("kind") != "Config":
        raise BadInputError(f"kubeconfig {path}: kind is not Config")
    current = document.get("current-context")
    contexts = {c.get("name"): c.get("context") or {} for c in document.get("contexts") or []}
    if current not in contexts:
        choices = ", ".join(str(name) for name in contexts) or "none"
        raise BadInputError(f"kubeconfig {path}: current-context {current!r} is not among its contexts: {choices}")
    clusters = {c.get("name"): c.get("cluster") or {} for c in document.get("clusters") or []}
    server = clusters.get(contexts[current].get("cluster"), {}).get("server")
    if not server:
        raise BadInputError(f"kubeconfig {path}: context {current!r} names no cluster with a server")
    return str(server)
