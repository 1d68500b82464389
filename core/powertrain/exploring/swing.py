"""LoadWatch: detects loads that pulse or lag more than the rules assume, and says what distance they ask for.

A session keeps one `LoadWatch` and

- gives it to every `Visit` as `watch`: `Visit.end(step_s)` passes on the ramp and the settled readings (without a
  visit: `learn_change(before_w, ramp, noise)` after a change of mode, `learn_stretch(readings, step_s)` in one mode);
- passes the readings of the mode that runs, in stretches of ten seconds or more, to `learn_stretch(readings, step_s)`;
- asks for `finding` afterwards. A finding is a value: as long as it equals the one before, nothing is new.

`finding.applied_to(rules)` are the rules to go on with: the problem's `rules` and those of the ledger are replaced by
them. `finding.reason` is empty for a steady load, else the reason of a condition, with `finding.message`.

A swing counts if it is slower than `BLOCK_S` and than a step. Phases within a step are a part of every load: if they
are long enough to move a window's mean, the margin follows them without a finding. Pauses (checkpoints) lower the power
and ask for no margin.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from powertrain.exploring.rules import NORMAL, MeanRules
from powertrain.space import FloatArray

PULSES, LAGS, BOTH = "LoadPulses", "PowerLags", "LoadPulsesAndPowerLags"
# Faster swings average out within a window.
BLOCK_S = 0.5
# Readings below this share of the median are of a pause, not of the load.
PAUSE_SHARE = 0.8
# How improbable blocks as different as observed must be, if readings scattered independently: in one stretch, and in
# the last ones together. A session has hundreds of stretches.
ONE_STRETCH, ALL_STRETCHES = 1e-6, 1e-5
STRETCHES = 40
FEWEST_BLOCKS = 3
# A swing of a window's mean that the distance for noise covers anyway.
LEAST_SWING = 0.005
# Standard deviations that noise alone raises the highest of several means by, at least.
NOISE_SIGMAS = 1.0
# After so many seconds in long stretches their windows count, and no longer what shorter stretches hint at.
WATCHED_S = 12.0
# Lags and dead times (seconds) that a ramp is compared with, beyond those of the rules.
SLOWER_LAGS_S = (2.6, 3.3, 4.2, 5.5)
DELAYS_S = tuple(0.1 * count for count in range(11))
# A dead time up to this is in the rules' reaction; the moment of a change is known to about a reading.
KNOWN_DELAY_S = 0.2
# Twice the gain of the log-likelihood at which a slower lag or a dead time is believed, over the last ramps; one ramp
# alone counts for at most so much.
LAG_EVIDENCE, MOST_EVIDENCE, RAMPS = 12.0, 10.0, 6
# A change smaller than this share says little about its course.
LEAST_CHANGE = 0.08
# The share of modes above the limit that a timid session may still try.
TIMID_RISK = 0.1


@dataclass(frozen=True, slots=True)
class LoadFinding:
    """What is odd about a load: the margin to keep (share of the limit), and the lag and dead time to reckon with."""

    reason: str = ""
    message: str = ""
    margin: float = 0.0
    lag_s: float = 0.0
    delay_s: float = 0.0

    @property
    def timid(self) -> bool:
        """Say whether the session should try only modes that are expected to keep the limit."""
        return bool(self.reason)

    def applied_to(self, rules: MeanRules) -> MeanRules:
        """Return rules that keep the margin, wait for the dead time, and allow for the lag."""
        if self == LoadFinding():
            return rules
        slower = tuple(lag_s for lag_s in SLOWER_LAGS_S if rules.lags_s[-1] < lag_s <= self.lag_s)
        return replace(
            rules,
            margin=max(rules.margin, self.margin),
            risk=min(rules.risk, TIMID_RISK) if self.timid else rules.risk,
            reaction_s=rules.reaction_s + self.delay_s,
            leave_s=rules.leave_s + self.delay_s,
            lags_s=rules.lags_s + slower,
            plan_lags_s=rules.plan_lags_s + slower[-1:],
        )


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Sums of squares between and within blocks with their degrees of freedom, and the swing of the highest mean."""

    between: float
    blocks: int
    within: float
    others: int
    swing: float
    explained: bool  # by phases within a step

    @property
    def doubt(self) -> float:
        return _doubt([self])


