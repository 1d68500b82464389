"""The story of the demo, step by step, on a real API server; every figure in it is read from the cluster."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from powertrain.api.resources import TRAINING_JOBS
from powertrain_cli.cluster.controlplane import ControlPlane
from powertrain_cli.cluster.errors import ClusterError
from powertrain_cli.cluster.fleet import Fleet, FleetSettings
from powertrain_cli.cluster.rest import Rest
from powertrain_cli.demo.meter import Meter
from powertrain_cli.demo.report import Outcome
from powertrain_cli.demo.scene import Scene, has_chosen, look
from powertrain_cli.demo.stage import BOARDS, JOB, NAMESPACE, STOP_FILE, WORKLOAD, Board, Settings, training_job
from powertrain_cli.demo.view import View
from powertrain_cli.jobs.documents import Document

MERGE = "application/merge-patch+json"
POLL_S = 0.25
# A machine that is busy with other things takes several times as long as one that is not.
PATIENCE_S = 600.0


@dataclass
class Story:
    """Tells the story to a view; what it leads to is kept for the report."""

    settings: Settings
    view: View
    outcomes: list[Outcome] = field(default_factory=list)
    scenes: dict[str, Scene] = field(default_factory=dict)
    measured: dict[str, Document] = field(default_factory=dict)
    reacted_s: float = 0.0

    @contextlib.contextmanager
    def stage(self, programs: Mapping[str, Path]) -> Iterator[Fleet]:
        """Set up a cluster with three boards; it is gone afterwards, however the story ends."""
        with tempfile.TemporaryDirectory(prefix="powertrain-demo-", ignore_cleanup_errors=True) as scratch:
            root = Path(scratch)
            # The whole folder is the cluster's, so that its janitor removes all of it also when we are killed.
            with ControlPlane(programs, root, progress=self.view) as plane:
                self.view.tell("cluster up: a real etcd, API server, controller-manager and scheduler")
                boards = {board.node: board.device for board in BOARDS}
                settings = FleetSettings(boards, time_scale=self.settings.time_scale)
                logs, env = plane.logs, plane.environment()
                with Fleet(plane.kubeconfig, settings, root / "nodes", logs=logs, env=env, progress=self.view) as fleet:
                    names = ", ".join(f"{board.node} ({board.device})" for board in BOARDS)
                    self.view.tell(f"kinds and operator are in, agents have joined: {names}")
                    yield fleet

    def tell(self, fleet: Fleet) -> None:
        """From kubectl apply to the restored boards."""
        rest = Rest(fleet.kubeconfig)
        try:
            self._apply(rest)
            self._profile(rest)
            self._lower_the_budget(rest)
            self._end(rest, fleet)
        finally:
            rest.close()

    def _apply(self, rest: Rest) -> None:
        rest.create(TRAINING_JOBS.path(namespace=NAMESPACE), training_job(self.settings))
        limits = ", ".join(f"{board.device} {board.budget_w:g} W" for board in BOARDS)
        self.view.tell(f"applied TrainingJob {JOB}: {WORKLOAD} on three boards, as fast as {limits} allow")
        self._until(rest, "the boards to be claimed", lambda scene: len(scene.job["boards"]) == len(BOARDS))
        self.view.tell("the operator has claimed all three; each pod waits in its gate for a safe mode")

    def _profile(self, rest: Rest) -> None:
        scene = self._train(rest, *(board.node for board in BOARDS))
        for board in scene.job["boards"]:
            self.view.tell(f"{board['node']} has chosen {board['message']}")
        self.scenes["chosen"] = scene
        for place in BOARDS:
            self._keep(place, place.budget_w, scene)
        said = "; ".join(
            f"{node}: {found['power-mode']} within {found['power-budget-watts']} W"
            for node, found in scene.annotations.items()
            if "power-mode" in found
        )
        self.view.tell(f"the Nodes say so in their annotations: {said}")

    def _lower_the_budget(self, rest: Rest) -> None:
        first, watts = BOARDS[0], self.settings.later_w
        before = self.scenes["chosen"].board(first.node)
        old = None if before is None else before["mode"]
        path = TRAINING_JOBS.path(JOB, NAMESPACE)
        began_s = time.monotonic()
        rest.patch(path, {"spec": {"constraints": {"powerWatts": watts}}}, MERGE)
        self.view.tell(f"edited the running job: {first.node} may now take {watts:g} W instead of {first.budget_w:g} W")

        def follows(scene: Scene) -> bool:
            board = scene.board(first.node)
            return board is not None and board["limit_w"] == watts and board["mode"] not in (None, old)

        self._until(rest, "the new budget to be followed", follows)
        self.reacted_s = time.monotonic() - began_s
        self.view.tell(f"{first.node} runs in another mode {self.reacted_s:.1f} s after the edit, from what is proven")
        if self.settings.settles_again:
            scene = self._train(rest, first.node)
            self._keep(first, watts, scene)
            board = scene.board(first.node)
            self.view.tell(f"{first.node} has chosen {board['message'] if board else ''}")

    def _end(self, rest: Rest, fleet: Fleet) -> None:
        for board in BOARDS:
            stop = fleet.nodes.node_root(board.node) / STOP_FILE
            stop.parent.mkdir(parents=True, exist_ok=True)
            stop.touch()
        self._until(rest, "the training to end", lambda scene: scene.job["phase"] in ("Succeeded", "Failed"))
        scene = self._until(rest, "the boards to be restored", _is_restored)
        samples, energy_wh = scene.job["samples"] or 0, scene.job["energy_j"] / 3600
        self.view.tell(f"training over: {samples:,} samples, {energy_wh:.1f} Wh; every board is as it was found")
        self.scenes["end"] = scene

    def _train(self, rest: Rest, *nodes: str) -> Scene:
        """Wait until every board trains in what it chose and these are measured there; return the last look."""
        meters = {node: Meter() for node in nodes}

        def is_measured(scene: Scene) -> bool:
            if scene.degraded:
                meters.update({node: Meter() for node in nodes})
                return False
            for board in scene.job["boards"]:
                if board["node"] in meters and has_chosen(board):
                    meters[board["node"]].see(board)
            self.measured = {node: found for node, meter in meters.items() if (found := meter.measured()) is not None}
            return scene.all_chosen and len(self.measured) == len(meters)

        return self._until(rest, "every board to choose its mode and to measure it", is_measured)

    def _keep(self, place: Board, limit_w: float, scene: Scene) -> None:
        board = scene.board(place.node)
        assert board is not None
        self.outcomes.append(Outcome(place, limit_w, board, self.measured[place.node]))

    def _until(self, rest: Rest, what: str, holds: Callable[[Scene], bool]) -> Scene:
        end_s = time.monotonic() + PATIENCE_S
        while True:
            scene = look(rest)
            self.view.show(scene)
            if holds(scene):
                return scene
            if scene.job["phase"] == "Failed" and what != "the boards to be restored":
                raise ClusterError(f"the TrainingJob failed while waiting for {what}: {scene.job['message']}")
            if time.monotonic() > end_s:
                raise ClusterError(f"waited {PATIENCE_S:.0f} s for {what}; last: {scene.job['message']}")
            time.sleep(POLL_S)


def _is_restored(scene: Scene) -> bool:
    released = not scene.raw["metadata"].get("finalizers")
    return released and not any("training-job" in found for found in scene.annotations.values())
