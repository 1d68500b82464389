"""The agent's link on a real API server: the CRD, the Lease, the PowerNode, its status, and an API server that goes."""

from __future__ import annotations

import contextlib
import io
import json
import queue
import random
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from powertrain import devices
from powertrain.api.resources import POWER_NODES
from powertrain.api.samples import MAX_FRONT, MAX_SAMPLES, Front, Samples
from powertrain.api.v1alpha1 import (
    PROTOCOL,
    DeviceInfo,
    Phase,
    PowerNode,
    PowerNodeStatus,
    Prior,
    SessionResult,
    SessionSpec,
    SessionStatus,
)
from powertrain.prediction import Prediction
from powertrain.samples import Sample
from powertrain_agent.cluster import QueueInbox
from powertrain_agent.governing.events import ApiAway, ApiBack, EnvelopeSeen, Event, PowerNodeGone
from powertrain_agent.link import Link, LinkSettings
from powertrain_agent.link.api import FIELD_MANAGER
from powertrain_agent.link.contact import Contact
from powertrain_agent.link.watcher import Watcher
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.testing.waits import restart_api_server, wait_for
from powertrain_kube import ApiError, ConflictError, GoneError, KubeApi, credentials
from powertrain_kube.log import Log

ROOT = Path(__file__).resolve().parents[2]
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPLY = "application/apply-patch+yaml"


@pytest.fixture(scope="session")
def power_nodes(kube: KubeApi, control_plane: ControlPlane) -> str:
    """The kind is served; its path."""
    manifest = yaml.safe_load((ROOT / "crds/powertrain.io_powernodes.yaml").read_text(encoding="utf-8"))
    with contextlib.suppress(ConflictError):
        kube.create(CRD, manifest)

    def established() -> list[dict[str, str]]:
        condition = kube.get(f"{CRD}/{POWER_NODES.crd_name}")["status"]["conditions"] or []
        return [c for c in condition if c["type"] == "Established" and c["status"] == "True"]

    wait_for("the CRD to be served", established)
    path = f"{control_plane.server}{POWER_NODES.path()}"
    wait_for("the kind's storage", lambda: control_plane.get(path), lambda status: status == 200)
    return POWER_NODES.path()


@pytest.fixture
def node(kube: KubeApi, power_nodes: str) -> Iterator[str]:
    """A name for a node; its PowerNode goes with the test."""
    name = f"jetson-{uuid.uuid4().hex[:8]}"
    yield name
    if any(item["metadata"]["name"] == name for item in kube.get(power_nodes)["items"]):
        kube.delete(f"{power_nodes}/{name}")


def create(kube: KubeApi, node: str, **spec: Any) -> dict[str, Any]:
    body = {"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerNode", "metadata": {"name": node}, "spec": spec}
    return kube.create(POWER_NODES.path(), body)


def change(kube: KubeApi, node: str, **spec: Any) -> dict[str, Any]:
    return kube.merge_patch(POWER_NODES.path(node), {"spec": spec})


def session(**changes: Any) -> dict[str, Any]:
    return {
        "protocol": PROTOCOL,
        "uid": "s-1",
        "job": {"namespace": "team", "name": "lstm"},
        "limits": {"powerWatts": 30},
        "workload": {"name": "lstm"},
        **changes,
    }


# What the API server makes of the CRD.


