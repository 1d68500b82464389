"""The chart as files: it lints, refuses bad values in words, and renders what a real API server takes."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from powertrain_agent.hardware.board import discover
from powertrain_agent.main import parser as agent_parser
from powertrain_agent.mounts import FAMILIES, family_of
from powertrain_agent.remedies import remedy
from powertrain_agent.simulate import SimulatedBoard
from powertrain_devcluster.builds import binaries
from powertrain_devcluster.builds.gobuild import find_go
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.fleet import is_served
from powertrain_devcluster.testing.waits import wait_for
from powertrain_devcluster.tools.helm import Helm
from powertrain_kube import KubeApi
from powertrain_operator.main import parser, settings_of

from .conftest import CHART, IMAGES_THERE, KUBE_VERSION, NAMESPACE, ROOT, by_kind, render

Object = dict[str, Any]
CI = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))
SNAPSHOT = Path(__file__).parent / "snapshots/default.yaml"
UPDATE = "UPDATE_SNAPSHOTS"
PROMETHEUS_OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
RELEASE_FILES = ("/etc/nv_tegra_release", "/var/lib/nvpmodel")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
TWICE = ",".join(f"agent.families[{n}].name=generic,agent.families[{n}].nodeSelector.board={n}x" for n in (0, 1))
PAGE = (ROOT / "docs/how-to/install.md").read_text(encoding="utf-8")
SCHEMA: Object = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
VALUES: Object = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))


def ci_values(name: str) -> tuple[str, str]:
    return ("--values", str(CHART / "ci" / f"{name}-values.yaml"))


@pytest.mark.parametrize("name", ["", *CI])
def test_it_lints_strictly(helm: Helm, name: str) -> None:
    more = ci_values(name) if name else ()
    result = helm.run("lint", "--strict", str(CHART), "--kube-version", KUBE_VERSION, *more)
    assert "0 chart(s) failed" in result.stdout


def described(path: str, schema: Object) -> Iterator[tuple[str, Object]]:
    for name, field in schema.get("properties", {}).items():
        yield f"{path}{name}", field
        yield from described(f"{path}{name}.", field.get("items", field))


def test_every_value_is_described_and_nothing_else_is() -> None:
    fields = dict(described("", SCHEMA))
    assert [name for name, field in fields.items() if not field.get("description")] == []

    def missing(path: str, values: Object, schema: Object) -> Iterator[str]:
        properties = schema.get("properties")
        if properties is None:
            return
        yield from (f"{path}{name}" for name in set(values) ^ (set(properties) - {"global"}))
        for name, value in values.items():
            if isinstance(value, dict):
                yield from missing(f"{path}{name}.", value, properties.get(name, {}))

    assert sorted(missing("", VALUES, SCHEMA)) == []


def test_references_of_ones_own_are_mounted_read_only_and_named_to_the_agent(helm: Helm) -> None:
    daemon_sets = by_kind(render(helm, *ci_values("opt-in")), "DaemonSet")
    pod = daemon_sets[0]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    options = [argument for argument in container["args"] if argument.startswith("--references=")]
    assert options == ["--references=/etc/powertrain/references", "--references=/etc/powertrain/host-references"]
    agent_parser().parse_args(container["args"])
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"] if "references" in mount["mountPath"]}
    assert set(mounts) == {
        "/etc/powertrain/references/orin-resnet18",
        "/etc/powertrain/references/orin-lstm",
        "/etc/powertrain/host-references",
    }
    assert all(mount["readOnly"] for mount in mounts.values())
    of_lstm = volumes[mounts["/etc/powertrain/references/orin-lstm"]["name"]]
    assert of_lstm["configMap"] == {"name": "orin-lstm", "optional": True}
    on_host = volumes[mounts["/etc/powertrain/host-references"]["name"]]
    assert on_host["hostPath"]["path"] == "/var/lib/powertrain-references"


def test_the_families_are_those_of_the_agent() -> None:
    family_names = SCHEMA["properties"]["agent"]["properties"]["families"]["items"]["properties"]["name"]["enum"]
    assert family_names == list(FAMILIES)
    files = runpy.run_path(str(ROOT / "hack/generate_chart.py"))["FILES"]
    for name, text in files.items():
        assert (ROOT / name).read_text(encoding="utf-8") == text(), f"{name} is old: run `make manifests`"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("operator.replicas=2", "additional properties 'replicas' not allowed"),
        ("agent.metricsPort=http", "got string, want integer"),
        ("agent.metricsPort=80", "minimum: got 80, want 1,024"),
        ("agent.families[0].name=orin-r37", "'orin-r36', 'orin-r35', 'xavier-r32', 'nano-r32', 'generic'"),
        ("agent.families[0].name=generic,agent.families[0].paths[0]=/etc", "does not match pattern '^/sys/"),
        ("agent.stateDir=var/lib", "does not match pattern"),
        ("agent.telemetry=guess", "'sysfs', 'jtop', 'tegrastats'"),
        ("image.pullPolicy=Sometimes", "'Always', 'IfNotPresent', 'Never'"),
        ("operator.image.digest=abc", "sha256"),
        ("agent.telemetry=jtop", "at '/agent/jtop/enabled': value must be true"),
        ("agent.telemetry=tegrastats", "at '/agent/tegrastats/enabled': value must be true"),
        ("agent.nodes.onlyLabelled=true,agent.nodes.labels=null", "missing property 'labels'"),
        (TWICE, "generic is there twice"),
        ("agent.mode=Watch", "'Steer', 'Observe'"),
        ("agent.mode=Observe,agent.privileged=true", "leave agent.privileged off"),
        ("agent.families[0].name=orin-r36,agent.families[1].name=orin-r35", "orin-r36 has no nodeSelector"),
        (f"agent.nn=true,agent.image.digest=sha256:{'0' * 64}", "name the digest of the image agent-nn"),
        ("simulate.timeScale=0", "exclusiveMinimum"),
        ("simulate.device=orin", "'orin-agx', 'orin-agx-11'"),
        ("runtimeClass.handler=", "does not match pattern"),
        ("networkPolicy.apiServerCIDRs[0]=anywhere", "does not match pattern"),
        ("networkPolicy.apiServerCIDRs[0]=10.43.0.1", "does not match pattern"),
        ("networkPolicy.apiServerCIDRs[0]=10.43.0.300/32", "does not match pattern"),
        ("networkPolicy.apiServerCIDRs[0]=10.43.0.1/33", "does not match pattern"),
        ("networkPolicy.apiServerCIDRs[0]=fd00::/129", "does not match pattern"),
        ("uninstall.timeoutSeconds=0", "minimum: got 0, want 1"),
        ("uninstall.timeoutSeconds=121", "maximum: got 121, want 120"),
        ("monitoring.podMonitor.enabled=true,monitoring.serviceMonitor.enabled=true", "enable one of them"),
        ("monitoring.prometheusRule.runbookUrl=runbooks", "does not match pattern '^(https?://|$)'"),
        ("agents.nn=true", "additional properties 'agents' not allowed"),
    ],
)
def test_a_bad_value_is_refused_with_its_place_and_what_is_right(helm: Helm, values: str, words: str) -> None:
    where = (str(CHART), "--kube-version", KUBE_VERSION, *IMAGES_THERE, "--set", values)
    result = helm.run("template", "powertrain", *where, check=False)
    assert result.returncode != 0
    assert words in result.stderr
    assert values.partition("=")[0].partition(".")[0] in result.stderr


@pytest.mark.parametrize(
    "values", ["agent.metricsPort=80", "agents.nn=true", "agent.families[0].name=orin-r37"], ids=lambda text: text
)
def test_an_installation_with_a_bad_value_creates_nothing(
    helm: Helm, control_plane: ControlPlane, kube: KubeApi, values: str
) -> None:
    before = names(kube, DEFINITIONS)
    where = ("--kubeconfig", str(control_plane.kubeconfig), "--namespace", "refused", "--create-namespace")
    result = helm.run("install", "refused", str(CHART), *where, "--set", values, check=False)
    assert result.returncode != 0
    assert "values don't meet the specifications of the schema" in result.stderr
    assert names(kube, DEFINITIONS) == before
    kinds = ("/api/v1/namespaces", f"{RIGHTS}/clusterroles", f"{RIGHTS}/clusterrolebindings", POLICIES)
    assert [name for kind in kinds for name in names(kube, kind) if "refused" in name] == []


def names(kube: KubeApi, path: str) -> list[str]:
    return [each["metadata"]["name"] for each in kube.get(path)["items"]]


def test_an_older_kubernetes_is_refused(helm: Helm) -> None:
    result = helm.run("template", "powertrain", str(CHART), "--kube-version", "1.29.9", check=False)
    assert "chart requires kubeVersion: >=1.30.0-0" in result.stderr


def test_the_default_render_is_the_one_that_was_looked_at(helm: Helm) -> None:
    objects = [each for each in render(helm) if each["kind"] != "CustomResourceDefinition"]
    text = yaml.safe_dump_all(objects, sort_keys=True, width=120)
    if os.environ.get(UPDATE):
        SNAPSHOT.write_text(text, encoding="utf-8")
    assert text == SNAPSHOT.read_text(encoding="utf-8"), f"look at the change, then run this test with {UPDATE}=1"


def containers(objects: list[Object]) -> Iterator[tuple[Object, Object]]:
    for each in objects:
        if each["kind"] in ("Deployment", "DaemonSet", "Job"):
            pod = each["spec"]["template"]["spec"]
            yield from ((pod, container) for container in pod["containers"])


@pytest.mark.parametrize("name", ["", *(name for name in CI if name != "privileged")])
def test_no_container_has_a_privilege(helm: Helm, name: str) -> None:
    all_containers = list(containers(render(helm, *(ci_values(name) if name else ()))))
    assert all_containers
    for pod, container in all_containers:
        security = container["securityContext"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"]
        assert (security["allowPrivilegeEscalation"], security["privileged"]) == (False, False)
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC"))
        root = pod["securityContext"]["runAsUser"] == 0
        assert root == (container["name"] == "agent")


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_an_agent_writes_its_family_s_directories_and_no_others(helm: Helm, name: str) -> None:
    [agent] = by_kind(render(helm, "--set", f"agent.families[0].name={name}"), "DaemonSet")
    [container] = agent["spec"]["template"]["spec"]["containers"]
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    opt_in = ("/sys/kernel/debug/", "/sys/fs/cgroup/")
    mounts_needed = {f"/host{path}" for path in FAMILIES[name].writable if not path.startswith(opt_in)}
    assert writable == mounts_needed | {"/var/lib/powertrain"}


@pytest.mark.parametrize("device", ["orin-agx", "orin-agx-11", "xavier-agx", "nano"])
def test_what_the_doctor_advises_mounts_what_it_found_locked(
    helm: Helm, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    board = discover(SimulatedBoard.create(tmp_path, device).sysfs)
    for knob in ("cpu", "gpu", "emc"):
        locked = board.capabilities[knob].locked("a read-only mount")
        fix = remedy(knob, False, locked, board, family_of(board.identity))
        [values] = re.findall(r"--set '(\S+)'", fix)
        [agent] = by_kind(render(helm, "--set", values), "DaemonSet")
        [container] = agent["spec"]["template"]["spec"]["containers"]
        writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
        # Links lead to where the files are.
        files = [board_path(tmp_path, path) for path in locked.paths]
        assert [path for path in files if not any(f"/host{path}".startswith(f"{each}/") for each in writable)] == []


def board_path(root: Path, path: str) -> str:
    return "/" + str((root / path.lstrip("/")).resolve().relative_to(root.resolve()))


def test_what_is_opted_for_is_mounted(helm: Helm) -> None:
    more = ("--set", "agent.families[0].name=xavier-r32")
    [agent] = by_kind(render(helm, *ci_values("opt-in"), *more), "DaemonSet")
    [container] = agent["spec"]["template"]["spec"]["containers"]
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    family = {f"/host{path}" for path in FAMILIES["xavier-r32"].writable}
    assert writable == family | {"/var/lib/powertrain", "/run/jtop.sock"}
    assert container["image"] == "registry.site.example/edge/site/powertrain-agent-jtop:0.1.0-nn"


def test_the_log_of_a_forced_removal_stays_for_a_day(helm: Helm) -> None:
    for force in (False, True):
        jobs = by_kind(render(helm, "--set", f"uninstall.force={str(force).lower()}"), "Job")
        resources_left = {
            job["metadata"]["name"]: job["spec"].get("ttlSecondsAfterFinished")
            for job in jobs
            if "hook-succeeded" not in job["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
        }
        assert resources_left == ({"powertrain-release": 86400} if force else {})


def test_roles_of_one_s_own_replace_all_of_the_chart_s(helm: Helm) -> None:
    objects = render(helm, "--set", "rbac.create=false")
    assert [each for each in objects if each["apiVersion"].startswith("rbac.")] == []
    accounts = {each["metadata"]["name"] for each in by_kind(objects, "ServiceAccount")}
    assert accounts == {"powertrain-operator", "powertrain-agent", "powertrain-uninstall"}


def test_the_gate_is_pulled_as_all_images_are(helm: Helm) -> None:
    for values, reference, policy in (
        ("image.local=true", "powertrain-init:0.1.0", "Never"),
        (
            "image.registry=reg.example:5000/edge,image.pullPolicy=Always",
            "reg.example:5000/edge/powertrain-init:0.1.0",
            "Always",
        ),
    ):
        [operator] = by_kind(render(helm, "--set", values), "Deployment")
        [container] = operator["spec"]["template"]["spec"]["containers"]
        gate = settings_of(parser().parse_args(container["args"])).pods
        assert (gate.gate_image, gate.gate_pull_policy) == (reference, policy)
        assert container["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("", "powertrain images import"),
        ("image.local=true,image.registry=reg.example", "set one of them"),
        (f"image.local=true,operator.image.digest=sha256:{'0' * 64}", "leave out the digests"),
    ],
)
def test_an_installation_whose_images_nobody_could_find_fails_at_once(
    helm: Helm, control_plane: ControlPlane, kube: KubeApi, values: str, words: str
) -> None:
    where = ("--kubeconfig", str(control_plane.kubeconfig), "--namespace", "imageless", "--create-namespace")
    more = ("--set", f"crds.install=false,{values}".rstrip(","))
    result = helm.run("install", "imageless", str(CHART), *where, *more, check=False)
    assert result.returncode != 0
    assert words in result.stderr
    assert "imageless" not in names(kube, "/api/v1/namespaces")


def test_an_agent_that_observes_can_write_nothing_of_the_board(helm: Helm) -> None:
    values = "image.local=true,agent.mode=Observe,agent.emcDebugfs.enabled=true,agent.cpusetRepair.enabled=true"
    [agent] = by_kind(render(helm, "--set", values), "DaemonSet")
    [container] = agent["spec"]["template"]["spec"]["containers"]
    assert "--observe" in container["args"]
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/var/lib/powertrain"}


def test_trainers_may_make_what_runs_pods_for_them(helm: Helm) -> None:
    [role] = [each for each in by_kind(render(helm), "ClusterRole") if each["metadata"]["name"] == "powertrain-trainer"]
    creatable = [name for rule in role["rules"] if "create" in rule["verbs"] for name in rule["resources"]]
    assert creatable == ["trainingjobs", "batchstudies"]


def test_the_page_on_installing_removes_every_definition() -> None:
    command = PAGE.split("kubectl delete crd ")[1].split("```")[0].replace("\\", "")
    assert sorted(command.split()) == sorted(
        yaml.safe_load(path.read_text(encoding="utf-8"))["metadata"]["name"] for path in (ROOT / "crds").glob("*.yaml")
    )


def test_the_notes_name_the_next_commands(helm: Helm, control_plane: ControlPlane, release: str) -> None:
    where = ("--kubeconfig", str(control_plane.kubeconfig), "--namespace", release)
    notes = helm.run("get", "notes", "powertrain", *where).stdout
    for command in (
        "kubectl get powernodes",
        f"kubectl label namespace {release} pod-security.kubernetes.io/enforce=privileged",
        "kubectl label namespace NAMESPACE powertrain.io/training=true",
        "create rolebinding trainers --clusterrole=powertrain-trainer",
        "logs job/powertrain-release",
    ):
        assert command in notes


def test_an_agent_reads_what_tells_a_board_and_can_not_write_it(helm: Helm) -> None:
    [agent] = by_kind(render(helm), "DaemonSet")
    [container] = agent["spec"]["template"]["spec"]["containers"]
    read = {mount["mountPath"] for mount in container["volumeMounts"] if mount.get("readOnly")}
    # The device tree and control groups are below /sys.
    assert read == {f"/host{path}" for path in ("/sys", *RELEASE_FILES, "/proc/stat", "/proc/sys/kernel/random")}


def test_k3s_has_its_paths_and_the_runtime_class_of_training_pods(helm: Helm) -> None:
    objects = render(helm, *ci_values("k3s"), "--set", "agent.hotplug.kubeletDir=/data/kubelet")
    [runtime] = by_kind(objects, "RuntimeClass")
    assert (runtime["metadata"]["name"], runtime["handler"]) == ("nvidia-boards", "nvidia")
    assert runtime["scheduling"] == {"nodeSelector": {"nvidia.com/gpu.present": "true"}}
    for agent in by_kind(objects, "DaemonSet"):
        volumes = agent["spec"]["template"]["spec"]["volumes"]
        paths = {each["hostPath"]["path"] for each in volumes if "hostPath" in each}
        assert {"/data/kubelet/cpu_manager_state", "/etc/nv_tegra_release", "/var/lib/powertrain"} <= paths
        assert "runtimeClassName" not in agent["spec"]["template"]["spec"]
    assert by_kind(render(helm), "RuntimeClass") == []


@pytest.fixture(scope="module")
def monitoring_kinds(kube: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The Prometheus operator's own definitions, from its Go module."""
    go = find_go()
    if go is None:
        pytest.skip("no Go here to fetch the Prometheus operator's definitions with")
    folder = tmp_path_factory.mktemp("monitoring")
    (folder / "go.mod").write_text("module kinds\n")
    command = [str(go), "mod", "download", "-json", PROMETHEUS_OPERATOR]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.skip(f"the Prometheus operator's module can't be had here: {result.stderr or result.stdout}")
    group = "monitoring.coreos.com"
    for kind in ("podmonitors", "servicemonitors", "prometheusrules"):
        path = Path(json.loads(result.stdout)["Dir"]) / f"example/prometheus-operator-crd/{group}_{kind}.yaml"
        kube.create(DEFINITIONS, yaml.safe_load(path.read_text(encoding="utf-8")))
        wait_for(kind, lambda kind=kind: is_served(kube, f"/apis/{group}/v1/{kind}"))


