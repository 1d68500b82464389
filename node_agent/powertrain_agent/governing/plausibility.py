"""Plausibility: whether the power readings of a session can be believed, and when they can be again.

It is told readings, steps and modes, and answers with `doubt`: what was seen that can't be true, empty while nothing
speaks against the sensor. A doubt ends with evidence. Where none can be had in the mode of least power, the readings
get another chance after a while, a few times; then the doubt stays until the agent is started anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from powertrain import PowerMode
from powertrain_agent.governing.response import Finding, Response
from powertrain_agent.telemetry import Reading
from powertrain_agent.telemetry.plausibility import Repeats

CHANCES_S = (60.0, 300.0, 1800.0)  # waits before each: a trial may break the limit for some seconds
ALIVE_CHANGES = 3  # a sensor that was stuck is back when its value has changed so often
CLIMBED = 1.5  # a CPU and a GPU that are so many times faster show on any sensor, however little there is to do …
CLIMBED_S = 2.0  # … within this time
UNMOVED_S = 1.0


@dataclass(frozen=True)
class _Doubt:
    reason: str
    finding: Finding | None  # None: the value does not change at all
    since_s: float
    changes: int


class Plausibility:
    """One session's belief in its power sensor."""

    def __init__(self) -> None:
        self.response = Response()
        self._repeats = Repeats()
        self._doubt: _Doubt | None = None
        self._chances = 0  # that were given
        self._counts_steps = False
        self._mode_s = 0.0
        self._modes: list[PowerMode] = []  # in force while the value that is read now did not change

    @property
    def doubt(self) -> str:
        """Return what speaks against the sensor; empty while nothing does."""
        return self._doubt.reason if self._doubt is not None else ""

    @property
    def is_settled(self) -> bool:
        """Say whether another mode could be compared with this one; a sensor that was lost is not trusted before."""
        return self.response.is_settled

    def mode_changed(self, at_s: float, mode: PowerMode) -> None:
        """Note a mode that was set and read back."""
        if self._modes and self._modes[-1] == mode:
            return
        self._modes.append(mode)
        self._mode_s = at_s
        self._repeats.forget()
        self.response.mode_changed(at_s, mode)

    def step(self, at_s: float, step_s: float) -> None:
        """Note a step of the training."""
        self._counts_steps = True
        self.response.step(at_s, step_s)

    def power(self, reading: Reading) -> None:
        """Take a reading that is possible by itself."""
        before = self._repeats.changes
        self._repeats.add(reading)
        if self._repeats.changes != before:
            self._modes = self._modes[-1:]
        self.response.power(reading)
        if self._doubt is None:
            self._doubt = self._new_doubt(reading.at_s)
        elif self._is_over(self._doubt, reading.at_s):
            self.response.forget(self._doubt.finding)
            self._doubt = None

    def _new_doubt(self, now_s: float) -> _Doubt | None:
        finding, reason = self.response.finding, self.response.reason
        stuck = self._repeats.stuck(self.response.is_busy(now_s)) or self._deaf_climb(now_s)
        if stuck or (finding is Finding.NO_RESPONSE and self._repeats.held_s >= UNMOVED_S):
            return _Doubt(stuck or reason, None, now_s, self._repeats.changes)
        return None if finding is None else _Doubt(reason, finding, now_s, self._repeats.changes)

    def _deaf_climb(self, now_s: float) -> str:
        """Without steps nobody knows how busy the board is: there only a value that never changes tells."""
        if self._counts_steps or now_s - self._mode_s < CLIMBED_S or not self._modes:
            return ""
        here = self._modes[-1]
        if not any(_is_far(mode, here) or _is_far(here, mode) for mode in self._modes[:-1]):
            return ""
        return f"the sensor repeats one value for {self._repeats.held_s:.0f} s, in {len(self._modes)} different modes"

    def _is_over(self, doubt: _Doubt, now_s: float) -> bool:
        if doubt.finding is None:
            return self._repeats.changes - doubt.changes >= ALIVE_CHANGES
        if doubt.finding is Finding.FLOOR:
            return self.response.fits
        evidence = self.response.follows_mode if doubt.finding is Finding.NO_RESPONSE else self.response.fits
        return evidence or self._gets_chance(doubt, now_s)

    def _gets_chance(self, doubt: _Doubt, now_s: float) -> bool:
        if self._chances >= len(CHANCES_S) or now_s - doubt.since_s < CHANCES_S[self._chances]:
            return False
        self._chances += 1
        return True


def _is_far(low: PowerMode, high: PowerMode) -> bool:
    return high.cpu_khz >= CLIMBED * low.cpu_khz and high.gpu_hz >= CLIMBED * low.gpu_hz