def test_defaults_are_filled_in_by_the_server(kube: KubeApi, node: str) -> None:
    created_object = create(kube, node, session=session())
    assert created_object["spec"]["session"]["limits"]["guardWindowSeconds"] == 3
    assert created_object["spec"]["session"]["risk"] == 0.05
    assert SessionSpec.model_validate(created_object["spec"]["session"]) == SessionSpec.model_validate(session())


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (session(limits={"powerWatts": 0}), "should be greater than 0"),
        (session(limits={}), "MinTime needs a power or an energy limit"),
        (session(objective="MinPower"), "MinPower needs a time or an energy limit"),
        (session(limits={"powerWatts": 9, "epochSeconds": 9}), "a limit per epoch needs workload.samplesPerEpoch"),
        (session(limits={"energyJoules": 9}), "a limit on the training needs workload.samplesPerEpoch"),
        (session(schedule=[{"from": "22:00", "to": "22:00", "watts": 9}]), "an entry can't end when it begins"),
        (session(schedule=[{"from": "25:00", "watts": 9}]), "should match"),
        (session(objective="Fastest"), "Unsupported value"),
        ({"uid": "s-1"}, "Required value"),
    ],
)
def test_what_makes_no_sense_is_refused_by_the_server(
    kube: KubeApi, node: str, bad: dict[str, Any], message: str
) -> None:
    with pytest.raises(ApiError, match=message):
        create(kube, node, session=bad)


def test_the_generation_of_a_session_never_falls_but_that_of_the_next_begins_anew(kube: KubeApi, node: str) -> None:
    create(kube, node, session=session(generation=3))
    with pytest.raises(ApiError, match="generation can't fall within a session"):
        change(kube, node, session={"generation": 2})
    changed = change(kube, node, session={"uid": "s-2", "generation": 1})
    assert changed["spec"]["session"]["generation"] == 1


def test_kubectl_gets_the_columns_that_answer_what_where_and_how_many_watts(kube: KubeApi, node: str) -> None:
    create(kube, node, session=session())
    resource = kube.get(f"{CRD}/{POWER_NODES.crd_name}")["spec"]
    assert resource["names"]["shortNames"] == ["pn"]
    assert {column["name"] for column in resource["versions"][0]["additionalPrinterColumns"]} >= {
        "Job",
        "Watts",
        "Mode",
    }


def full_samples() -> Samples:
    space, draw = devices.get("orin-agx").space(), random.Random(1)
    return Samples.of(
        (
            Sample(
                space[draw.randrange(len(space))],
                *(draw.uniform(0.01, 0.9), draw.uniform(12, 60), 16, draw.uniform(0.001, 0.01), 40),
                *(draw.uniform(20, 65), draw.uniform(0.1, 0.9), draw.uniform(45, 90)),
            )
            for _ in range(MAX_SAMPLES)
        ),
        batch_size=16,
    )


def full_front() -> Front:
    space, draw = devices.get("orin-agx").space(), np.random.default_rng(1)
    prediction = Prediction(*(draw.uniform(0.01, 60, len(space)) for _ in range(4)))
    return Front.of(space, prediction, draw.choice(len(space), MAX_FRONT, replace=False))


def test_a_full_prior_and_a_full_result_are_stored_in_less_than_128_kib(
    kube: KubeApi, node: str, admin_api: KubeApi
) -> None:
    samples, front = full_samples(), full_front()
    create(kube, node, session=session(prior=Prior(samples=samples).wire()))
    result = SessionResult(strategy="transfer", samples=samples, front=front)
    status = PowerNodeStatus(session=SessionStatus(uid="s-1", result=result))
    body = {"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerNode", "metadata": {"name": node}}
    admin_api.apply(POWER_NODES.path(node, subresource="status"), {**body, "status": status.wire()})
    stored = kube.get(POWER_NODES.path(node))
    assert len(json.dumps(stored, separators=(",", ":"))) < 128 * 1024
    read = PowerNode.model_validate(stored)
    assert read.spec.session is not None
    assert read.spec.session.prior == Prior(samples=samples)
    assert read.status.session is not None
    assert read.status.session.result == result


def test_a_policy_is_filled_in_and_checked_by_the_server(kube: KubeApi, node: str) -> None:
    create(kube, node, policy={"maxWatts": 25})
    stored = kube.get(POWER_NODES.path(node))["spec"]["policy"]
    defaults = {"cpuCores": "Fixed", "fanMaxWhileProfiling": False, "powerOffsetWatts": 0, "guardWindowSeconds": 3}
    assert stored == {"maxWatts": 25, **defaults}
    with pytest.raises(ApiError, match="maxWatts"):
        change(kube, node, policy={"maxWatts": 0})


