"""The history of a live `tune`: readings from the power source, marks from what the loop reports."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from powertrain.api.v1alpha1 import Reason, SessionStatus
from powertrain.modes import PowerMode
from powertrain_agent.history import Happening, History
from powertrain_agent.telemetry import PowerSource, Reading

# Why a mode was set, as the mark of the time line.
KINDS = {
    Reason.PROFILING: Happening.TRIAL,
    Reason.CHECK: Happening.TRIAL,
    Reason.GUARD: Happening.GUARD,
    Reason.SCHEDULE: Happening.LIMIT,
}


@dataclass(frozen=True)
class _Now:
    mode: str | None = None
    reason: Reason | None = None
    step_s: float | None = None


class LiveHistory:
    """Fed by the sampler's thread and by the loop's; `time_scale` is that of a simulated board."""

    def __init__(self, began_at: str, limit_w: float, time_scale: float) -> None:
        self._limit_w, self._scale = limit_w, time_scale
        self._first_s: float | None = None
        self._last_s = 0.0
        self._now = _Now()
        self._lock = threading.Lock()
        self.history = History(began_at)

    def watched(self, source: PowerSource) -> PowerSource:
        """Return the source, whose readings are also kept here."""
        return _Watched(source, self)

    def note_reading(self, reading: Reading) -> None:
        """Keep one reading beside the mode and step time of the moment."""
        with self._lock:
            if self._first_s is None:
                self._first_s = reading.at_s
            self._last_s = (reading.at_s - self._first_s) * self._scale
            now = self._now
            self.history.add(self._last_s, reading.power_w, now.step_s, now.mode, self._limit_w)

    def note_status(self, status: SessionStatus) -> None:
        """Mark a change of the mode, or of the reason for it, in the loop's own words."""
        with self._lock:
            before = self._now
            step_s = status.observed.step_seconds if status.observed else None
            self._now = replace(before, mode=status.mode, reason=status.reason, step_s=step_s)
            if status.mode is not None and (status.mode, status.reason) != (before.mode, before.reason):
                kind = KINDS.get(status.reason, Happening.MODE)
                self.history.mark(self._last_s, kind, status.message or PowerMode.parse(status.mode).human)


class _Watched:
    """A power source that shows its readings to a history."""

    def __init__(self, source: PowerSource, history: LiveHistory) -> None:
        self._source, self._history = source, history

    @property
    def name(self) -> str:
        """Return the source's own name."""
        return self._source.name

    def read(self) -> Reading:
        """Return the next reading."""
        reading = self._source.read()
        self._history.note_reading(reading)
        return reading

    def close(self) -> None:
        """Close the source."""
        self._source.close()
