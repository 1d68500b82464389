"""Collects what a board reports of its mode while it trains in it: the median of several reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from powertrain_cli.jobs.documents import Document

# A report follows every decision and, without one, comes every ten seconds.
ENOUGH = 2


@dataclass
class Meter:
    """Takes looks at one board; starts anew with every mode."""

    mode: str = ""
    reports: list[Document] = field(default_factory=list)

    def see(self, board: Document) -> None:
        """Take a look; only one with other figures is another report."""
        if board["mode"] != self.mode:
            self.mode, self.reports = board["mode"] or "", []
        observed = board["observed"]
        if (
            observed
            and observed["step_s"]
            and observed["power_w"]
            and (not self.reports or observed != self.reports[-1])
        ):
            self.reports.append(observed)

    def medians(self) -> Document | None:
        """Return the median step time and power, None while there is too little to tell."""
        # The first report of a mode may still be about the one before.
        fresh = self.reports[1:]
        if len(fresh) < ENOUGH:
            return None
        return {name: median(report[name] for report in fresh) for name in ("step_s", "power_w")}