@pytest.mark.parametrize("name", ["", *CI])
def test_an_api_server_takes_every_object_and_knows_every_field(
    helm: Helm, control_plane: ControlPlane, release: str, name: str, request: pytest.FixtureRequest
) -> None:
    if name.startswith("monitored"):
        request.getfixturevalue("monitoring_kinds")
    # Objects of another release than the installed one, so that nothing that exists is in the way.
    result = helm.run(
        "template", "other", str(CHART), "--namespace", NAMESPACE, "--kube-version", KUBE_VERSION,
        "--skip-tests", "--set", "fullnameOverride=other", *(ci_values(name) if name else IMAGES_THERE),
    )  # fmt: skip
    command = [str(binaries.resolve(["kubectl"])["kubectl"]), "--kubeconfig", str(control_plane.kubeconfig), "apply"]
    command += ["--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--filename=-"]
    took = subprocess.run(command, input=result.stdout, capture_output=True, text=True, check=False)
    assert took.returncode == 0, took.stderr
    objects = [each for each in yaml.safe_load_all(result.stdout) if each]
    assert len(took.stdout.splitlines()) == len(objects)


def test_alerts_link_to_runbooks_only_where_somebody_publishes_them(helm: Helm) -> None:
    def links(*values: str) -> list[str]:
        objects = render(helm, "--set", ",".join(("monitoring.prometheusRule.enabled=true", *values)))
        [rule] = by_kind(objects, "PrometheusRule")
        alerts = [alert for group in rule["spec"]["groups"] for alert in group["rules"] if "alert" in alert]
        assert len(alerts) > 5
        return [alert["annotations"].get("runbook_url", "") for alert in alerts]

    assert set(links()) == {""}
    published = links("monitoring.prometheusRule.runbookUrl=https://docs.site.example/runbooks/")
    assert all(link.startswith("https://docs.site.example/runbooks/") for link in published)


