"""What the API server itself says about TrainingJobs, PowerPolicies and PowerProfiles: rules, words, columns."""

from __future__ import annotations

import copy
import json
import subprocess
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from powertrain.api.resources import POWER_BUDGETS, POWER_POLICIES, POWER_PROFILES, RESOURCES, TRAINING_JOBS, Resource
from powertrain.api.v1alpha1 import BatchStudy
from powertrain_devcluster.builds import binaries
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.fleet import install_kinds
from powertrain_devcluster.testing.waits import wait_for
from powertrain_kube import ApiError, KubeApi, NotFoundError
from powertrain_operator.study_pods import study_job
from powertrain_operator.training_pods import PodSettings

NAMESPACE = "default"
Object = dict[str, Any]
POD = {"spec": {"containers": [{"name": "train", "image": "example.org/train:1"}]}}
LONG = "a-name-that-is-longer-than-its-jobs-and-pods-allow"


@pytest.fixture(scope="module")
def served(kube: KubeApi) -> KubeApi:
    """The definitions are accepted, the cost of their rules included: a too expensive rule is refused here."""
    install_kinds(kube, 60.0)
    return kube


def merged(body: Object, change: Object) -> Object:
    fresh = copy.deepcopy(body)
    for name, value in change.items():
        former = fresh.get(name)
        if value is None:
            fresh.pop(name, None)
        else:
            fresh[name] = merged(former, value) if isinstance(former, dict) and isinstance(value, dict) else value
    return fresh


def job_body(name: str = "", **spec: Any) -> Object:
    workload = {"samplesPerEpoch": 1600, "epochs": 10, "batchSizes": [16], "template": POD}
    full = merged({"constraints": {"powerWatts": 30}, "workload": workload}, spec)
    metadata = {"name": name or f"job-{uuid.uuid4().hex[:8]}", "namespace": NAMESPACE}
    return {"apiVersion": "powertrain.io/v1alpha1", "kind": "TrainingJob", "metadata": metadata, "spec": full}


class Jobs:
    """TrainingJobs of one test, which nobody but the test sees: no operator runs."""

    def __init__(self, kube: KubeApi) -> None:
        self._kube = kube
        self.names: list[str] = []

    def create(self, name: str = "", **spec: Any) -> Object:
        body = self._kube.create(TRAINING_JOBS.path(namespace=NAMESPACE), job_body(name, **spec))
        self.names.append(body["metadata"]["name"])
        return body

    def started(self, **spec: Any) -> str:
        """A job whose nodes were claimed."""
        name = str(self.create(**spec)["metadata"]["name"])
        status = {"phase": "Running", "startedAt": "2026-06-01T12:00:00Z", "where": "orin-1", "powerWatts": 28.5}
        status |= {"progress": {"samples": 400, "percent": 25.0}, "remaining": "75s", "message": "runs", "attempt": 1}
        self._kube.merge_patch(TRAINING_JOBS.path(name, NAMESPACE, "status"), {"status": status})
        return name

    def edit(self, name: str, **spec: Any) -> Object:
        """A merge patch: None removes a field."""
        return self._kube.merge_patch(TRAINING_JOBS.path(name, NAMESPACE), {"spec": spec})


@pytest.fixture
def jobs(served: KubeApi) -> Iterator[Jobs]:
    new_jobs = Jobs(served)
    yield new_jobs
    for name in new_jobs.names:
        served.delete(TRAINING_JOBS.path(name, NAMESPACE))


def words_of(refused: pytest.ExceptionInfo[ApiError]) -> str:
    """The server's words, as kubectl would print them."""
    return refused.value.words


# What is filled in


def test_a_short_job_is_filled_with_the_defaults_of_the_design(jobs: Jobs) -> None:
    spec = jobs.create(placement={}, profiling={})["spec"]
    assert (spec["objective"], spec["risk"], spec["suspend"]) == ("MinTime", 0.05, False)
    assert spec["constraints"] == {
        "powerWatts": 30,
        "powerStatistic": "Mean",
        "guardWindowSeconds": 3,
        "timeZone": "UTC",
    }
    assert spec["placement"] == {"replicas": 1, "coupling": "Independent", "allowMove": False}
    assert spec["profiling"] == {
        "strategy": "auto",
        "caution": "Normal",
        "exploreRisk": 0.01,
        "when": "Online",
        "reuse": True,
    }
    workload = {name: spec["workload"][name] for name in ("batchSizeChange", "recurrence", "changes", "backoffLimit")}
    assert workload == {"batchSizeChange": "Never", "recurrence": "Often", "changes": "Often", "backoffLimit": 3}
    assert spec["workload"]["instrumentation"] == "Auto"


