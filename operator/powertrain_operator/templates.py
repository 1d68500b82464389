"""Reads a pod template as anybody may have written it: returns one that can be built on, or names the wrong field."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]


class TemplateError(ValueError):
    """A template can't be used; the words name the field by its path."""


@dataclass(frozen=True)
class Reserved:
    """Names that the operator itself gives in a pod, and that a template therefore can't use."""

    volumes: frozenset[str]
    containers: frozenset[str]
    variables: frozenset[str]


def read(template: Any, reserved: Reserved) -> Object:
    """Return a copy of a template in which every field that the operator reads or adds to has the right shape.

    Fields that are null are left out: for the API server they mean the same. What the operator does not touch is the
    API server's to judge.
    """
    whole = _object(_without_nulls(template), "")
    metadata, spec = _object(whole.get("metadata", {}), "metadata"), _object(whole.get("spec", {}), "spec")
    for path, map_ in (
        ("metadata.labels", metadata.get("labels", {})),
        ("spec.nodeSelector", spec.get("nodeSelector")),
    ):
        _strings(map_ or {}, path)
    _objects(spec.get("tolerations", []), "spec.tolerations")
    _affinity(_object(spec.get("affinity", {}), "spec.affinity"))
    for index, volume in enumerate(_objects(spec.get("volumes", []), "spec.volumes")):
        _free(volume.get("name"), reserved.volumes, f"spec.volumes[{index}].name")
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(_objects(spec.get(kind, []), f"spec.{kind}")):
            _container(container, f"spec.{kind}[{index}]", reserved)
    return whole


def _container(container: Object, path: str, reserved: Reserved) -> None:
    _free(container.get("name"), reserved.containers, f"{path}.name")
    for index, variable in enumerate(_objects(container.get("env", []), f"{path}.env")):
        name = f"{path}.env[{index}].name"
        if not isinstance(variable.get("name"), str):
            raise TemplateError(f"{name}: every variable needs a name, a string; found {_quoted(variable.get('name'))}")
        if not isinstance(variable.get("value", ""), str):
            words = f"a variable's value is a string: put it in quotes; found {_quoted(variable['value'])}"
            raise TemplateError(f"{path}.env[{index}].value: {words}")
        _free(variable["name"], reserved.variables, name)
    for kind in ("volumeMounts", "volumeDevices"):
        for index, mount in enumerate(_objects(container.get(kind, []), f"{path}.{kind}")):
            _free(mount.get("name"), reserved.volumes, f"{path}.{kind}[{index}].name")


def _affinity(affinity: Object) -> None:
    path = "spec.affinity.nodeAffinity"
    node = _object(affinity.get("nodeAffinity", {}), path)
    path += ".requiredDuringSchedulingIgnoredDuringExecution"
    required = _object(node.get("requiredDuringSchedulingIgnoredDuringExecution", {}), path)
    path += ".nodeSelectorTerms"
    for index, term in enumerate(_objects(required.get("nodeSelectorTerms", []), path)):
        for field in ("matchFields", "matchExpressions"):
            _objects(term.get(field, []), f"{path}[{index}].{field}")


def _free(name: Any, reserved: Iterable[str], path: str) -> None:
    if isinstance(name, str) and name in reserved:
        raise TemplateError(f"{path}: {name} is a name that PowerTrain gives itself: write another one")


def _object(value: Any, path: str) -> Object:
    if not isinstance(value, dict):
        raise TemplateError(f"{path or 'the template'}: must be an object; found {_quoted(value)}")
    return value


def _objects(value: Any, path: str) -> list[Object]:
    if not isinstance(value, list):
        raise TemplateError(f"{path}: must be a list; found {_quoted(value)}")
    return [_object(each, f"{path}[{index}]") for index, each in enumerate(value)]


def _strings(value: Any, path: str) -> None:
    for name, each in _object(value, path).items():
        if not isinstance(each, str):
            raise TemplateError(f"{path}[{name[:64]!r}]: must be a string: put it in quotes; found {_quoted(each)}")


def _quoted(value: Any) -> str:
    """Return what was found in place of the right thing, in a few words."""
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return repr(value)[:64]


def _without_nulls(value: Any) -> Any:
    """Return a copy without fields that are null; bounds.MAX_DEPTH bounds how deep it goes."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
