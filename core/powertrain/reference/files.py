"""The arrays of a reference as files: npz for the physics, safetensors for the networks; no pickle anywhere."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from powertrain.networks import NetworkPair
from powertrain.physics import PhysicsReference
from powertrain.reference.card import ReferenceError

PHYSICS_FILE = "physics.npz"
NETWORK_FILE = "network.safetensors"
CHECKSUM = "sha256"
MISSING_SAFETENSORS = "reading and writing networks needs safetensors: pip install '.[nn]' in a checkout"

Arrays = Mapping[str, NDArray[np.generic]]


def write_physics(path: Path, physics: PhysicsReference) -> None:
    """Write the fitted physics."""
    with path.open("wb") as stream:
        np.savez_compressed(stream, **physics.to_arrays())  # type: ignore[arg-type]


def read_physics(path: Path) -> PhysicsReference:
    """Read the fitted physics."""
    try:
        # Opened here because numpy leaves a damaged file open.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            values = {name: arrays[name] for name in arrays.files}
    except FileNotFoundError:
        raise ReferenceError(f"{path}: is missing; train the reference again") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ReferenceError(f"{path}: is damaged ({error}); train the reference again") from None
    try:
        return PhysicsReference.from_arrays(values)
    except ValueError as error:
        raise ReferenceError(
            f"{path}: was made by another version of powertrain ({error}); train the reference again"
        ) from None


def write_network(path: Path, pair: NetworkPair) -> None:
    """Write both networks, atomically, with a checksum of their arrays."""
    try:
        from safetensors.numpy import save
    except ImportError:
        raise ReferenceError(MISSING_SAFETENSORS) from None
    arrays = {name: np.ascontiguousarray(values) for name, values in pair.to_arrays().items()}
    data = save(arrays, metadata={CHECKSUM: _checksum(arrays)})
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as stream:
        stream.write(data)
    temporary = Path(stream.name)
    temporary.chmod(0o644)
    temporary.replace(path)


def read_network(path: Path) -> NetworkPair:
    """Read both networks and check that nothing in them changed."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ReferenceError(MISSING_SAFETENSORS) from None
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 — not a mapping
            expected = (file.metadata() or {}).get(CHECKSUM)
        if expected != _checksum(arrays):
            raise ValueError("its checksum does not match its content")
        return NetworkPair.from_arrays(arrays)
    except FileNotFoundError:
        raise ReferenceError(f"{path}: is missing; train the reference again") from None
    except (OSError, ValueError, SafetensorError) as error:
        raise ReferenceError(f"{path}: is damaged ({error}); train the reference again") from None


def _checksum(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()
