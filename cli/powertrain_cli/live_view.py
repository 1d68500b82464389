"""The live view of a session: watts against the budget, modes tried, the growing front, the choice and why."""

from __future__ import annotations

import threading
import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from powertrain.api.v1alpha1 import SessionStatus
from powertrain.modes import PowerMode

TRIED_ROWS, FRONT_ROWS, BAR = 12, 8, 40


class LiveView:
    """Takes statuses from the loop's thread; on a terminal it repaints, elsewhere it prints a line per decision."""

    def __init__(self, budget_w: float, time_scale: float, quiet: bool, console: Console) -> None:
        self._budget_w, self._scale, self._quiet, self._console = budget_w, time_scale, quiet, console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal and not quiet else None
        self._started_s = time.monotonic()
        self._last_message = ""
        self._lock = threading.Lock()

    def __enter__(self) -> LiveView:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, status: SessionStatus) -> None:
        """Show the newest status."""
        with self._lock:
            if self._live:
                self._live.update(self._picture(status), refresh=True)
            elif not self._quiet and status.message != self._last_message:
                self._last_message = status.message
                self._console.print(f"{self._at()} {self._watts(status)}  {status.message}", soft_wrap=True)

    def note(self, text: str) -> None:
        """Say something beside the statuses."""
        if not self._quiet:
            self._console.print(f"{self._at()} {text}", style="dim", soft_wrap=True)

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
        mode = PowerMode.parse(status.mode).human if status.mode else "–"
        head = Text(f"{self._at()}  {status.phase.value}  {mode}  ", style="bold")
        return Group(
            head, self._bar(status), self._trials_table(status), self._front(status), Text(status.message, "dim")
        )

    def _bar(self, status: SessionStatus) -> Text:
        watts = (status.observed.power_watts if status.observed else None) or 0.0
        filled = min(BAR, round(BAR * watts / (1.25 * self._budget_w)))
        style = "red" if watts > self._budget_w else "green"
        return Text(f"{'█' * filled}{'·' * (BAR - filled)} {watts:.1f} of {self._budget_w:g} W", style)

    def _trials_table(self, status: SessionStatus) -> Table:
        rows = self.trials(status)
        title = f"tried ({len(rows)} modes, {status.profiling.seconds:.0f} s)"
        table = Table("#", "mode", "ms a step", "W", "", title=title, title_justify="left")
        for number, row in list(enumerate(rows, start=1))[-TRIED_ROWS:]:
            mark = "left early" if row["unsafe"] else ""
            human = PowerMode.parse(row["mode"]).human
            table.add_row(str(number), human, f"{row['time_ms']:.1f}", f"{row['power_w']:.2f}", mark)
        return table

    def _front(self, status: SessionStatus) -> Table:
        table = Table("mode", "ms a step", "±", "W", "±", title="front", title_justify="left")
        front = status.result.front if status.result else None
        if front is None or not len(front):
            return table
        modes = list(front.modes())
        stride = max(1, len(modes) // FRONT_ROWS)
        for place in range(0, len(modes), stride):
            table.add_row(
                modes[place].human,
                f"{front.step_seconds[place] * 1e3:.1f}",
                f"{2e3 * front.step_std_seconds[place]:.1f}",
                f"{front.power_watts[place]:.1f}",
                f"{2 * front.power_std_watts[place]:.1f}",
            )
        return table
