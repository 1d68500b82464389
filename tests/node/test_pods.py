"""Real pods on a real kubelet and containerd: the ground that the agent and the jobs stand on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from powertrain_devcluster.node.node import NodeCluster
from powertrain_devcluster.testing.waits import wait_for
from powertrain_kube import KubeApi

Object = dict[str, Any]

# What an agent's container must get by with: no capability, no new privileges, a read-only root, the default filter.
UNPRIVILEGED = {
    "privileged": False,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsUser": 0,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def python(image: str, script: str, **more: Any) -> Object:
    return {"name": "main", "image": image, "imagePullPolicy": "Never", "command": ["python3", "-c", script], **more}


def make_pod(kube: KubeApi, namespace: str, container: Object, name: str = "pod", **spec: Any) -> str:
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    body["spec"] = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **spec}
    kube.create(f"/api/v1/namespaces/{namespace}/pods", body)
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def wait_phase(kube: KubeApi, path: str, phase: str) -> Object:
    return wait_for(f"phase {phase}", lambda: kube.get(path)["status"], lambda status: status.get("phase") == phase, 60)


def message(status: Object) -> str:
    return str(status["containerStatuses"][0]["state"]["terminated"].get("message", ""))


def host_path(path: Path | str, kind: str = "Directory") -> list[Object]:
    return [{"name": "host", "hostPath": {"path": str(path), "type": kind}}]


@pytest.fixture
def harmless_attribute() -> Iterator[Path]:
    """The read-ahead of a loop device that nobody uses."""
    for device in sorted(Path("/sys/block").glob("loop*"), reverse=True):
        attribute = device / "queue" / "read_ahead_kb"
        if (device / "size").read_text().strip() == "0" and attribute.exists():
            before = attribute.read_text()
            yield attribute
            attribute.write_text(before)
            return
    pytest.skip("no unused loop device whose read-ahead could be written")


def test_a_pod_without_any_capability_writes_a_host_sysfs_attribute_through_its_host_path(
    kube: KubeApi, test_namespace: str, agent_image: str, harmless_attribute: Path
) -> None:
    new_value = str(int(harmless_attribute.read_text()) + 4)
    script = (
        "import pathlib\n"
        f"pathlib.Path('/host/read_ahead_kb').write_text('{new_value}')\n"
        "caps = [l for l in open('/proc/self/status') if l.startswith('CapEff')][0].split()[1]\n"
        "try: open('/sys/kernel/mm/ksm/run', 'w')\n"
        "except OSError as error: own = error.strerror\n"
        "open('/dev/termination-log', 'w').write(caps + ' ' + own)\n"
    )
    mounts = [{"name": "host", "mountPath": "/host"}]
    container = python(agent_image, script, volumeMounts=mounts, securityContext=UNPRIVILEGED)
    folder = harmless_attribute.parent.resolve()
    status = wait_phase(kube, make_pod(kube, test_namespace, container, volumes=host_path(folder)), "Succeeded")
    assert message(status) == "0000000000000000 Read-only file system"
    assert harmless_attribute.read_text().strip() == new_value


@pytest.mark.parametrize("place", ["{tmp}/board", "/var/lib/powertrain-test", "/run/powertrain-test"])
def test_files_of_a_pod_s_host_path_can_be_read_from_outside(
    kube: KubeApi, test_namespace: str, agent_image: str, node_cluster: NodeCluster, tmp_path: Path, place: str
) -> None:
    folder = place.format(tmp=tmp_path)
    mounts = [{"name": "host", "mountPath": "/board"}]
    container = python(agent_image, "open('/board/freq', 'w').write('42')", volumeMounts=mounts)
    path = make_pod(kube, test_namespace, container, volumes=host_path(folder, "DirectoryOrCreate"))
    wait_phase(kube, path, "Succeeded")
    assert node_cluster.host_path(f"{folder}/freq").read_text() == "42"
    if not folder.startswith(str(tmp_path)):
        assert not Path(folder).exists()


def test_the_agent_image_holds_our_packages_and_their_libraries(
    kube: KubeApi, test_namespace: str, agent_image: str
) -> None:
    script = (
        "import sys; sys.path.insert(0, '/opt/powertrain/lib')\n"
        "import kubernetes, numpy, scipy.optimize, pydantic, prometheus_client, powertrain, powertrain_agent\n"
        "open('/dev/termination-log', 'w').write(powertrain.__version__)\n"
    )
    status = wait_phase(kube, make_pod(kube, test_namespace, python(agent_image, script)), "Succeeded")
    assert message(status)


def test_a_pod_s_cgroup_is_seen_by_another_pod_while_it_lives_and_not_after(
    kube: KubeApi, test_namespace: str, agent_image: str
) -> None:
    path = make_pod(kube, test_namespace, python(agent_image, "import time; time.sleep(1000)"), "job")
    wait_phase(kube, path, "Running")
    uid = kube.get(path)["metadata"]["uid"]
    script = f"""
