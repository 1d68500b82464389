"""Pods on simulated nodes behave as a kubelet would make them behave."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.standin.kubelet import StandInKubelet
from powertrain_devcluster.testing.waits import restart_api_server, wait_for
from powertrain_kube import KubeApi

Object = dict[str, Any]
Start = Callable[..., StandInKubelet]


def shell(script: str, name: str = "main", **more: Any) -> Object:
    return {"name": name, "image": "none", "command": ["sh", "-c", script], **more}


def only_on(node: str) -> Object:
    """What keeps a pod off the nodes of earlier tests, which the scheduler may not know to be gone yet."""
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def make_pod(
    kube: KubeApi, namespace: str, *containers: Object, name: str = "pod", node: str = "node-a", **spec: Any
) -> str:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"who": "me"}},
        "spec": {"restartPolicy": "Never", "containers": list(containers), **only_on(node), **spec},
    }
    kube.create(f"/api/v1/namespaces/{namespace}/pods", body)
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def wait_phase(kube: KubeApi, path: str, phase: str) -> Object:
    return wait_for(f"phase {phase}", lambda: kube.get(path), lambda pod: pod["status"].get("phase") == phase)


def terminated(pod: Object, kind: str = "containerStatuses", index: int = 0) -> Object:
    state: Object = pod["status"][kind][index]["state"]["terminated"]
    return state


def cgroup(node: StandInKubelet, name: str, pod: Object) -> Path:
    root = node.node_root(name) / "sys/fs/cgroup/kubepods/besteffort"
    return root / f"pod{pod['metadata']['uid']}"


def test_a_job_runs_its_init_container_first_and_completes_with_its_termination_message(
    kube: KubeApi, test_namespace: str, stand_in: Start
) -> None:
    stand_in("node-a")
    volumes = [{"name": "work", "emptyDir": {}}]
    mounts = [{"name": "work", "mountPath": "/work"}]
    template = {
        **only_on("node-a"),
        "restartPolicy": "Never",
        "volumes": volumes,
        "initContainers": [shell("echo prepared > /work/file", "gate", volumeMounts=mounts)],
        "containers": [shell("cat /work/file > /dev/termination-log", volumeMounts=mounts)],
    }
    jobs = f"/apis/batch/v1/namespaces/{test_namespace}/jobs"
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job"},
        "spec": {"template": {"spec": template}},
    }
    kube.create(jobs, job)
    wait_for("the job's completion", lambda: kube.get(f"{jobs}/job")["status"], lambda s: s.get("succeeded") == 1)
    [pod] = kube.get(f"/api/v1/namespaces/{test_namespace}/pods")["items"]
    assert pod["status"]["phase"] == "Succeeded"
    assert terminated(pod, "initContainerStatuses")["exitCode"] == 0
    assert terminated(pod)["message"] == "prepared\n"
    assert terminated(pod)["reason"] == "Completed"


def test_a_failed_init_container_fails_the_pod_and_the_main_one_never_starts(
    kube: KubeApi, test_namespace: str, stand_in: Start, tmp_path: Path
) -> None:
    stand_in("node-a")
    witness = tmp_path / "started"
    path = make_pod(kube, test_namespace, shell(f"touch {witness}"), initContainers=[shell("exit 7", "gate")])
    pod = wait_phase(kube, path, "Failed")
    assert terminated(pod, "initContainerStatuses")["exitCode"] == 7
    assert pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"
    assert not witness.exists()


def test_exit_codes_and_signals_are_reported_as_containers_report_them(
    kube: KubeApi, test_namespace: str, stand_in: Start
) -> None:
    stand_in("node-a")
    path = make_pod(kube, test_namespace, shell("exit 3", "code"), shell("kill -9 $$", "signal"))
    pod = wait_phase(kube, path, "Failed")
    assert [terminated(pod, index=i)["exitCode"] for i in (0, 1)] == [3, 137]
    assert terminated(pod)["reason"] == "Error"


def test_restart_policy_on_failure_restarts_until_success(
    kube: KubeApi, test_namespace: str, stand_in: Start, tmp_path: Path
) -> None:
    stand_in("node-a", restart_backoff_s=0.1)
    script = f"echo x >> {tmp_path}/tries; test $(wc -l < {tmp_path}/tries) -ge 3"
    path = make_pod(kube, test_namespace, shell(script), restartPolicy="OnFailure")
    pod = wait_phase(kube, path, "Succeeded")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 2
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


def test_deletion_sends_term_waits_for_the_grace_and_removes_the_object_and_the_cgroup(
    kube: KubeApi, test_namespace: str, stand_in: Start, tmp_path: Path
) -> None:
    node = stand_in("node-a")
    script = f"trap 'echo term > {tmp_path}/seen; exit 0' TERM; touch {tmp_path}/up; while :; do sleep 0.05; done"
    path = make_pod(kube, test_namespace, shell(script), terminationGracePeriodSeconds=20)
    pod = wait_phase(kube, path, "Running")
    wait_for("the trap", (tmp_path / "up").exists)
    folder = cgroup(node, "node-a", pod)
    assert [len(file.read_text().split()) for file in folder.glob("*/cgroup.procs")] == [1]
    kube.delete(path)
    wait_for(
        "the pod to be gone", lambda: kube.get(f"/api/v1/namespaces/{test_namespace}/pods")["items"], lambda i: not i
    )
    assert (tmp_path / "seen").read_text() == "term\n"
    wait_for("the cgroup to be gone", lambda: not folder.exists())


def test_a_container_that_ignores_term_is_killed_with_its_children_after_the_grace(
    kube: KubeApi, test_namespace: str, stand_in: Start, tmp_path: Path
) -> None:
    stand_in("node-a")
    script = f"trap '' TERM; sleep 1000 & echo $! > {tmp_path}/child; wait; sleep 1000"
    path = make_pod(kube, test_namespace, shell(script), terminationGracePeriodSeconds=1)
    child = int(wait_for("the child", (tmp_path / "child").read_text))
    kube.delete(path)
    wait_for(
        "the pod to be gone", lambda: kube.get(f"/api/v1/namespaces/{test_namespace}/pods")["items"], lambda i: not i
    )
    wait_for("the child to be gone", lambda: not Path(f"/proc/{child}/cmdline").exists())


def test_environment_carries_fields_values_and_references(kube: KubeApi, test_namespace: str, stand_in: Start) -> None:
    stand_in("node-a")
    maps = f"/api/v1/namespaces/{test_namespace}/configmaps"
    kube.create(maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "v"}})
    env = [
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['who']"}}},
        {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
        {"name": "BOTH", "value": "$(POD)@$(NODE) $$(POD) $(NOBODY)"},
    ]
    script = 'echo "$BOTH $WHO $MAP" > /dev/termination-log'
    pod = wait_phase(kube, make_pod(kube, test_namespace, shell(script, env=env)), "Succeeded")
    assert terminated(pod)["message"] == "pod@node-a $(POD) $(NOBODY) me v\n"


def test_host_paths_lie_under_the_root_of_the_node(kube: KubeApi, test_namespace: str, stand_in: Start) -> None:
    node = stand_in("node-a")
    volumes = [{"name": "host", "hostPath": {"path": "/var/lib/thing", "type": "DirectoryOrCreate"}}]
    env = [{"name": "WHERE", "value": "/data/out"}]
    container = shell('echo hello > "$WHERE"', env=env, volumeMounts=[{"name": "host", "mountPath": "/data"}])
    wait_phase(kube, make_pod(kube, test_namespace, container, volumes=volumes), "Succeeded")
    assert (node.node_root("node-a") / "var/lib/thing/out").read_text() == "hello\n"


def test_a_host_path_that_must_exist_keeps_the_pod_waiting_until_it_does(
    kube: KubeApi, test_namespace: str, stand_in: Start
) -> None:
    node = stand_in("node-a")
    volumes = [{"name": "host", "hostPath": {"path": "/var/lib/late", "type": "Directory"}}]
    path = make_pod(kube, test_namespace, shell("true"), volumes=volumes)
    states = wait_for("a reason", lambda: kube.get(path)["status"].get("containerStatuses"))
    assert "/var/lib/late is not a Directory" in states[0]["state"]["waiting"]["message"]
    (node.node_root("node-a") / "var/lib/late").mkdir(parents=True)
    wait_phase(kube, path, "Succeeded")


def test_a_pod_speaks_to_the_api_server_as_its_own_service_account(
    kube: KubeApi, test_namespace: str, stand_in: Start
) -> None:
    stand_in("node-a")
    script = (
        "import os; from kubernetes import client, config; config.load_config(); "
        "me = client.AuthenticationV1Api().create_self_subject_review(client.V1SelfSubjectReview()); "
        "open(os.environ['TERMINATION_MESSAGE_PATH'], 'w').write(me.status.user_info.username)"
    )
    container = {"name": "main", "image": "none", "command": ["python", "-c", script]}
    pod = wait_phase(kube, make_pod(kube, test_namespace, container), "Succeeded")
    assert terminated(pod)["message"] == f"system:serviceaccount:{test_namespace}:default"


def test_a_missing_command_is_reported_with_what_would_work(
    kube: KubeApi, test_namespace: str, stand_in: Start
) -> None:
    stand_in("node-a", entrypoints={"known": ["true"]})
    path = make_pod(kube, test_namespace, {"name": "main", "image": "registry/unknown:1"})
    states = wait_for("a reason", lambda: kube.get(path)["status"].get("containerStatuses"))
    waiting = states[0]["state"]["waiting"]
    assert waiting["reason"] == "ErrImageNeverPull"
    assert "'registry/unknown:1' has no local command: set `command`, or use one of: known" in waiting["message"]
    other = make_pod(kube, test_namespace, {"name": "main", "image": "registry/known:1"}, name="other")
    wait_phase(kube, other, "Succeeded")


def test_a_program_that_does_not_exist_ends_with_code_128(kube: KubeApi, test_namespace: str, stand_in: Start) -> None:
    stand_in("node-a")
    container = {"name": "main", "image": "none", "command": ["/no/such/program"]}
    pod = wait_phase(kube, make_pod(kube, test_namespace, container), "Failed")
    assert terminated(pod)["exitCode"] == 128
    assert "/no/such/program" in terminated(pod)["message"]


def test_a_failing_container_may_give_the_end_of_its_log_as_last_words(
    kube: KubeApi, test_namespace: str, stand_in: Start
) -> None:
    stand_in("node-a")
    container = shell("echo it broke; exit 1", terminationMessagePolicy="FallbackToLogsOnError")
    pod = wait_phase(kube, make_pod(kube, test_namespace, container), "Failed")
    assert terminated(pod)["message"] == "it broke\n"


def test_a_daemonset_runs_once_on_every_simulated_node(kube: KubeApi, test_namespace: str, stand_in: Start) -> None:
    stand_in("node-a", "node-b", "node-c")
    labels = {"app": "daemon"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [shell("sleep 1000")]}},
    }
    sets = f"/apis/apps/v1/namespaces/{test_namespace}/daemonsets"
    kube.create(sets, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": spec})
    wait_for("three ready pods", lambda: kube.get(f"{sets}/d")["status"], lambda s: s.get("numberReady") == 3)
    pods = kube.get(f"/api/v1/namespaces/{test_namespace}/pods")["items"]
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["node-a", "node-b", "node-c"]
    assert len({pod["status"]["podIP"] for pod in pods}) == 3


def test_a_reboot_kills_the_processes_and_changes_the_boot_id(
    kube: KubeApi, test_namespace: str, stand_in: Start
) -> None:
    node = stand_in("node-a")
    path = make_pod(kube, test_namespace, shell("sleep 1000"), restartPolicy="Always")
    wait_phase(kube, path, "Running")
    before = kube.get("/api/v1/nodes/node-a")["status"]["nodeInfo"]["bootID"]
    node.reboot("node-a")
    status = wait_for(
        "a restarted container",
        lambda: kube.get(path)["status"]["containerStatuses"][0],
        lambda s: s["restartCount"] == 1 and "running" in s["state"],
    )
    assert status["lastState"]["terminated"]["exitCode"] == 137
    after = kube.get("/api/v1/nodes/node-a")["status"]["nodeInfo"]["bootID"]
    assert after != before
    assert (node.node_root("node-a") / "proc/sys/kernel/random/boot_id").read_text().strip() == after


def test_pods_go_on_while_the_api_server_is_away_and_are_reported_when_it_is_back(
    kube: KubeApi, test_namespace: str, stand_in: Start, control_plane: ControlPlane, tmp_path: Path
) -> None:
    stand_in("node-a")
    gate, began, leaving = tmp_path / "gate", tmp_path / "began", tmp_path / "leaving"
    wait = f"until [ -e {gate} ]; do sleep 0.05; done"
    job = make_pod(kube, test_namespace, shell(f"touch {began}"), name="job", initContainers=[shell(wait, "init")])
    trap = f"trap 'touch {leaving}; {wait}; touch {leaving}; exit 0' TERM; while :; do sleep 0.05; done"
    leaver = make_pod(kube, test_namespace, shell(trap), name="leaver", terminationGracePeriodSeconds=120)
    wait_phase(kube, leaver, "Running")
    wait_for("the init container", lambda: kube.get(job)["status"]["initContainerStatuses"][0]["state"]["running"])
    kube.delete(leaver)
    wait_for("the end of the other to begin", leaving.exists)

    def while_away() -> None:
        leaving.unlink()
        gate.touch()
        wait_for("the main container", began.exists)
        wait_for("the end of the other", leaving.exists)

    restart_api_server(control_plane, while_away)
    assert terminated(wait_phase(kube, job, "Succeeded"), "initContainerStatuses")["exitCode"] == 0
    kube.delete(job)
    wait_for(
        "no pod to be left", lambda: kube.get(f"/api/v1/namespaces/{test_namespace}/pods")["items"], lambda i: not i
    )


def test_pods_and_nodes_are_gone_when_the_stand_in_ends(
    kube: KubeApi, test_namespace: str, control_plane: Any, tmp_path: Path
) -> None:
    options = {"env": control_plane.environment(), "logs": control_plane.logs}
    with StandInKubelet(control_plane.kubeconfig, ["short"], tmp_path / "n", **options):
        path = make_pod(kube, test_namespace, shell(f"echo $$ > {tmp_path}/pid; sleep 1000"), node="short")
        wait_phase(kube, path, "Running")
        pid = int(wait_for("the pid", (tmp_path / "pid").read_text))
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert [n["metadata"]["name"] for n in kube.get("/api/v1/nodes")["items"]] == []