# The link.


def agents_api(kubeconfig: Path) -> KubeApi:
    return KubeApi(lambda: credentials(kubeconfig), FIELD_MANAGER)


@pytest.fixture(scope="session")
def admin_api(control_plane: ControlPlane) -> KubeApi:
    return agents_api(control_plane.kubeconfig)


class Running:
    """A link with its threads, and what it put into the loop's queue."""

    def __init__(self, api: KubeApi, node: str, namespace: str, about: PowerNodeStatus | None = None) -> None:
        self.events: queue.Queue[Event] = queue.Queue()
        self.lines = io.StringIO()
        inbox = QueueInbox(self.events.put, time.monotonic, time.monotonic)
        self.link = Link(LinkSettings(node, namespace, "agent-1"), api, inbox, Log(self.lines), clock=time.monotonic)
        self.link.start(about or PowerNodeStatus(device=DeviceInfo(name="orin-agx")))

    def next(self, kind: type[Event], deadline_s: float = 30.0) -> Any:
        """The next event of a kind; others in between are passed over."""
        end_s = time.monotonic() + deadline_s
        while True:
            try:
                event = self.events.get(timeout=max(0.0, end_s - time.monotonic()))
            except queue.Empty:
                raise AssertionError(
                    f"no {kind.__name__} within {deadline_s:g} s; log:\n{self.lines.getvalue()}"
                ) from None
            if isinstance(event, kind):
                return event


@pytest.fixture
def running(admin_api: KubeApi, node: str, test_namespace: str) -> Iterator[Callable[..., Running]]:
    agents: list[Running] = []

    def start(**options: Any) -> Running:
        agents.append(Running(options.pop("api", admin_api), node, test_namespace, **options))
        return agents[-1]

    yield start
    for each in agents:
        each.link.stop()


def status(kube: KubeApi, node: str) -> dict[str, Any]:
    node_status: dict[str, Any] = kube.get(POWER_NODES.path(node)).get("status", {})
    return node_status


def condition(kube: KubeApi, node: str, type_: str) -> dict[str, Any]:
    return next(c for c in status(kube, node)["conditions"] if c["type"] == type_)


def test_the_lease_comes_before_the_power_node_and_the_status_as_soon_as_it_exists(
    kube: KubeApi, node: str, test_namespace: str, running: Callable[..., Running]
) -> None:
    link = running()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{test_namespace}/leases/{node}"
    lease = wait_for("the Lease", lambda: kube.get(path))
    assert lease["spec"]["holderIdentity"] == "agent-1"
    assert lease["metadata"]["labels"]["app.kubernetes.io/component"] == "agent"
    link.next(PowerNodeGone)
    create(kube, node)
    assert link.next(EnvelopeSeen).spec is None
    reported = wait_for("the status", lambda: status(kube, node), lambda reported: reported.get("device"))
    assert reported["device"]["name"] == "orin-agx"
    assert condition(kube, node, "Ready")["status"] == "True"


def test_the_agent_owns_its_status_and_nothing_of_the_spec(
    kube: KubeApi, node: str, running: Callable[..., Running]
) -> None:
    create(kube, node, session=session())
    running()
    wait_for("the status", lambda: status(kube, node), lambda reported: reported.get("device"))
    owners = kube.get(POWER_NODES.path(node))["metadata"]["managedFields"]
    agents = [owner for owner in owners if owner["manager"] == "powertrain-agent"]
    assert [(owner["operation"], owner["subresource"]) for owner in agents] == [("Update", "status")]
    assert agents[0]["fieldsV1"] == {"f:status": {}}, "as a whole: the server has little to compare"


