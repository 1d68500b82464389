"""The chart on a real node, by real Helm: installed, watched, a training to its end, upgraded under a job, removed."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart.monitoring import (
    BORN_WITH_A_BUDGET,
    BORN_WITH_AN_END,
    BORN_WITH_TROUBLE,
    boards_in,
    hastened,
    missing,
    violations,
)
from tests.node.release import (
    BOARD,
    NAMESPACE,
    OLDER,
    READY,
    ROOT,
    SPEED,
    VERSION,
    Release,
    lasting,
    older_chart,
    pods,
    running_pod,
    training,
    wait_job,
)

from powertrain.api.base import API_VERSION
from powertrain.api.resources import POWER_NODES, TRAINING_JOBS
from powertrain_agent.control.snapshot import SCRIPT
from powertrain_agent.simulate.state import STATE_FILE
from powertrain_devcluster.builds import binaries, images, prepare
from powertrain_devcluster.errors import MissingToolError
from powertrain_devcluster.node.node import NodeCluster
from powertrain_devcluster.testing.waits import SessionLogs, wait_for
from powertrain_devcluster.tools import prometheus
from powertrain_devcluster.tools.helm import Helm
from powertrain_devcluster.tools.prometheus import Prometheus
from powertrain_kube import KubeApi, credentials
from powertrain_operator.uninstall import MANAGER, Uninstall

Object = dict[str, Any]
PATIENCE_S = 40
# What runs in a pod of the training to let something else on its board take so many watts.
OTHER_LOAD = f"""
import sys
from pathlib import Path
from powertrain_agent.simulate import SimulatedBoard
from powertrain_agent.simulate.faults import Fault, FaultKind
board, watts = SimulatedBoard.open(Path({BOARD!r}), time_scale={SPEED}), float(sys.argv[1])
board.inject(Fault(FaultKind.POWER_OFFSET, value=watts)) if watts else board.clear()
"""


@pytest.fixture(scope="module")
def helm(node_cluster: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    try:
        program = binaries.helm(prepare.Ready())
    except MissingToolError as error:
        pytest.skip(str(error))
    return Helm(program, tmp_path_factory.mktemp("helm"), node_cluster.kubeconfig)


@pytest.fixture(scope="module")
def images_there(node_cluster: NodeCluster) -> None:
    for name in ("operator", "init", "agent", "training-example"):
        node_cluster.import_image(images.build(name, prepare.Ready()))
        reference = images.recipe(name).reference
        for tag in (OLDER, VERSION):
            node_cluster.tag_image(reference, reference.replace(f":{images.TAG}", f":{tag}"))


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return older_chart(tmp_path_factory.mktemp("older") / "powertrain")


@pytest.fixture
def release(helm: Helm, images_there: None, kubectl: list[str], session_logs: SessionLogs) -> Iterator[Release]:
    """Installed by the test; removed by the test or here."""
    new_release = Release(helm)
    yield new_release
    # Pods that are still here are those of a test that failed.
    look = [*kubectl, "logs", "--namespace", NAMESPACE, "--selector", "app.kubernetes.io/name=powertrain", "--prefix"]
    result = subprocess.run([*look, "--tail=-1"], capture_output=True, text=True, check=False)
    (session_logs.folder / "release.log").write_text(result.stdout + result.stderr, encoding="utf-8")
    new_release.run("uninstall", "--no-hooks", check=False)


def documented_scraping() -> Object:
    """Return how the page on installing tells a plain Prometheus to find the pods."""
    page = (ROOT / "docs/how-to/install.md").read_text(encoding="utf-8")
    block = page.split("```yaml\nscrape_configs:")[1].split("```")[0]
    [job] = yaml.safe_load(f"scrape_configs:{block}")["scrape_configs"]
    latest: Object = job
    return latest


def discovered(pod: Object) -> Iterator[Object]:
    """Return the ports of a pod as Prometheus' own discovery tells of them; Debian builds it without that one."""
    labels = {
        f"pod_label_{re.sub('[^a-zA-Z0-9]', '_', key)}": value for key, value in pod["metadata"]["labels"].items()
    }
    about = {"namespace": pod["metadata"]["namespace"], "pod_name": pod["metadata"]["name"], **labels}
    about["pod_node_name"] = pod["spec"]["nodeName"]
    for port in (port for each in pod["spec"]["containers"] for port in each.get("ports", [])):
        target = about | {
            "pod_container_port_name": port["name"],
            "pod_container_port_number": str(port["containerPort"]),
        }
        address = f"{pod['status']['podIP']}:{port['containerPort']}"
        yield {"targets": [address], "labels": {f"__meta_kubernetes_{key}": value for key, value in target.items()}}


