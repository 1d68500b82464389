"""What tenants may run in a namespace with the label powertrain.io/training=true, tried with their own tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from powertrain.api.v1alpha1 import TrainingJob
from powertrain_devcluster.testing.waits import namespace, wait_for
from powertrain_kube import ApiError, KubeApi
from powertrain_operator import names
from powertrain_operator.training_pods import PodSettings, Replica, session_uid
from powertrain_operator.training_pods import build_job as built_job

from .conftest import Identities
from .conftest import training_job as plain_job

Object = dict[str, Any]
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
JOB_UID = "0d6c2f9e-1111-2222-3333-444455556666"
SESSION = session_uid(JOB_UID, 0, 1)
SESSIONS = PodSettings().sessions_path
DRY = "?dryRun=All"
# A rule for pods and a rule for containers, which may stand in three lists.
RESOURCES = ("containers", "initContainers", "ephemeralContainers")
PROBE = {"httpGet": {"port": 80, "host": "10.0.0.1"}}


def context(**fields: Any) -> Object:
    return {"securityContext": fields}


IN_CONTAINERS: dict[str, tuple[Object, str]] = {
    "privileged": (context(privileged=True), "Privileged Containers: bad is privileged"),
    "capability": (context(capabilities={"add": ["SYS_ADMIN"]}), "Capabilities: bad adds capabilities"),
    "all-capabilities": (context(capabilities={"add": ["ALL"]}), "Capabilities: bad adds capabilities"),
    "proc-mount": (context(procMount="Unmasked"), "/proc Mount Type: bad asks for a procMount"),
    "seccomp": (context(seccompProfile={"type": "Unconfined"}), "Seccomp: bad asks for a seccomp profile"),
    "apparmor": (
        context(appArmorProfile={"type": "Unconfined"}),
        r"AppArmor: bad(, \S+)? asks for an AppArmor profile",
    ),
    "selinux-type": (context(seLinuxOptions={"type": "spc_t"}), "SELinux: bad sets an SELinux user or role"),
    "selinux-user": (context(seLinuxOptions={"user": "root"}), "SELinux: bad sets an SELinux user or role"),
}
# What Kubernetes itself refuses for a container for debugging.
IN_LASTING_CONTAINERS: dict[str, tuple[Object, str]] = {
    "windows": (context(windowsOptions={"hostProcess": True}), "HostProcess: bad.* is a Windows HostProcess"),
    "host-port": ({"ports": [{"containerPort": 80, "hostPort": 80}]}, "Host Ports: bad opens a port of the host"),
}
IN_PODS: dict[str, tuple[Object, str]] = {
    "host-pid": ({"hostPID": True}, "Host Namespaces: hostPID uses"),
    "host-ipc": ({"hostIPC": True}, "Host Namespaces: hostIPC uses"),
    "host-network": ({"hostNetwork": True}, "Host Namespaces: hostNetwork uses"),
    "sysctl": (context(sysctls=[{"name": "kernel.msgmax", "value": "1"}]), "Sysctls: kernel.msgmax is a sysctl"),
    "seccomp": (context(seccompProfile={"type": "Unconfined"}), r"Seccomp: \(pod\) asks"),
    "apparmor": (context(appArmorProfile={"type": "Unconfined"}), r"AppArmor: \(pod\)(, \S+)? asks"),
    "selinux": (context(seLinuxOptions={"role": "sysadm_r"}), r"SELinux: \(pod\) sets"),
    "windows": (
        {"hostNetwork": True, **context(windowsOptions={"hostProcess": True})},
        r"HostProcess: \(pod\) is a Windows HostProcess",
    ),
}


def pod(name: str = "tried", **spec: Any) -> Object:
    container = {"name": "good", "image": "none"}
    return {"metadata": {"name": name}, "spec": {"serviceAccountName": "tenant", "containers": [container], **spec}}


def with_volume(path: str, read_only: bool, uid: str = JOB_UID) -> Object:
    mounts = [{"name": "host", "mountPath": "/mnt", "readOnly": read_only}]
    new_pod = pod(
        containers=[{"name": "bad", "image": "none", "volumeMounts": mounts}],
        volumes=[{"name": "host", "hostPath": {"path": path}}],
    )
    new_pod["metadata"]["labels"] = {names.JOB_UID: uid}
    return new_pod


@pytest.fixture(scope="module")
def home(kube: KubeApi, release: str) -> Iterator[str]:
    """A namespace for training, with somebody who may do there what `edit` allows and more, and a pod of theirs."""
    with namespace(kube) as name:
        kube.merge_patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": {"powertrain.io/training": "true"}}})
        kube.create(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "tenant"}})
        everything = {"apiGroups": ["", "batch", "apps"], "resources": ["*"], "verbs": ["*"]}
        kube.create(f"{RIGHTS}/namespaces/{name}/roles", {"metadata": {"name": "tenant"}, "rules": [everything]})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"}
        subjects = [{"kind": "ServiceAccount", "name": "tenant", "namespace": name}]
        binding = {"metadata": {"name": "tenant"}, "roleRef": reference, "subjects": subjects}
        kube.create(f"{RIGHTS}/namespaces/{name}/rolebindings", binding)
        kube.create(f"/api/v1/namespaces/{name}/pods", pod("there", nodeSelector={"nowhere": "true"}, hostUsers=False))
        wait_for("the policy to be in force", lambda: refused(kube, f"/api/v1/namespaces/{name}/pods"))
        yield name


def refused(kube: KubeApi, pods: str) -> bool:
    try:
        kube.create(f"{pods}{DRY}", pod(hostPID=True))
    except ApiError as error:
        return "Host Namespaces" in str(error)
    return False


@pytest.fixture(scope="module")
def tenant(kube: KubeApi, home: str, tmp_path_factory: pytest.TempPathFactory) -> KubeApi:
    """A client with the tenant's own token."""
    return Identities(kube, tmp_path_factory.mktemp("tenant"), namespace=home).rest("tenant", pod=False)


