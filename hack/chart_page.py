"""The page of the chart's values, from its schema and its defaults."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parents[1] / "charts/powertrain"
INTRO = """# Values of the chart

`helm install powertrain charts/powertrain -n powertrain-system --create-namespace` needs one of these:
`image.local=true` or `image.registry`. A value that is misspelt or makes no sense is refused before anything is
created. Files in `charts/powertrain/ci` are examples of whole installations: simulated boards, k3s with several
families, air-gapped, monitored.

| Value | Type | Default | Meaning |
|---|---|---|---|
"""


def chart_page() -> str:
    """Return the page."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return INTRO + "".join(f"{row}\n" for row in _rows("", schema, values))


def _rows(path: str, schema: dict[str, Any], values: Any) -> Iterator[str]:
    for name, field in schema["properties"].items():
        default = values.get(name) if isinstance(values, dict) else None
        if name == "global":
            continue
        if "properties" in field:
            yield from _rows(f"{path}{name}.", field, default)
            continue
        default_text = "" if default is None else f"`{json.dumps(default, ensure_ascii=False)}`"
        yield f"| `{path}{name}` | {_type(field)} | {_cell(default_text)} | {_cell(field['description'])} |"
        if "properties" in field.get("items", {}) and path + name == "agent.families":
            yield from _rows(f"{path}{name}[].", field["items"], None)


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
    return " or ".join(kinds)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
