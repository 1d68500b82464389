"""A whole training with operator and agents under the release's own accounts, and what of their roles they used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster.test_batch_sizes import study

from powertrain.api.resources import BATCH_STUDIES, POWER_NODES, TRAINING_JOBS
from powertrain_devcluster.fleet import Fleet
from powertrain_devcluster.testing.waits import wait_for
from powertrain_devcluster.tools.helm import Helm
from powertrain_kube import KubeApi, NotFoundError, credentials
from powertrain_operator.uninstall import MANAGER, REFUSED, Uninstall

from .conftest import BOARDS, NAMESPACE, Audit, Identities, by_kind, render

Object = dict[str, Any]
BOARD = "/var/lib/powertrain/simulated"
POLICIES = "/apis/powertrain.io/v1alpha1/powerpolicies"
BUDGETS = "/apis/powertrain.io/v1alpha1/powerbudgets"
ENDLESS = 10_000_000
UNINSTALL = "powertrain-uninstall"
# Rights that these tests can't show in use, each with its reason.
UNUSED = {
    # Counting up an Event that happens again, also after a restart of the operator.
    ("get", "events.k8s.io/events"),
    ("patch", "events.k8s.io/events"),
    # Asked for by an admission plugin that is on here, not by a request.
    ("update", "powertrain.io/trainingjobs/finalizers"),
    ("update", "powertrain.io/batchstudies/finalizers"),
    # Read where a Job of that name is there already, as after a restart between a create and its answer.
    ("get", "batch/jobs"),
    # What is over goes after its ttlSecondsAfterFinished, a profile when five newer ones have replaced it.
    ("delete", "powertrain.io/trainingjobs"),
    ("delete", "powertrain.io/batchstudies"),
    ("delete", "powertrain.io/powerprofiles"),
}


def training(name: str, namespace: str, replicas: int, steps: int) -> Object:
    train = {
        "name": "train",
        "image": "powertrain-agent:dev",
        "command": ["powertrain-simtrain", "mobilenet-v3", "--host-root", BOARD, "--steps", str(steps), "--no-gate"],
        "volumeMounts": [{"name": "board", "mountPath": BOARD}],
    }
    volumes = [{"name": "board", "hostPath": {"path": BOARD}}]
    template = {"spec": {"containers": [train], "volumes": volumes, "terminationGracePeriodSeconds": 1}}
    workload = {"batchSizes": [16], "samplesPerEpoch": 2000, "epochs": 1, "instrumentation": "SDK"}
    spec = {"constraints": {"powerWatts": 30}, "workload": workload | {"template": template}}
    spec |= {"placement": {"replicas": replicas}, "profiling": {"strategy": "transfer", "maxModes": 4}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "powertrain.io/v1alpha1", "kind": "TrainingJob", "metadata": metadata, "spec": spec}


def test_operator_and_agents_train_to_the_end_with_their_roles_and_use_all_of_them(
    kube: KubeApi, fleet: Fleet, helm: Helm, audit: Audit, test_namespace: str
) -> None:
    path = TRAINING_JOBS.path(namespace=test_namespace)
    policy = {"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerPolicy", "metadata": {"name": "site"}}
    kube.create(POLICIES, policy | {"spec": {"maxWatts": 40}})
    cap = {"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerBudget", "metadata": {"name": "elsewhere"}}
    kube.create(BUDGETS, cap | {"spec": {"nodeSelector": {"circuit": "elsewhere"}, "watts": 100}})
    kube.create(path, training("whole", test_namespace, replicas=2, steps=4000))
    job_status = wait_for(
        "the training's end",
        lambda: kube.get(f"{path}/whole"),
        lambda job: job.get("status", {}).get("phase") in ("Succeeded", "Failed"),
        150,
    )
    assert job_status["status"]["phase"] == "Succeeded", job_status["status"]
    wait_for("the finalizer to go", lambda: kube.get(f"{path}/whole")["metadata"], lambda m: "finalizers" not in m)
    for name in BOARDS:
        session = kube.get(POWER_NODES.path(name))["status"]["session"]
        assert session["restored"], session
        wait_for("the annotations to go", lambda name=name: ours(kube, name), lambda annotations: annotations == {})
    kube.create(BATCH_STUDIES.path(namespace=test_namespace), study(test_namespace))
    studied = BATCH_STUDIES.path("proxy", test_namespace)
    job_status = wait_for(
        "the study", lambda: kube.get(studied)["status"], lambda status: status.get("completedAt"), 120
    )
    assert job_status["phase"] == "Succeeded", job_status
    kube.delete(studied)
    kube.create(path, training("cut", test_namespace, replicas=1, steps=ENDLESS))
    wait_for("a Job", lambda: kube.get(f"/apis/batch/v1/namespaces/{test_namespace}/jobs/cut-0-1"))
    kube.delete(f"{path}/cut")
    wait_for(
        "the end of it", lambda: [job["metadata"]["name"] for job in kube.get(path)["items"]], ["whole"].__eq__, 60
    )
    kube.delete(f"{POLICIES}/site")
    kube.delete(f"{BUDGETS}/elsewhere")
    for account in ("powertrain-operator", "powertrain-agent"):
        used = audit.requests_of(f"system:serviceaccount:{NAMESPACE}:{account}")
        granted = rights(render(helm), account)
        assert granted
        assert granted - used - UNUSED == set(), f"{account} has rights that it does not use"


@pytest.fixture
def uninstaller(kube: KubeApi, helm: Helm, identities: Identities) -> Iterator[Uninstall]:
    """The chart's hook under its own account, which Helm makes for it."""
    roles = "/apis/rbac.authorization.k8s.io/v1"
    paths = {
        "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
        "ClusterRole": f"{roles}/clusterroles",
        "ClusterRoleBinding": f"{roles}/clusterrolebindings",
        "Role": f"{roles}/namespaces/{NAMESPACE}/roles",
        "RoleBinding": f"{roles}/namespaces/{NAMESPACE}/rolebindings",
    }
    rendered = render(helm, "--show-only", "templates/uninstall/rbac.yaml")
    for each in rendered:
        kube.create(paths[each["kind"]], each)
    config = identities.config(UNINSTALL)
    yield Uninstall(KubeApi(lambda: credentials(config), MANAGER), NAMESPACE, print)
    for each in rendered:
        kube.delete(f"{paths[each['kind']]}/{UNINSTALL}")


