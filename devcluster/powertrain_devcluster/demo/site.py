"""The second part of the demo: one cap over all three boards; a job ends, and its watts go to the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from statistics import mean

from powertrain.api.resources import POWER_BUDGETS, TRAINING_JOBS
from powertrain.api.v1alpha1 import PowerBudget
from powertrain.limit_table import DEFAULT_WINDOW_S
from powertrain_agent.simulate import SimulatedBoard
from powertrain_cli.budget import screens
from powertrain_cli.budget.documents import budget_document
from powertrain_cli.jobs.documents import Document
from powertrain_devcluster.demo.scenario import (
    BOARDS,
    NAMESPACE,
    SITE,
    SITE_W,
    STOP_FILE,
    Settings,
    power_budget,
    site_job,
    site_job_name,
)
from powertrain_devcluster.demo.view import View
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.fleet import Fleet
from powertrain_kube import KubeApi, NotFoundError

PATIENCE_S = 300.0
# A mean over one window of board time, by readings that are spread over it.
READINGS = 4
BLOCKS = " ▁▂▃▄▅▆▇█"
# A share that grows by less may be rounding.
GROWN = 1.05


@dataclass
class SiteRun:
    """Shows the site in a view; keeps what all boards together drew for the plot."""

    settings: Settings
    view: View
    rest: KubeApi
    fleet: Fleet
    drawn_w: list[float] = field(default_factory=list)
    passed_on: str = ""
    # Called while the budget still has boards that share it: for a report about it.
    before_end: Callable[[], None] = lambda: None

    def run(self) -> None:
        """From one budget for three jobs to the end of all of them."""
        first, *others = (board.node for board in BOARDS)
        self._start()
        before = self._until("every board to have its share", lambda now: _all_share(now, [first, *others]))
        shares = ", ".join(f"{node} {before[node]['share_w']:.1f} W" for node in (first, *others))
        self.view.tell(f"shared out so that the last job ends soonest: {shares}; together they draw {self._sum()} W")
        if words := screens.makespan_sentence(self._document()["makespan"]):
            self.view.tell(words)
        self._stop([first])
        self.view.tell(f"the job on {first} has ended; its board counts with its idle watts now")
        after = self._until("its watts to be passed on", lambda now: _has_grown(before, now, others))
        grown = [f"{node} {before[node]['share_w']:.1f} → {after[node]['share_w']:.1f} W" for node in others]
        self.passed_on = ", ".join(grown)
        self.view.tell(f"its watts went to the others: {self.passed_on}")
        self._observe(self.settings.site_s)
        self.before_end()
        self._stop(others)
        self.rest.delete(POWER_BUDGETS.path(SITE))

    def _start(self) -> None:
        for board in BOARDS:
            (self.fleet.nodes.node_root(board.node) / STOP_FILE).unlink(missing_ok=True)
        self.rest.create(POWER_BUDGETS.path(), power_budget())
        for board in BOARDS:
            self.rest.create(TRAINING_JOBS.path(namespace=NAMESPACE), site_job(self.settings, board))
        self.view.tell(f"applied PowerBudget {SITE}: {SITE_W:g} W for all three boards together, and a job for each")

    def _stop(self, nodes: Sequence[str]) -> None:
        """Let the trainings on these boards end, and wait until the boards are free."""
        for node in nodes:
            (self.fleet.nodes.node_root(node) / STOP_FILE).touch()
        names = [site_job_name(node) for node in nodes]
        self._until(f"{', '.join(names)} to end", lambda _: all(self._is_over(name) for name in names))

    def _is_over(self, name: str) -> bool:
        job = self.rest.get(TRAINING_JOBS.path(name, NAMESPACE))
        phase = (job.get("status") or {}).get("phase")
        if phase == "Failed":
            raise ClusterError(f"the TrainingJob {name} failed: {job['status'].get('message', '')}")
        return phase == "Succeeded" and not job["metadata"].get("finalizers")

    def _observe(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        self._until("a moment to pass", lambda _: time.monotonic() > end_s)

    def _until(self, what: str, holds: Callable[[dict[str, Document]], bool]) -> dict[str, Document]:
        end_s = time.monotonic() + PATIENCE_S
        while True:
            self.drawn_w.append(self._true_sum_w())
            document = self._document()
            boards = {board["node"]: board for board in document["boards"]}
            self.view.draw([screens.budget(document), "", *plot(self.drawn_w, SITE_W)], self._progress(document))
            if holds(boards):
                return boards
            if time.monotonic() > end_s:
                raise ClusterError(f"waited {PATIENCE_S:.0f} s for {what}")

    def _progress(self, document: Document) -> str:
        return f"all boards together draw {self._sum()} of {SITE_W:g} W, {document['jobs']} jobs"

    def _sum(self) -> str:
        return f"{self.drawn_w[-1]:.1f}" if self.drawn_w else "–"

    def _document(self) -> Document:
        try:
            raw = self.rest.get(POWER_BUDGETS.path(SITE))
        except NotFoundError:
            raise ClusterError(f"PowerBudget {SITE} is gone") from None
        return budget_document(PowerBudget.model_validate(raw), datetime.now(UTC))

    def _true_sum_w(self) -> float:
        """Return what the boards truly draw together, mean over three seconds of their time."""
        scale = self.settings.time_scale
        boards = [
            SimulatedBoard.open(self.fleet.nodes.node_root(board.node), time_scale=scale, timeout_s=None)
            for board in BOARDS
        ]
        readings = []
        for _ in range(READINGS):
            readings.append(sum(board.sysfs.instant().power_w for board in boards))
            time.sleep(DEFAULT_WINDOW_S / READINGS / scale)
        return mean(readings)


def _all_share(boards: dict[str, Document], nodes: Sequence[str]) -> bool:
    rows = [boards.get(node) for node in nodes]
    return all(b is not None and b["job"] and b["share_w"] and b["confirmed"] and b["speed"] for b in rows)


def _has_grown(before: dict[str, Document], now: dict[str, Document], nodes: Sequence[str]) -> bool:
    """Say whether the others have more than before, together, and keep it."""
    sums = [sum(boards[node]["share_w"] or 0.0 for node in nodes) for boards in (before, now)]
    return sums[1] > GROWN * sums[0] and all(now[node]["confirmed"] for node in nodes)


def plot(drawn_w: Sequence[float], cap_w: float, width: int = 64, height: int = 6) -> list[str]:
    """Return a sum over time as lines of text below a line for the cap; what is above the cap stands above it."""
    if not drawn_w:
        return []
    count = min(width, len(drawn_w))
    edges = [round(place * len(drawn_w) / count) for place in range(count + 1)]
    columns = [max(drawn_w[begin:end]) for begin, end in pairwise(edges)]
    above = "".join("█" if value > cap_w else " " for value in columns).rstrip()
    lines = [f"{'':>9} |{above}", f"{f'{cap_w:g} W cap':>9} |{'-' * count}"]
    for row in range(height):
        low_w = cap_w * (height - 1 - row) / height
        eighths = [round(8 * (value - low_w) / (cap_w / height)) for value in columns]
        label = "0 W" if row == height - 1 else ""
        lines.append(f"{label:>9} |{''.join(BLOCKS[max(0, min(8, each))] for each in eighths)}")
    return lines
