"""Runs the demo, step by step, on a real API server; every figure in it is read from the cluster."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from powertrain.api.resources import TRAINING_JOBS
from powertrain_cli.jobs.documents import Document
from powertrain_devcluster.connection import connect
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.demo.meter import Meter
from powertrain_devcluster.demo.report import Outcome
from powertrain_devcluster.demo.scenario import (
    BOARDS,
    JOB,
    NAMESPACE,
    STOP_FILE,
    WORKLOAD,
    Board,
    Settings,
    training_job,
)
from powertrain_devcluster.demo.site import SiteRun
from powertrain_devcluster.demo.snapshot import Snapshot, has_chosen, read_snapshot
from powertrain_devcluster.demo.view import View
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.fleet import Fleet, FleetSettings
from powertrain_kube import KubeApi

POLL_S = 0.25
# A demo has no time to wait half a minute for the next sharing.
OPERATOR_OPTIONS = ("--reshare-seconds", "5")
# A machine that is busy with other things takes several times as long as one that is not.
PATIENCE_S = 600.0


@dataclass
class DemoRun:
    """Shows each step in a view and keeps the outcomes for the report."""

    settings: Settings
    view: View
    outcomes: list[Outcome] = field(default_factory=list)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    measured: dict[str, Document] = field(default_factory=dict)
    reacted_s: float = 0.0
    with_site: bool = True
    site: SiteRun | None = None
    before_site_ends: Callable[[], None] = lambda: None

    @contextlib.contextmanager
    def cluster(self, programs: Mapping[str, Path]) -> Iterator[Fleet]:
        """Set up a cluster with three boards; it is gone afterwards, however the demo ends."""
        with tempfile.TemporaryDirectory(prefix="powertrain-demo-", ignore_cleanup_errors=True) as scratch:
            root = Path(scratch)
            # The whole folder is the cluster's, so that its janitor removes all of it also when we are killed.
            with ControlPlane(programs, root, progress=self.view) as plane:
                self.view.tell("cluster up: a real etcd, API server, controller-manager and scheduler")
                boards = {board.node: board.device for board in BOARDS}
                settings = FleetSettings(boards, self.settings.time_scale, operator_options=OPERATOR_OPTIONS)
                logs, env = plane.logs, plane.environment()
                with Fleet(plane.kubeconfig, settings, root / "nodes", logs=logs, env=env, progress=self.view) as fleet:
                    names = ", ".join(f"{board.node} ({board.device})" for board in BOARDS)
                    self.view.tell(f"CRDs and operator are in, agents have joined: {names}")
                    yield fleet

    def run(self, fleet: Fleet) -> None:
        """From kubectl apply to the restored boards."""
        rest = connect(fleet.kubeconfig)
        try:
            self._apply(rest)
            self._profile(rest)
            self._lower_the_budget(rest)
            self._end(rest, fleet)
            if self.with_site:
                self.site = SiteRun(self.settings, self.view, rest, fleet, before_end=self.before_site_ends)
                self.site.run()
        finally:
            rest.close()

    def _apply(self, rest: KubeApi) -> None:
        rest.create(TRAINING_JOBS.path(namespace=NAMESPACE), training_job(self.settings))
        limits = ", ".join(f"{board.device} {board.budget_w:g} W" for board in BOARDS)
        self.view.tell(f"applied TrainingJob {JOB}: {WORKLOAD} on three boards, as fast as {limits} allow")
        self._until(rest, "the boards to be claimed", lambda snapshot: len(snapshot.job["boards"]) == len(BOARDS))
        self.view.tell("the operator has claimed all three; each pod waits in its gate for a safe mode")

    def _profile(self, rest: KubeApi) -> None:
        snapshot = self._train(rest, *(board.node for board in BOARDS))
        for board in snapshot.job["boards"]:
            self.view.tell(f"{board['node']} has chosen {board['message']}")
        self.snapshots["chosen"] = snapshot
        for place in BOARDS:
            self._keep(place, place.budget_w, snapshot)
        annotations = "; ".join(
            f"{node}: {on_node['power-mode']} within {on_node['power-budget-watts']} W"
            for node, on_node in snapshot.annotations.items()
            if "power-mode" in on_node
        )
        self.view.tell(f"the Nodes carry it in their annotations: {annotations}")

    def _lower_the_budget(self, rest: KubeApi) -> None:
        first, watts = BOARDS[0], self.settings.later_w
        before = self.snapshots["chosen"].board(first.node)
        old = None if before is None else before["mode"]
        path = TRAINING_JOBS.path(JOB, NAMESPACE)
        began_s = time.monotonic()
        rest.merge_patch(path, {"spec": {"constraints": {"powerWatts": watts}}})
        self.view.tell(f"edited the running job: {first.node} may now take {watts:g} W instead of {first.budget_w:g} W")

        def follows(snapshot: Snapshot) -> bool:
            board = snapshot.board(first.node)
            return board is not None and board["limit_w"] == watts and board["mode"] not in (None, old)

        self._until(rest, "the new budget to be followed", follows)
        self.reacted_s = time.monotonic() - began_s
        self.view.tell(f"{first.node} runs in another mode {self.reacted_s:.1f} s after the edit, from what is proven")
        if self.settings.measures_again:
            snapshot = self._train(rest, first.node)
            self._keep(first, watts, snapshot)
            board = snapshot.board(first.node)
            self.view.tell(f"{first.node} has chosen {board['message'] if board else ''}")

    def _end(self, rest: KubeApi, fleet: Fleet) -> None:
        for board in BOARDS:
            stop = fleet.nodes.node_root(board.node) / STOP_FILE
            stop.parent.mkdir(parents=True, exist_ok=True)
            stop.touch()
        self._until(rest, "the training to end", lambda snapshot: snapshot.job["phase"] in ("Succeeded", "Failed"))
        snapshot = self._until(rest, "the boards to be restored", _is_restored)
        samples, energy_wh = snapshot.job["samples"] or 0, snapshot.job["energy_j"] / 3600
        self.view.tell(
            f"training over: {samples:,} samples, {energy_wh:.1f} Wh; the original settings of every board are restored"
        )
        self.snapshots["end"] = snapshot

    def _train(self, rest: KubeApi, *nodes: str) -> Snapshot:
        """Wait until every board trains in what it chose and these are measured there; return the last snapshot."""
        meters = {node: Meter() for node in nodes}

        def is_measured(snapshot: Snapshot) -> bool:
            if snapshot.degraded:
                meters.update({node: Meter() for node in nodes})
                return False
            for board in snapshot.job["boards"]:
                if board["node"] in meters and has_chosen(board):
                    meters[board["node"]].see(board)
            self.medians = {node: medians for node, meter in meters.items() if (medians := meter.medians()) is not None}
            return snapshot.all_chosen and len(self.medians) == len(meters)

        return self._until(rest, "every board to choose its mode and to measure it", is_measured)

    def _keep(self, place: Board, limit_w: float, snapshot: Snapshot) -> None:
        board = snapshot.board(place.node)
        assert board is not None
        self.outcomes.append(Outcome(place, limit_w, board, self.medians[place.node]))

    def _until(self, rest: KubeApi, what: str, holds: Callable[[Snapshot], bool]) -> Snapshot:
        end_s = time.monotonic() + PATIENCE_S
        while True:
            snapshot = read_snapshot(rest)
            self.view.show(snapshot)
            if holds(snapshot):
                return snapshot
            if snapshot.job["phase"] == "Failed" and what != "the boards to be restored":
                raise ClusterError(f"the TrainingJob failed while waiting for {what}: {snapshot.job['message']}")
            if time.monotonic() > end_s:
                raise ClusterError(f"waited {PATIENCE_S:.0f} s for {what}; last: {snapshot.job['message']}")
            time.sleep(POLL_S)


def _is_restored(snapshot: Snapshot) -> bool:
    released = not snapshot.raw["metadata"].get("finalizers")
    return released and not any("training-job" in annotations for annotations in snapshot.annotations.values())
