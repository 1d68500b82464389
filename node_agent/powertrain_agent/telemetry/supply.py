"""Supply: what a board's power supply shows, its volts and its over-current alarms, as limits in watts."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping

from powertrain_agent.telemetry.port import Reading

LOWEST_V = 5.0  # no Jetson takes less; it stands for a voltage that nobody measures
STEP_V = 0.1  # limits follow the voltage in steps, so that noise changes none
RISE_V = 0.2
REMEMBER_S = 60.0
RECENT_S = 2.0
# After an alarm readings stay below what was drawn then, by this much and for so long.
ALARM_SHARE = 0.95
ALARM_HOLD_S = 600.0
# Under-voltage (oc1) says that the supply gives way as the two alarms of current do.
ALARMS = ("oc1", "oc2", "oc3")


class Supply:
    """Takes readings and over-current counters, and says what no single reading may exceed.

    Amperes become watts by the lowest voltage of the last minute, in whole steps below it. An alarm becomes a limit a
    little below what was drawn when it fired; it is forgotten after ten minutes without another.
    """

    def __init__(self) -> None:
        self.volts: float | None = None
        self._minute: deque[tuple[float, float]] = deque()
        self._recent: deque[tuple[float, float]] = deque()
        self._counts: dict[str, int] = {}
        self._alarm_w: float | None = None
        self._alarm_s = -math.inf
        self._alarms: tuple[str, ...] = ()

    @property
    def alarm(self) -> str:
        """Say which alarms hold the power down, and how far; empty without one."""
        if self._alarm_w is None:
            return ""
        return f"{', '.join(self._alarms)} fired: no reading may exceed {self._alarm_w:.1f} W"

    def note(self, reading: Reading) -> None:
        """Take a reading."""
        _keep(self._recent, reading.at_s, reading.power_w, RECENT_S)
        if reading.supply_v is None or reading.supply_v <= 0:
            return
        while self._minute and self._minute[-1][1] >= reading.supply_v:
            self._minute.pop()  # what comes later and is not higher outlasts it: the first one left is the lowest
        _keep(self._minute, reading.at_s, reading.supply_v, REMEMBER_S)
        lowest_v = math.floor(self._minute[0][1] / STEP_V + 1e-6) * STEP_V
        if self.volts is None or lowest_v < self.volts or lowest_v >= self.volts + RISE_V:
            self.volts = lowest_v

    def count(self, counters: Mapping[str, int], now_s: float) -> tuple[str, ...]:
        """Take the counters, which run since boot; returns the alarms that fired since the last look."""
        new_alarms = tuple(
            name for name in ALARMS if counters.get(name, 0) > self._counts.get(name, counters.get(name, 0))
        )
        self._counts = dict(counters)
        if new_alarms and self._recent:
            drawn_w = ALARM_SHARE * max(power_w for _, power_w in self._recent)
            self._alarm_w = drawn_w if self._alarm_w is None else min(self._alarm_w, drawn_w)
            self._alarm_s, self._alarms = now_s, new_alarms
        elif now_s - self._alarm_s > ALARM_HOLD_S:
            self._alarm_w = None
        return new_alarms

    def hard_limit_w(self, watts: Iterable[float | None], amperes: Iterable[float | None]) -> float | None:
        """Return the lowest of limits in watts, limits in amperes at the supply's voltage, and what an alarm left."""
        volts = self.volts if self.volts is not None else LOWEST_V
        by_current_w = (limit_a * volts for limit_a in amperes if limit_a is not None)
        limits_w = (limit_w for limit_w in (*watts, self._alarm_w) if limit_w is not None)
        return min((*limits_w, *by_current_w), default=None)


def _keep(values: deque[tuple[float, float]], at_s: float, value: float, seconds: float) -> None:
    values.append((at_s, value))
    while at_s - values[0][0] > seconds:
        values.popleft()
