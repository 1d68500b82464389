"""Keeps the status of a chosen mode while it is held, and says when what is observed there is of that mode alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from powertrain.api.v1alpha1 import Phase, Reason, SessionStatus

# In the board's time: right after a change, mean and step are still those of the mode before.
OBSERVED_S = 15.0


@dataclass
class Choice:
    """The newest status of the chosen mode; `is_observed` once it has been held for a while without a check."""

    time_scale: float
    status: SessionStatus | None = None
    is_observed: bool = False
    _since_s: float | None = field(default=None)

    def take(self, status: SessionStatus, now_s: float) -> None:
        """Take a status of the session at a moment of the wall clock."""
        if status.phase is not Phase.RUNNING or status.reason is Reason.CHECK:
            self._since_s, self.is_observed = None, False
            return
        if self._since_s is None or self.status is None or self.status.mode != status.mode:
            self._since_s = now_s
        self.status = status
        self.is_observed = (now_s - self._since_s) * self.time_scale >= OBSERVED_S