import os, pathlib, time
def seen():
    names = (name for _, folders, _ in os.walk('/host') for name in folders)
    return any(name.startswith('pod') and '{uid}' in name for name in names)
log = pathlib.Path('/dev/termination-log')
print('before', seen(), flush=True)
while seen(): time.sleep(0.1)
log.write_text('gone')
"""
    mounts = [{"name": "host", "mountPath": "/host", "readOnly": True}]
    container = python(agent_image, script, volumeMounts=mounts, securityContext=UNPRIVILEGED)
    watcher = make_pod(kube, test_namespace, container, "watcher", volumes=host_path("/sys/fs/cgroup"))
    wait_phase(kube, watcher, "Running")
    kube.delete(path)
    assert message(wait_phase(kube, watcher, "Succeeded")) == "gone"


def test_a_service_of_cni_pods_answers_and_logs_and_exec_work(
    kube: KubeApi, test_namespace: str, agent_image: str, kubectl: list[str]
) -> None:
    server = "import http.server as h; print('serving', flush=True); h.test(h.SimpleHTTPRequestHandler, port=8080)"
    wait_phase(kube, make_pod(kube, test_namespace, python(agent_image, server), "server"), "Running")
    spec = {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8080}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
    address = kube.create(f"/api/v1/namespaces/{test_namespace}/services", service)["spec"]["clusterIP"]
    client = f"""
import time, urllib.request
for _ in range(100):
    try:
        code = urllib.request.urlopen('http://{address}/', timeout=2).status
        break
    except OSError as error:
        code = error; time.sleep(0.2)
open('/dev/termination-log', 'w').write(str(code))
"""
    status = wait_phase(kube, make_pod(kube, test_namespace, python(agent_image, client), "client"), "Succeeded")
    assert message(status) == "200"
    base = [*kubectl, "--namespace", test_namespace]
    logs = subprocess.run([*base, "logs", "server"], capture_output=True, text=True, check=True)
    assert logs.stdout.startswith("serving")
    inside = subprocess.run(
        [*base, "exec", "server", "--", "cat", "/proc/1/comm"], capture_output=True, text=True, check=True
    )
    assert inside.stdout == "python3\n"


def test_a_pod_reaches_the_api_server_as_its_own_service_account(
    kube: KubeApi, test_namespace: str, agent_image: str
) -> None:
    script = (
        "import sys; sys.path.insert(0, '/opt/powertrain/lib')\n"
        "from kubernetes import client, config; config.load_incluster_config()\n"
        "me = client.AuthenticationV1Api().create_self_subject_review(client.V1SelfSubjectReview())\n"
        "open('/dev/termination-log', 'w').write(me.status.user_info.username)\n"
    )
    status = wait_phase(kube, make_pod(kube, test_namespace, python(agent_image, script)), "Succeeded")
    assert message(status) == f"system:serviceaccount:{test_namespace}:default"
