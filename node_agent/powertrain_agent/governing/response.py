"""Response: does the power follow what the board does? Modes and steps are known without the sensor.

Where both CPU and GPU run faster and steps end faster for it, more energy is needed each second. In the same mode at
the same pace a training takes what it took. In the mode of least power it takes about what the board's reference took.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from dataclasses import dataclass
from enum import Enum
from statistics import fmean, median
from typing import TypeVar

from powertrain import PowerMode
from powertrain_agent.governing.approach import is_within
from powertrain_agent.telemetry import Reading

SETTLE_S = 3.0  # the papers saw power settle within two to three seconds
LEVEL_S = 1.0  # a level is the mean over so long
FEWEST_READINGS = 3
INDEPENDENT = 5.0  # readings of a level: sensors average for up to half a second
FEWEST_STEPS = 2
MUST_SHOW = 1.5  # steps, CPU and GPU that are so many times faster …
LEAST_SHARE = 0.02  # … take at least this share more for each time: three quarters of the least in the simulator
MOST_TIMES = 3.0
SIGMAS = 4.0
COMPARED_S = 300.0  # a training may change its ways: older levels are not compared between modes
LOST_SHARE = 0.6  # of what this mode took at this pace: data and heat explain less
FITTING_SHARE = 0.8
SAME_PACE = 0.15
FLOOR_SHARE = 0.55  # of the reference's power in the mode of least power, most of which is the board's own
MOST_MODES = 512

T = TypeVar("T")


class Finding(Enum):
    """What speaks against the readings."""

    NO_RESPONSE = "no response"
    SCALE = "scale"
    FLOOR = "floor"


@dataclass(frozen=True)
class Level:
    """The power of a mode at a pace of the training, when it had settled."""

    mode: PowerMode
    power_w: float
    error_w: float
    step_s: float
    at_s: float


class Response:
    """Compares settled levels of modes. `finding` is what the present one contradicts, with `reason`."""

    def __init__(self) -> None:
        self.finding: Finding | None = None
        self.reason = ""
        self.follows_mode = False  # the last comparison of two modes showed that the sensor follows them
        self.fits = False  # the present level is what this mode took before, or what the reference takes
        self.floor: tuple[PowerMode, float | None] | None = None  # a mode, and what the board's reference takes in it
        self._mode: PowerMode | None = None
        self._since_s = -math.inf
        self._recent: deque[Reading] = deque()
        self._steps: deque[float] = deque(maxlen=20)
        self._step_at_s = -math.inf
        self._compared, self._judged_s = False, -math.inf
        self._usual_levels: OrderedDict[PowerMode, tuple[float, float]] = OrderedDict()  # power and step time
        self._latest: OrderedDict[PowerMode, Level] = OrderedDict()
        self._low_since_s: float | None = None
        self._scaled: PowerMode | None = None

    def mode_changed(self, at_s: float, mode: PowerMode) -> None:
        """Note which mode is in force from now on."""
        if mode == self._mode:
            return
        self._mode, self._since_s, self._compared, self._low_since_s = mode, at_s, False, None
        self.fits = False
        self._recent.clear()
        self._steps.clear()

    def knows(self, mode: PowerMode, power_w: float, step_s: float) -> None:
        """Note what was measured of a mode; of several values the least, unless it contradicts the one before."""
        before_w = self._usual_levels[mode][0] if mode in self._usual_levels else power_w
        if LOST_SHARE * before_w <= power_w <= before_w:
            _keep(self._usual_levels, mode, (power_w, step_s))

    def forget(self, finding: Finding | None) -> None:
        """Forget what was read while a finding stood, now that it is over; levels from before the fault are kept."""
        self.finding, self.reason = None, ""
        self._latest.clear()
        if finding is Finding.SCALE and self._scaled is not None:
            self._usual_levels.pop(self._scaled, None)
        elif finding in (None, Finding.NO_RESPONSE):
            self._usual_levels.clear()

    def step(self, at_s: float, step_s: float) -> None:
        """Take a step time; one that began in the mode before says nothing."""
        self._step_at_s = at_s
        if at_s - step_s >= self._since_s:
            self._steps.append(step_s)

    def is_busy(self, now_s: float) -> bool:
        """Say whether steps have come until now."""
        if not self._steps:
            return False
        return now_s - self._step_at_s <= max(SETTLE_S, 4.0 * median(self._steps))

    @property
    def is_settled(self) -> bool:
        """Say whether the present mode has been in force for long enough to be compared with."""
        return bool(self._recent) and self._recent[-1].at_s - self._since_s >= SETTLE_S

    def power(self, reading: Reading) -> None:
        """Take a reading and compare once the power has settled and the training is known to go on."""
        self._recent.append(reading)
        while reading.at_s - self._recent[0].at_s > LEVEL_S:
            self._recent.popleft()
        if self._mode is None or not self.is_settled or len(self._recent) < FEWEST_READINGS:
            return
        if reading.at_s - self._judged_s < LEVEL_S and self._compared:
            return
        if len(self._steps) < FEWEST_STEPS or not self.is_busy(reading.at_s):
            return
        self._judged_s, self.fits = reading.at_s, False
        level = self._level(self._mode, reading.at_s)
        self.finding, self.reason = None, ""
        if not self._compared:
            self._compared = True
            self._compare_modes(level)
        self._compare_pace(level)
        self._compare_floor(level)
        _keep(self._latest, level.mode, level)

    def _level(self, mode: PowerMode, now_s: float) -> Level:
        watts = [reading.power_w for reading in self._recent]
        mean_w = fmean(watts)
        spread_w = math.sqrt(fmean((power_w - mean_w) ** 2 for power_w in watts))
        return Level(mode, mean_w, spread_w / math.sqrt(min(INDEPENDENT, len(watts))), median(self._steps), now_s)

    def _compare_modes(self, level: Level) -> None:
        self.follows_mode = False
        for other in self._latest.values():
            if level.at_s - other.at_s > COMPARED_S:
                continue
            low, high = sorted((level, other), key=lambda each: each.step_s, reverse=True)
            times = _times(low, high)
            if times < MUST_SHOW:
                continue
            least_w, rose_w = LEAST_SHARE * (times - 1.0) * low.power_w, high.power_w - low.power_w
            if rose_w >= least_w:
                self.follows_mode = True
            elif level is low and _is_above(level, other):
                continue  # a lower mode that takes more has company: a sensor that is stuck does not rise
            elif rose_w + SIGMAS * math.hypot(low.error_w, high.error_w) < least_w:
                self._find(
                    Finding.NO_RESPONSE,
                    f"the power does not follow the mode: {low.power_w:.2f} W at {low.mode} and {high.power_w:.2f} W "
                    f"at {high.mode}, where steps are {times:.1f} times as fast",
                )
                return

    def _compare_pace(self, level: Level) -> None:
        """The pace counts with steps that began after the power had fallen."""
        if level.mode not in self._usual_levels:
            return
        power_w, step_s = self._usual_levels[level.mode]
        if level.power_w >= LOST_SHARE * power_w:
            self._low_since_s, self.fits = None, level.power_w >= FITTING_SHARE * power_w
        elif self._low_since_s is None:
            self._low_since_s = level.at_s
            self._steps.clear()
        elif level.at_s - self._low_since_s >= SETTLE_S and abs(level.step_s / step_s - 1.0) <= SAME_PACE:
            self._scaled = level.mode
            words = f"the sensor reads {level.power_w:.2f} W, where the same mode took {power_w:.2f} W at the same pace"
            self._find(Finding.SCALE, words)

    def _compare_floor(self, level: Level) -> None:
        if self.floor is None or self.floor[0] != level.mode or self.floor[1] is None:
            return
        least_w = FLOOR_SHARE * self.floor[1]
        self.fits = self.fits or (self.finding is None and level.power_w >= least_w)
        if level.power_w < least_w:
            words = (
                f"the sensor reads {level.power_w:.2f} W while the board trains in its mode of least power, where at "
                f"least {least_w:.1f} W are known of this kind of board"
            )
            self._find(Finding.FLOOR, words)

    def _find(self, finding: Finding, reason: str) -> None:
        if self.finding is None:
            self.finding, self.reason = finding, reason


def _is_above(level: Level, other: Level) -> bool:
    return level.power_w - other.power_w > max(SIGMAS * math.hypot(level.error_w, other.error_w), 0.05 * other.power_w)


def _times(low: Level, high: Level) -> float:
    """Return how many times faster the board works for sure: by the steps, and by both clocks that take the power.

    The memory alone may make steps faster and the GPU wait less at less power.
    """
    if not is_within(low.mode, high.mode):
        return 0.0
    clocks = (high.mode.cpu_khz / low.mode.cpu_khz, high.mode.gpu_hz / low.mode.gpu_hz)
    return min(low.step_s / high.step_s, *clocks, MOST_TIMES)


def _keep(values: OrderedDict[PowerMode, T], key: PowerMode, value: T) -> None:
    values[key] = value
    values.move_to_end(key)
    if len(values) > MOST_MODES:
        values.popitem(last=False)