def scraping(node_cluster: NodeCluster, pod_list: list[Object]) -> Object:
    """Return the documented way, through the API server's proxy: the node's pods have no address on this machine."""
    config = yaml.safe_load(node_cluster.kubeconfig.read_text(encoding="utf-8"))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    names = {"cert_file": "client-certificate", "key_file": "client-key"}
    tls = {"ca_file": cluster["certificate-authority"], **{ours: user[theirs] for ours, theirs in names.items()}}
    job = documented_scraping()
    [where] = job.pop("kubernetes_sd_configs")
    assert where == {"role": "pod", "namespaces": {"names": [NAMESPACE]}}
    pod = [f"__meta_kubernetes_{name}" for name in ("namespace", "pod_name", "pod_container_port_number")]
    path = "/api/v1/namespaces/$1/pods/http:$2:$3/proxy/metrics"
    job["relabel_configs"] += [
        {"source_labels": ["__address__"], "target_label": "instance"},
        {"source_labels": pod, "regex": "(.+);(.+);(.+)", "replacement": path, "target_label": "__metrics_path__"},
        {"replacement": node_cluster.server.removeprefix("https://"), "target_label": "__address__"},
    ]
    targets = [target for each in pod_list for target in discovered(each)]
    return job | {"scheme": "https", "tls_config": tls, "static_configs": targets}


@pytest.fixture
def watch(kube: KubeApi, node_cluster: NodeCluster, tmp_path: Path) -> Callable[[], Prometheus]:
    """Make a Prometheus that scrapes the release's pods, with the chart's rules, whose waits are shorter."""
    try:
        programs = prometheus.programs(prepare.Ready())
    except MissingToolError as error:
        pytest.skip(str(error))

    def new_prometheus() -> Prometheus:
        targets = scraping(node_cluster, pods(kube, NAMESPACE, name="powertrain"))
        rules, env = hastened(12, tmp_path / "rules.yaml"), node_cluster.environment()
        return Prometheus(programs, tmp_path / "prometheus", [], [rules], env=env, jobs=[targets])

    return new_prometheus


@contextlib.contextmanager
def following(kubectl: list[str], pod: str) -> Iterator[list[Object]]:
    """Give the lines that a pod of the release logs, to its end; filled when the block is left."""
    alerts: list[Object] = []
    command = [*kubectl, "logs", "--namespace", NAMESPACE, "--follow", pod]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as follower:
        yield alerts
        assert follower.stdout is not None
        alerts.extend(json.loads(line) for line in follower.stdout if line.startswith("{"))


def board_away() -> Object:
    """Return the PowerNode of a board whose agent will never say that it is restored."""
    session = {"protocol": 1, "uid": "s-1", "generation": 1, "job": {"namespace": "a", "name": "b", "uid": "c"}}
    spec = {"session": {**session, "limits": {"powerWatts": 30}, "workload": {"name": "w", "batchSize": 1}}}
    return {"apiVersion": API_VERSION, "kind": "PowerNode", "metadata": {"name": "away"}, "spec": spec}


def annotations(kube: KubeApi) -> Object:
    [node] = kube.get("/api/v1/nodes")["items"]
    node_annotations = node["metadata"].get("annotations") or {}
    return {key: value for key, value in node_annotations.items() if key.startswith("powertrain.io/")}


def settings(node_cluster: NodeCluster) -> dict[str, str]:
    """Return every file of the simulated board that can be written, with its text."""
    board = node_cluster.host_path(BOARD)
    paths = json.loads((board / STATE_FILE).read_text(encoding="utf-8"))["requests"]
    # A rate of the memory that is not locked is the kernel's own.
    return {path: (board / path.lstrip("/")).read_text("utf-8") for path in paths if not path.endswith("/emc/rate")}


