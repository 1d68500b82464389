"""A release of the chart on real nodes with simulated boards, and trainings on them; for the levels that have nodes."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from powertrain_devcluster.testing.waits import wait_for
from powertrain_devcluster.tools.helm import Helm
from powertrain_kube import KubeApi

Object = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/powertrain"
NAMESPACE = "powertrain-system"
BOARD = "/var/lib/powertrain/simulated"
# A busy machine gives an agent no reading for half a second; on a board that must not be a lost sensor.
SPEED = 15
READY = ("--wait", "--timeout", "150s")
VERSION, OLDER = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"], "0.0.9"


@dataclass(frozen=True)
class Release:
    """A release with simulated boards; the tag of its images is the chart's own version."""

    helm: Helm

    def install(self, chart: Path = CHART) -> None:
        """Install a chart and wait until its pods are ready."""
        values = f"image.local=true,simulate.enabled=true,simulate.timeScale={SPEED}"
        self.run("install", str(chart), "--create-namespace", *READY, "--set", values)

    def upgrade(self, *more: str) -> None:
        """Upgrade to the present chart, as the page on installing says."""
        self.run("upgrade", str(CHART), "--reset-then-reuse-values", *READY, *more)

    def run(self, verb: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Do something else with it."""
        return self.helm.run(verb, "powertrain", "--namespace", NAMESPACE, *arguments, check=check)


def older_chart(folder: Path) -> Path:
    """Copy the chart as an earlier version, whose images have an earlier tag."""
    shutil.copytree(CHART, folder)
    about = yaml.safe_load((folder / "Chart.yaml").read_text(encoding="utf-8"))
    (folder / "Chart.yaml").write_text(yaml.safe_dump(about | {"version": OLDER, "appVersion": OLDER}), "utf-8")
    return folder


def training(namespace: str, name: str, tag: str = VERSION) -> Object:
    """Return a training that goes on until there is a file of its name in the board's folder."""
    mounts = [{"name": "board", "mountPath": BOARD}]
    train = {
        "name": "train",
        "image": f"powertrain-training-example:{tag}",
        "imagePullPolicy": "Never",
        "command": ["powertrain-simtrain", "mobilenet-v3", "--host-root", BOARD, "--no-gate"],
        "args": ["--time-scale", str(SPEED), "--stop-file", f"{BOARD}/{name}"],
        "volumeMounts": mounts,
    }
    volumes = [{"name": "board", "hostPath": {"path": BOARD}}]
    template = {"spec": {"containers": [train], "volumes": volumes, "terminationGracePeriodSeconds": 1}}
    workload = {"batchSizes": [16], "samplesPerEpoch": 2000, "epochs": 1, "instrumentation": "SDK"}
    spec = {"constraints": {"powerWatts": 30}, "workload": workload | {"template": template}}
    spec["profiling"] = {"strategy": "transfer", "maxModes": 4}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "powertrain.io/v1alpha1", "kind": "TrainingJob", "metadata": metadata, "spec": spec}


def pods(kube: KubeApi, namespace: str, **labels: str) -> list[Object]:
    selector = ",".join(f"app.kubernetes.io/{key}={value}" for key, value in labels.items())
    pod_list: list[Object] = kube.get(f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": selector})["items"]
    return pod_list


def lasting(pod_list: list[Object]) -> list[Object]:
    return [each for each in pod_list if "deletionTimestamp" not in each["metadata"]]


def running_pod(kube: KubeApi, namespace: str) -> Object:
    [pod] = kube.get(f"/api/v1/namespaces/{namespace}/pods", {"fieldSelector": "status.phase=Running"})["items"]
    latest: Object = pod
    return latest


def wait_job(kube: KubeApi, path: str, *phases: str, deadline_s: float = 120) -> Object:
    def has_answer(job: Object) -> bool:
        return job.get("status", {}).get("phase") in phases

    return wait_for(f"one of {phases}", lambda: kube.get(path), has_answer, deadline_s)
