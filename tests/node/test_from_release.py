"""A release alone, without a checkout: its images on a node, its chart, a training, and a clean node again."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from tests.node.release import BOARD, NAMESPACE, READY, ROOT, SPEED, VERSION, pods, training, wait_job

from powertrain.api.resources import POWER_NODES, RESOURCES, TRAINING_JOBS
from powertrain_devcluster.builds import binaries, prepare
from powertrain_devcluster.errors import MissingToolError
from powertrain_devcluster.node.node import NodeCluster
from powertrain_devcluster.testing.waits import wait_for
from powertrain_devcluster.tools.helm import Helm
from powertrain_kube import KubeApi

IMAGES = ("operator", "agent", "init", "training-example")
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


@pytest.fixture(scope="module")
def dist(node_cluster: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make release-dry-run` writes, as far as this node needs it."""
    try:
        binaries.helm(prepare.Ready())
    except MissingToolError as error:
        pytest.skip(str(error))
    out = tmp_path_factory.mktemp("release") / "dist"
    options = ["--only=packages,chart,images", f"--images={','.join(IMAGES)}", f"--architectures={ARCHITECTURE}"]
    command = [sys.executable, str(ROOT / "hack/release"), *options, f"--out={out}"]
    subprocess.run(command, env={**os.environ, "RELEASE_GZIP_LEVEL": "1"}, check=True)
    return out


@pytest.fixture(scope="module")
def powertrain(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command line of the release's wheel; without `site` the checkout, which is installed here, can't help out."""
    home = tmp_path_factory.mktemp("cli")
    [wheel] = dist.glob("powertrain_operator-*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(home)]
    subprocess.run([*pip, str(wheel)], check=True)
    libraries = Path(numpy.__file__).parents[1]
    return ["env", f"PYTHONPATH={home}:{libraries}", sys.executable, "-S", "-m", "powertrain_cli"]


def summed(dist: Path) -> None:
    subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=dist, check=True)


@pytest.mark.timeout(300)
def test_from_the_files_of_a_release_to_a_training_and_back_to_a_clean_node(
    dist: Path,
    powertrain: list[str],
    node_cluster: NodeCluster,
    kube: KubeApi,
    kubectl: list[str],
    test_namespace: str,
    tmp_path: Path,
) -> None:
    summed(dist)
    archives = sorted(map(str, dist.glob("powertrain-image-*.tar.gz")))
    assert len(archives) == len(IMAGES)
    take = [*powertrain, "images", "import", *archives, "--here", "--ctr", " ".join(node_cluster.ctr())]
    result = subprocess.run(take, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    helm = Helm(binaries.helm(prepare.Ready()), tmp_path / "helm", node_cluster.kubeconfig)
    release = ("powertrain", "--namespace", NAMESPACE)
    values = f"image.local=true,simulate.enabled=true,simulate.timeScale={SPEED}"
    chart = str(dist / f"powertrain-{VERSION}.tgz")
    helm.run("install", *release, chart, "--create-namespace", *READY, "--set", values)
    try:
        job = training(test_namespace, "released")
        [train] = job["spec"]["workload"]["template"]["spec"]["containers"]
        train["args"] = ["--time-scale", str(SPEED), "--steps", "300"]
        kube.create(TRAINING_JOBS.path(namespace=test_namespace), job)
        ended = wait_job(kube, TRAINING_JOBS.path("released", test_namespace), "Succeeded", "Failed")
        assert ended["status"]["phase"] == "Succeeded", ended["status"]
        node = ended["status"]["nodes"][0]["name"]
        completed = subprocess.run(
            [*powertrain, "list", "--kubeconfig", str(node_cluster.kubeconfig), "-n", test_namespace],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert "released" in completed
        wait_for("the board to be restored", lambda: kube.get(POWER_NODES.path(node))["status"]["session"]["restored"])
        kube.delete(TRAINING_JOBS.path("released", test_namespace))
    finally:
        helm.run("uninstall", *release, *READY)
    clean(node_cluster, kube, kubectl)


def clean(node_cluster: NodeCluster, kube: KubeApi, kubectl: list[str]) -> None:
    """Remove what `helm uninstall` keeps, as the page on installing says, and look at what is left."""
    page = (ROOT / "docs/how-to/install.md").read_text(encoding="utf-8").replace("\\\n", " ")
    [command] = [line for line in page.splitlines() if line.startswith("kubectl delete crd ")]
    assert set(command.split()[3:]) == {f"{each.plural}.powertrain.io" for each in RESOURCES}
    subprocess.run([*kubectl, *command.split()[1:]], check=True, capture_output=True)
    wait_for("our pods to go", lambda: pods(kube, NAMESPACE, name="powertrain"), lambda left: left == [], 60)
    [node] = kube.get("/api/v1/nodes")["items"]
    marks = {**node["metadata"].get("annotations", {}), **node["metadata"].get("labels", {})}
    assert [key for key in marks if key.startswith("powertrain.io/")] == []
    for kind in ("clusterroles", "clusterrolebindings"):
        names = [each["metadata"]["name"] for each in kube.get(f"/apis/rbac.authorization.k8s.io/v1/{kind}")["items"]]
        assert [name for name in names if name.startswith("powertrain")] == []
    folder = node_cluster.host_path(BOARD).parent
    assert sorted(path.name for path in (folder / "sessions").glob("*")) == []