def test_an_agent_outlives_the_training_it_guards(helm: Helm) -> None:
    [agent] = by_kind(render(helm), "DaemonSet")
    pod = agent["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "system-node-critical"
    assert {"operator": "Exists", "effect": "NoExecute"} in pod["tolerations"]
    [operator] = by_kind(render(helm), "Deployment")
    assert "priorityClassName" not in operator["spec"]["template"]["spec"]
    shared = render(helm, *ci_values("air-gapped"), "--set", "agent.priorityClassName=")
    pods = [each["spec"]["template"]["spec"] for kind in ("Deployment", "DaemonSet") for each in by_kind(shared, kind)]
    assert {each["priorityClassName"] for each in pods} == {"edge-power"}


def test_metrics_are_not_for_everyone(helm: Helm) -> None:
    for values, sources in (((), [2, 2]), (("--set", "networkPolicy.metricsFrom=null"), [0, 0])):
        policies = by_kind(render(helm, *values), "NetworkPolicy")
        rules = [policy["spec"].get("ingress") or [{"from": []}] for policy in policies]
        assert [len(rule["from"]) for [rule] in rules] == sources
        assert all("Ingress" in policy["spec"]["policyTypes"] for policy in policies)


def test_a_second_release_is_refused_with_the_name_of_the_first(
    helm: Helm, control_plane: ControlPlane, kube: KubeApi, release: str
) -> None:
    where = ("--kubeconfig", str(control_plane.kubeconfig), "--namespace", "second", "--create-namespace")
    result = helm.run(
        "install", "second", str(CHART), *where, "--set", "crds.install=false,image.local=true", check=False
    )
    assert result.returncode != 0
    assert f"release powertrain in namespace {release} owns the Lease kube-system/powertrain-operator" in result.stderr
    assert "second" not in names(kube, "/api/v1/namespaces")