@dataclass(frozen=True, slots=True)
class _Ramp:
    evidence: float
    lag_s: float
    delay_s: float


class LoadWatch:
    """Collects stretches and ramps of a session; `finding` sums them up."""

    def __init__(self, rules: MeanRules = NORMAL) -> None:
        self._rules = rules
        self._stretches: deque[_Stretch] = deque(maxlen=STRETCHES)
        self._ramps: deque[_Ramp] = deque(maxlen=RAMPS)
        self._pulses, self._guess, self._swing, self._watched_s = False, 0.0, 0.0, 0.0
        self._lag_s, self._delay_s = 0.0, 0.0

    def learn_stretch(self, readings: FloatArray, step_s: float | None = None) -> None:
        """Take readings of one mode after its ramp; `step_s` is the time of a step, if known."""
        stretch = _stretch(readings, step_s, self._rules)
        if stretch is None:
            return
        self._stretches.append(stretch)
        long = len(readings) >= 2 * self._rules.window
        self._watched_s += len(readings) * self._rules.period_s if long else 0.0
        swings = stretch.doubt < ONE_STRETCH or _doubt(self._stretches) < ALL_STRETCHES
        if not swings or stretch.swing < LEAST_SWING:
            return
        if long:
            self._swing = max(self._swing, _rounded_up(stretch.swing))
        self._guess = max(self._guess, _rounded_up(stretch.swing))
        self._pulses = self._pulses or not stretch.explained

    def learn_change(self, before_w: float, ramp: FloatArray, noise: float) -> None:
        """Take the readings after a change of mode, which the power entered from a level."""
        rise = abs(float(ramp[-3:].mean()) - before_w) if len(ramp) else 0.0
        if len(ramp) < 6 or rise < max(LEAST_CHANGE, 5.0 * noise) * before_w:
            return
        self._ramps.append(_ramp(before_w, ramp, noise, self._rules))
        if sum(one.evidence for one in self._ramps) < LAG_EVIDENCE:
            return
        clear = [one for one in self._ramps if one.evidence > 0]
        lag_s, delay_s = (float(np.median([getattr(one, f) for one in clear])) for f in ("lag_s", "delay_s"))
        # Never back to less: a lag that was seen once can come again.
        if lag_s > self._rules.lags_s[-1]:
            self._lag_s = max(self._lag_s, lag_s)
        if delay_s > KNOWN_DELAY_S:
            self._delay_s = max(self._delay_s, round(delay_s, 1))

    @property
    def margin(self) -> float:
        """Return the share of the limit that the swing of a window's mean takes.

        Short stretches can only hint at it: once a mode was watched for long, what its windows did counts.
        """
        return self._swing if self._watched_s >= WATCHED_S else self._guess

    @property
    def finding(self) -> LoadFinding:
        """Return what is known now."""
        lags = self._lag_s > 0 or self._delay_s > 0
        margin = self.margin
        if not (self._pulses or lags):
            return LoadFinding(margin=margin)
        parts = [f"means over {self._rules.window_s:g} s swing by {100 * margin:.1f} %"] if self._pulses else []
        if self._lag_s:
            parts.append(f"power follows a change with a time constant of about {self._lag_s:.1f} s")
        if self._delay_s:
            parts.append(f"readings follow a change {self._delay_s:.1f} s late")
        message = f"The load is not steady: {'; '.join(parts)}. The session keeps more distance to the limit."
        reason = BOTH if self._pulses and lags else PULSES if self._pulses else LAGS
        return LoadFinding(reason, message, margin, self._lag_s, self._delay_s)


