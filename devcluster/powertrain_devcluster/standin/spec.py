"""Turns a container of a pod into a local command line: its arguments, environment and paths. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
TERMINATION_PATH = "/dev/termination-log"
_REFERENCE = re.compile(r"\$(\$)?\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class CannotStartError(Exception):
    """The container cannot be started as it is written; the reason is one that a kubelet would give."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Addresses:
    """Where a pod and its node can be reached."""

    pod: str
    host: str


def field_ref(pod: Object, path: str, addresses: Addresses) -> str:
    """The value of a downward API field."""
    metadata, spec = pod["metadata"], pod["spec"]
    simple: dict[str, str] = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.podIP": addresses.pod,
        "status.podIPs": addresses.pod,
        "status.hostIP": addresses.host,
        "status.hostIPs": addresses.host,
    }
    if path in simple:
        return simple[path]
    if match := _SUBSCRIPT.fullmatch(path):
        values: Mapping[str, str] = metadata.get(match.group(1)) or {}
        return values.get(match.group(2), "")
    raise CannotStartError("CreateContainerConfigError", f"fieldPath {path!r} is not one of: {', '.join(simple)}")


def _expand(text: str, values: Mapping[str, str]) -> str:
    """`$(NAME)` becomes the variable's value, `$$(NAME)` the text itself, an unknown name stays."""

    def one(match: re.Match[str]) -> str:
        if match.group(1):
            return match.group(0)[1:]
        return values.get(match.group(2), match.group(0))

    return _REFERENCE.sub(one, text)


def rewrite_paths(text: str, mounts: Mapping[str, str]) -> str:
    """Replace each mount path, where it stands as a path of its own, by the folder that backs it."""
    if not mounts:
        return text
    longest_first = sorted((path.rstrip("/") or "/" for path in mounts), key=len, reverse=True)
    choices = "|".join(re.escape(path) for path in longest_first)
    # A path starts where no path character stands before it, and ends at a slash or where none follows.
    pattern = re.compile(rf"(?<![\w./-])({choices})(?=/|$|[^\w.-])")
    targets = {path.rstrip("/") or "/": target for path, target in mounts.items()}
    return pattern.sub(lambda match: targets[match.group(1)], text)


@dataclass(frozen=True)
class Sources:
    """Where values come from: objects of the cluster, and what the stand-in knows about images."""

    config_map: Callable[[str], Mapping[str, str]]
    secret: Callable[[str], Mapping[str, str]]
    entrypoints: Mapping[str, Sequence[str]]


def _value_from(source: Object, pod: Object, container: Object, addresses: Addresses, sources: Sources) -> str | None:
    if "fieldRef" in source:
        return field_ref(pod, source["fieldRef"]["fieldPath"], addresses)
    if "resourceFieldRef" in source:
        kind, _, name = source["resourceFieldRef"]["resource"].partition(".")
        return str(((container.get("resources") or {}).get(kind) or {}).get(name, "0"))
    for key, lookup in (("configMapKeyRef", sources.config_map), ("secretKeyRef", sources.secret)):
        if key in source:
            reference = source[key]
            values = lookup(reference["name"])
            if reference["key"] in values:
                return values[reference["key"]]
            if reference.get("optional"):
                return None
            message = f"couldn't find key {reference['key']} in {key.removesuffix('KeyRef')} {reference['name']}"
            raise CannotStartError("CreateContainerConfigError", message)
    raise CannotStartError("CreateContainerConfigError", f"valueFrom of kind {', '.join(source)} is not supported")


def environment(pod: Object, container: Object, addresses: Addresses, sources: Sources) -> dict[str, str]:
    """The variables that the pod asks for, in order, so that later ones may refer to earlier ones."""
    values: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        lookup = sources.config_map if "configMapRef" in source else sources.secret
        reference = source.get("configMapRef") or source.get("secretRef") or {}
        prefix = source.get("prefix", "")
        values |= {prefix + key: value for key, value in lookup(reference["name"]).items()}
    for variable in container.get("env") or []:
        if "valueFrom" in variable:
            value = _value_from(variable["valueFrom"], pod, container, addresses, sources)
        else:
            value = _expand(variable.get("value") or "", values)
        if value is not None:
            values[variable["name"]] = value
    return values


def image_name(image: str) -> str:
    """The last part of an image's name without tag or digest."""
    return image.split("@", 1)[0].rsplit("/", 1)[-1].split(":", 1)[0]


def arguments(container: Object, values: Mapping[str, str], entrypoints: Mapping[str, Sequence[str]]) -> list[str]:
    """The command line: the container's command, or what its image is known to start."""
    command = container.get("command") or entrypoints.get(image_name(container.get("image", "")))
    if not command:
        choices = ", ".join(sorted(entrypoints)) or "none"
        message = f"image {container.get('image')!r} has no local command: set `command`, or use one of: {choices}"
        raise CannotStartError("ErrImageNeverPull", message)
    return [_expand(part, values) for part in [*command, *(container.get("args") or [])]]
