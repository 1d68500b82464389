"""One snapshot of the demo's cluster: the job, its boards, their fronts and the Nodes' annotations."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from powertrain.api.resources import POWER_NODES, TRAINING_JOBS
from powertrain.api.v1alpha1 import Front
from powertrain_cli.jobs.documents import Document, job_status
from powertrain_devcluster.demo.scenario import BOARDS, JOB, NAMESPACE
from powertrain_kube import KubeApi

Object = dict[str, Any]


@dataclass(frozen=True)
class Snapshot:
    """What was seen at one moment."""

    job: Document
    raw: Object
    fronts: dict[str, int] = field(default_factory=dict)
    annotations: dict[str, dict[str, str]] = field(default_factory=dict)

    def board(self, node: str) -> Document | None:
        """Return a board's part of the job."""
        return next((board for board in self.job["boards"] if board["node"] == node), None)

    @property
    def degraded(self) -> bool:
        """Say whether something is wrong right now, such as a sensor that is silent because the machine is busy."""
        return any(each["type"] == "Degraded" and each["status"] == "True" for each in self.job["conditions"])

    @property
    def all_chosen(self) -> bool:
        """Say whether every board runs in the mode that it chose, and tries no other."""
        boards = self.job["boards"]
        return len(boards) == len(BOARDS) and all(has_chosen(board) for board in boards)


def has_chosen(board: Document) -> bool:
    """Say whether a board's last decision is about the mode that it runs in."""
    has_choice = board["phase"] == "Running" and board["reason"] == "Chosen"
    return bool(has_choice and board["mode"] and board["message"].startswith(board["human"]))


def read_snapshot(rest: KubeApi) -> Snapshot:
    """Read everything that the view shows."""
    raw = rest.get(TRAINING_JOBS.path(JOB, NAMESPACE))
    power_nodes = {each["metadata"]["name"]: each for each in rest.get(POWER_NODES.path())["items"]}
    annotations = {}
    for node in rest.get("/api/v1/nodes")["items"]:
        on_node = node["metadata"].get("annotations") or {}
        ours = {key.removeprefix("powertrain.io/"): value for key, value in on_node.items() if "powertrain.io/" in key}
        annotations[node["metadata"]["name"]] = ours
    sessions = {name: (each.get("status") or {}).get("session") or {} for name, each in power_nodes.items()}
    return Snapshot(
        job_status(raw, power_nodes, datetime.now(UTC)),
        raw,
        {name: len(Front.model_validate((s.get("result") or {}).get("front") or {})) for name, s in sessions.items()},
        annotations,
    )
