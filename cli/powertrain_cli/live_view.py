"""The live view of a session: watts against the budget, modes tried, the growing front, the choice and why."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from powertrain.api.v1alpha1 import SessionStatus
from powertrain.modes import PowerMode
from powertrain_cli import output
from powertrain_cli.jobs.documents import front_points
from powertrain_cli.terminal_picture import TerminalPicture
from powertrain_cli.tune_tables import FrontRow, TriedRow, front_table, rows_for, tried_table

BAR = 40
HEAD_LINES = 2  # the phase and the bar
SPARE_LINES = 1  # the cursor's


class LiveView(TerminalPicture):
    """Takes statuses from the loop's thread; on a terminal it repaints, elsewhere it prints a line per decision.

    A reader that goes away (`| head`) silences the view: the loop has a board to care for.
    """

    def __init__(self, budget_w: float, time_scale: float, quiet: bool, console: Console) -> None:
        self._budget_w, self._scale, self._quiet, self._console = budget_w, time_scale, quiet, console
        # The picture vanishes at the end: what stays on the screen is the conclusion.
        super().__init__(console, is_drawn=console.is_terminal and not quiet, transient=True)
        self._started_s = time.monotonic()
        self._last_message = ""
        self.reader_gone = False
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Take the picture off the screen; what is printed from here on stays."""
        with self._lock:
            super().stop()
            self._live = None

    def show(self, status: SessionStatus) -> None:
        """Show the newest status."""
        with self._lock:
            if self._live:
                self._live.update(self._picture(status), refresh=True)
            elif not self._console.is_terminal and status.message != self._last_message:
                self._last_message = status.message
                self._print(f"{self._at()} {self._watts(status)}  {status.message}")

    def note(self, text: str) -> None:
        """Say something beside the statuses."""
        with self._lock:
            self._print(f"{self._at()} {text}", style="dim")

    def conclude(self, lines: Iterable[str]) -> None:
        """End with these lines: they are the result, so no time stands before them."""
        self.stop()
        with self._lock:
            for line in lines:
                self._print(line)

    def _print(self, text: str, style: str = "") -> None:
        if self._quiet:
            return
        try:
            self._console.print(text, style=style, soft_wrap=not self._console.is_terminal, markup=False)
        except (BrokenPipeError, SystemExit):  # rich turns the first into the second
            self._quiet = self.reader_gone = True
            output.drop_stdout()

    def trials(self, status: SessionStatus) -> list[dict[str, Any]]:
        """Return the measured modes as rows."""
        if status.result is None:
            return []
        return [
            {
                "mode": str(sample.mode),
                "time_ms": sample.step_s * 1e3,
                "power_w": sample.power_w,
                "unsafe": sample.unsafe,
            }
            for sample in status.result.samples.samples()
        ]

    def _at(self) -> str:
        return f"{(time.monotonic() - self._started_s) * self._scale:7.1f} s"

    def _watts(self, status: SessionStatus) -> str:
        watts = status.observed.power_watts if status.observed else None
        return "  –.– W" if watts is None else f"{watts:5.1f} W"

    def _picture(self, status: SessionStatus) -> Group:
        """Return a picture that fits the terminal: the whole reason, then as many rows of both tables as fit."""
        mode = PowerMode.parse(status.mode).human if status.mode else "–"
        parts: list[RenderableType] = [Text(f"{self._at()}  {status.phase.value}  {mode}", style="bold")]
        parts += [self._bar(status), Text(status.message)]
        trials, front = self._tried_rows(status), self._front_rows(status)
        width, height = self._console.size
        reason_lines = math.ceil(max(1, len(status.message)) / width) + 1  # words move to the next line as a whole
        last, most = rows_for(height - HEAD_LINES - SPARE_LINES - reason_lines, len(trials), len(front))
        if last:
            title = f"tried ({len(trials)} modes, {status.profiling.seconds:.0f} s)"
            parts.append(tried_table(trials, last, self._budget_w, title, width))
        if most:
            parts.append(front_table(front, most, self._budget_w, width))
        return Group(*parts)

    def _bar(self, status: SessionStatus) -> Text:
        watts = status.observed.power_watts if status.observed else None
        filled = min(BAR, round(BAR * (watts or 0.0) / (1.25 * self._budget_w)))
        style = "red" if (watts or 0.0) > self._budget_w else "green"
        watts_text = "–" if watts is None else f"{watts:.1f}"
        return Text(f"{'█' * filled}{'·' * (BAR - filled)} {watts_text} of {self._budget_w:g} W", style)

    def _tried_rows(self, status: SessionStatus) -> list[TriedRow]:
        return [
            TriedRow(
                PowerMode.parse(row["mode"]).human,
                row["time_ms"],
                row["power_w"],
                "left early" if row["unsafe"] else "",
            )
            for row in self.trials(status)
        ]

    def _front_rows(self, status: SessionStatus) -> list[FrontRow]:
        front = status.result.front if status.result else None
        if front is None:
            return []
        return [
            FrontRow(
                point["human"],
                point["step_s"] * 1e3,
                point["step_pm_s"] * 1e3,
                point["power_w"],
                point["power_pm_w"],
            )
            for point in front_points(front)
        ]