@pytest.fixture(scope="module")
def create(tenant: KubeApi, home: str) -> Callable[[Object], Object]:
    """Create a pod as the tenant, without keeping it."""
    return lambda body: tenant.create(f"/api/v1/namespaces/{home}/pods{DRY}", body)


def cases(rules: dict[str, tuple[Object, str]], kinds: tuple[str, ...]) -> list[Any]:
    return [pytest.param(kind, *rule, id=f"{name}-{kind}") for name, rule in rules.items() for kind in kinds]


@pytest.mark.parametrize(
    ("kind", "fields", "words"), cases(IN_CONTAINERS, RESOURCES) + cases(IN_LASTING_CONTAINERS, RESOURCES[:2])
)
def test_a_container_that_baseline_refuses_is_refused_with_the_rule(
    tenant: KubeApi, home: str, create: Callable[[Object], Object], kind: str, fields: Object, words: str
) -> None:
    bad = {"name": "bad", "image": "none", **fields}

    def attempt() -> Object:
        if kind == "ephemeralContainers":
            path = f"/api/v1/namespaces/{home}/pods/there/ephemeralcontainers{DRY}"
            return tenant.strategic_patch(path, {"spec": {kind: [bad]}})
        if "windowsOptions" in fields.get("securityContext", {}):
            # Kubernetes takes such a container only among others like it, on the host's network.
            return create(pod(hostNetwork=True, **{"containers": [bad | {"name": "bad-too"}], kind: [bad]}))
        return create(pod(hostUsers=False, **{kind: [bad]}))

    if "procMount" in fields.get("securityContext", {}) and not_refused(attempt):
        # Before Kubernetes 1.31 procMount is behind a feature gate: such a server takes any value for the default.
        left = next(each for each in attempt()["spec"][kind] if each["name"] == "bad")
        assert left["securityContext"]["procMount"] == "Default"
        return
    with pytest.raises(ApiError, match=rf"403.*Pod Security baseline, rule {words}.*powertrain\.io/training=true"):
        attempt()


def not_refused(attempt: Callable[[], Object]) -> bool:
    try:
        attempt()
    except ApiError:
        return False
    return True


@pytest.mark.parametrize(("fields", "words"), IN_PODS.values(), ids=IN_PODS)
def test_a_pod_that_baseline_refuses_is_refused_with_the_rule(
    create: Callable[[Object], Object], fields: Object, words: str
) -> None:
    with pytest.raises(ApiError, match=rf"403.*Pod Security baseline, rule {words}"):
        create(pod(**fields))


def test_a_host_in_a_probe_is_refused(create: Callable[[Object], Object]) -> None:
    for field in ({"livenessProbe": PROBE}, {"lifecycle": {"preStop": PROBE}}):
        with pytest.raises(ApiError, match=r"403.*rule Host Probes / Lifecycle Hooks: bad names a host"):
            create(pod(containers=[{"name": "bad", "image": "none", **field}]))


def test_an_annotation_for_apparmor_is_refused(create: Callable[[Object], Object]) -> None:
    new_pod = pod()
    new_pod["metadata"]["annotations"] = {"container.apparmor.security.beta.kubernetes.io/good": "unconfined"}
    with pytest.raises(ApiError, match=r"403.*rule AppArmor: .*asks for an AppArmor profile"):
        create(new_pod)