def joined(kube: KubeApi) -> str:
    """Wait until the board has reported; return the path of its PowerNode."""
    [board] = wait_for(
        "the board to report",
        lambda: kube.get(POWER_NODES.path())["items"],
        lambda nodes: nodes and nodes[0].get("status", {}).get("device"),
        60,
    )
    assert board["status"]["device"]["name"] == "orin-agx"
    return POWER_NODES.path(board["metadata"]["name"])


@pytest.mark.timeout(500)
def test_a_release_tells_of_a_breach_trains_to_the_end_gives_the_board_back_and_goes(
    kube: KubeApi,
    node_cluster: NodeCluster,
    release: Release,
    watch: Callable[[], Prometheus],
    kubectl: list[str],
    test_namespace: str,
) -> None:
    release.install()
    path, node = TRAINING_JOBS.path(namespace=test_namespace), joined(kube)
    original = settings(node_cluster)
    kube.create(path, training(test_namespace, "whole"))
    with watch() as watching:

        def lacking() -> set[str]:
            return missing(watching.names()) - BORN_WITH_TROUBLE - BORN_WITH_A_BUDGET

        wait_job(kube, f"{path}/whole", "Running")
        assert settings(node_cluster) != original
        wait_for("the metrics of a training", lacking, BORN_WITH_AN_END.issuperset)
        assert watching.alerts() == {}
        pod = running_pod(kube, test_namespace)["metadata"]["name"]
        inside = [*kubectl, "exec", "--namespace", test_namespace, pod, "--", "env", "PYTHONPATH=/opt/powertrain/lib"]
        # More than even the lowest mode can make up for.
        subprocess.run([*inside, "python3", "-c", OTHER_LOAD, "40"], check=True)
        [fired] = wait_for("the alert", lambda: watching.query(boards_in("firing")), deadline_s=90)
        assert fired["metric"] == {"node": kube.get(node)["metadata"]["name"]}
        wait_for("the violations to be counted", lambda: watching.query(violations(fired["metric"]["node"])))
        subprocess.run([*inside, "python3", "-c", OTHER_LOAD, "0"], check=True)
        subprocess.run([*inside, "touch", f"{BOARD}/whole"], check=True)
        finished_job = wait_job(kube, f"{path}/whole", "Succeeded", "Failed")
        assert finished_job["status"]["phase"] == "Succeeded", finished_job["status"]
        wait_for("the board to be restored", lambda: kube.get(node)["status"]["session"]["restored"])
        wait_for("the annotations to go", lambda: annotations(kube), lambda original: original == {})
        wait_for("the metrics of an end", lacking, lambda names: not names)
    release.run("uninstall", *READY)
    assert settings(node_cluster) == original
    assert kube.get(POWER_NODES.path())["items"] == []
    assert annotations(kube) == {}


