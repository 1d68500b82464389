"""Drift: is the training still what was measured, and if not, is it a uniform shift or a change between the modes?"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from powertrain import PowerMode
from powertrain.modes import KNOBS
from powertrain_agent.planning.front import Point

WATCH_S = 20.0  # one judgement is over so long
FOR_S = 40.0  # so long must they all say the same
FLOOR_SHARE = 0.03  # the interval is never narrower: clocks and heat move that much by themselves
SIGMAS = 3.0
UNIFORM_SHARE = 0.03  # factors that agree so well are one shift


@dataclass(frozen=True)
class Factors:
    """How time and power of a point compare with what was expected."""

    time: float
    power: float

    @property
    def text(self) -> str:
        """Say it in words."""
        return f"time × {self.time:.3f}, power × {self.power:.3f}"


class _Recent:
    """The values of the last seconds, in order of time and of size: a reading is judged ten times a second."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()
        self._values: deque[float] = deque()
        self._sorted: list[float] = []

    def add(self, at_s: float, value: float) -> None:
        self._times.append(at_s)
        self._values.append(value)
        insort(self._sorted, value)
        while self._times[0] < at_s - WATCH_S:
            self._times.popleft()
            del self._sorted[bisect_left(self._sorted, self._values.popleft())]

    def clear(self) -> None:
        self._times.clear()
        self._values.clear()
        self._sorted.clear()

    @property
    def median(self) -> float | None:
        middle, is_odd = divmod(len(self._sorted), 2)
        if not self._sorted:
            return None
        return self._sorted[middle] if is_odd else (self._sorted[middle - 1] + self._sorted[middle]) / 2

    @property
    def mean(self) -> float | None:
        return math.fsum(self._values) / len(self._values) if self._values else None


@dataclass
class DriftWatch:
    """Compares what the present mode does with what is expected of it; `shifted` once it is beyond for a while."""

    expected: Point | None = None
    shifted: Factors | None = None
    _steps: _Recent = field(default_factory=_Recent)
    _watts: _Recent = field(default_factory=_Recent)
    _beyond_since_s: float | None = None
    _started_s: float | None = None

    def expect(self, point: Point | None) -> None:
        """Watch another mode, or the same with other expectations."""
        self.expected, self.shifted, self._beyond_since_s, self._started_s = point, None, None, None
        self._steps.clear()
        self._watts.clear()

    def power(self, at_s: float, power_w: float) -> None:
        """Take a reading."""
        self._started_s = at_s if self._started_s is None else self._started_s
        self._watts.add(at_s, power_w)
        self._judge(at_s)

    def step(self, at_s: float, step_s: float) -> None:
        """Take a step time."""
        self._steps.add(at_s, step_s)

    def observed(self) -> tuple[float | None, float | None]:
        """Return median step time and mean power of the last seconds."""
        return self._steps.median, self._watts.mean

    def _judge(self, now_s: float) -> None:
        if self.expected is None or self._started_s is None or now_s - self._started_s < WATCH_S:
            return
        factors = self.factors()
        if factors is None or not self._is_beyond(factors):
            self._beyond_since_s = None
            return
        self._beyond_since_s = now_s if self._beyond_since_s is None else self._beyond_since_s
        if now_s - self._beyond_since_s >= FOR_S:
            self.shifted = factors

    def factors(self) -> Factors | None:
        """Return observed over expected; None without steps or readings."""
        step_s, power_w = self.observed()
        if self.expected is None or step_s is None or power_w is None:
            return None
        return Factors(step_s / self.expected.step_s, power_w / self.expected.power_w)

    def _is_beyond(self, factors: Factors) -> bool:
        assert self.expected is not None
        point = self.expected
        time_band = max(FLOOR_SHARE, SIGMAS * point.step_std_s / point.step_s)
        power_band = max(FLOOR_SHARE, SIGMAS * point.power_std_w / point.power_w)
        return abs(math.log(factors.time)) > time_band or abs(math.log(factors.power)) > power_band


def is_uniform(factors: Sequence[Factors]) -> bool:
    """Say whether all points moved alike; a single point can't tell and counts as uniform."""
    return all(_spread([getattr(f, name) for f in factors]) <= UNIFORM_SHARE for name in ("time", "power"))


def deviating(factors: Mapping[PowerMode, Factors]) -> list[PowerMode]:
    """Return the modes that moved differently from most (the median of all)."""
    middle = middle_of(list(factors.values()))
    return [
        mode
        for mode, f in factors.items()
        if abs(math.log(f.time / middle.time)) > UNIFORM_SHARE or abs(math.log(f.power / middle.power)) > UNIFORM_SHARE
    ]


def middle_of(factors: Sequence[Factors]) -> Factors:
    """Return the median factors."""
    return Factors(median(f.time for f in factors), median(f.power for f in factors))


def interpolated(mode: PowerMode, factors: Mapping[PowerMode, Factors]) -> tuple[float, float]:
    """Return the factors of a mode: the mean of the visited ones' (in log), weighed by closeness of the clocks."""
    if mode in factors:
        return factors[mode].time, factors[mode].power
    weights = {visited: 1.0 / _distance2(mode, visited) for visited in factors}
    whole = sum(weights.values())
    time = sum(weight * math.log(factors[visited].time) for visited, weight in weights.items()) / whole
    power = sum(weight * math.log(factors[visited].power) for visited, weight in weights.items()) / whole
    return math.exp(time), math.exp(power)


def _distance2(first: PowerMode, second: PowerMode) -> float:
    return 1e-6 + sum(math.log(getattr(first, knob) / getattr(second, knob)) ** 2 for knob in KNOBS)


def _spread(values: Sequence[float]) -> float:
    return math.log(max(values) / min(values))
