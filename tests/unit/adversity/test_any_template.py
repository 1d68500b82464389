"""Any JSON at all as a pod template: refused for that job with the path of the field, and no other job notices."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powertrain_kube import documents
from powertrain_operator.bounds import MAX_DEPTH, MAX_TEMPLATE_BYTES
from powertrain_operator.observation import observation_of
from powertrain_operator.resources import OURS

from ..operator.conftest import Cluster

Object = dict[str, Any]
GOOD: Object = {
    "metadata": {"labels": {"team": "vision"}},
    "spec": {
        "containers": [
            {
                "name": "train",
                "image": "example.org/train:1",
                "env": [{"name": "DATA", "value": "/data"}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ],
        "initContainers": [{"name": "fetch", "image": "example.org/fetch:1"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "tolerations": [{"key": "jetson", "operator": "Exists"}],
        "nodeSelector": {"disk": "nvme"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
                    ]
                }
            }
        },
    },
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for name, each in inner for path in paths(each, (*at, name)))]


@st.composite
def spoilt(draw: st.DrawFn) -> Object:
    """A template of which one field, at any depth, is something else."""
    template = copy.deepcopy(GOOD)
    *way, last = draw(st.sampled_from(paths(GOOD)[1:]))
    inner: Any = template
    for step in way:
        inner = inner[step]
    inner[last] = draw(ANYTHING)
    return template


@given(spoilt() | st.dictionaries(st.text(max_size=8), ANYTHING, max_size=3))
@settings(max_examples=100)
def test_whatever_one_job_has_for_a_template_another_one_gets_its_node(template: Object) -> None:
    cluster = Cluster()
    cluster.board("orin-1", labels={"disk": "nvme"})
    cluster.board("orin-2", labels={"disk": "nvme"})
    spec = {"constraints": {"powerWatts": 30}, "workload": {"batchSizes": [16], "template": template}}
    metadata = {"name": "any", "namespace": "team", "generation": 1}
    cluster.put({"apiVersion": "powertrain.io/v1alpha1", "kind": "TrainingJob", "metadata": metadata, "spec": spec})
    cluster.submit("good")
    assert cluster.status("good")["nodes"][0]["name"] in ("orin-1", "orin-2")
    assert cluster.cache.troubled() == []
    status, reason = cluster.condition("Admitted", "any")
    if status == "False":
        assert reason == "InvalidTemplate"
        assert cluster.status("any")["message"].startswith("workload.template")
    else:
        assert status == "True", "it was refused, or it is the API server's to judge"


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (
            ("spec", "containers", 0, "env", 0),
            {"value": "1"},
            "workload.template.spec.containers[0].env[0].name: every",
        ),
        (("spec", "containers", 0, "env", 0, "value"), 3, "workload.template.spec.containers[0].env[0].value: a var"),
        (("spec",), "x", "workload.template.spec: must be an object; found 'x'"),
        (("metadata",), "x", "workload.template.metadata: must be an object; found 'x'"),
        (("spec", "containers"), {}, "workload.template.spec.containers: must be a list; found an object"),
        (("spec", "containers", 0), None, "workload.template.spec.containers[0]: must be an object; found nothing"),
        (("spec", "nodeSelector", "disk"), 1, "workload.template.spec.nodeSelector['disk']: must be a string"),
        (("spec", "volumes", 0, "name"), "powertrain-session", "workload.template.spec.volumes[0].name: powertrain-s"),
        (("spec", "initContainers", 0, "name"), "powertrain-gate", "workload.template.spec.initContainers[0].name: "),
        (
            ("spec", "containers", 0, "volumeMounts", 0, "name"),
            "powertrain-session",
            "workload.template.spec.containers[0].volumeMounts[0].name: powertrain-session is a name that PowerTrain",
        ),
        (
            ("spec", "containers", 0, "env", 0, "name"),
            "POWERTRAIN_SESSION_DIR",
            "workload.template.spec.containers[0].env[0].name: POWERTRAIN_SESSION_DIR is a name that PowerTrain",
        ),
    ],
)
def test_the_message_names_the_field_that_is_wrong(path: tuple[Any, ...], value: Any, words: str) -> None:
    template = copy.deepcopy(GOOD)
    inner: Any = template
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    cluster = Cluster()
    cluster.board(labels={"disk": "nvme"})
    cluster.submit("bad", workload={"template": template})
    assert cluster.condition("Admitted", "bad") == ("False", "InvalidTemplate")
    assert cluster.status("bad")["message"].startswith(words)
    assert "InvalidTemplate" in cluster.reasons()


def test_a_field_that_is_null_is_one_that_is_absent() -> None:
    cluster = Cluster()
    cluster.board()
    containers = [{"name": "train", "image": "example.org/train:1", "env": None, "volumeMounts": None}]
    empty = {"affinity": None, "volumes": None, "initContainers": None, "tolerations": None, "nodeSelector": None}
    cluster.submit(workload={"template": {"metadata": None, "spec": {"containers": containers, **empty}}})
    assert cluster.created_jobs


def nested(levels: int) -> Object:
    template: Any = {}
    for _ in range(levels):
        template = {"a": template}
    return dict(template)


@pytest.mark.parametrize("levels", [MAX_DEPTH + 2, 990, 5000])
def test_a_template_that_is_nested_too_deeply_is_read_refused_and_forgotten(levels: int) -> None:
    inner = b'{"a":' * levels + b"{}" + b"}" * levels
    data = b'{"metadata":{"name":"deep"},"spec":{"workload":{"template":' + inner + b'}},"kept":["[{",{"b":1}]}'
    body = documents.parse(data)
    assert body["kept"] == ["[{", {"b": 1}]
    observation = observation_of(next(kind for kind in OURS if kind.name == "TrainingJob"), body)
    assert observation.excess is not None
    assert observation.excess.reason == "InvalidTemplate"
    assert f"nested more than {MAX_DEPTH} levels" in observation.excess.message
    assert observation.whole()["spec"]["workload"]["template"] == {}


def test_only_what_is_too_deep_is_cut() -> None:
    document = {"list": [[1, [2, {"x": '"]}'}]], '\\"'], "object": {"a": {"b": {"c": 1}}}, "n": None}
    data = json.dumps(document).encode()
    assert json.loads(documents.shallow(data, 100)) == document
    assert json.loads(documents.shallow(data, 3)) == {
        "list": [[1, None], '\\"'],
        "object": {"a": {"b": None}},
        "n": None,
    }


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        ({"workload": {"template": {"x": "y" * MAX_TEMPLATE_BYTES}}}, "TemplateTooLarge", "workload.template has"),
        ({"placement": {"nodeSelector": {"k" * MAX_TEMPLATE_BYTES: "v"}}}, "SpecTooLarge", "placement has"),
        ({"workload": {"template": nested(MAX_DEPTH + 2)}}, "InvalidTemplate", "workload.template is nested"),
    ],
)
def test_what_is_too_large_is_refused_and_not_kept(spec: Object, reason: str, words: str) -> None:
    cluster = Cluster()
    cluster.board("orin-1")
    cluster.submit("large", **spec)
    cluster.submit("good")
    assert cluster.condition("Admitted", "large") == ("False", reason)
    assert cluster.status("large")["message"].startswith(words)
    assert cluster.status("good")["where"] == "orin-1"
    stored_job = cluster.cache.get("TrainingJob", "large", "team")
    assert len(json.dumps(stored_job)) < 4096


def test_the_labels_of_a_job_are_bounded_too() -> None:
    cluster = Cluster()
    cluster.board("orin-1")
    cluster.submit("labelled")
    body = cluster.job("labelled")
    cluster.remove("TrainingJob", "labelled", "team")
    body["metadata"] |= {"labels": {f"label-{n}": "v" for n in range(2000)}, "uid": "another"}
    cluster.put({**body, "status": {}})
    cluster.settle()
    assert cluster.condition("Admitted", "labelled") == ("False", "SpecTooLarge")


def test_a_refused_template_is_admitted_once_it_is_right() -> None:
    cluster = Cluster()
    cluster.board(labels={"disk": "nvme"})
    cluster.submit("job", workload={"template": {"spec": "x"}})
    assert cluster.condition("Admitted") == ("False", "InvalidTemplate")
    body = cluster.job()
    body["metadata"]["generation"] += 1
    body["spec"]["workload"]["template"] = GOOD
    cluster.put(body)
    cluster.settle()
    assert cluster.condition("Admitted") == ("True", "Accepted")
    assert cluster.created_jobs