def test_removal_is_refused_while_a_job_holds_a_board_and_forced_it_restores_all_and_leaves_nothing(
    kube: KubeApi,
    fleet: Fleet,
    helm: Helm,
    audit: Audit,
    uninstaller: Uninstall,
    test_namespace: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = TRAINING_JOBS.path(namespace=test_namespace)
    kube.create(path, training("held", test_namespace, replicas=len(BOARDS), steps=ENDLESS))
    wait_for(
        "the boards to be governed",
        lambda: [name for name in BOARDS if "powertrain.io/power-mode" in ours(kube, name)],
        list(BOARDS).__eq__,
        60,
    )
    before = sessions(kube)
    kube.create(path, training("next", test_namespace, replicas=1, steps=ENDLESS))
    wait_for("the next to wait", lambda: kube.get(f"{path}/next")["status"]["phase"], "Queued".__eq__)
    assert uninstaller.release(force=False, timeout_s=60) == REFUSED
    assert f"{test_namespace}/held\n" in capsys.readouterr().out
    assert not kube.get(f"{path}/held")["spec"].get("suspend")
    assert uninstaller.release(force=True, timeout_s=60) == 0
    assert "every board has its original settings again" in capsys.readouterr().out
    assert [kube.get(f"{path}/{name}")["spec"].get("suspend") for name in ("held", "next")] == [True, True]
    after = sessions(kube)
    assert [session["restored"] for session in after] == [True] * len(BOARDS)
    # Nobody was given a board that the first had let go.
    assert [session["uid"] for session in after] == [session["uid"] for session in before]
    # As after a release that is gone: nobody but the hook is there.
    for child in (fleet.operator, *fleet.agents.values()):
        assert child is not None
        child.kill()
    kube.strategic_patch(
        f"/api/v1/nodes/{BOARDS[0]}", {"metadata": {"annotations": {"powertrain.io/power-mode": "left"}}}
    )
    assert uninstaller.clean() == 0
    assert "finalizers" not in kube.get(f"{path}/held")["metadata"]
    assert kube.get(POWER_NODES.path())["items"] == []
    assert [ours(kube, name) for name in BOARDS] == [{}, {}]
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    assert kube.get(leases)["items"] == []
    used = audit.requests_of(f"system:serviceaccount:{NAMESPACE}:{UNINSTALL}")
    assert rights(render(helm), UNINSTALL) - used == set(), "the hook has rights that it does not use"
    fleet.start_operator()
    for name in BOARDS:
        fleet.start_agent(name)
    wait_for("the boards to be back", lambda: len(kube.get(POWER_NODES.path())["items"]), len(BOARDS).__eq__, 60)


def test_a_board_whose_agent_is_away_is_named_and_not_waited_for_longer_than_asked(
    kube: KubeApi, uninstaller: Uninstall, capsys: pytest.CaptureFixture[str]
) -> None:
    session = {"protocol": 1, "uid": "s-1", "generation": 1, "job": {"namespace": "a", "name": "b", "uid": "c"}}
    spec = {"session": {**session, "limits": {"powerWatts": 30}, "workload": {"name": "w", "batchSize": 1}}}
    body = {"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerNode", "metadata": {"name": "away"}, "spec": spec}
    kube.create(POWER_NODES.path(), body)
    try:
        assert uninstaller.release(force=False, timeout_s=0.5) != 0
        assert "not restored after 0.5 s: away" in capsys.readouterr().out
        annotations = kube.get(POWER_NODES.path("away"))["metadata"]["annotations"]
        assert annotations == {"powertrain.io/release-requested": "uninstall"}
        assert uninstaller.release(force=True, timeout_s=0.5) == 0
    finally:
        uninstaller.clean()
    with pytest.raises(NotFoundError):
        kube.get(POWER_NODES.path("away"))


def sessions(kube: KubeApi) -> list[Object]:
    """Return what each board reports about the session it serves, or served last."""
    return [kube.get(POWER_NODES.path(board))["status"]["session"] for board in BOARDS]


def ours(kube: KubeApi, node: str) -> Object:
    """Return our annotations of a Node."""
    annotations = kube.get(f"/api/v1/nodes/{node}")["metadata"]["annotations"]
    return {key: value for key, value in annotations.items() if key.startswith("powertrain.io/")}


def rights(objects: list[Object], account: str) -> set[tuple[str, str]]:
    """Return what the roles named after an account grant."""
    roles = [role for kind in ("ClusterRole", "Role") for role in by_kind(objects, kind)]
    rules = [rule for role in roles if role["metadata"]["name"] == account for rule in role["rules"]]
    return {
        (verb, f"{group}/{resource}".strip("/"))
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
