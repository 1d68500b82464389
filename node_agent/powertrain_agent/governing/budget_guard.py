"""The budget guard: the mean over a guard window above its limit → a safer point; back only after a quiet time.

Two limits are kept, each over its own window: the job's, and the site's, which no job can soften by a longer window.

A mode is judged by its own power, not by what is left of the one before: power takes seconds to follow a mode, and the
sensor averages on top. After a change that ended a breach, a reading above a limit is counted as ever, but costs no
other mode within `SETTLE_S`, unless it is above what was read before the change or, after the first second, the power
does not fall fast enough to come below the limit. Then it is the mode's own power, and the mode is left at once.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean

from powertrain.limit_table import DEFAULT_WINDOW_S, MAX_WINDOW_S
from powertrain_agent.telemetry import Reading, RollingMean

QUIET_S = 60.0  # power that was too high once will be again: wait before going back up
QUIET_LIMIT_S = 1800.0
EARLY_SHARE, EARLY_S = 1.1, 1.0  # far above the limit, a third of a window says enough
BROKEN_S = 6.0  # a breach that has just ended may not have
SETTLE_S = 2.5  # the papers saw power settle within two to three seconds
TREND_S = 0.5  # sensors average for about so long; means of less can't tell falling from noise
STILL_TO_FALL = 2.0  # of what it fell in the last half second: enough for time constants of up to 1.2 s
NOISE_SHARE = 1.02  # a reading so little above the highest before it is noise


class GuardAction(StrEnum):
    """What the guard asks for."""

    NONE = "none"
    LOWER = "lower"
    RAISE = "raise"


@dataclass
class MeanLimit:
    """A limit on the mean over a window, and what was read lately: of all modes, and of the present mode alone."""

    window_s: float
    limit_w: float | None = None
    truth: RollingMean = field(init=False)
    acting: RollingMean = field(init=False)

    def __post_init__(self) -> None:
        self.window_s = min(self.window_s, MAX_WINDOW_S)  # readings are kept for so long
        self.truth, self.acting = RollingMean(self.window_s), RollingMean(self.window_s)

    def set(self, limit_w: float | None) -> None:
        """Keep another limit from now on: what was allowed until now is no violation of it."""
        if limit_w != self.limit_w:
            self.truth.clear()
        self.limit_w = limit_w

    @property
    def is_broken(self) -> bool:
        """Say whether the last window is above the limit, whatever modes it held."""
        return self.limit_w is not None and self.truth.full and self.truth.mean_w > self.limit_w

    def is_above(self, early_too: bool = True) -> bool:
        """Say whether the present mode takes too much; `early_too` before a window is full, where it is far above."""
        if self.limit_w is None:
            return False
        mean_w, covered_s = self.acting.mean_w, self.acting.covered_s
        early = early_too and covered_s >= EARLY_S and mean_w > EARLY_SHARE * self.limit_w
        return early or (self.acting.full and mean_w > self.limit_w)


@dataclass
class Guard:
    """Watches readings against the limits. `violations` are windows, `hard_violations` readings above theirs."""

    window_s: float = DEFAULT_WINDOW_S
    site_window_s: float = DEFAULT_WINDOW_S
    limit_w: float | None = None
    hard_limit_w: float | None = None
    is_peak: bool = False
    by_ledger: bool = False  # modes above the limit may be tried for moments
    trying: bool = False  # … and one is
    violations: int = 0
    hard_violations: int = 0
    quiet_s: float = QUIET_S
    again: bool = False  # the last action came soon after the way back up
    settling: bool = False  # the last reading still shows the mode before
    _job: MeanLimit = field(init=False)
    _site: MeanLimit = field(init=False)
    _recent: deque[Reading] = field(default_factory=deque)
    _changed_s: float | None = None  # when the mode was set that has not settled yet
    _level_w: float = 0.0  # the highest reading of the second before that, and …
    _before_w: float = 0.0  # … the mean
    _fell: bool = False  # the limit was lowered, and the power may still follow
    _broken_s: float = float("-inf")
    _counted_s: float = float("-inf")
    _lowered_s: float | None = None
    _raised_s: float | None = None

    def __post_init__(self) -> None:
        self._job, self._site = MeanLimit(self.window_s, self.limit_w), MeanLimit(self.site_window_s)
        self.window_s, self.site_window_s = self._job.window_s, self._site.window_s

    @property
    def mean_w(self) -> float:
        """Return the mean over the job's last window, whatever modes it held."""
        return self._job.truth.mean_w

    @property
    def mean_of_mode_w(self) -> float | None:
        """Return the mean of the present mode once it covers a window."""
        return self._job.acting.mean_w if self._job.acting.full else None

    @property
    def pressing(self) -> MeanLimit:
        """Return the limit that is broken: the site's only where the job's own is kept."""
        return self._site if self._site.is_above() and not self._job.is_above() else self._job

    @property
    def buffered(self) -> int:
        """Return how many readings are kept."""
        means = (mean for limit in self._limits for mean in (limit.truth, limit.acting))
        return len(self._recent) + sum(len(mean) for mean in means)

    @property
    def _limits(self) -> tuple[MeanLimit, MeanLimit]:
        return self._job, self._site

    @property
    def observed_w(self) -> float:
        """Return what the present mode takes as far as it was seen: over the window, or lately if that is more."""
        latest_w = fmean(reading.power_w for reading in self._recent) if self._recent else 0.0
        return max(latest_w, *(limit.acting.mean_w for limit in self._limits))

    @property
    def lowered(self) -> bool:
        """Say whether the guard holds the mode down."""
        return self._lowered_s is not None

    @property
    def recovering(self) -> bool:
        """Say whether the power may still have to come down from a breach that another mode has ended."""
        return self._ended_breach

    def is_broken(self, now_s: float) -> bool:
        """Say whether a limit is broken now, or was a moment ago."""
        return now_s - self._broken_s <= BROKEN_S

    def broke(self, now_s: float) -> None:
        """Note that a limit is broken by the present mode, whoever saw it."""
        self._broken_s = now_s

    def keep_lowered(self, now_s: float) -> None:
        """Stay down, after a restart of the agent or for longer: the quiet time begins anew."""
        self._lowered_s, self._raised_s = now_s, None

    def set_limits(
        self,
        limit_w: float | None,
        hard_limit_w: float | None,
        is_peak: bool = False,
        site_limit_w: float | None = None,
    ) -> None:
        """Guard other limits from now on; a raised one ends the quiet time."""
        if self.limit_w is not None and (limit_w is None or limit_w > self.limit_w):
            self._lowered_s = None
        if limit_w is not None and (self.limit_w is None or limit_w < self.limit_w):
            self._fell = True
        self._job.set(limit_w)
        self._site.set(site_limit_w)
        self.limit_w, self.hard_limit_w, self.is_peak = limit_w, hard_limit_w, is_peak

    def judge_anew(self) -> None:
        """Forget what the mean was until now, not what is counted."""
        for limit in self._limits:
            limit.acting.clear()

    def mode_changed(self, now_s: float) -> None:
        """Judge the new mode by its own readings only."""
        self.judge_anew()
        self._changed_s = now_s
        # Without a reading nobody knows: the agent has just come back, and the mode before may have taken any power.
        self._level_w = max((reading.power_w for reading in self._recent), default=math.inf)
        self._before_w = fmean(reading.power_w for reading in self._recent) if self._recent else math.inf

    def power(self, reading: Reading) -> GuardAction:
        """Take a reading and say what to do."""
        self._look(reading)
        single = self._count(reading)
        if self.settling:
            return GuardAction.NONE
        # Within a window a ledger, not the guard, says how long a tried mode may last.
        if single or any(limit.is_above(not self.trying) for limit in self._limits):
            return self._lower(reading.at_s)
        return self._maybe_raise(reading.at_s)

    def _look(self, reading: Reading) -> None:
        """Take a reading up; while the mode before still shows in it, it says nothing about the present one."""
        for limit in self._limits:
            limit.truth.add(reading)
        self._recent.append(reading)
        while reading.at_s - self._recent[0].at_s > 2 * TREND_S:
            self._recent.popleft()
        self.settling = self._is_settling(reading)
        if self.settling:
            self.judge_anew()
            if self._fell and not self._ended_breach:
                for limit in self._limits:
                    limit.truth.clear()  # nor is what is left of what was allowed until the limit fell
            return
        self._fell = False
        since_s, self._changed_s = self._changed_s, None
        if since_s is None or reading.at_s - since_s >= SETTLE_S:
            self._of_mode(reading)
            return
        # What did not fall as it should, or rose, was the mode's own power all the time.
        for own in self._recent:
            if own.at_s > since_s:
                self._of_mode(own)

    def _of_mode(self, reading: Reading) -> None:
        for limit in self._limits:
            limit.acting.add(reading)

    def _is_settling(self, reading: Reading) -> bool:
        limit_w = min((w for w in (self.limit_w, self.hard_limit_w) if w is not None), default=None)
        if self._changed_s is None or limit_w is None:
            return False
        came_from_w = self._level_w if self.by_ledger else self._before_w
        if came_from_w <= limit_w and not self._ended_breach:
            return False  # it did not come from above
        age_s = reading.at_s - self._changed_s
        if age_s <= 0:
            return True
        if age_s >= SETTLE_S or reading.power_w > NOISE_SHARE * self._level_w:
            return False
        return age_s < 2 * TREND_S or self._settles_at_w(reading.at_s) <= limit_w

    @property
    def _ended_breach(self) -> bool:
        return self._changed_s is not None and self._changed_s - self._broken_s <= 2 * TREND_S

    def _settles_at_w(self, now_s: float) -> float:
        before = [r.power_w for r in self._recent if r.at_s <= now_s - TREND_S]
        after_w = fmean(r.power_w for r in self._recent if r.at_s > now_s - TREND_S)
        fell_w = fmean(before) - after_w if before else 0.0
        return after_w - STILL_TO_FALL * fell_w

    def _count(self, reading: Reading) -> bool:
        """Count what is above; say whether this single reading is, where single readings are limited."""
        if self.hard_limit_w is not None and reading.power_w > self.hard_limit_w:
            self.hard_violations += 1
            return True
        if self.is_peak and self.limit_w is not None:
            self.violations += reading.power_w > self.limit_w
            return reading.power_w > self.limit_w
        for limit in self._limits:
            if limit.is_broken and reading.at_s - self._counted_s >= limit.window_s:
                # Each stretch of a window's length counts once.
                self.violations += 1
                self._counted_s = reading.at_s
        return False

    def _lower(self, now_s: float) -> GuardAction:
        # Up and soon down again: the next try has to wait longer.
        self.again = self._raised_s is not None and now_s - self._raised_s < 2 * self.quiet_s
        self.quiet_s = min(2 * self.quiet_s, QUIET_LIMIT_S) if self.again else self.quiet_s
        self._lowered_s, self._raised_s = now_s, None
        self.broke(now_s)
        return GuardAction.LOWER

    def _maybe_raise(self, now_s: float) -> GuardAction:
        if self._lowered_s is None or now_s - self._lowered_s < self.quiet_s or not self._job.acting.full:
            return GuardAction.NONE
        self._lowered_s, self._raised_s = None, now_s
        return GuardAction.RAISE