def test_the_template_is_kept_as_it_is(jobs: Jobs) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [], "fromTheFuture": {"x": [1, "2"]}}}
    assert jobs.create(workload={"template": template})["spec"]["workload"]["template"] == template


# What is refused, with the words that the user gets

LIMITS = ("powerWatts", "hardLimitWatts", "epochSeconds", "trainingSeconds", "energyJoulesPerEpoch", "energyJoules")


@pytest.mark.parametrize("limit", [*LIMITS, "guardWindowSeconds"])
@pytest.mark.parametrize("value", [0, -1])
def test_limits_are_above_zero(jobs: Jobs, limit: str, value: float) -> None:
    with pytest.raises(ApiError) as refused:
        jobs.create(constraints={limit: value})
    assert f"spec.constraints.{limit} in body should be greater than 0" in words_of(refused)


def test_a_window_of_the_mean_is_at_most_a_minute(jobs: Jobs) -> None:
    jobs.create(constraints={"guardWindowSeconds": 60})
    with pytest.raises(ApiError) as refused:
        jobs.create(constraints={"guardWindowSeconds": 86_400})
    assert "spec.constraints.guardWindowSeconds in body should be less than or equal to 60" in words_of(refused)


def test_runs_of_a_study_that_keep_off_hundreds_of_boards_are_accepted(served: KubeApi) -> None:
    spec = {"batchSizes": [8, 32], "targetAccuracy": 0.9, "learningRate": {"base": 0.001}}
    where = {"nodeSelector": {"powertrain.io/jetson": "true"}}
    template = {"spec": {**POD["spec"], **where}}
    metadata = {"name": "proxy", "namespace": NAMESPACE, "uid": "u"}
    study = BatchStudy.model_validate({"metadata": metadata, "spec": {**spec, "template": template}})
    boards = [f"orin-{number:03}" for number in range(300)]
    created_object = served.create(
        f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", study_job(study, 8, PodSettings(), boards), dry_run=True
    )
    affinity = created_object["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [field["values"] for field in terms[0]["matchFields"]] == [[name] for name in boards]


MIN_TIME = "MinTime needs a power or an energy limit: write constraints.powerWatts, for example powerWatts: 30"
MIN_POWER = "MinPower needs a time or an energy limit: write constraints.epochSeconds or trainingSeconds"
PER_EPOCH = "a limit per epoch needs workload.samplesPerEpoch"
WHOLE = "a limit on the whole training needs workload.samplesPerEpoch and workload.epochs"
NO_WATTS = {"powerWatts": None}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"constraints": None}, MIN_TIME),
        ({"constraints": NO_WATTS}, MIN_TIME),
        ({"constraints": {**NO_WATTS, "epochSeconds": 60}}, MIN_TIME),
        ({"objective": "MinPower"}, MIN_POWER),
        ({"objective": "MinPower", "constraints": None}, MIN_POWER),
        ({"objective": "Fastest"}, 'supported values: "MinTime", "MinPower", "MinEnergy"'),
        ({"constraints": {"epochSeconds": 60}, "workload": {"samplesPerEpoch": None}}, PER_EPOCH),
        ({"constraints": {"energyJoulesPerEpoch": 60}, "workload": {"samplesPerEpoch": None}}, PER_EPOCH),
        ({"constraints": {"trainingSeconds": 60}, "workload": {"epochs": None}}, WHOLE),
        ({"constraints": {"energyJoules": 60}, "workload": {"samplesPerEpoch": None}}, WHOLE),
        (
            {
                "constraints": {
                    "powerWatts": None,
                    "hardLimitWatts": 40,
                    "powerSchedule": [{"from": "22:00", "watts": 9}],
                }
            },
            "powerSchedule needs powerWatts, which holds when no entry does",
        ),
        (
            {"constraints": {"powerWatts": 20, "minWatts": 21}},
            "minWatts can't be above powerWatts: the job would never start",
        ),
        (
            {"constraints": {"powerSchedule": [{"from": "7:00", "watts": 9}]}},
            "powerSchedule[0].from in body should match",
        ),
        (
            {"constraints": {"powerSchedule": [{"from": "07:00", "to": "07:00", "watts": 9}]}},
            "an entry can't end when it begins",
        ),
        ({"constraints": {"powerSchedule": [{"from": "07:00"}]}}, "powerSchedule[0].watts: Required value"),
        ({"constraints": {"timeZone": "Berlin time"}}, "spec.constraints.timeZone in body should match"),
        ({"constraints": {"powerStatistic": "Median"}}, 'supported values: "Mean", "Peak"'),
        ({"risk": 0}, "spec.risk in body should be greater than 0"),
        ({"risk": 1}, "spec.risk in body should be less than 1"),
        ({"profiling": {"exploreRisk": 1}}, "spec.profiling.exploreRisk in body should be less than 1"),
        ({"profiling": {"maxWatts": 0}}, "spec.profiling.maxWatts in body should be greater than 0"),
        ({"profiling": {"maxModes": 0}}, "spec.profiling.maxModes in body should be greater than or equal to 1"),
        ({"profiling": {"when": "Later"}}, 'supported values: "Online", "Offline"'),
        ({"profiling": {"validateEverySeconds": 0}}, "validateEverySeconds in body should be greater than 0"),
    ],
)
def test_limits_and_objectives_that_make_no_sense_are_refused(jobs: Jobs, spec: Object, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        jobs.create(**spec)
    assert words in words_of(refused)


BATCHES = "several batchSizes need batchEfficiency: how many samples each size needs decides which trains fastest"
EFFICIENCY = "write either values: [{batchSize: 16, relative: 0.8}, …] or study: NAME of a BatchStudy, not both"


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"batchSizes": []}, "spec.workload.batchSizes in body should have at least 1 items"),
        ({"batchSizes": None}, "spec.workload.batchSizes: Required value"),
        ({"batchSizes": [0]}, "spec.workload.batchSizes[0] in body should be greater than or equal to 1"),
        ({"batchSizes": [16, 32, 16]}, "batchSizes must differ: write each size once"),
        ({"batchSizes": list(range(1, 18))}, "Too many: 17: must have at most 16 items"),
        ({"batchSizes": [16, 32]}, BATCHES),
        ({"batchEfficiency": {}}, EFFICIENCY),
        ({"batchEfficiency": {"study": "s", "values": [{"batchSize": 16, "relative": 1}]}}, EFFICIENCY),
        ({"batchEfficiency": {"values": [{"batchSize": 16, "relative": 1.1}]}}, "relative in body should be less than"),
        (
            {"batchEfficiency": {"values": [{"batchSize": 16, "relative": 0}]}},
            "relative in body should be greater than",
        ),
        (
            {"learningRate": {"base": 5e-4}},
            "a learning rate belongs to a batch size: add atBatchSize, for example atBatchSize: 128",
        ),
        ({"learningRate": {"base": 0, "atBatchSize": 8}}, "learningRate.base in body should be greater than 0"),
        ({"learningRate": {"base": 1, "atBatchSize": 8, "scaling": "Cube"}}, 'values: "Sqrt", "Linear", "None"'),
        ({"template": None}, "spec.workload.template: Required value"),
        ({"template": "a pod"}, "spec.workload.template in body must be of type object"),
        ({"samplesPerEpoch": 0}, "samplesPerEpoch in body should be greater than or equal to 1"),
        ({"epochs": 0}, "epochs in body should be greater than or equal to 1"),
        ({"backoffLimit": -1}, "backoffLimit in body should be greater than or equal to 0"),
        ({"instrumentation": "Magic"}, 'supported values: "Auto", "SDK", "None"'),
        ({"recurrence": "Daily"}, 'supported values: "Once", "Occasional", "Periodic", "Often"'),
        ({"changes": "Daily"}, 'supported values: "Never", "Rare", "Often"'),
        ({"batchSizeChange": "Often"}, 'supported values: "Never", "AtRestart"'),
        ({"name": "MobileNet"}, "spec.workload.name in body should match"),
    ],
)
def test_workloads_that_make_no_sense_are_refused(jobs: Jobs, workload: Object, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        jobs.create(workload=workload)
    assert words in words_of(refused)


@pytest.mark.parametrize(
    ("placement", "words"),
    [
        ({"replicas": 0}, "spec.placement.replicas in body should be greater than or equal to 1"),
        ({"replicas": 65}, "spec.placement.replicas in body should be less than or equal to 64"),
        ({"coupling": "Loose"}, 'supported values: "Independent", "Synchronous"'),
        ({"overrides": [{"constraints": {"powerWatts": 8}}]}, "overrides[0].nodeSelector: Required value"),
        (
            {"overrides": [{"nodeSelector": {}, "constraints": {"powerWatts": 0}}]},
            "overrides[0].constraints.powerWatts in body should be greater than 0",
        ),
    ],
)
def test_placements_that_make_no_sense_are_refused(jobs: Jobs, placement: Object, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        jobs.create(placement=placement)
    assert words in words_of(refused)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (LONG, "the name may have at most 48 characters: its Jobs and pods add to it"),
        ("mobilenet.v3", "the name must be a DNS label that begins with a letter"),
        ("3d-net", "the name must be a DNS label that begins with a letter"),
    ],
)
def test_a_name_that_its_pods_could_not_have_is_refused(jobs: Jobs, name: str, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        jobs.create(name)
    assert words in words_of(refused)


@pytest.mark.parametrize(
    "spec",
    [
        {"objective": "MinEnergy", "constraints": None},
        {"constraints": {**NO_WATTS, "hardLimitWatts": 40}},
        {"constraints": {**NO_WATTS, "energyJoules": 9e5}},
        {"objective": "MinPower", "constraints": {**NO_WATTS, "trainingSeconds": 3600}},
        {"objective": "MinPower", "constraints": {**NO_WATTS, "energyJoulesPerEpoch": 3600}},
        {"workload": {"samplesPerEpoch": None, "epochs": None}},
        {"workload": {"batchSizes": [16, 32], "batchEfficiency": {"study": "mobilenet"}}},
        {"workload": {"learningRate": {"base": 5e-4, "atBatchSize": 128}}},
        {
            "constraints": {
                "powerSchedule": [{"from": "22:00", "to": "06:00", "watts": 15}],
                "timeZone": "Europe/Berlin",
            }
        },
        {"placement": {"replicas": 64, "overrides": [{"nodeSelector": {"a": "b"}, "constraints": {"powerWatts": 8}}]}},
    ],
)
def test_what_makes_sense_is_accepted(jobs: Jobs, spec: Object) -> None:
    assert jobs.create(**spec)["metadata"]["uid"]


# Once it has started

FIXED = "can't change once the job has started: suspend and delete it, and apply it again"


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({"objective": "MinEnergy"}, "objective"),
        ({"workload": {"name": "other"}}, "workload"),
        ({"workload": {"samplesPerEpoch": 5}}, "workload"),
        ({"workload": {"samplesPerEpoch": None}}, "workload"),
        ({"workload": {"epochs": 5}}, "workload"),
        ({"workload": {"batchSizes": [32]}}, "workload"),
        ({"workload": {"batchEfficiency": {"study": "s"}}}, "workload"),
        ({"workload": {"learningRate": {"base": 1, "atBatchSize": 8}}}, "workload"),
        ({"workload": {"batchSizeChange": "AtRestart"}}, "workload"),
        ({"workload": {"recurrence": "Once"}}, "workload"),
        ({"workload": {"changes": "Never"}}, "workload"),
        ({"workload": {"backoffLimit": 9}}, "workload"),
        ({"workload": {"instrumentation": "None"}}, "workload"),
        ({"placement": {"replicas": 2}}, "placement other than overrides and allowMove"),
        ({"placement": {"coupling": "Synchronous"}}, "placement other than overrides and allowMove"),
        ({"placement": {"nodeSelector": {"a": "b"}}}, "placement other than overrides and allowMove"),
        ({"profiling": {"strategy": "nn"}}, "profiling.strategy, maxModes, when and reuse"),
        ({"profiling": {"maxModes": 5}}, "profiling.strategy, maxModes, when and reuse"),
        ({"profiling": {"when": "Offline"}}, "profiling.strategy, maxModes, when and reuse"),
        ({"profiling": {"reuse": False}}, "profiling.strategy, maxModes, when and reuse"),
    ],
)
@pytest.mark.parametrize("written", [True, False], ids=["written out", "left out"])
def test_what_an_agent_began_with_can_not_be_edited(jobs: Jobs, spec: Object, what: str, written: bool) -> None:
    name = jobs.started(**({"placement": {}, "profiling": {}} if written else {}))
    with pytest.raises(ApiError) as refused:
        jobs.edit(name, **spec)
    assert f"{what} {FIXED}" in words_of(refused)


