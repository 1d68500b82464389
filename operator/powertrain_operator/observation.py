"""Sighting: one object as it was seen, light enough to be kept by the hundred."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any, NamedTuple

from powertrain_kube import Object
from powertrain_operator.bounds import Excess, Path, bounded_metadata, excess
from powertrain_operator.resources import ResourceType

# kubectl's copy of what was applied, as large as the object itself.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Key(NamedTuple):
    """Names one object; the namespace is empty for kinds without one."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {where}"


@dataclass(frozen=True)
class Observation:
    """`brief` is the object without its heavy parts; whoever needs those asks for the whole.

    `excess` says why a part of what tenants wrote was not kept; that part is an empty object.
    """

    key: Key
    version: int
    brief: Object
    heavy: bytes = b""
    excess: Excess | None = None
    # How much JSON of a tenant's is in the heavy parts; as Python objects it may take 25 times as much.
    tenant_bytes: int = 0

    @property
    def uid(self) -> str:
        """Return which object of that name it is."""
        return str(self.brief["metadata"].get("uid", ""))

    def whole(self) -> Object:
        """Return the object with its heavy parts."""
        if not self.heavy:
            return self.brief
        body = self.brief
        for path, value in json.loads(zlib.decompress(self.heavy)):
            body = _with(body, tuple(path), value)
        return body


def observation_of(kind: ResourceType, body: Object) -> Observation:
    """Take an object as the API server sent it; the dictionary is taken apart, so nobody else may use it."""
    metadata = body["metadata"]
    metadata.pop("managedFields", None)
    (metadata.get("annotations") or {}).pop(LAST_APPLIED, None)
    # Objects out of a list don't say what they are.
    body = {"apiVersion": kind.api_version, "kind": kind.name} | (_only(body, kind.keep) if kind.keep else body)
    problem = _bounded(kind, body)
    heavy = [(path, value) for path in kind.heavy if (value := _pop(body, path)) is not None]
    packed = json.dumps(heavy, separators=(",", ":")).encode() if heavy else b""
    return Observation(
        Key(kind.name, metadata.get("namespace", "") if kind.namespaced else "", metadata["name"]),
        version_of(body),
        body,
        zlib.compress(packed, 1) if heavy else b"",
        problem,
        len(packed) if kind.by_tenants else 0,
    )


def _bounded(kind: ResourceType, body: Object) -> Excess | None:
    """Drop what is too large, or nested too deeply, of what tenants write; returns why."""
    if not kind.by_tenants:
        return None
    bounded_parts = [bounded_metadata(body["metadata"])]
    for path, most_bytes in kind.bounded.items():
        value = _at(body, path)
        problem = None if value is None else excess(path, value, most_bytes)
        if problem is not None:
            _at(body, path[:-1])[path[-1]] = {}
        bounded_parts.append(problem)
    return next((problem for problem in bounded_parts if problem is not None), None)


def version_of(body: Object) -> int:
    """Return an object's or a list's version; all that the API server stores count up."""
    version = (body.get("metadata") or {}).get("resourceVersion", "")
    return int(version) if str(version).isdigit() else 0


def _only(body: Object, paths: tuple[Path, ...]) -> Object:
    selected: Object = {}
    for path in paths:
        value = _at(body, path)
        if value is not None:
            selected = _with(selected, path, value)
    return selected


def _at(body: Object, path: Path) -> Any:
    value: Any = body
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _with(body: Object, path: Path, value: Any) -> Object:
    """Return the object with a value at a path; what is on the way is copied, the rest is shared."""
    first, *rest = path
    inner = _with(body.get(first) or {}, tuple(rest), value) if rest else value
    return {**body, first: inner}


def _pop(body: Object, path: Path) -> Any:
    *way, last = path
    inner: Any = body
    for step in way:
        inner = inner.get(step)
        if not isinstance(inner, dict):
            return None
    return inner.pop(last, None)