def test_envelopes_reach_the_loop_and_releases_too(kube: KubeApi, node: str, running: Callable[..., Running]) -> None:
    create(kube, node, session=session())
    link = running()
    first = link.next(EnvelopeSeen)
    assert first.spec == SessionSpec.model_validate(session())
    change(kube, node, session={"generation": 2, "limits": {"powerWatts": 25}})
    event = link.next(EnvelopeSeen)
    while event.spec.generation < 2:
        event = link.next(EnvelopeSeen)
    assert event.spec.limits.power_watts == 25
    change(kube, node, session=None, release="s-1")
    while event.release is None:
        event = link.next(EnvelopeSeen)
    assert (event.spec, event.release) == (None, "s-1")


@pytest.mark.parametrize(("protocol", "accepted"), [(PROTOCOL + 1, True), (PROTOCOL + 2, False)])
def test_an_envelope_of_a_neighbouring_protocol_is_accepted_and_others_are_version_skew(
    kube: KubeApi, node: str, running: Callable[..., Running], protocol: int, accepted: bool
) -> None:
    create(kube, node, session=session(protocol=protocol), release="s-0")
    link = running()
    event = link.next(EnvelopeSeen)
    assert (event.spec is not None, event.release) == (accepted, "s-0")
    verdict = wait_for("the verdict", lambda: condition(kube, node, "SessionAccepted"))
    assert (verdict["status"], verdict["reason"]) == (("True", "Understood") if accepted else ("False", "VersionSkew"))
    if not accepted:
        assert status(kube, node)["session"]["phase"] == "Refused"


def test_decisions_are_written_at_once_and_figures_wait(
    kube: KubeApi, node: str, running: Callable[..., Running]
) -> None:
    create(kube, node, session=session())
    link = running()
    wait_for("the first status", lambda: status(kube, node), lambda reported_status: reported_status.get("device"))
    report = SessionStatus(uid="s-1", phase=Phase.STARTING)
    link.link.report(report)
    wait_for("the session", lambda: status(kube, node)["session"]["phase"], lambda phase: phase == "Starting")
    version = kube.get(POWER_NODES.path(node))["metadata"]["resourceVersion"]
    for number in range(20):
        link.link.report(report.model_copy(update={"energy_joules": float(number)}))
    began_s = time.monotonic()
    opened = report.model_copy(update={"gate_open": True, "verified": True, "energy_joules": 100.0})
    assert kube.get(POWER_NODES.path(node))["metadata"]["resourceVersion"] == version
    link.link.report(opened)
    reported_status = wait_for(
        "the open gate", lambda: status(kube, node)["session"], lambda reported_status: reported_status["gateOpen"]
    )
    assert reported_status["energyJoules"] == 100.0
    assert time.monotonic() - began_s < 5.0


def test_a_power_node_that_is_deleted_and_made_again_gets_everything_again(
    kube: KubeApi, node: str, running: Callable[..., Running]
) -> None:
    create(kube, node)
    link = running()
    wait_for("the status", lambda: status(kube, node), lambda reported: reported.get("device"))
    kube.delete(POWER_NODES.path(node))
    link.next(PowerNodeGone)
    create(kube, node)
    wait_for("the status again", lambda: status(kube, node), lambda reported: reported.get("device"))


def test_a_version_that_the_server_forgot_is_410_and_the_watcher_lists_again(
    kube: KubeApi, node: str, admin_api: KubeApi
) -> None:
    create(kube, node, session=session())
    query = {"fieldSelector": f"metadata.name={node}", "resourceVersion": "1", "timeoutSeconds": "5"}
    with pytest.raises(GoneError, match="too old resource version"):
        list(admin_api.watch(POWER_NODES.path(), query))
    bodies: list[dict[str, Any] | None] = []
    contact = Contact(time.monotonic, lambda since: None, lambda: None)
    watcher = Watcher(admin_api, node, bodies.append, contact, Log(io.StringIO()), time.monotonic)
    watcher._version, watcher._listed_s = "1", time.monotonic()
    assert watcher.round() > 0
    assert bodies == []
    watcher._list()
    assert [body["metadata"]["name"] for body in bodies if body] == [node]


