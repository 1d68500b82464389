"""The budget guard: the mean over the guard window above the limit → a safer point; back only after a quiet time."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from powertrain_agent.telemetry import Reading, RollingMean

QUIET_S = 60.0  # power that was too high once will be again: wait before going back up
QUIET_LIMIT_S = 1800.0
EARLY_SHARE, EARLY_S = 1.1, 1.0  # far above the limit, a third of a window says enough


class GuardAction(StrEnum):
    """What the guard asks for."""

    NONE = "none"
    LOWER = "lower"
    RAISE = "raise"


@dataclass
class Guard:
    """Watches readings against a limit. `violations` are windows, `hard_violations` readings above theirs."""

    window_s: float = 3.0
    limit_w: float | None = None
    hard_limit_w: float | None = None
    is_peak: bool = False
    violations: int = 0
    hard_violations: int = 0
    quiet_s: float = QUIET_S
    again: bool = False  # the last action came soon after the way back up
    _truth: RollingMean = field(init=False)
    _acting: RollingMean = field(init=False)
    _counted_s: float = float("-inf")
    _lowered_s: float | None = None
    _raised_s: float | None = None

    def __post_init__(self) -> None:
        self._truth, self._acting = RollingMean(self.window_s), RollingMean(self.window_s)

    @property
    def mean_w(self) -> float:
        """Return the mean over the last window, whatever modes it held."""
        return self._truth.mean_w

    @property
    def mean_of_mode_w(self) -> float | None:
        """Return the mean of the present mode once it covers a window."""
        return self._acting.mean_w if self._acting.full else None

    @property
    def lowered(self) -> bool:
        """Say whether the guard holds the mode down."""
        return self._lowered_s is not None

    def keep_lowered(self, now_s: float) -> None:
        """Go on from an action of an earlier run of the agent: the quiet time begins anew."""
        self._lowered_s = now_s

    def set_limits(self, limit_w: float | None, hard_limit_w: float | None, is_peak: bool = False) -> None:
        """Guard other limits from now on; a raised one ends the quiet time."""
        if limit_w is None or (self.limit_w is not None and limit_w > self.limit_w):
            self._lowered_s = None
        if limit_w != self.limit_w:
            # What was allowed until now is no violation of the new limit.
            self._truth.clear()
        self.limit_w, self.hard_limit_w, self.is_peak = limit_w, hard_limit_w, is_peak

    def mode_changed(self) -> None:
        """Judge the new mode by its own readings only."""
        self._acting.clear()

    def power(self, reading: Reading) -> GuardAction:
        """Take a reading and say what to do."""
        self._truth.add(reading)
        self._acting.add(reading)
        if self.hard_limit_w is not None and reading.power_w > self.hard_limit_w:
            self.hard_violations += 1
            return self._lower(reading.at_s)
        if self.limit_w is None:
            return GuardAction.NONE
        if self.is_peak and reading.power_w > self.limit_w:
            self.violations += 1
            return self._lower(reading.at_s)
        self._count(reading.at_s)
        if self._is_above():
            return self._lower(reading.at_s)
        return self._maybe_raise(reading.at_s)

    def _count(self, now_s: float) -> None:
        """Count each stretch of a window's length above the limit once."""
        above = self._truth.full and self.limit_w is not None and self._truth.mean_w > self.limit_w
        if above and now_s - self._counted_s >= self.window_s:
            self.violations += 1
            self._counted_s = now_s

    def _is_above(self) -> bool:
        assert self.limit_w is not None
        mean_w, covered_s = self._acting.mean_w, self._acting.covered_s
        early = covered_s >= EARLY_S and mean_w > EARLY_SHARE * self.limit_w
        return early or (self._acting.full and mean_w > self.limit_w)

    def _lower(self, now_s: float) -> GuardAction:
        # Up and soon down again: the next try has to wait longer.
        self.again = self._raised_s is not None and now_s - self._raised_s < 2 * self.quiet_s
        self.quiet_s = min(2 * self.quiet_s, QUIET_LIMIT_S) if self.again else self.quiet_s
        self._lowered_s, self._raised_s = now_s, None
        self._acting.clear()
        return GuardAction.LOWER

    def _maybe_raise(self, now_s: float) -> GuardAction:
        if self._lowered_s is None or now_s - self._lowered_s < self.quiet_s or not self._acting.full:
            return GuardAction.NONE
        self._lowered_s, self._raised_s = None, now_s
        return GuardAction.RAISE
