"""The CRDs are those the models give, and hold what a person and the API server need of them."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from powertrain.api.base import ApiModel
from powertrain.api.resources import POWER_NODES, RESOURCES, TRAINING_JOBS, Column, Resource
from powertrain.api.schema import RULES, crd, object_schema

ROOT = Path(__file__).resolve().parents[3]
MANIFESTS: dict[str, str] = runpy.run_path(str(ROOT / "hack/generate_crds.py"))["manifests"]()


@pytest.mark.parametrize("name", sorted(MANIFESTS))
def test_a_generated_crd_is_up_to_date(name: str) -> None:
    path = ROOT / name
    assert path.is_file(), f"{name} is missing: run `make manifests`"
    assert path.read_text(encoding="utf-8") == MANIFESTS[name], f"{name} is old: run `make manifests`"


def test_no_crd_lies_there_that_no_model_gives() -> None:
    folders = {Path(name).parent for name in MANIFESTS}
    assert {str(folder / path.name) for folder in folders for path in (ROOT / folder).iterdir()} == set(MANIFESTS)


def fields(path: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, field in schema.get("properties", {}).items():
        yield f"{path}.{name}", field
        yield from fields(f"{path}.{name}", field.get("items", field))


def all_fields(*parts: str, kind: Resource = POWER_NODES) -> list[tuple[str, dict[str, Any]]]:
    properties = object_schema(kind)["properties"]
    return [field for part in parts for field in fields(part, properties[part])]


each_kind = pytest.mark.parametrize("kind", RESOURCES, ids=lambda kind: kind.kind)


@each_kind
def test_every_field_says_what_it_means(kind: Resource) -> None:
    field_list = all_fields("spec", "status", kind=kind)
    assert [path for path, field in field_list if not field.get("description")] == []


@each_kind
def test_every_field_has_one_type_and_every_list_a_way_to_merge(kind: Resource) -> None:
    field_list = all_fields("spec", "status", kind=kind)
    untyped = [path for path, field in field_list if "type" not in field or "anyOf" in field]
    unmerged = [path for path, field in field_list if "items" in field and "x-kubernetes-list-type" not in field]
    assert untyped + unmerged == []


@each_kind
def test_every_column_shows_a_field_that_there_is(kind: Resource) -> None:
    field_paths = {path for path, _ in all_fields("spec", "status", kind=kind)} | {"metadata.creationTimestamp"}
    column_paths = {column.path.lstrip(".").split("[")[0] for column in kind.columns}
    assert column_paths <= field_paths


def test_kinds_have_the_short_names_that_the_docs_use() -> None:
    assert [kind.short_name for kind in RESOURCES] == ["tj", "pn", "pprof", "ppol", "bs", "pb"]


def test_the_spec_has_defaults_and_the_status_none() -> None:
    defaults = {path: field["default"] for path, field in all_fields("spec") if "default" in field}
    assert defaults["spec.session.limits.guardWindowSeconds"] == 3.0
    assert defaults["spec.session.risk"] == 0.05
    assert [path for path, field in all_fields("status") if "default" in field] == []


def test_limits_must_be_above_zero() -> None:
    field = dict(all_fields("spec"))["spec.session.limits.powerWatts"]
    assert (field["minimum"], field["exclusiveMinimum"]) == (0, True)


def test_no_field_may_be_null() -> None:
    assert all(field.get("nullable") is None for _, field in all_fields("spec", "status"))


def test_columns_are_texts_so_that_the_server_has_few_values_to_check() -> None:
    field_of = dict(all_fields("spec", "status"))
    for column in ("samples.peakWatts", "samples.unsafe", "front.stepSeconds", "front.axes.gpuHz", "front.cpu"):
        assert field_of[f"status.session.result.{column}"]["type"] == "string"


def test_parts_with_one_writer_are_owned_as_wholes() -> None:
    nodes, jobs = (object_schema(kind)["properties"] for kind in (POWER_NODES, TRAINING_JOBS))
    owned = [part.get("x-kubernetes-map-type") for part in (nodes["spec"], nodes["status"], jobs["status"])]
    assert owned == ["atomic"] * 3
    written = dict(all_fields("spec", kind=TRAINING_JOBS))
    assert "x-kubernetes-map-type" not in jobs["spec"], "users and queues write parts of a TrainingJob"
    assert not any("x-kubernetes-map-type" in field for field in written.values())


def test_power_nodes_belong_to_the_cluster_and_have_a_short_name_and_a_status() -> None:
    spec = yaml.safe_load(MANIFESTS["crds/powertrain.io_powernodes.yaml"])["spec"]
    assert (spec["scope"], spec["names"]["shortNames"], spec["names"]["categories"]) == (
        "Cluster",
        ["pn"],
        ["powertrain"],
    )
    assert spec["versions"][0]["subresources"] == {"status": {}}
    columns = [c["name"] for c in spec["versions"][0]["additionalPrinterColumns"] if "priority" not in c]
    assert columns == ["Device", "Ready", "Job", "Phase", "Watts", "Limit", "Mode", "Why", "Age"]


def test_conditions_merge_by_their_type() -> None:
    field = dict(all_fields("status"))["status.conditions"]
    assert (field["x-kubernetes-list-type"], field["x-kubernetes-list-map-keys"]) == ("map", ["type"])


def test_the_envelope_carries_its_rules_with_messages() -> None:
    rules = dict(all_fields("spec"))["spec.session"][RULES]
    assert any("MinTime needs" in rule["message"] for rule in rules)


def test_a_field_of_two_types_is_refused() -> None:
    class Part(ApiModel):
        value: int | str

    class Whole(ApiModel):
        """Two types."""

        spec: Part
        status: Part

    with pytest.raises(ValueError, match="a union of 2 types"):
        crd(Resource(Whole, "Whole", "wholes", "w", "Cluster", (Column("Age", ".x"),)))


def test_paths_of_objects_and_subresources() -> None:
    assert POWER_NODES.path() == "/apis/powertrain.io/v1alpha1/powernodes"
    assert POWER_NODES.path("n", subresource="status") == "/apis/powertrain.io/v1alpha1/powernodes/n/status"
    assert POWER_NODES.path("n", "space") == "/apis/powertrain.io/v1alpha1/namespaces/space/powernodes/n"
