"""Where the cluster verbs keep things: the cache, the state of running clusters and the sources of a checkout."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from powertrain_devcluster.errors import BadInputError, MissingToolError

DEFAULT_NAME = "powertrain"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


def cache_dir(env: Mapping[str, str] = os.environ) -> Path:
    """What is dear to make and safe to delete: built binaries, unpacked packages, images."""
    base = env.get("XDG_CACHE_HOME") or str(Path(env.get("HOME", "~")).expanduser() / ".cache")
    return Path(base) / "powertrain"


def clusters_dir(env: Mapping[str, str] = os.environ) -> Path:
    """One folder per running cluster; empty or absent when none runs."""
    base = env.get("XDG_STATE_HOME") or str(Path(env.get("HOME", "~")).expanduser() / ".local" / "state")
    return Path(base) / "powertrain" / "clusters"


def cluster_dir(name: str, env: Mapping[str, str] = os.environ) -> Path:
    """The folder of the cluster of that name; a name that cannot be a folder and a host label is refused."""
    if not _NAME.fullmatch(name):
        raise BadInputError(f"cluster name {name!r} is not 1-32 lower-case letters, digits and inner dashes")
    return clusters_dir(env) / name


def source_root() -> Path:
    """The checkout that holds hack/controlplane and images."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "hack" / "controlplane" / "go.mod").is_file():
        raise MissingToolError(
            "the sources of the control plane (hack/controlplane) are not beside this installation: "
            "install from a checkout (pip install -e), or point KUBEBUILDER_ASSETS at ready binaries"
        )
    return root