EDITABLE: list[Object] = [
    {"constraints": {"powerWatts": 20}},
    {"constraints": {"hardLimitWatts": 40, "guardWindowSeconds": 5, "powerStatistic": "Peak"}},
    {"constraints": {"epochSeconds": 60, "energyJoules": 1e6}},
    {"constraints": {"powerSchedule": [{"from": "22:00", "watts": 15}], "timeZone": "Europe/Berlin"}},
    {"risk": 0.2},
    {"suspend": True},
    {"placement": {"overrides": [{"nodeSelector": {"a": "b"}, "constraints": {"powerWatts": 8}}]}},
    {"placement": {"allowMove": True}},
    {"profiling": {"maxWatts": 40}},
    {"profiling": {"exploreRisk": 0.1}},
    {"profiling": {"validateEverySeconds": 600}},
    {"workload": {"template": {"spec": {"containers": [{"name": "train", "image": "example.org/train:2"}]}}}},
]


@pytest.mark.parametrize("spec", EDITABLE, ids=lambda spec: json.dumps(spec)[:60])
@pytest.mark.parametrize("written", [True, False], ids=["written out", "left out"])
def test_what_can_be_honoured_while_it_runs_can_be_edited(jobs: Jobs, spec: Object, written: bool) -> None:
    name = jobs.started(**({"placement": {}, "profiling": {}} if written else {}))
    assert jobs.edit(name, **spec)["metadata"]["generation"] == 2