@pytest.mark.timeout(500)
def test_an_upgrade_keeps_a_job_and_a_removal_waits_for_it_or_gives_its_board_back(
    kube: KubeApi,
    node_cluster: NodeCluster,
    release: Release,
    older: Path,
    kubectl: list[str],
    test_namespace: str,
) -> None:
    release.install(older)
    path, node = TRAINING_JOBS.path(namespace=test_namespace), joined(kube)
    original = settings(node_cluster)
    kube.create(path, training(test_namespace, "long"))
    wait_job(kube, f"{path}/long", "Running")
    pod, session = running_pod(kube, test_namespace), kube.get(node)["status"]["session"]["uid"]
    trained = kube.get(f"{path}/long")["status"]["nodes"][0]["training"]["steps"]
    [agent] = pods(kube, NAMESPACE, component="agent")
    with following(kubectl, agent["metadata"]["name"]) as told_before:
        release.upgrade()
    [after] = lasting(pods(kube, NAMESPACE, component="agent"))
    assert [each["spec"]["containers"][0]["image"].rpartition(":")[2] for each in (agent, after)] == [OLDER, VERSION]
    again = kube.get(f"/api/v1/namespaces/{test_namespace}/pods/{pod['metadata']['name']}")
    assert again["metadata"]["uid"] == pod["metadata"]["uid"]
    assert again["status"]["containerStatuses"][0]["restartCount"] == 0
    assert kube.get(node)["status"]["session"]["uid"] == session
    look = [*kubectl, "logs", "--namespace", NAMESPACE, after["metadata"]["name"]]
    text = subprocess.run(look, capture_output=True, text=True, check=True).stdout
    hold_lines = [line for line in map(json.loads, text.splitlines()) if line["event"] == "hold"]
    assert hold_lines[0]["reason"] == "a pod of the session is on the host"
    # The board was left at a mode that the older agent had chosen for the job.
    assert hold_lines[0]["mode"] in {
        line["mode"] for line in told_before if line["event"] == "decision" and "mode" in line
    }
    job = wait_for(
        "the job to go on",
        lambda: kube.get(f"{path}/long")["status"],
        lambda status: status["phase"] == "Running" and status["nodes"][0]["training"]["steps"] > trained,
        60,
    )
    assert job["attempt"] == 1

    refused = release.run("uninstall", "--timeout", "100s", check=False)
    assert refused.returncode != 0
    [failed] = pods(kube, NAMESPACE, component="uninstall")
    words = failed["status"]["containerStatuses"][0]["state"]["terminated"]["message"]
    for text in (words, refused.stdout + refused.stderr):
        assert f"these TrainingJobs hold boards: {test_namespace}/long" in text
    accounts = kube.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts")["items"]
    assert "powertrain-uninstall" not in {each["metadata"]["name"] for each in accounts}
    assert pods(kube, NAMESPACE, component="agent")

    # A removal that was refused leaves the release half removed in Helm's eyes; nothing of it is gone.
    release.run("rollback", "--wait", "--timeout", "100s")
    release.upgrade("--set", f"uninstall.force=true,uninstall.timeoutSeconds={PATIENCE_S}")
    assert settings(node_cluster) != original
    kube.create(POWER_NODES.path(), board_away())
    forced = release.run("uninstall", *READY)
    assert settings(node_cluster) == original
    look = [*kubectl, "logs", "--namespace", NAMESPACE, "job/powertrain-release"]
    state = subprocess.run(look, capture_output=True, text=True, check=True).stdout
    for text in (forced.stdout + forced.stderr, state):
        assert f"not restored after {PATIENCE_S} s: away" in text
    subprocess.run([*kubectl, "delete", "--namespace", NAMESPACE, "job/powertrain-release"], check=True)
    assert kube.get(POWER_NODES.path())["items"] == []
    assert annotations(kube) == {}
    left = kube.get(f"{path}/long")
    assert left["spec"]["suspend"]
    assert "finalizers" not in left["metadata"]
    leases = kube.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases")["items"]
    assert leases == []


@pytest.mark.timeout(400)
def test_a_release_that_goes_without_its_hooks_leaves_a_script_that_gives_the_board_back(
    kube: KubeApi, node_cluster: NodeCluster, release: Release, kubectl: list[str], test_namespace: str
) -> None:
    release.install()
    path = TRAINING_JOBS.path(namespace=test_namespace)
    joined(kube)
    original = settings(node_cluster)
    # What the chart's notes advise: the policy for such namespaces lets the release's own pods pass.
    label = {"metadata": {"labels": {"powertrain.io/training": "true"}}}
    kube.merge_patch(f"/api/v1/namespaces/{test_namespace}", label)
    kube.create(path, training(test_namespace, "left"))
    wait_job(kube, f"{path}/left", "Running")
    pod = running_pod(kube, test_namespace)["metadata"]["name"]
    release.run("uninstall", "--no-hooks", *READY)
    wait_for("the agent to go", lambda: pods(kube, NAMESPACE, name="powertrain"), lambda left: left == [], 60)
    # From inside: what is written from outside, the node's own layer of the file system need not show.
    subprocess.run([*kubectl, "exec", "--namespace", test_namespace, pod, "--", "touch", f"{BOARD}/left"], check=True)
    pod_path = f"/api/v1/namespaces/{test_namespace}/pods/{pod}"
    wait_for("the training's end", lambda: kube.get(pod_path)["status"]["phase"], "Succeeded".__eq__, 60)
    assert settings(node_cluster) != original
    script = node_cluster.host_path("/var/lib/powertrain") / SCRIPT
    result = subprocess.run(["sh", script, node_cluster.host_path(BOARD)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "restored\n"), result.stderr
    assert settings(node_cluster) == original
    Uninstall(KubeApi(lambda: credentials(node_cluster.kubeconfig), MANAGER), NAMESPACE, print).clean()
    assert kube.get(POWER_NODES.path())["items"] == []
    assert annotations(kube) == {}
    assert "finalizers" not in kube.get(f"{path}/left")["metadata"]