def test_an_api_server_that_restarts_is_noticed_and_followed_again(
    kube: KubeApi, control_plane: ControlPlane, node: str, running: Callable[..., Running]
) -> None:
    create(kube, node, session=session())
    link = running()
    link.next(EnvelopeSeen)
    wait_for("the status", lambda: status(kube, node), lambda reported: reported.get("device"))

    def while_away() -> None:
        since = link.next(ApiAway).since
        assert since <= time.monotonic()
        link.link.report(SessionStatus(uid="s-1", phase=Phase.HOLDING))

    restart_api_server(control_plane, while_away)
    link.next(ApiBack)
    wait_for("what was decided meanwhile", lambda: status(kube, node)["session"]["phase"], lambda p: p == "Holding")
    change(kube, node, session=None, release="s-1")
    event = link.next(EnvelopeSeen)
    while event.release is None:
        event = link.next(EnvelopeSeen)
    assert event.release == "s-1"


# Rights.


@pytest.fixture
def least_privilege(kube: KubeApi, control_plane: ControlPlane, node: str, test_namespace: str, tmp_path: Path) -> Path:
    """A kubeconfig of a service account that may do what an agent needs, and no more; its token in a file."""
    group = "rbac.authorization.k8s.io"
    account = [{"kind": "ServiceAccount", "name": "default", "namespace": test_namespace}]
    mine = {"apiGroups": ["powertrain.io"], "resourceNames": [node]}
    rules = {
        f"/apis/{group}/v1/clusterroles": [
            {**mine, "resources": ["powernodes"], "verbs": ["list", "watch"]},
            {**mine, "resources": ["powernodes/status"], "verbs": ["patch"]},
        ],
        f"/apis/{group}/v1/namespaces/{test_namespace}/roles": [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "patch"]},
        ],
    }
    for path, granted in rules.items():
        name = f"agent-{node}"
        kube.create(path, {"metadata": {"name": name}, "rules": granted})
        kind = "ClusterRole" if "clusterroles" in path else "Role"
        reference = {"apiGroup": group, "kind": kind, "name": name}
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": account}
        kube.create(path.removesuffix("roles") + "rolebindings", binding)
    token_path = f"/api/v1/namespaces/{test_namespace}/serviceaccounts/default/token"
    token = kube.create(token_path, {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}})
    (tmp_path / "token").write_text(token["status"]["token"])
    admin = yaml.safe_load(control_plane.kubeconfig.read_text())
    admin["users"][0]["user"] = {"tokenFile": str(tmp_path / "token")}
    config = tmp_path / "kubeconfig"
    config.write_text(yaml.safe_dump(admin))
    return config


def test_an_agent_that_may_do_no_more_than_it_needs_serves(
    kube: KubeApi, node: str, least_privilege: Path, running: Callable[..., Running]
) -> None:
    create(kube, node, session=session())
    link = running(api=agents_api(least_privilege))
    assert link.next(EnvelopeSeen).spec is not None
    wait_for("the status", lambda: status(kube, node), lambda reported: reported.get("device"))
    other = create(kube, f"{node}-other")["metadata"]["name"]
    body = {"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerNode", "metadata": {"name": other}, "status": {}}
    try:
        with pytest.raises(Exception, match="403"):
            agents_api(least_privilege).apply(POWER_NODES.path(other, subresource="status"), body)
    finally:
        kube.delete(POWER_NODES.path(other))


def test_a_token_that_was_replaced_is_read_again(node: str, least_privilege: Path) -> None:
    file = least_privilege.parent / "token"
    good = file.read_text()
    file.write_text("not-a-token")
    api = agents_api(least_privilege)
    query = {"fieldSelector": f"metadata.name={node}"}
    with pytest.raises(Exception, match="401"):
        api.list(POWER_NODES.path(), query)
    file.write_text(good)
    assert api.list(POWER_NODES.path(), query)["items"] == []


# The agent itself.