def _stretch(readings: FloatArray, step_s: float | None, rules: MeanRules) -> _Stretch | None:
    """Return the analysis of variance of a stretch in blocks; None if it is too short to say anything."""
    load = readings[readings > PAUSE_SHARE * np.median(readings)] if len(readings) else readings
    size = rules.readings(BLOCK_S)
    if len(load) < FEWEST_BLOCKS * size:
        return None
    relative = load / float(load.mean())
    blocks = _blocks(relative, size)
    in_steps = size if step_s is None else max(size, rules.readings(step_s))
    explained = in_steps > size and (
        len(load) < FEWEST_BLOCKS * in_steps or _doubt([_blocks(relative, in_steps)]) > ONE_STRETCH
    )
    return replace(blocks, swing=_swing(relative, blocks, rules), explained=explained)


def _blocks(relative: FloatArray, size: int) -> _Stretch:
    count = len(relative) // size
    blocks = relative[len(relative) - count * size :].reshape(count, size)
    means = blocks.mean(axis=1)
    between = size * float(((means - means.mean()) ** 2).sum())
    within = float(((blocks - means[:, None]) ** 2).sum())
    return _Stretch(between, count - 1, within, count * (size - 1), 0.0, False)


def _swing(relative: FloatArray, blocks: _Stretch, rules: MeanRules) -> float:
    """Return how far the highest mean lies above the mean of the stretch, less what independent noise explains.

    A stretch may hold more of the high than of the low part of a slow swing, so half of the whole swing counts at
    least. One shorter than two windows shows only means over half of it. They stand for windows, and the lowest for the
    mean: another visit may have seen nothing else.
    """
    span = min(rules.window, max(rules.readings(BLOCK_S), len(relative) // 2))
    sums = np.concatenate([[0.0], np.cumsum(relative)])
    means = (sums[span:] - sums[:-span]) / span
    short = len(relative) < 2 * rules.window
    noise = NOISE_SIGMAS * float(np.sqrt(blocks.within / max(1, blocks.others) / span)) * (2.0 if short else 1.0)
    highest, whole = float(means.max()) - 1.0, float(means.max() - means.min())
    return max(0.0, (whole if short else max(highest, whole / 2)) - noise)


def _doubt(stretches: list[_Stretch] | deque[_Stretch]) -> float:
    """Return how probable blocks that differ as much are if neighbouring readings were independent (an F test)."""
    from scipy.special import fdtrc

    blocks, others = sum(one.blocks for one in stretches), sum(one.others for one in stretches)
    if not blocks or not others:
        return 1.0  # a slow sensor gives one reading a block: nothing to compare with
    within = sum(one.within for one in stretches) / others
    # A sensor that shows one value only has no scatter to compare with.
    ratio = sum(one.between for one in stretches) / blocks / max(within, 1e-12)
    return float(fdtrc(blocks, others, ratio))


def _ramp(before_w: float, ramp: FloatArray, noise: float, rules: MeanRules) -> _Ramp:
    """Return by how much a slower lag or a dead time explains a ramp better than the rules do, and which."""
    at = np.arange(1, len(ramp) + 1) * rules.period_s
    lags = np.array(rules.lags_s + SLOWER_LAGS_S)
    delays = np.array(DELAYS_S)
    since = np.maximum(0.0, at[None, None, :] - delays[None, :, None])
    fading = np.exp(-since / lags[:, None, None])
    share = 1.0 - fading
    left = ramp - before_w * fading
    levels = (share * left).sum(axis=2) / np.maximum((share**2).sum(axis=2), 1e-9)
    errors = ((left - levels[:, :, None] * share) ** 2).sum(axis=2)
    ordinary = errors[: len(rules.lags_s), delays <= KNOWN_DELAY_S + 1e-9].min()
    best = np.unravel_index(int(errors.argmin()), errors.shape)
    # The noise is known; where even the best course leaves more than it explains, the scatter counts instead.
    variance = max((noise * float(ramp.mean())) ** 2, float(errors.min()) / max(1, len(ramp) - 3))
    # Two free parameters more gain about one unit each by chance.
    gain = (float(ordinary) - float(errors.min())) / variance - 2.0
    return _Ramp(min(MOST_EVIDENCE, gain), float(lags[best[0]]), float(delays[best[1]]))


def _rounded_up(share: float) -> float:
    """Return the share in whole tenths of a percent: a finding that hardly changes is the same finding."""
    return float(np.ceil(share * 1000.0) / 1000.0)
