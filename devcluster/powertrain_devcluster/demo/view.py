"""How the demo is seen: a live picture on a terminal, a line for each thing worth telling elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from powertrain_cli.jobs import screens
from powertrain_cli.jobs.documents import Document, human
from powertrain_cli.terminal_picture import TerminalPicture
from powertrain_devcluster.demo.scenario import BOARDS
from powertrain_devcluster.demo.snapshot import Snapshot

STEP_LINES = 9
# A pipe gets a line of progress now and then; a line for every snapshot would bury the steps.
PROGRESS_EVERY_S = 10.0


class View(TerminalPicture):
    """Shows snapshots and the steps of the demo."""

    def __init__(self, console: Console, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock_s = clock_s
        self._began_s = clock_s()
        self._last_progress_s = self._began_s
        self._steps: deque[str] = deque(maxlen=STEP_LINES)
        self._best_ms: dict[str, float] = {}
        self._trials_shown: dict[str, int] = {}
        super().__init__(console, is_drawn=console.is_terminal)

    def waiting(self, what: str) -> None:
        """Show what a start waits for; the picture has a place for it, lines would only be noise."""
        if self._live:
            waiting = _line(f"{self._at()}  waiting for {what}", "dim")
            self._live.update(Group(*(_line(line) for line in self._steps), waiting), refresh=True)

    def tell(self, text: str) -> None:
        """Show a step of the demo."""
        line = f"{self._at()}  {text}"
        self._steps.append(line)
        if not self._live:
            self._console.print(line, markup=False, soft_wrap=True)

    def show(self, snapshot: Snapshot) -> None:
        """Show the newest snapshot."""
        for board in snapshot.job["boards"]:
            self._tell_tried(board)
        if self._live:
            self._live.update(self._picture(snapshot), refresh=True)
        else:
            self._tell_progress(snapshot)

    def draw(self, parts: Sequence[RenderableType], progress: str) -> None:
        """Show a picture that is not of the job; a pipe gets the line of progress now and then."""
        if self._live:
            head = Text(self._at(), style="bold")
            self._live.update(Group(head, "", *parts, "", *(_line(line) for line in self._steps)), refresh=True)
        elif self._clock_s() - self._last_progress_s >= PROGRESS_EVERY_S:
            self._last_progress_s = self._clock_s()
            self.tell(progress)

    def _at(self) -> str:
        return f"{self._clock_s() - self._began_s:5.1f} s"

    def _tell_progress(self, snapshot: Snapshot) -> None:
        """Tell now and then what the picture shows all the time: steps trained, and how the fronts grow."""
        trains = [board for board in snapshot.job["boards"] if board["steps"]]
        if not trains or self._clock_s() - self._last_progress_s < PROGRESS_EVERY_S:
            return
        self._last_progress_s = self._clock_s()
        each = "; ".join(
            f"{board['node']} {board['steps']:,} steps, front of {snapshot.fronts.get(board['node'], 0)} modes"
            for board in trains
        )
        self.tell(f"trained so far: {each}")

    def _tell_tried(self, board: Document) -> None:
        """Tell each mode that beats those before it; others are only counted."""
        new = board["tried"][self._trials_shown.get(board["node"], 0) :]
        self._trials_shown[board["node"]] = max(len(board["tried"]), self._trials_shown.get(board["node"], 0))
        for each in new:
            step_ms = each["step_s"] * 1e3
            if each["unsafe"]:
                self.tell(f"{board['node']}: {each['human']} left at once: a reading above {board['limit_w']:g} W")
            elif step_ms < self._best_ms.get(board["node"], float("inf")):
                self._best_ms[board["node"]] = step_ms
                self.tell(
                    f"{board['node']}: best so far {each['human']}, {step_ms:.1f} ms a step, "
                    f"{each['power_w']:.1f} of {board['limit_w'] or 0:g} W"
                )

    def _picture(self, snapshot: Snapshot) -> Group:
        job = snapshot.job
        head = Text(f"{self._at()}  TrainingJob {job['name']}  ", style="bold") + screens.phase(job["phase"])
        parts: list[RenderableType] = [head, "", self._boards(snapshot), ""]
        parts += [_line(f"{board['node']}: {board['message']}", "dim") for board in job["boards"] if board["message"]]
        for node, on_node in snapshot.annotations.items():
            listed = "  ".join(f"{key}={value}" for key, value in sorted(on_node.items()))
            parts += [_line(f"Node {node}: {listed}", "cyan")] if on_node else []
        return Group(*parts, "", *(_line(line) for line in self._steps))

    def _boards(self, snapshot: Snapshot) -> RenderableType:
        rows = []
        for place in BOARDS:
            board = snapshot.board(place.node)
            if board is None:
                rows.append([place.node, place.device, Text("waits", style="dim"), "", "", "", "", ""])
                continue
            power = board["power_w"]
            rows.append(
                [
                    place.node,
                    place.device,
                    Text(board["phase"] or "–"),
                    screens.power_bar(power, board["limit_w"]) if power is not None else Text("–"),
                    str(board["modes_tried"]),
                    str(snapshot.fronts.get(place.node, 0)),
                    human(board["mode"]),
                    str(board["steps"]),
                ]
            )
        columns = ["node", "board", "phase", "watts", "tried", "front", "mode", "steps"]
        return screens.grid(columns, rows, right=("tried", "front", "steps"))


def _line(text: str, style: str = "") -> Text:
    """Return one line of the picture, cut where the terminal ends."""
    return Text(text, style=style, overflow="ellipsis", no_wrap=True)