class Agent:
    """A powertrain-agent process on a simulated board, with its log."""

    def __init__(self, control_plane: ControlPlane, root: Path, node: str, namespace: str) -> None:
        command = [sys.executable, "-m", "powertrain_agent.main", "--simulate", "orin-nano", "--host-root", str(root)]
        command += ["--kubeconfig", str(control_plane.kubeconfig), "--node-name", node, "--namespace", namespace]
        self.root = root
        self.log = control_plane.logs / f"agent-{node}.log"
        with self.log.open("ab") as log:
            environment = control_plane.environment()
            self.process = subprocess.Popen([*command, "--metrics-port", "0"], stderr=log, env=environment)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def get(self, path: str) -> tuple[int, str]:
        port = wait_for("the port", lambda: [line["port"] for line in self.lines() if line["event"] == "metrics"])[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
            return response.status, response.read().decode()

    def rss_mb(self) -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")) / 1024

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=30)


@pytest.fixture
def agent(control_plane: ControlPlane, node: str, test_namespace: str, tmp_path: Path) -> Iterator[Agent]:
    running = Agent(control_plane, tmp_path / "host", node, test_namespace)
    yield running
    if running.process.poll() is None:
        running.process.kill()
        running.process.wait()


def test_an_agent_serves_a_session_from_the_envelope_to_the_release(
    kube: KubeApi, node: str, test_namespace: str, agent: Agent
) -> None:
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{test_namespace}/leases/{node}"
    wait_for("the Lease", lambda: kube.get(lease), deadline_s=60.0)
    create(kube, node)
    reported_status = wait_for(
        "figures", lambda: status(kube, node), lambda reported_status: reported_status.get("device"), 30.0
    )
    assert reported_status["device"]["name"] == "orin-nano"
    assert {knob["knob"] for knob in reported_status["capabilities"]["knobs"]} >= {"cpu", "gpu", "emc", "power"}
    assert agent.get("/healthz") == (200, "ok\n")
    assert "powertrain_api_up 1.0" in agent.get("/metrics")[1]
    heat = "powertrain_temperature_celsius"
    wait_for("a look at the heat", lambda: agent.get("/metrics")[1], lambda metrics: heat in metrics, 30.0)
    assert agent.rss_mb() < 90

    change(kube, node, policy={"cpuCores": "Hotplug", "maxWatts": 9})
    verdict = wait_for("the policy", lambda: condition(kube, node, "PolicyApplied"), lambda c: c["status"] == "False")
    assert (verdict["reason"], reported_status["device"]["corePolicy"]) == (
        "CoresStayFixed",
        "Fixed",
    )  # there is no kubelet

    change(kube, node, session=session(limits={"powerWatts": 10}))
    opened = wait_for(
        "the gate", lambda: status(kube, node)["session"], lambda reported_status: reported_status["gateOpen"], 90.0
    )
    assert (opened["uid"], opened["verified"]) == ("s-1", True)
    assert condition(kube, node, "SessionAccepted")["status"] == "True"
    assert json.loads((agent.root / "var/lib/powertrain/policy.json").read_text())["inForce"]["maxWatts"] == 9

    change(kube, node, session=None, release="s-1")
    ended = wait_for(
        "what was found",
        lambda: status(kube, node)["session"],
        lambda reported_status: reported_status["restored"],
        60.0,
    )
    assert (ended["phase"], ended["gateOpen"]) == ("Ended", False)
    assert agent.stop() == 0


def test_an_agent_refuses_a_session_of_a_far_protocol_and_changes_nothing(
    kube: KubeApi, node: str, agent: Agent
) -> None:
    create(kube, node, session=session(protocol=PROTOCOL + 2))
    verdict = wait_for("the verdict", lambda: condition(kube, node, "SessionAccepted"), deadline_s=60.0)
    assert verdict["reason"] == "VersionSkew"
    assert status(kube, node)["session"]["phase"] == "Refused"
    assert agent.stop() == 0
    assert not any((agent.root / "var/lib/powertrain").glob("*.json"))  # neither a session nor a snapshot
