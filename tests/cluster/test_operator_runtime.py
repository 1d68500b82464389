"""The operator's runtime on a real API server: what it writes, what it survives, and that only one operator acts."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from powertrain.api.resources import RESOURCES
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.testing.waits import restart_api_server, wait_for
from powertrain_kube import ConflictError, KubeApi, Log, NotFoundError, credentials
from powertrain_kube import ConflictError as Refused
from powertrain_operator.observation import Key
from powertrain_operator.plan import FIELD_MANAGER, Apply, CheckTemplate, Create, Delete, Plan
from powertrain_operator.reconcilers import affected_keys
from powertrain_operator.resources import JOB_UID_LABEL, ResourceType
from powertrain_operator.runtime.kopf_watch import KopfWatch
from powertrain_operator.runtime.messages import ListCompletion, Message, ObjectUpdate
from powertrain_operator.runtime.process import OperatorProcess
from powertrain_operator.runtime.resync import Resync
from powertrain_operator.runtime.worker import Worker
from powertrain_operator.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NODES = "/apis/powertrain.io/v1alpha1/powernodes"
SEEN = "powertrain.io/seen"
Object = dict[str, Any]


@pytest.fixture(scope="session")
def kinds(kube: KubeApi, control_plane: ControlPlane) -> None:
    """Every kind of ours is served."""
    for resource in RESOURCES:
        manifest = yaml.safe_load((ROOT / f"crds/powertrain.io_{resource.plural}.yaml").read_text(encoding="utf-8"))
        with contextlib.suppress(ConflictError):
            kube.create(CRD, manifest)
    for resource in RESOURCES:
        path = f"{control_plane.server}{resource.path()}"
        wait_for(f"{resource.plural} to be served", lambda path=path: control_plane.get(path), lambda code: code == 200)


class Operator:
    """An operator process with its log."""

    def __init__(
        self, control_plane: ControlPlane, namespace: str, kubeconfig: Path | None = None, cluster_lease: str = ""
    ) -> None:
        command = [sys.executable, str(ROOT / "tests/cluster/small_operator.py"), "--metrics-port", "0"]
        command += ["--kubeconfig", str(kubeconfig or control_plane.kubeconfig), "--namespace", namespace]
        # Killed operators of other tests hold a Lease of their own for a minute.
        command += ["--cluster-lease", cluster_lease or namespace]
        self.log = control_plane.logs / f"operator-{uuid.uuid4().hex[:8]}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, env=control_plane.environment())

    def lines(self, event: str = "") -> list[Object]:
        text = self.log.read_text(encoding="utf-8").splitlines()
        content = [json.loads(line) for line in text if line.startswith("{")]
        return [line for line in content if event in ("", line["event"])]

    def leads(self) -> bool:
        return any(line["reason"] == "held" for line in self.lines("lease"))

    def get(self, path: str) -> tuple[int, str]:
        port = wait_for("the port", lambda: [line["port"] for line in self.lines("serving")])[0]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def rss_mb(self) -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")) / 1024

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=30)


OperatorFactory = Callable[..., Operator]


@pytest.fixture
def operators(control_plane: ControlPlane, kinds: None, test_namespace: str) -> Iterator[OperatorFactory]:
    all_operators: list[Operator] = []

    def start(namespace: str = "", **options: Any) -> Operator:
        all_operators.append(Operator(control_plane, namespace or test_namespace, **options))
        return all_operators[-1]

    yield start
    for each in all_operators:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


@pytest.fixture
def node(kube: KubeApi, kinds: None) -> Iterator[str]:
    name = f"jetson-{uuid.uuid4().hex[:8]}"
    yield name
    with contextlib.suppress(Exception):
        kube.delete(f"{NODES}/{name}")


def create(kube: KubeApi, name: str, **metadata: Any) -> Object:
    body = {"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerNode", "metadata": {"name": name, **metadata}}
    return kube.create(NODES, {**body, "spec": {}})


def release(kube: KubeApi, name: str, value: str) -> Object:
    return kube.merge_patch(f"{NODES}/{name}", {"spec": {"release": value}})


def wait_for_value(kube: KubeApi, name: str, value: str, deadline_s: float = 30.0) -> Object:
    def read() -> str | None:
        return kube.get(f"{NODES}/{name}")["metadata"].get("annotations", {}).get(SEEN)

    wait_for(f"{value} to be seen", read, lambda current: current == value, deadline_s)
    return kube.get(f"{NODES}/{name}")


def events(kube: KubeApi, name: str) -> list[Object]:
    all_events = kube.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return [event for event in all_events if event["regarding"]["name"] == name]


def lease(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{Settings().lease_name}"


# The process.


def test_an_object_is_reconciled_when_it_changes_and_the_operator_ends_when_told(
    kube: KubeApi, node: str, test_namespace: str, operators: OperatorFactory
) -> None:
    operator = operators()
    create(kube, node)
    wait_for_value(kube, node, "nothing")
    release(kube, node, "s-1")
    wait_for_value(kube, node, "s-1")
    assert operator.get("/healthz") == (200, "ok\n")
    assert operator.rss_mb() < 120
    owners = kube.get(f"{NODES}/{node}")["metadata"]["managedFields"]
    assert [(owner["manager"], owner["operation"]) for owner in owners if "f:metadata" in owner["fieldsV1"]] == [
        (FIELD_MANAGER, "Apply")
    ]
    assert operator.end() == 0
    assert kube.get(lease(test_namespace))["spec"]["holderIdentity"] == ""


def test_the_same_event_again_counts_up_instead_of_making_another(
    kube: KubeApi, node: str, operators: OperatorFactory
) -> None:
    create(kube, node)
    operators()
    wait_for_value(kube, node, "nothing")
    for number in range(3):
        kube.merge_patch(f"{NODES}/{node}", {"metadata": {"labels": {"n": str(number)}}})
    (event,) = wait_for("a count", lambda: events(kube, node), lambda node_events: "series" in node_events[0])
    assert (event["reason"], event["note"], event["type"]) == ("Seen", "saw nothing", "Normal")
    assert event["series"]["count"] >= 2


KOPFS_FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"


def test_kopf_writes_nothing_not_even_where_another_operator_of_kopf_has_written(
    kube: KubeApi, node: str, test_namespace: str, operators: OperatorFactory
) -> None:
    container = {"name": "train", "image": "none"}
    pods = f"/api/v1/namespaces/{test_namespace}/pods"
    metadata = {"name": "pod", "labels": {JOB_UID_LABEL: "uid"}, "finalizers": [KOPFS_FINALIZER]}
    kube.create(pods, {"metadata": metadata, "spec": {"nodeName": "nowhere", "containers": [container]}})
    before = kube.get(f"{pods}/pod")
    operators()
    create(kube, node, finalizers=[KOPFS_FINALIZER], annotations={"kopf.zalando.org/last-handled-configuration": "{}"})
    wait_for_value(kube, node, "nothing")
    after = wait_for_value(kube, release(kube, node, "s-1")["metadata"]["name"], "s-1")
    try:
        assert after["metadata"]["finalizers"] == [KOPFS_FINALIZER]
        assert after["metadata"]["annotations"].keys() == {SEEN, "kopf.zalando.org/last-handled-configuration"}
        assert kube.get(f"{pods}/pod")["metadata"]["finalizers"] == [KOPFS_FINALIZER]
        assert {owner["manager"] for owner in kube.get(f"{pods}/pod")["metadata"]["managedFields"]} == {
            owner["manager"] for owner in before["metadata"]["managedFields"]
        }
    finally:
        for path in (f"{pods}/pod", f"{NODES}/{node}"):
            kube.merge_patch(path, {"metadata": {"finalizers": None}})


def test_of_two_operators_one_acts_and_the_other_takes_over_when_it_is_killed(
    kube: KubeApi, node: str, test_namespace: str, operators: OperatorFactory
) -> None:
    first = operators()
    wait_for("the first to lead", first.leads)
    second = operators()
    waiting = f"waiting: {first.lines('lease')[0]['identity']} has it"
    wait_for("the second to wait", lambda: second.lines("lease"), lambda lines: lines[0]["reason"] == waiting)
    create(kube, node)
    release(kube, node, test_namespace)  # asks for a Job
    wait_for_value(kube, node, test_namespace)
    jobs = f"/apis/batch/v1/namespaces/{test_namespace}/jobs"
    (job,) = wait_for("the Job", lambda: kube.get(jobs)["items"])
    assert second.get("/healthz") == (200, "ok\n")
    assert "powertrain_lease_held 0.0" in second.get("/metrics")[1]
    first.end(signal.SIGKILL)
    began_s = time.monotonic()
    wait_for("the second to lead", second.leads)
    assert time.monotonic() - began_s < Settings().lease_duration_s + 5.0
    release(kube, node, f"{test_namespace}-x")
    wait_for_value(kube, node, f"{test_namespace}-x")
    release(kube, node, test_namespace)
    wait_for_value(kube, node, test_namespace)
    assert [each["metadata"]["uid"] for each in kube.get(jobs)["items"]] == [job["metadata"]["uid"]]


def test_an_operator_whose_lease_is_taken_ends(kube: KubeApi, test_namespace: str, operators: OperatorFactory) -> None:
    operator = operators()
    wait_for("the operator to lead", operator.leads)
    kube.merge_patch(lease(test_namespace), {"spec": {"holderIdentity": "another"}})
    assert operator.process.wait(timeout=15) == 6
    assert "error: another has taken the Lease operator.powertrain.io" in operator.log.read_text()
    assert kube.get(lease(test_namespace))["spec"]["holderIdentity"] == "another"


def test_an_operator_without_rights_says_so_in_one_line(
    kube: KubeApi, control_plane: ControlPlane, test_namespace: str, operators: OperatorFactory, tmp_path: Path
) -> None:
    account = f"/api/v1/namespaces/{test_namespace}/serviceaccounts/default/token"
    token = kube.create(account, {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}})
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token["status"]["token"]}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    operator = operators(kubeconfig=tmp_path / "kubeconfig")
    assert operator.process.wait(timeout=30) == 5
    (line,) = operator.log.read_text().splitlines()
    assert line.startswith("error: GET /apis/")
    assert "is forbidden" in line


# The parts, in this process.


@pytest.fixture
def api(control_plane: ControlPlane, kinds: None) -> KubeApi:
    return KubeApi(lambda: credentials(control_plane.kubeconfig), FIELD_MANAGER)


def worker(api: KubeApi, **settings: Any) -> Worker:
    return Worker(api, Settings(**settings), {}, affected_keys, lambda: None, Log(io.StringIO()), time.monotonic)


def power_node(name: str, **metadata: Any) -> Object:
    return {"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerNode", "metadata": {"name": name, **metadata}}


def test_an_apply_to_an_object_that_is_gone_makes_none(kube: KubeApi, node: str, api: KubeApi) -> None:
    gateway = worker(api).gateway
    uid = create(kube, node)["metadata"]["uid"]
    assert gateway.execute(Apply(power_node(node, labels={"a": "b"}), uid))
    kube.delete(f"{NODES}/{node}")
    with pytest.raises(Refused, match="uid mismatch"):
        gateway.execute(Apply(power_node(node, labels={"a": "c"}), uid))
    with pytest.raises(Refused):
        gateway.execute(Apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}, uid))
    with pytest.raises(NotFoundError):
        kube.get(f"{NODES}/{node}")


def test_writes_are_known_at_once_and_what_would_change_nothing_is_not_written(
    kube: KubeApi, node: str, api: KubeApi
) -> None:
    one = worker(api)
    assert one.gateway.execute(Apply(power_node(node, labels={"a": "b"})))
    cached_object = one.cache.brief("PowerNode", node)
    assert cached_object is not None
    assert cached_object["metadata"]["labels"] == {"a": "b"}
    assert not one.gateway.execute(Apply(power_node(node, labels={"a": "b"})))
    assert one.gateway.execute(Apply(power_node(node)))
    assert "labels" not in kube.get(f"{NODES}/{node}")["metadata"]
    uid = cached_object["metadata"]["uid"]
    key = Key("PowerNode", "", node)
    assert not one.gateway.execute(Delete(key, str(uuid.uuid4())))
    assert one.cache.brief("PowerNode", node) is not None
    assert one.gateway.execute(Delete(key, uid))
    assert one.cache.brief("PowerNode", node) is None


def template(**pod: Any) -> Object:
    spec = {"restartPolicy": "Never", "containers": [{"name": "train", "image": "none"}], **pod}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": spec}}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, ""),
        ({"conatiners": []}, 'unknown field "spec.template.spec.conatiners"'),
        ({"containers": []}, "spec.template.spec.containers: Required value"),
        ({"containers": "train"}, "cannot unmarshal string"),
    ],
)
def test_a_template_is_judged_by_the_server_in_its_own_words(
    kube: KubeApi, test_namespace: str, api: KubeApi, spec: Object, words: str
) -> None:
    one = worker(api)
    body = template(**spec) | {"metadata": {"name": "check", "namespace": test_namespace}}
    assert one.cache.answer("k") is None
    one.gateway.execute(CheckTemplate("k", body))
    answer = one.cache.answer("k")
    assert answer is not None
    assert words in answer
    assert bool(words) == bool(answer)
    assert kube.get(f"/apis/batch/v1/namespaces/{test_namespace}/jobs")["items"] == []


def test_a_job_that_is_there_is_left_alone(kube: KubeApi, test_namespace: str, api: KubeApi) -> None:
    one = worker(api)
    metadata = {"name": "attempt-1", "namespace": test_namespace, "labels": {JOB_UID_LABEL: "u"}}
    assert one.gateway.execute(Create(template() | {"metadata": metadata}))
    assert not worker(api).gateway.execute(Create(template(hostNetwork=True) | {"metadata": metadata}))
    (cached_object,) = one.cache.labelled("Job", JOB_UID_LABEL, "u")
    uid = cached_object["metadata"]["uid"]
    assert one.gateway.execute(Delete(Key("Job", test_namespace, "attempt-1"), uid, "Foreground"))
    (left,) = one.cache.labelled("Job", JOB_UID_LABEL, "u") or [{"metadata": {"deletionTimestamp": "gone"}}]
    assert left["metadata"]["deletionTimestamp"]


def test_a_list_in_pages_shows_everything_and_what_is_missing_was_deleted(
    kube: KubeApi, kinds: None, api: KubeApi
) -> None:
    names = [f"jetson-{uuid.uuid4().hex[:8]}" for _ in range(5)]
    one = worker(api)
    resync = Resync(api, Settings(page_size=2), one.inbox.put, Log(io.StringIO()))
    try:
        for name in names:
            create(kube, name)
        resync.once()
        one.turn()
        assert {key.name for key in one.cache.keys("PowerNode")} >= set(names)
        kube.delete(f"{NODES}/{names[0]}")
        news: list[Message] = []
        Resync(api, Settings(page_size=2), news.append, Log(io.StringIO())).once()
        for each in news:
            one.inbox.put(each)
        one.turn()
        assert names[0] not in {key.name for key in one.cache.keys("PowerNode")}
        assert {each.kind for each in news if isinstance(each, ListCompletion)} == set(one.cache.kinds)
    finally:
        for name in names:
            with contextlib.suppress(NotFoundError):
                kube.delete(f"{NODES}/{name}")


def test_a_kind_that_is_not_served_yet_is_watched_once_it_is(kube: KubeApi, control_plane: ControlPlane) -> None:
    late = ResourceType("Late", "late.example/v1", "lates", namespaced=False)
    news, lines, stop = list[Message](), io.StringIO(), threading.Event()
    watch = KopfWatch([late], None, lambda: credentials(control_plane.kubeconfig), Settings(), news.append, Log(lines))
    thread = threading.Thread(target=watch.run, args=(stop,))
    thread.start()
    try:
        wait_for("it to be missed", lines.getvalue, lambda text: "does not serve lates yet" in text)
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"kind": "Late", "plural": "lates", "singular": "late", "listKind": "LateList"}
        spec = {"group": "late.example", "scope": "Cluster", "names": names, "versions": [version]}
        definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        kube.create(CRD, {**definition, "metadata": {"name": "lates.late.example"}, "spec": spec})
        body = {"apiVersion": late.api_version, "kind": "Late", "metadata": {"name": "one"}}
        wait_for("the kind to be served", lambda: kube.create(late.path(), body))
        wait_for("it to be seen", lambda: [each for each in news if isinstance(each, ObjectUpdate)])
    finally:
        stop.set()
        watch.end()
        thread.join(30.0)
        with contextlib.suppress(NotFoundError):
            kube.delete(f"{CRD}/lates.late.example")
    assert not thread.is_alive()


def test_an_api_server_that_restarts_makes_health_red_and_is_followed_again(
    kube: KubeApi, control_plane: ControlPlane, node: str, test_namespace: str, kinds: None
) -> None:
    looked: list[Key] = []

    def reconcile(cache: Any, key: Key, context: Any) -> Plan:
        looked.append(key)
        return Plan()

    # The Lease must outlive the restart, however slow this machine is; the watches are what is tested.
    settings = Settings(
        test_namespace,
        0,
        cluster_lease_name=test_namespace,
        lease_duration_s=300.0,
        lease_deadline_s=240.0,
        lease_retry_s=0.5,
        api_stale_s=2.0,
    )
    operator = OperatorProcess(
        settings,
        lambda: credentials(control_plane.kubeconfig),
        {"PowerNode": reconcile},
        affected_keys,
        Log(sys.stderr),
    )
    operator.check_access()
    thread = threading.Thread(target=operator.run)
    thread.start()
    try:
        create(kube, node)
        wait_for("the PowerNode to be looked at", lambda: [key for key in looked if key.name == node])
        assert operator.problem() == ""

        def while_away() -> None:
            wait_for("health to be red", operator.problem, lambda wrong: "API server silent" in wrong)

        restart_api_server(control_plane, while_away)
        wait_for("health to be green", operator.problem, lambda wrong: wrong == "")
        looked.clear()
        release(kube, node, "s-1")
        wait_for("the change to be looked at", lambda: [key for key in looked if key.name == node], deadline_s=60.0)
    finally:
        operator.stop()
        thread.join(30.0)
    assert not thread.is_alive()
    gc.collect()  # a connection that was left open is told now, as this test's failure


def test_the_operator_of_a_second_release_refuses_to_start(operators: OperatorFactory, test_namespace: str) -> None:
    first = operators(cluster_lease=test_namespace)
    wait_for("the first to lead", lambda: any(line["name"] == test_namespace for line in first.lines("lease")))
    second = operators(namespace="default", cluster_lease=test_namespace)
    assert second.process.wait(timeout=60) == 7
    log_text = second.log.read_text(encoding="utf-8")
    assert f"the operator of namespace {test_namespace} serves this cluster already" in log_text
    assert first.process.poll() is None
