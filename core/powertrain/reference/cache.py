"""Keeps networks that were trained from a table on disk, so that repeated evaluations train them once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from powertrain.networks import RECIPE_VERSION, NetworkPair
from powertrain.reference.card import ReferenceError
from powertrain.reference.files import NETWORK_FILE, read_network, write_network


def default_directory() -> Path:
    """Return where references are cached: ${XDG_CACHE_HOME:-~/.cache}/powertrain/references."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "powertrain" / "references"


def cached_network(directory: Path, data_sha256: str, seed: int, train: Callable[[], NetworkPair]) -> NetworkPair:
    """Return the networks of this data and seed from the cache, or train and keep them; a damaged entry is replaced."""
    key = hashlib.sha256(f"{data_sha256} seed={seed} recipe={RECIPE_VERSION}".encode()).hexdigest()
    path = directory / key / NETWORK_FILE
    if path.exists():
        with suppress(ReferenceError):
            return read_network(path)
    pair = train()
    # A cache that can't be written costs time, not the result.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_network(path, pair)
    return pair
