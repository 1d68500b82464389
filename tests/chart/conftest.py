"""The chart on a real API server: Helm, an installed release, and kubeconfigs of its service accounts."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import tests.cluster.conftest as shared
import yaml

from powertrain.api.base import API_VERSION
from powertrain.api.resources import RESOURCES, TRAINING_JOBS
from powertrain_devcluster import kubeconfig
from powertrain_devcluster.builds import binaries, prepare
from powertrain_devcluster.connection import connect
from powertrain_devcluster.controlplane.control_plane import ControlPlane, Settings
from powertrain_devcluster.errors import MissingToolError
from powertrain_devcluster.fleet import Fleet, FleetSettings, is_served
from powertrain_devcluster.testing.waits import SessionLogs, wait_for
from powertrain_devcluster.tools.helm import Helm
from powertrain_kube import ApiError, KubeApi, NotFoundError

# The level "cluster" has the same.
cluster_binaries, session_logs, kube = shared.cluster_binaries, shared.session_logs, shared.kube
test_namespace, pytest_runtest_makereport = shared.test_namespace, shared.pytest_runtest_makereport

Object = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/powertrain"
# What a render without a cluster takes for the cluster's version.
KUBE_VERSION = "1.30.0"
NAMESPACE = "powertrain-system"
# Every node has the images.
IMAGES_THERE = ("--set", "image.local=true")
BOARDS = ("board-a", "board-b")


def render(helm: Helm, *arguments: str) -> list[Object]:
    """Return the objects of a render."""
    where = ("--namespace", NAMESPACE, "--kube-version", KUBE_VERSION)
    named = any("image." in each or each == "--values" for each in arguments)
    result = helm.run("template", "powertrain", str(CHART), *where, *(() if named else IMAGES_THERE), *arguments)
    return [document for document in yaml.safe_load_all(result.stdout) if document]


@dataclass(frozen=True)
class Audit:
    """What the API server was asked for, and by whom."""

    log: Path

    def requests_of(self, user: str) -> set[tuple[str, str]]:
        """Return the verbs that a user was allowed, each with its resource ("group/resource/subresource")."""
        requests = set()
        for line in self.log.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            target, allowed = event.get("objectRef"), event.get("annotations", {}).get("authorization.k8s.io/decision")
            if target and event["user"]["username"] == user and allowed == "allow":
                parts = (target.get("apiGroup", ""), target["resource"], target.get("subresource", ""))
                resource = "/".join(parts).strip("/")
                requests.add((event["verb"], resource))
                if event["verb"] == "patch" and event["responseStatus"]["code"] == 201:
                    requests.add(("create", resource))  # a server-side apply that makes the object needs both rights
        return requests


@pytest.fixture(scope="session")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    return Audit(tmp_path_factory.mktemp("audit") / "audit.log")


@pytest.fixture(scope="session")
def control_plane(
    cluster_binaries: dict[str, Path],
    session_logs: SessionLogs,
    audit: Audit,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ControlPlane]:
    """A control plane that notes every request of a service account, and asks owners for the right to block."""
    policy = audit.log.with_name("policy.yaml")
    rules = [{"level": "Metadata", "userGroups": ["system:serviceaccounts:powertrain-system"]}, {"level": "None"}]
    document = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
    policy.write_text(yaml.safe_dump(document), encoding="utf-8")
    flags = (
        f"--audit-policy-file={policy}",
        f"--audit-log-path={audit.log}",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
    )
    root = tmp_path_factory.mktemp("control-plane")
    settings = Settings(api_server_flags=flags)
    with ControlPlane(cluster_binaries, root, logs=session_logs.folder, settings=settings) as running:
        yield running


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    try:
        return Helm(binaries.helm(prepare.Ready()), tmp_path_factory.mktemp("helm"))
    except MissingToolError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def release(helm: Helm, control_plane: ControlPlane, kube: KubeApi) -> str:
    """The chart, installed; its own pods find no node that they could run on. Returns its namespace."""
    where = ("--kubeconfig", str(control_plane.kubeconfig), "--namespace", NAMESPACE)
    nowhere = ("--set-string", "operator.nodeSelector.nowhere=true,agent.nodeSelector.nowhere=true")
    helm.run("install", "powertrain", str(CHART), "--create-namespace", *where, *nowhere, *IMAGES_THERE)
    for resource in RESOURCES:
        wait_for(f"{resource.plural} to be served", functools.partial(is_served, kube, resource.path()))
    _wait_for_policies(kube)
    return NAMESPACE


def _wait_for_policies(kube: KubeApi) -> None:
    """Policies are in force a moment after they were made: wait until the last one refuses something."""
    jobs = TRAINING_JOBS.path(namespace="default")
    job = training_job("probe")
    kube.create(jobs, job)
    kube.merge_patch(f"{jobs}/probe/status", {"status": {"startedAt": "2026-01-01T00:00:00Z"}})

    def refused() -> bool:
        job["spec"]["workload"]["template"]["spec"]["containers"][0]["image"] += "x"
        try:
            kube.merge_patch(f"{jobs}/probe", {"spec": job["spec"]})
        except ApiError as error:
            return "can not change" in str(error)
        return False

    wait_for("the policies to be in force", refused)
    kube.delete(f"{jobs}/probe")


@dataclass(frozen=True)
class Identities:
    """Tokens of the release's service accounts, bound to a pod as the kubelet binds them."""

    admin: KubeApi
    folder: Path
    pods: list[str] = field(default_factory=list)
    namespace: str = NAMESPACE

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    def config(self, account: str, node: str = "", pod: bool = True) -> Path:
        """Return a kubeconfig of an account, with the token of a pod of its own (on a node, if named), or of no pod."""
        spec: Object = {"expirationSeconds": 3600}
        if pod:
            created_object = self.admin.create(f"{self._path}/pods", self._pod(account, node))
            self.pods.append(created_object["metadata"]["name"])
            reference = {"apiVersion": "v1", "kind": "Pod", "name": created_object["metadata"]["name"]}
            spec["boundObjectRef"] = reference | {"uid": created_object["metadata"]["uid"]}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        token = self.admin.create(f"{self._path}/serviceaccounts/{account}/token", request)["status"]["token"]
        path = self.folder / f"{account}-{node or 'nowhere'}-{pod}.kubeconfig"
        text = kubeconfig.render("test", self.admin.server, self.admin.ca_file, {"token": token})
        path.write_text(text, encoding="utf-8")
        return path

    def rest(self, account: str, node: str = "", pod: bool = True) -> KubeApi:
        """Return a client that acts as an account."""
        return connect(self.config(account, node, pod))

    def _pod(self, account: str, node: str) -> Object:
        container = {"name": "main", "image": "none", "command": ["sleep", "3600"]}
        spec = {"serviceAccountName": account, "containers": [container], "nodeSelector": {"nowhere": "true"}}
        return {"metadata": {"generateName": f"{account}-"}, "spec": spec | ({"nodeName": node} if node else {})}

    def end(self) -> None:
        """Remove the pods, and with them the tokens."""
        for name in self.pods:
            with contextlib.suppress(NotFoundError):
                self.admin.delete(f"{self._path}/pods/{name}", grace_period_s=0)


