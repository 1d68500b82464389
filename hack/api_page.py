"""The reference page of the API, from the same schemas that the CRDs hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from powertrain.api.base import API_VERSION
from powertrain.api.resources import RESOURCES, Resource
from powertrain.api.schema import RULES, object_schema

HEAD = f"""# API reference

Group and version: `{API_VERSION}`. The API may change until v1beta1. Names carry their units (`…Watts`, `…Seconds`,
`…Hz`, `…KHz`); every field has one writer; a field that is absent is unknown or without limit. Whatever this page says
is checked by the API server itself: schema and rules lie in `crds/`, without webhooks. Only the numbers within a column
are checked by those who read them.

Times are RFC 3339. A power mode is written `<cores>c_<CPU kHz>_<GPU Hz>_<memory Hz>`, such as
`12c_2201600_1300500000_3199000000`. Samples and fronts are parallel columns, each a text with
its values parted by spaces (`-`: not known): the mode at place *i* has `axes.cores[cores[i]]` cores, a CPU clock of
`axes.cpuKHz[cpu[i]]`, and so on; its step time is `stepSeconds[i]`.
"""


def api_page() -> str:
    """Return the page."""
    return "\n".join([HEAD, *(line for resource in RESOURCES for line in _kind(resource))])


def _kind(resource: Resource) -> Iterator[str]:
    schema = object_schema(resource)
    scope = "Belongs to the cluster" if resource.scope == "Cluster" else "Belongs to a namespace"
    yield f"## {resource.kind}\n\n{schema['description']}\n"
    yield f"{scope}. `kubectl get {resource.plural}`, short `{resource.short_name}`.\n"
    yield "| column | shows | with |\n|---|---|---|"
    for column in resource.columns:
        yield f"| {column.name} | {column.description or 'Age.'} | {'always' if column.always else '`-o wide`'} |"
    yield ""
    for part in ("spec", "status"):
        yield from _table(f"{resource.kind}.{part}", schema["properties"][part])


def _table(path: str, schema: dict[str, Any]) -> Iterator[str]:
    """One object as a table of its fields, then the objects inside it."""
    yield f"### {path}\n\n{schema.get('description', '')}\n"
    for rule in schema.get(RULES, []):
        yield f"- Rule: {rule['message']}."
    if RULES in schema:
        yield ""
    yield "| field | type | default | meaning |\n|---|---|---|---|"
    inner: list[tuple[str, dict[str, Any]]] = []
    for name, field in schema["properties"].items():
        required = "**required**" if name in schema.get("required", []) else ""
        default = f"`{field['default']}`" if "default" in field else required
        yield f"| `{name}` | {_type(field)} | {default} | {_meaning(field)} |"
        item = field.get("items", field)
        if "properties" in item:
            inner.append((f"{path}.{name}" + ("[]" if "items" in field else ""), item))
    yield ""
    for child, item in inner:
        yield from _table(child, item)


def _type(field: dict[str, Any]) -> str:
    if field["type"] == "array":
        most = f", ≤ {field['maxItems']}" if "maxItems" in field else ""
        return f"list of {_type(field['items'])}{most}"
    return "time" if field.get("format") == "date-time" else str(field["type"])


def _meaning(field: dict[str, Any]) -> str:
    parts = [field.get("description", "")]
    if "enum" in field:
        parts.append("One of " + ", ".join(f"`{value}`" for value in field["enum"]) + ".")
    if field.get("exclusiveMinimum"):
        top = f" and below {field['maximum']:g}" if "maximum" in field else ""
        parts.append(f"Above {field['minimum']:g}{top}.")
    elif field.get("minimum", 0) > 0:
        parts.append(f"At least {field['minimum']:g}.")
    return " ".join(part for part in parts if part).replace("|", "\\|")
