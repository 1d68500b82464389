"""Structural schemas: turns the models into what the API server understands (no references, no unions, CEL rules)."""

from __future__ import annotations

from typing import Any

from powertrain.api.base import GROUP, VERSION
from powertrain.api.resources import Column, Resource

Schema = dict[str, Any]
RULES = "x-kubernetes-validations"
LIST_TYPE = "x-kubernetes-list-type"
LIST_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
ANYTHING = "x-kubernetes-preserve-unknown-fields"
_KEPT_KEYS = (
    "description",
    "type",
    "format",
    "pattern",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "maxItems",
    "minItems",
    "maxProperties",
    ANYTHING,
    RULES,
    LIST_TYPE,
    LIST_KEYS,
)


def crd(resource: Resource) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind."""
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        **({"subresources": {"status": {}}} if resource.has_status_apart else {}),
        "additionalPrinterColumns": [_column(column) for column in resource.columns],
        "schema": {"openAPIV3Schema": object_schema(resource)},
    }
    names = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
        "shortNames": [resource.short_name],
        "categories": list(resource.categories),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.crd_name},
        "spec": {"group": GROUP, "names": names, "scope": resource.scope, "versions": [version]},
    }


def object_schema(resource: Resource) -> Schema:
    """Return the schema of a whole object; the server itself knows what metadata is."""
    raw = resource.model.model_json_schema(by_alias=True, mode="validation")
    properties: dict[str, Schema] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    for part in ("spec", "status"):
        # What a user leaves out is filled in; what an agent leaves out it does not know.
        whole_part = _structural(raw["properties"][part], raw["$defs"], defaults=part == "spec")
        one_writer = part == "status" or resource.spec_has_one_writer
        properties[part] = _owned_as_a_whole(whole_part) if one_writer else whole_part
    whole = {"type": "object", "description": raw["description"], "properties": properties}
    whole["required"] = [part for part in raw.get("required", []) if part in properties]
    return {key: value for key, value in (whole | {RULES: raw.get(RULES)}).items() if value}


def _owned_as_a_whole(part: Schema) -> Schema:
    """Return a part of an object that has one writer; nobody needs to know who owns what within it.

    The server would keep a list of owned fields that is half as large as the object, and merge it with every write.
    """
    return {**part, MAP_TYPE: "atomic"} if "properties" in part else part


def _structural(raw: Schema, definitions: dict[str, Schema], *, defaults: bool) -> Schema:
    """Return one schema without references, unions and what else the API server does not take."""
    merged = _merged(raw, definitions)
    result = {key: merged[key] for key in _KEPT_KEYS if key in merged}
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if bound in merged:
            result |= {limit: merged[bound], bound: True}
    if merged.get("type") == "integer":
        result["format"] = "int64"
    if defaults and isinstance(merged.get("default"), str | int | float | bool):
        result["default"] = merged["default"]
    if "items" in merged:
        result["items"] = _structural(merged["items"], definitions, defaults=defaults)
        result.setdefault(LIST_TYPE, "atomic")
    if isinstance(merged.get("additionalProperties"), dict):
        result["additionalProperties"] = _structural(merged["additionalProperties"], definitions, defaults=defaults)
    if "properties" in merged:
        inner = merged["properties"].items()
        result["properties"] = {name: _structural(part, definitions, defaults=defaults) for name, part in inner}
        if "required" in merged:
            result["required"] = sorted(merged["required"])
    return result


def _merged(raw: Schema, definitions: dict[str, Schema]) -> Schema:
    """Return a schema with its reference, or the one option that is not null, laid under its own words."""
    options = [option for option in raw.get("anyOf", []) if option.get("type") != "null"]
    if len(options) > 1:
        raise ValueError(f"a union of {len(options)} types has no structural schema: {raw}")
    under = raw if "$ref" in raw else (options[0] if options else {})
    if "$ref" in under:
        under = definitions[under["$ref"].rpartition("/")[2]]
    return {**under, **raw}


def _column(column: Column) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        entry["description"] = column.description
    if not column.always:
        entry["priority"] = 1
    return entry