@pytest.mark.parametrize(
    "path",
    ["/", "/etc", "/var/lib/powertrain", SESSIONS, f"{SESSIONS}/", f"{SESSIONS}/{SESSION}/x", f"{SESSIONS}/other-0-1"],
)
def test_another_folder_of_the_host_is_refused_even_read_only(create: Callable[[Object], Object], path: str) -> None:
    with pytest.raises(ApiError, match=rf"403.*rule HostPath Volumes: {path} is not the directory of this pod's own"):
        create(with_volume(path, read_only=True))


def test_the_directory_of_a_session_can_not_be_written(create: Callable[[Object], Object]) -> None:
    with pytest.raises(ApiError, match=r"403.*bad mounts the directory of the session to write it"):
        create(with_volume(f"{SESSIONS}/{SESSION}", read_only=False))


def test_somebody_else_s_session_is_not_opened_by_a_copied_label(
    tenant: KubeApi, home: str, create: Callable[[Object], Object]
) -> None:
    new_pod = with_volume(f"{SESSIONS}/{SESSION}", read_only=True)
    with pytest.raises(
        ApiError, match=r"403.*only a pod that Kubernetes makes for a TrainingJob.*create a TrainingJob"
    ):
        create(new_pod)
    template = {
        "metadata": {"labels": new_pod["metadata"]["labels"]},
        "spec": new_pod["spec"] | {"restartPolicy": "Never"},
    }
    job = {"metadata": {"name": "thief"}, "spec": {"template": template}}
    with pytest.raises(ApiError, match=r"403.*only the operator's Jobs may mount the directory of a session"):
        tenant.create(f"/apis/batch/v1/namespaces/{home}/jobs{DRY}", job)


def test_what_baseline_allows_is_allowed(create: Callable[[Object], Object]) -> None:
    create(pod())
    allowed = context(
        capabilities={"add": ["NET_BIND_SERVICE", "CHOWN"], "drop": ["ALL"]},
        seccompProfile={"type": "RuntimeDefault"},
        appArmorProfile={"type": "RuntimeDefault"},
        seLinuxOptions={"type": "container_t", "level": "s0:c1,c2"},
        privileged=False,
        runAsUser=0,
    )
    container = {"name": "good", "image": "none", "ports": [{"containerPort": 80}], **allowed}
    probe = {"httpGet": {"port": 80}}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "tmp", "emptyDir": {}}]
    sysctls = context(sysctls=[{"name": "net.ipv4.tcp_syncookies", "value": "1"}])
    create(pod(containers=[container | {"readinessProbe": probe}], volumes=volumes, hostUsers=False, **sysctls))


def test_the_operator_s_own_training_pod_passes(kube: KubeApi, identities: Identities, home: str) -> None:
    body = plain_job("own")
    body["metadata"] |= {"namespace": home, "uid": JOB_UID}
    replica = Replica(number=0, replicas=1, attempt=1, node="nowhere", session=SESSION, batch_size=16)
    job = built_job(TrainingJob.model_validate(body), replica, PodSettings())
    del job["metadata"]["ownerReferences"]  # the TrainingJob is not in this cluster
    jobs = f"/apis/batch/v1/namespaces/{home}/jobs"
    identities.rest("powertrain-operator").create(jobs, job)
    pods = f"/api/v1/namespaces/{home}/pods"
    selector = f"{names.JOB_UID}={JOB_UID}"
    [new_pod] = wait_for("its pod", lambda: kube.get(pods, {"labelSelector": selector})["items"])
    paths = [volume["hostPath"]["path"] for volume in new_pod["spec"]["volumes"] if "hostPath" in volume]
    assert paths == [f"{SESSIONS}/{SESSION}"]
    kube.delete(f"{jobs}/own-0-1", propagation="Foreground")


def test_a_job_s_refused_pod_is_told_in_its_events(kube: KubeApi, tenant: KubeApi, home: str) -> None:
    spec = pod(hostPID=True)["spec"] | {"restartPolicy": "Never"}
    tenant.create(
        f"/apis/batch/v1/namespaces/{home}/jobs", {"metadata": {"name": "bad"}, "spec": {"template": {"spec": spec}}}
    )
    events = f"/api/v1/namespaces/{home}/events"
    selector = "involvedObject.kind=Job,involvedObject.name=bad"
    [event, *_] = wait_for("an Event", lambda: kube.get(events, {"fieldSelector": selector})["items"])
    assert (event["reason"], "rule Host Namespaces: hostPID" in event["message"]) == ("FailedCreate", True)


def test_a_namespace_without_the_label_is_left_alone(kube: KubeApi, release: str, test_namespace: str) -> None:
    body = pod(hostPID=True)
    body["spec"]["serviceAccountName"] = "default"
    kube.create(f"/api/v1/namespaces/{test_namespace}/pods{DRY}", body)
