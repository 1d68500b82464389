"""Jobs that nobody should write, on a real API server: the operator refuses each with words, and serves the others."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from powertrain.api.resources import RESOURCES
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.testing.waits import wait_for
from powertrain_kube import ConflictError, KubeApi, NotFoundError

ROOT = Path(__file__).resolve().parents[3]
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Object = dict[str, Any]
# The chart gives the operator 512 MiB.
LIMIT_MB = 512
CONTAINER = {"name": "train", "image": "example.org/train:1"}
DEEP = 1000


def jobs(namespace: str) -> str:
    return f"/apis/powertrain.io/v1alpha1/namespaces/{namespace}/trainingjobs"


def job(name: str, template: Object, **workload: Any) -> Object:
    spec = {"constraints": {"powerWatts": 30}, "workload": {"batchSizes": [16], "template": template, **workload}}
    return {"apiVersion": "powertrain.io/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name}, "spec": spec}


def nested(levels: int) -> Object:
    template: Any = {}
    for _ in range(levels):
        template = {"a": template}
    return {"spec": {"containers": [CONTAINER], "deep": template}}


@contextlib.contextmanager
def deep_recursion() -> Iterator[None]:
    """Let this test write and read what Python's own JSON can't at its usual limit."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20 * DEEP)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


class Operator:
    """The operator as it is shipped, in a process of its own."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        command = [sys.executable, "-m", "powertrain_operator.main", "--metrics-port", "0", "--resync-seconds", "2"]
        command += ["--kubeconfig", str(control_plane.kubeconfig), "--namespace", namespace]
        # Another release of these tests may hold the Lease of the usual name.
        command += ["--cluster-lease", namespace]
        self.log = control_plane.logs / f"operator-{namespace}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, env=control_plane.environment())

    def most_mb(self) -> float:
        """The most memory that it ever had."""
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM")) / 1024


@pytest.fixture
def kinds(kube: KubeApi, control_plane: ControlPlane) -> None:
    for resource in RESOURCES:
        manifest = yaml.safe_load((ROOT / f"crds/powertrain.io_{resource.plural}.yaml").read_text(encoding="utf-8"))
        with contextlib.suppress(ConflictError):
            kube.create(CRD, manifest)
    for resource in RESOURCES:
        path = f"{control_plane.server}{resource.path()}"
        wait_for(f"{resource.plural} to be served", lambda path=path: control_plane.get(path), lambda code: code == 200)


@pytest.fixture
def start(control_plane: ControlPlane, kinds: None, test_namespace: str) -> Iterator[Callable[[], Operator]]:
    operators: list[Operator] = []

    def begin() -> Operator:
        operators.append(Operator(control_plane, test_namespace))
        return operators[-1]

    yield begin
    for each in operators:
        each.process.terminate()
        each.process.wait(timeout=30)


def admission_of(kube: KubeApi, namespace: str, name: str) -> tuple[str, str, str]:
    """What a job's status says of its admission: the verdict, the reason, the message."""
    with deep_recursion():
        status = kube.get(f"{jobs(namespace)}/{name}").get("status") or {}
    condition = next((c for c in status.get("conditions") or () if c["type"] == "Admitted"), None)
    return (condition["status"], condition["reason"], condition["message"]) if condition else ("", "", "")


def wait_for_verdict(kube: KubeApi, namespace: str, name: str) -> tuple[str, str, str]:
    return wait_for(
        f"a verdict on {name}", lambda: admission_of(kube, namespace, name), lambda words: words[0] != "", 60.0
    )


def is_gone(kube: KubeApi, namespace: str, name: str) -> bool:
    try:
        with deep_recursion():
            kube.get(f"{jobs(namespace)}/{name}")
    except NotFoundError:
        return True
    return False


def test_templates_too_deep_and_too_large_cost_nobody_else_anything(
    kube: KubeApi, test_namespace: str, start: Callable[[], Operator]
) -> None:
    path = jobs(test_namespace)
    # The first takes most memory for its length, in the operator and in the API server, which needs seconds for each.
    many = {"spec": {"containers": [CONTAINER], "data": [[]] * 466_000}}
    large = {"spec": {"containers": [CONTAINER], "data": "x" * 1_400_000}}
    assert all(1_350_000 < len(json.dumps(each, separators=(",", ":"))) < 1_450_000 for each in (many, large))
    names = [f"large-{number}" for number in range(20)]
    for name in names[:10]:
        kube.create(path, job(name, many if name == "large-0" else large))
    with deep_recursion():
        kube.create(path, job("deep", nested(DEEP)))
    operator = start()
    kube.create(path, job("good", {"spec": {"containers": [CONTAINER]}}))
    assert wait_for_verdict(kube, test_namespace, "good")[:2] == ("True", "Accepted")
    for name in names[10:]:
        kube.create(path, job(name, large))
    with deep_recursion():
        kube.create(path, job("deep-while-it-watches", nested(DEEP)))
    kube.create(path, job("typo", {"spec": {"containers": [{**CONTAINER, "env": [{"value": "1"}]}]}}))
    kube.create(path, job("good-too", {"spec": {"containers": [CONTAINER]}}))
    assert wait_for_verdict(kube, test_namespace, "good-too")[:2] == ("True", "Accepted")
    for name in names:
        assert wait_for_verdict(kube, test_namespace, name)[:2] == ("False", "TemplateTooLarge")
    for name in ("deep", "deep-while-it-watches"):
        status, reason, message = wait_for_verdict(kube, test_namespace, name)
        assert (status, reason) == ("False", "InvalidTemplate")
        assert "nested more than" in message
    status, reason, message = wait_for_verdict(kube, test_namespace, "typo")
    assert (status, reason) == ("False", "InvalidTemplate")
    assert message.startswith("workload.template.spec.containers[0].env[0].name: ")
    assert operator.most_mb() < LIMIT_MB
    everybody = [*names, "deep", "deep-while-it-watches", "typo", "good", "good-too"]
    for name in everybody:
        with deep_recursion():
            kube.delete(f"{path}/{name}")
    for name in everybody:
        wait_for(f"{name} to be gone", lambda name=name: is_gone(kube, test_namespace, name), deadline_s=60.0)
    assert operator.process.poll() is None


def test_counts_that_nobody_can_mean_are_refused_by_the_api_server(
    kube: KubeApi, kinds: None, test_namespace: str
) -> None:
    for count in (2**53, 10**18, 10**30):
        with pytest.raises(Exception, match=r"9007199254740991|should be|must be|Invalid"):
            kube.create(jobs(test_namespace), job("extreme", {"spec": {"containers": [CONTAINER]}}, epochs=count))
