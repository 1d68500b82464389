"""The demo scenario: which boards, which job, and how fast simulated time runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from powertrain import __version__
from powertrain_devcluster.fleet import DEVICE_LABEL

Object = dict[str, Any]
NAMESPACE, JOB = "default", "demo"
WORKLOAD = "mobilenet-v3"
# The file in a board's tree that ends its training; the pod sees the tree as /board.
STOP_FILE = "tmp/training-is-over"


@dataclass(frozen=True)
class Board:
    """One simulated Jetson and its budget."""

    node: str
    device: str
    budget_w: float


BOARDS = (Board("agx", "orin-agx", 30.0), Board("xavier", "xavier-agx", 20.0), Board("nano", "orin-nano", 8.0))


# One cap over all three boards, less than half of what they could take together.
SITE, SITE_W = "site", 48.0
# A job for each board; with these lengths the largest board has most to do.
EPOCHS = {"agx": 60, "xavier": 20, "nano": 5}
MOST_W = 60.0


@dataclass(frozen=True)
class Settings:
    """How long the demo takes and what it includes."""

    # Boards live so much faster than the wall clock; much more and a busy machine disturbs the windows.
    time_scale: float = 16.0
    max_modes: int = 10
    # The new budget of the first board, and whether its new choice is waited for and measured, too.
    later_w: float = 22.0
    measures_again: bool = True
    # How long the boards are observed after the watts of the first were passed on.
    site_s: float = 5.0


FAST = Settings(time_scale=20.0, max_modes=4, measures_again=False)


def training_job(settings: Settings) -> Object:
    """Return the TrainingJob: three replicas, the budget of each board by an override."""
    overrides = [
        {"nodeSelector": {DEVICE_LABEL: board.device}, "constraints": {"powerWatts": board.budget_w}}
        for board in BOARDS[1:]
    ]
    container = {
        "name": "train",
        "image": f"powertrain-training-example:{__version__}",
        "command": ["powertrain-simtrain", WORKLOAD, "--stop-file", f"/board/{STOP_FILE}"],
        "env": [{"name": "POWERTRAIN_SIM_ROOT", "value": "/board"}],
        "volumeMounts": [{"name": "board", "mountPath": "/board"}],
    }
    volumes = [{"name": "board", "hostPath": {"path": "/var/lib/powertrain/simulated"}}]
    return {
        "apiVersion": "powertrain.io/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": JOB, "namespace": NAMESPACE},
        "spec": {
            "objective": "MinTime",
            "constraints": {"powerWatts": BOARDS[0].budget_w},
            "placement": {"replicas": len(BOARDS), "overrides": overrides},
            "workload": {
                "name": WORKLOAD,
                "samplesPerEpoch": 23080,
                "batchSizes": [16],
                "template": {"spec": {"restartPolicy": "Never", "containers": [container], "volumes": volumes}},
            },
            "profiling": {"maxModes": settings.max_modes},
        },
    }


def power_budget() -> Object:
    """Return the PowerBudget over all boards."""
    return {
        "apiVersion": "powertrain.io/v1alpha1",
        "kind": "PowerBudget",
        "metadata": {"name": SITE},
        "spec": {"nodeSelector": {}, "watts": SITE_W, "goal": "MinMakespan"},
    }


def site_job_name(node: str) -> str:
    """Return the name of a board's job under the one cap."""
    return f"site-{node}"


def site_job(settings: Settings, board: Board) -> Object:
    """Return a board's job under the one cap: the workload that the first part has profiled, so it starts at once."""
    first = training_job(settings)
    workload = {**first["spec"]["workload"], "epochs": EPOCHS[board.node]}
    return {
        **first,
        "metadata": {"name": site_job_name(board.node), "namespace": NAMESPACE},
        "spec": {
            "objective": "MinTime",
            "constraints": {"powerWatts": MOST_W},
            "placement": {"nodeSelector": {DEVICE_LABEL: board.device}},
            "workload": workload,
            "profiling": first["spec"]["profiling"],
        },
    }
