"""The board's shares of PowerBudgets: a changed one is kept at once, and what is kept is told when it is news."""

from __future__ import annotations

from collections.abc import Callable

from powertrain.api.v1alpha1 import ShareStatus
from powertrain_agent.governing.events import PolicyChanged, SharesSeen
from powertrain_agent.governing.executor import Executor
from powertrain_agent.telemetry import Reading

SharesKept = Callable[[tuple[ShareStatus, ...]], None]  # the shares that are confirmed


def tell_nobody(shares: tuple[ShareStatus, ...]) -> None:
    """Tell nobody which shares are kept: there is no cluster."""


class ShareReports:
    """Between the shares that were told, the session that has to keep them, and whoever waits for that."""

    def __init__(self, executor: Executor, report: SharesKept) -> None:
        self._executor, self._report = executor, report
        self._shares = executor.ports.site.shares
        self._has_reported = False
        self._idle_w: float | None = None

    def take(self, event: SharesSeen) -> None:
        """Keep other shares from now on."""
        if not self._shares.take(event.shares):
            return
        watts = {share.budget: share.watts for share in self._shares.newest}
        self._executor.ports.log("shares", reason="the board's shares of PowerBudgets change", shares=watts)
        self._executor.handle(PolicyChanged())
        self._confirm(always=True)
        if not self._shares.newest:
            self._report(())  # what was kept is nobody's any more

    def tick(self) -> None:
        """Tell what is kept by now, after a start in any case."""
        with self._executor.failures.catching("shares"):
            self._confirm(always=not self._has_reported)

    def reading(self, reading: Reading) -> None:
        """Take a reading."""
        self._shares.reading(reading, has_job=self._executor.record is not None)

    def _confirm(self, always: bool) -> None:
        """Tell which shares are kept, where that is news: others get watts that this board no longer takes."""
        record, shares = self._executor.record, self._shares
        is_verified = record is None or record.mode is None or record.verified
        # A budget counts a board with the most that it can draw until its power without a job is known.
        first_idle = self._idle_w is None and shares.idle.watts is not None
        if shares.confirm(is_verified) or shares.is_exceeded or first_idle or (always and shares.newest):
            self._report(shares.confirmed)
        shares.is_exceeded, self._has_reported = False, True
        self._idle_w = shares.idle.watts
