"""A fleet that only observes: boards report, and no job is placed on them; the job says why."""

from __future__ import annotations

from pathlib import Path

from powertrain.api.resources import POWER_NODES, TRAINING_JOBS
from powertrain_agent.simulate import SimulatedBoard
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.fleet import Fleet, FleetSettings
from powertrain_devcluster.testing.waits import wait_for
from powertrain_kube import KubeApi

SCALE = 15.0


def test_boards_report_and_no_job_is_placed_on_them(
    control_plane: ControlPlane, kube: KubeApi, test_namespace: str, tmp_path: Path
) -> None:
    settings = FleetSettings({"watched": "orin-agx"}, time_scale=SCALE, agent_options=("--observe",))
    env, logs = control_plane.environment(), control_plane.logs
    with Fleet(control_plane.kubeconfig, settings, tmp_path, logs=logs, env=env) as fleet:
        board = SimulatedBoard.open(fleet.nodes.node_root("watched"), time_scale=SCALE)
        before = board.sysfs.state().requests
        template = {"spec": {"containers": [{"name": "train", "image": "x", "command": ["sleep", "1"]}]}}
        spec = {"constraints": {"powerWatts": 30}, "workload": {"batchSizes": [16], "template": template}}
        job = {
            "apiVersion": "powertrain.io/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": "waits"},
            "spec": spec,
        }
        kube.create(TRAINING_JOBS.path(namespace=test_namespace), job)
        status = wait_for(
            "the job to say why it waits",
            lambda: kube.get(TRAINING_JOBS.path("waits", test_namespace)).get("status", {}),
            lambda status: "only observes" in status.get("message", ""),
            60,
        )
        assert status["phase"] == "WaitingForNode"
        board.load("resnet18")
        figures = wait_for(
            "the predicted gain",
            lambda: kube.get(POWER_NODES.path("watched"))["status"].get("figures", {}),
            lambda figures: "expectedPowerSavingPercent" in figures,
            90,
        )
        assert figures["expectedPowerSavingPercent"] > 0
        assert kube.get(POWER_NODES.path("watched"))["status"]["agent"]["observes"]
        assert board.sysfs.state().requests == before
        kube.delete(TRAINING_JOBS.path("waits", test_namespace))
