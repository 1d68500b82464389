"""Shares: what PowerBudgets let this board take, kept on the disk, and which of it the agent can confirm.

An operator gives a board's watts to another one only after this board has confirmed a lower share. So a share is
confirmed when it is on the disk, the mode is verified, and a whole guard window of readings has been below it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from powertrain.api.v1alpha1 import PowerShare, ShareStatus
from powertrain.limit_table import DEFAULT_WINDOW_S
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.telemetry import Reading, RollingMean
from powertrain_kube.log import Log

SHARES = "shares.json"
# A bound begins so much earlier: a clock that is trusted may be 30 s off, and the power takes seconds to follow.
LEAD = timedelta(seconds=35)
# A share is confirmed this little above it: the mean of a window is rounded.
ROUNDING = 1.0 + 1e-6
# A load on a board without a job is told at once, then at most so often.
TELL_AGAIN_S = 10.0
IDLE_KEPT_S = 600.0
# After a job the power comes down for some seconds; that is not what the board takes idle.
IDLE_AFTER_S = 10.0


@dataclass(frozen=True)
class ShareLimit:
    """The lowest share of a moment, its window, and the budget that it is from."""

    watts: float
    window_s: float
    budget: str

    @property
    def source(self) -> str:
        """Return where it comes from, in words."""
        return f"share of PowerBudget {self.budget}"


def share_at(share: PowerShare, now: datetime, clock_doubt: str = "") -> float:
    """Return what a share allows at a moment; where the clock is in doubt, every fall that is told ahead counts."""
    bounds_w = (b.watts for b in share.ahead if clock_doubt or now >= datetime.fromisoformat(b.at) - LEAD)
    return min((share.watts, *bounds_w))


class IdlePower:
    """The highest mean power without a job of the last minutes, in steps of a tenth of that time."""

    def __init__(self) -> None:
        self._mean = RollingMean(DEFAULT_WINDOW_S)
        self._highest: list[tuple[float, float]] = []  # since when, and the mean
        self._since_s: float | None = None

    def take(self, reading: Reading, has_job: bool) -> None:
        """Take a reading."""
        if has_job:
            self._since_s = None
            self._mean.clear()
            return
        if self._since_s is None:
            self._since_s = reading.at_s + (IDLE_AFTER_S if self._highest else 0.0)
        if reading.at_s < self._since_s:
            return
        self._mean.add(reading)
        if self._mean.full:
            self._note(reading.at_s, self._mean.mean_w)

    def _note(self, now_s: float, mean_w: float) -> None:
        if not self._highest or now_s - self._highest[-1][0] >= IDLE_KEPT_S / 10:
            self._highest.append((now_s, mean_w))
        elif mean_w > self._highest[-1][1]:
            self._highest[-1] = (self._highest[-1][0], mean_w)
        while now_s - self._highest[0][0] > IDLE_KEPT_S:
            del self._highest[0]

    @property
    def mean_w(self) -> float:
        """Return the mean of the last window without a job, 0 where there is none."""
        return self._mean.mean_w if self._mean.full else 0.0

    @property
    def watts(self) -> float | None:
        """Return it; None before the first window without a job. Any thread may ask."""
        return max((mean_w for _, mean_w in list(self._highest)), default=None)


class Shares:
    """The shares that were written for this board, and those that it keeps. One thread changes it."""

    def __init__(self, directory: StateDir, log: Log) -> None:
        self._directory, self._log = directory, log
        self._newest: dict[str, PowerShare] = {}
        self._confirmed: dict[str, ShareStatus] = {}
        self._means: dict[str, RollingMean] = {}
        self._is_saved = True
        self._told_s = float("-inf")
        self.is_exceeded = False  # the board takes more without a job, and nobody was told yet
        self.idle = IdlePower()
        self._load()

    @property
    def newest(self) -> tuple[PowerShare, ...]:
        """Return the shares as they were told last."""
        return tuple(self._newest.values())

    @property
    def confirmed(self) -> tuple[ShareStatus, ...]:
        """Return the shares that are kept; of a lowered one, what was kept before."""
        return tuple(self._confirmed.values())

    def limit_at(self, now: datetime, clock_doubt: str = "") -> ShareLimit | None:
        """Return the lowest share of a moment; None without any."""
        limits = (
            ShareLimit(share_at(share, now, clock_doubt), share.guard_window_seconds, share.budget)
            for share in self._newest.values()
        )
        return min(limits, key=lambda limit: limit.watts, default=None)

    @property
    def window_s(self) -> float | None:
        """Return the shortest window of all shares; None without any."""
        return min((share.guard_window_seconds for share in self._newest.values()), default=None)

    def take(self, shares: Iterable[PowerShare]) -> bool:
        """Note the shares of the PowerNode; one that is older than what is known is passed over. Says what is news."""
        newest = {share.budget: self._newer(share) for share in shares}
        if newest == self._newest:
            return False
        for budget, share in newest.items():
            before = self._newest.get(budget)
            if before is None or (before.watts, before.revision) != (share.watts, share.revision):
                self._means[budget] = RollingMean(share.guard_window_seconds)
        self._newest = newest
        self._confirmed = {budget: share for budget, share in self._confirmed.items() if budget in newest}
        self._save()
        return True

    def _newer(self, share: PowerShare) -> PowerShare:
        before = self._newest.get(share.budget)
        return share if before is None or share.revision >= before.revision else before

    def reading(self, reading: Reading, has_job: bool) -> None:
        """Take a reading."""
        self.idle.take(reading, has_job)
        lowest_w = min((share.watts for share in self._confirmed.values()), default=float("inf"))
        due = reading.at_s - self._told_s >= TELL_AGAIN_S
        if due and not has_job and self.idle.mean_w > lowest_w:
            self._told_s, self.is_exceeded = reading.at_s, True
        for mean in self._means.values():
            mean.add(reading)

    def confirm(self, is_verified: bool) -> bool:
        """Confirm what is kept by now; `is_verified`: no mode of a job is in force that was not seen on the board.

        Says whether that is news.
        """
        if not self._is_saved:
            self._save()
        before = dict(self._confirmed)
        for budget, share in self._newest.items():
            confirmed = self._confirmed.get(budget)
            if self._is_saved and (confirmed is None or confirmed.revision != share.revision):
                self._judge(share, confirmed, is_verified)
        if self._confirmed != before:
            self._save()
        return self._confirmed != before

    def _judge(self, share: PowerShare, confirmed: ShareStatus | None, is_verified: bool) -> None:
        raised = confirmed is not None and share.watts >= confirmed.watts
        mean = self._means.setdefault(share.budget, RollingMean(share.guard_window_seconds))
        is_below = is_verified and mean.full and mean.mean_w <= share.watts * ROUNDING
        if raised or is_below:
            status = ShareStatus(budget=share.budget, watts=share.watts, revision=share.revision)
            self._confirmed[share.budget] = status

    def _load(self) -> None:
        try:
            raw = json.loads(self._directory.read(SHARES) or b"null")
            if raw is None:
                return
            newest = [PowerShare.model_validate(each) for each in raw["asked"]]
            confirmed = [ShareStatus.model_validate(each) for each in raw["confirmed"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._log("shares", reason=f"{self._directory.path / SHARES} can't be read: {error!r:.200}")
            return
        self._newest = {share.budget: share for share in newest}
        self._confirmed = {share.budget: share for share in confirmed}

    def _save(self) -> None:
        content = {
            "asked": [share.wire() for share in self._newest.values()],
            "confirmed": [share.wire() for share in self._confirmed.values()],
        }
        try:
            self._directory.replace(SHARES, json.dumps(content).encode())
            self._is_saved = True
        except OSError as error:
            if self._is_saved:
                self._log("shares", reason=f"the shares could not be saved, so a lower one is not confirmed: {error}")
            self._is_saved = False