def test_before_the_start_everything_can_be_edited(jobs: Jobs) -> None:
    name = jobs.create()["metadata"]["name"]
    changed = {"objective": "MinEnergy", "workload": {"batchSizes": [64], "epochs": 2}, "placement": {"replicas": 3}}
    assert jobs.edit(name, **changed)["spec"]["placement"]["replicas"] == 3


def test_an_edit_must_make_sense_too(jobs: Jobs) -> None:
    name = jobs.started()
    with pytest.raises(ApiError) as refused:
        jobs.edit(name, constraints=NO_WATTS)
    assert MIN_TIME in words_of(refused)


def test_users_can_not_write_the_status_through_the_spec(jobs: Jobs, served: KubeApi) -> None:
    name = jobs.create()["metadata"]["name"]
    path = TRAINING_JOBS.path(name, NAMESPACE)
    served.merge_patch(path, {"status": {"startedAt": "2026-06-01T12:00:00Z", "phase": "Running"}})
    assert served.get(path).get("status") is None


# Policies and profiles


@pytest.fixture
def make(served: KubeApi) -> Iterator[Callable[[Resource, Object], Object]]:
    paths: list[str] = []

    def create(kind: Resource, spec: Object) -> Object:
        namespace = NAMESPACE if kind.scope == "Namespaced" else ""
        metadata = {"name": f"{kind.short_name}-{uuid.uuid4().hex[:8]}"}
        body = {"apiVersion": "powertrain.io/v1alpha1", "kind": kind.kind, "metadata": metadata, "spec": spec}
        answer = served.create(kind.path(namespace=namespace), body)
        paths.append(kind.path(metadata["name"], namespace))
        return answer

    yield create
    for path in paths:
        served.delete(path)


