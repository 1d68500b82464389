"""Structural schemas: turns the models into what the API server understands (no references, no unions, CEL rules)."""

from __future__ import annotations

from typing import Any

from powertrain.api.base import GROUP, VERSION
from powertrain.api.resources import Column, Resource

Schema = dict[str, Any]
RULES = "x-kubernetes-validations"
LIST_TYPE = "x-kubernetes-list-type"
LIST_KEYS = "x-kubernetes-list-map-keys"
_KEPT = (
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
        "subresources": {"status": {}},
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
        properties[part] = _structural(raw["properties"][part], raw["$defs"], defaults=part == "spec")
    return {"type": "object", "description": raw["description"], "properties": properties}


def _structural(raw: Schema, definitions: dict[str, Schema], *, defaults: bool) -> Schema:
    """Return one schema without references, unions and what else the API server does not take."""
    merged = _merged(raw, definitions)
    result = {key: merged[key] for key in _KEPT if key in merged}
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if bound in merged:
            result |= {limit: merged[bound], bound: True}
    if merged.get("type") == "integer":
        result["format"] = "int64"
    if defaults and isinstance(merged.get("default"), str | int | float | bool):
        result["default"] = merged["default"]
    if "items" in merged:
        result["items"] = _item(merged["items"], definitions, defaults)
        result.setdefault(LIST_TYPE, "atomic")
    if "properties" in merged:
        inner = merged["properties"].items()
        result["properties"] = {name: _structural(part, definitions, defaults=defaults) for name, part in inner}
        if "required" in merged:
            result["required"] = sorted(merged["required"])
    return result


def _item(raw: Schema, definitions: dict[str, Schema], defaults: bool) -> Schema:
    """Return the schema of a list's items; only there null has a meaning of its own (a value that is not known)."""
    nullable = any(option.get("type") == "null" for option in raw.get("anyOf", []))
    item = _structural(raw, definitions, defaults=defaults)
    return {**item, "nullable": True} if nullable else item


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