@pytest.fixture
def identities(release: str, kube: KubeApi, tmp_path: Path) -> Iterator[Identities]:
    """Tokens of the release; the pods that they are bound to go with the test."""
    new_identities = Identities(kube, tmp_path)
    yield new_identities
    new_identities.end()


@pytest.fixture(scope="session")
def fleet(
    release: str, control_plane: ControlPlane, kube: KubeApi, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """An operator and two agents on simulated boards, all under the release's own accounts."""
    root = tmp_path_factory.mktemp("fleet")
    identities = Identities(kube, root)
    _wait_for_owners(identities.rest("powertrain-operator"))
    boards = dict.fromkeys(BOARDS, "orin-agx")
    settings = FleetSettings(boards, time_scale=15.0, namespace=NAMESPACE, servers=["server"])

    def identity(node: str) -> Path:
        return identities.config("powertrain-agent", node) if node else identities.config("powertrain-operator")

    env, logs = control_plane.environment(), control_plane.logs
    with Fleet(control_plane.kubeconfig, settings, root, logs=logs, env=env, identity=identity) as running:
        yield running
    identities.end()


def _wait_for_owners(operator: KubeApi) -> None:
    """The plugin that asks owners for their rights learns new kinds every ten seconds."""
    owner = {"apiVersion": API_VERSION, "kind": "TrainingJob", "name": "none", "uid": "none"}
    metadata = {"generateName": "probe-", "ownerReferences": [owner | {"blockOwnerDeletion": True}]}
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
    job = {"metadata": metadata, "spec": {"template": {"spec": pod}}}

    def allowed() -> bool:
        try:
            operator.create("/apis/batch/v1/namespaces/default/jobs?dryRun=All", job)
        except ApiError as error:
            if "RESTMapping" not in str(error):
                raise
            return False
        return True

    wait_for("TrainingJobs to be known as owners", allowed)


def training_job(name: str) -> Object:
    """Return the smallest TrainingJob; suspended, so that no operator of other tests begins with it."""
    template = {"spec": {"containers": [{"name": "train", "image": "one"}]}}
    workload = {"batchSizes": [16], "template": template}
    spec = {"constraints": {"powerWatts": 30}, "workload": workload, "suspend": True}
    return {"apiVersion": API_VERSION, "kind": "TrainingJob", "metadata": {"name": name}, "spec": spec}


def by_kind(objects: Sequence[Object], kind: str) -> list[Object]:
    """Return the objects of a kind."""
    return [each for each in objects if each["kind"] == kind]