Make = Callable[[Resource, Object], Object]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"maxWatts": 30, "hardMaxWatts": 20},
            "hardMaxWatts is for single readings and can't be below maxWatts, which is for the mean",
        ),
        ({"minCores": 4}, "minCores needs cpuCores: Hotplug; with Fixed all cores stay online"),
        ({"minCores": 0, "cpuCores": "Hotplug"}, "minCores in body should be greater than or equal to 1"),
        ({"maxWatts": 0}, "spec.maxWatts in body should be greater than 0"),
        ({"hardMaxWatts": 0}, "spec.hardMaxWatts in body should be greater than 0"),
        ({"powerOffsetWatts": -1}, "spec.powerOffsetWatts in body should be greater than or equal to 0"),
        ({"cpuCores": "Some"}, 'supported values: "Fixed", "Hotplug"'),
        ({"guardWindowSeconds": 61}, "spec.guardWindowSeconds in body should be less than or equal to 60"),
        ({"whenUnpowered": "Ignore"}, 'supported values: "Suspend", "LowestMode"'),
        ({"allowedNamespaces": ["x" * 64]}, "allowedNamespaces[0]: Too long"),
    ],
)
def test_policies_that_make_no_sense_are_refused(make: Make, spec: Object, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        make(POWER_POLICIES, spec)
    assert words in words_of(refused)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "spec.watts: Required value"),
        ({"watts": -1}, "spec.watts in body should be greater than or equal to 0"),
        ({"watts": 10, "reserveWatts": 12}, "reserveWatts is a part of watts and can't be above it"),
        ({"watts": 10, "goal": "Fair"}, 'supported values: "MinMakespan", "MaxThroughput", "Equal"'),
        ({"watts": 10, "guardWindowSeconds": 61}, "spec.guardWindowSeconds in body should be less than or equal to 60"),
        (
            {"watts": 10, "battery": [{"below": 40, "watts": 5}, {"below": 40, "watts": 0}]},
            "battery entries must differ in below: write each percentage once",
        ),
        ({"watts": 10, "battery": [{"below": 101, "watts": 5}]}, "below in body should be less than or equal to 100"),
        (
            {"watts": 10, "schedule": [{"from": "22:00", "watts": 5}, {"from": "22:00", "watts": 4}]},
            "schedule entries must differ in from: write each time once",
        ),
        ({"watts": 10, "schedule": [{"from": "10pm", "watts": 5}]}, "spec.schedule[0].from in body should match"),
        (
            {"watts": 10, "schedule": [{"from": "22:00", "to": "22:00", "watts": 5}]},
            "an entry can't end when it begins",
        ),
    ],
)
def test_budgets_that_make_no_sense_are_refused(make: Make, spec: Object, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        make(POWER_BUDGETS, spec)
    assert words in words_of(refused)


def test_a_budget_is_filled_with_its_defaults(make: Make) -> None:
    new_budget = make(POWER_BUDGETS, {"watts": 90, "schedule": [{"from": "22:00", "watts": 0}]})
    filled = {"reserveWatts": 0, "goal": "MinMakespan", "timeZone": "UTC", "guardWindowSeconds": 3, "countLost": True}
    assert filled.items() <= new_budget["spec"].items()


def test_a_policy_is_filled_with_what_changes_nothing_and_can_be_edited(make: Make, served: KubeApi) -> None:
    new_policy = make(POWER_POLICIES, {"maxWatts": 30})
    filled = {"cpuCores": "Fixed", "fanMaxWhileProfiling": False, "powerOffsetWatts": 0, "disabled": False}
    filled |= {"observeOnly": False, "guardWindowSeconds": 3, "whenUnpowered": "Suspend"}
    assert new_policy["spec"] == {"maxWatts": 30, **filled}
    path = POWER_POLICIES.path(new_policy["metadata"]["name"])
    assert served.merge_patch(path, {"spec": {"maxWatts": 20, "disabled": True}})["spec"]["maxWatts"] == 20


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"workload": None}, "spec.workload: Required value"),
        ({"device": None}, "spec.device: Required value"),
        ({"batchSize": 0}, "spec.batchSize in body should be greater than or equal to 1"),
        ({"samples": {"powerWatts": [1.0]}}, 'spec.samples.powerWatts in body must be of type string: "array"'),
        # Kubernetes 1.30 goes on with "longer than", later ones with "more than".
        ({"samples": {"stepSeconds": "1" * 12_289}}, "spec.samples.stepSeconds: Too long: may not be"),
    ],
)
def test_profiles_that_make_no_sense_are_refused(make: Make, change: Object, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        make(POWER_PROFILES, merged({"workload": "mobilenet", "device": {"name": "orin-agx"}}, change))
    assert words in words_of(refused)


# kubectl


@pytest.fixture(scope="module")
def kubectl(served: KubeApi, control_plane: ControlPlane) -> Callable[..., str]:
    program = [str(binaries.resolve(["kubectl"])["kubectl"]), "--kubeconfig", str(control_plane.kubeconfig)]
    program += ["--cache-dir", str(control_plane.root / "kubectl-cache")]

    def run(*arguments: str) -> str:
        result = subprocess.run([*program, *arguments], capture_output=True, text=True, check=False, timeout=60)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


Kubectl = Callable[..., str]


def table(text: str) -> tuple[list[str], list[str]]:
    head, *rows = text.splitlines()
    return head.split(), rows


def test_kubectl_answers_what_where_how_many_watts_how_long_still(jobs: Jobs, kubectl: Kubectl) -> None:
    name = jobs.started()
    head, (row,) = table(kubectl("get", "tj", name))
    assert head == ["NAME", "PHASE", "NODES", "WATTS", "LIMIT", "DONE", "REMAINING", "AGE"]
    assert row.split()[:7] == [name, "Running", "orin-1", "28.5", "30", "25", "75s"]
    wide, _ = table(kubectl("get", "tj", name, "-o", "wide"))
    assert {"MESSAGE", "JOULES", "ATTEMPT"} < set(wide)


@pytest.mark.parametrize("kind", RESOURCES, ids=lambda kind: kind.kind)
def test_each_kind_has_its_short_name_its_category_and_its_columns(kubectl: Kubectl, kind: Resource) -> None:
    line = next(
        line for line in kubectl("api-resources", "--api-group=powertrain.io", "-o", "wide").splitlines()
        if kind.kind in line.split()
    )  # fmt: skip
    assert line.split()[:2] == [kind.plural, kind.short_name]
    assert sorted(line.split()[-1].split(",")) == sorted(kind.categories)


def test_trainings_are_among_all_and_everything_of_ours_in_a_category(jobs: Jobs, make: Make, kubectl: Kubectl) -> None:
    name = jobs.create()["metadata"]["name"]
    policy = make(POWER_POLICIES, {"maxWatts": 30})["metadata"]["name"]
    profile = make(POWER_PROFILES, {"workload": "mobilenet", "device": {"name": "orin-agx", "l4t": "36.4"}})
    everything = kubectl("get", "powertrain", "-o", "name").split()
    assert {
        f"trainingjob.powertrain.io/{name}",
        f"powerpolicy.powertrain.io/{policy}",
        f"powerprofile.powertrain.io/{profile['metadata']['name']}",
    } <= set(everything)
    assert f"trainingjob.powertrain.io/{name}" in kubectl("get", "all", "-o", "name").split()


def test_kubectl_shows_policies_and_profiles(make: Make, kubectl: Kubectl) -> None:
    policy = make(POWER_POLICIES, {"maxWatts": 30})["metadata"]["name"]
    head, (row,) = table(kubectl("get", "ppol", policy))
    assert (head[:4], row.split()[:2]) == (["NAME", "WATTS", "HARD", "CORES"], [policy, "30"])
    device = {"name": "orin-agx", "l4t": "36.4.3"}
    spec = {"workload": "mobilenet", "batchSize": 16, "device": device, "strategy": "transfer"}
    profile = make(POWER_PROFILES, spec)["metadata"]["name"]
    head, (row,) = table(kubectl("get", "pprof", profile))
    assert head == ["NAME", "WORKLOAD", "BATCH", "DEVICE", "L4T", "MODES", "STRATEGY", "USES", "AGE"]
    assert row.split()[:5] == [profile, "mobilenet", "16", "orin-agx", "36.4.3"]


def test_kubectl_explains_every_field(kubectl: Kubectl) -> None:
    explanation = wait_for("the schema to be published", lambda: kubectl("explain", "tj.spec.constraints.powerWatts"))
    assert "mean over any" in explanation


def test_a_job_can_be_applied_edited_and_deleted_with_kubectl(kubectl: Kubectl, served: KubeApi, tmp_path: Any) -> None:
    manifest = tmp_path / "job.yaml"
    body = job_body("by-hand")
    manifest.write_text(json.dumps(body))
    assert "created" in kubectl("apply", "-f", str(manifest))
    body["spec"]["constraints"]["powerWatts"] = 20
    manifest.write_text(json.dumps(body))
    assert "configured" in kubectl("apply", "-f", str(manifest))
    kubectl("delete", "-f", str(manifest))
    with pytest.raises(NotFoundError):
        served.get(TRAINING_JOBS.path("by-hand", NAMESPACE))
