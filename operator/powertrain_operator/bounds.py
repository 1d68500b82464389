"""What of an object that tenants write is kept: no more, and nested no deeper, than the operator can use."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Object = dict[str, Any]
Path = tuple[str, ...]

MAX_TEMPLATE_BYTES = 64 * 1024
# The deepest field of a PodTemplateSpec lies 12 levels deep.
MAX_DEPTH = 32
# Labels, annotations, owners and finalizers, each; Kubernetes bounds the annotations alone, at 256 KiB.
MAX_METADATA_BYTES = 16 * 1024
_METADATA = ("labels", "annotations", "ownerReferences", "finalizers")
_OURS = ("powertrain.io/", "batch.kubernetes.io/")


class Excess(NamedTuple):
    """Why a part of an object was not kept: a condition's reason, and words for whoever wrote the object."""

    reason: str
    message: str


def excess(path: Path, value: Any, most_bytes: int) -> Excess | None:
    """Return why a part of an object is not kept, None if it is."""
    name = ".".join(path[1:])  # as users write it, without spec or metadata
    try:
        size = len(json.dumps(value).encode())
    except RecursionError:
        return _too_deep(name)
    if size > most_bytes:
        reason = "TemplateTooLarge" if path[-1] == "template" else "SpecTooLarge"
        return Excess(reason, f"{name} has {size} bytes, at most {most_bytes} are kept: move data to a ConfigMap")
    return _too_deep(name) if deeper_than(value, MAX_DEPTH) else None


def _too_deep(name: str) -> Excess:
    reason = "InvalidTemplate" if name.endswith("template") else "SpecTooLarge"
    return Excess(reason, f"{name} is nested more than {MAX_DEPTH} levels deep: no field of a pod is")


def deeper_than(value: Any, most: int) -> bool:
    """Say whether lists and objects are nested in more than so many levels."""
    level = [value]
    for _ in range(most + 1):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def bounded_metadata(metadata: Object) -> Excess | None:
    """Drop what is too large of an object's metadata; returns why, if that was something that the object needs."""
    large = [name for name in _METADATA if metadata.get(name) and len(json.dumps(metadata[name])) > MAX_METADATA_BYTES]
    for name in large:
        metadata[name] = _ours(metadata[name])
    if "labels" not in large:
        return None
    return Excess("SpecTooLarge", f"metadata.labels has more than {MAX_METADATA_BYTES} bytes: remove some")


def _ours(entries: Any) -> Any:
    """Return what the operator itself looks for among labels, annotations, owners or finalizers."""
    if isinstance(entries, Mapping):
        return {name: value for name, value in entries.items() if name.startswith(_OURS) and len(value) < 1024}
    if all(isinstance(entry, str) for entry in entries):
        return [entry for entry in entries if entry.startswith(_OURS)][:1]
    return [entry for entry in entries if entry.get("controller")]
