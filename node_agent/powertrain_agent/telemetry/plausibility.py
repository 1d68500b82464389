"""Plausibility of readings by themselves: values that no board can take, and a sensor that repeats one value."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from itertools import pairwise

from powertrain_agent.telemetry.port import Reading

ANY_BOARD_W = 500.0  # more than any Jetson takes
SMALLEST_W = 30.0  # the smallest boards carry labels of 5 W and take three times as much without one
OVER_LABEL = 2.5  # boards in MAXN take up to 1.5 times their largest label, for a moment more
REPEATED_S = 10.0
REPEATED_DWELLS = 25.0  # … or so many times the time for which this sensor usually keeps a value
FEWEST_RUNS, MOST_RUNS = 20, 100
FEWEST_VALUES = 5
FEWEST_TURNS = 10  # noise goes up and down; power that settles goes one way
TOP_SHARE = 0.4  # a value that is read for longer may be all that a coarse sensor shows of a quiet load
STEADY_SPREAD = 0.35  # noise of 3 % spreads readings by 20 %; more is a load that changes, and may become quiet


def most_w(labels_w: Iterable[float | None]) -> float:
    """Return what no reading of a board can exceed, by the watts of its presets; without any, of no board at all."""
    known_w = [watts for watts in labels_w if watts is not None]
    return max(SMALLEST_W, OVER_LABEL * max(known_w)) if known_w else ANY_BOARD_W


def implausible(reading: Reading, most_w: float) -> str:
    """Say why a reading can't be true, without the site's offset; empty if it can."""
    measured_w = reading.power_w - reading.offset_w
    if not math.isfinite(measured_w):
        return f"the sensor reads {measured_w} W"
    if measured_w <= 0.0:
        return f"the sensor reads {measured_w:g} W, and a board that runs takes more than 0 W"
    if measured_w > most_w:
        return f"the sensor reads {measured_w:.1f} W, and this board can't take more than {most_w:g} W"
    return ""


class Repeats:
    """Tells a sensor that is stuck from one that repeats a value because the load is quiet and its steps are coarse.

    What a sensor does at one level says nothing about another: only runs of the present mode count, and only a sensor
    whose noise covers several of its steps can be called stuck by its repetitions alone.
    """

    def __init__(self) -> None:
        self._runs: deque[tuple[float, float]] = deque(maxlen=MOST_RUNS)  # value and seconds, without the present run
        self._value_w = math.nan
        self._since_s = self._last_s = -math.inf
        self.changes = 0

    def add(self, reading: Reading) -> None:
        """Take a reading; the same one twice counts once."""
        if reading.at_s <= self._last_s:
            return
        self._last_s = reading.at_s
        if reading.power_w == self._value_w:
            return
        if math.isfinite(self._value_w):
            self._runs.append((self._value_w, reading.at_s - self._since_s))
        self._value_w, self._since_s = reading.power_w, reading.at_s
        self.changes += 1

    def forget(self) -> None:
        """Begin to learn anew: another mode has another level."""
        self._runs.clear()

    @property
    def held_s(self) -> float:
        """Return for how long the last value has been read."""
        return self._last_s - self._since_s if math.isfinite(self._since_s) else 0.0

    def stuck(self, is_busy: bool) -> str:
        """Say that the sensor is stuck, empty where nobody can tell; `is_busy` says that the load is known to go on."""
        if self.held_s < REPEATED_S or len(self._runs) < FEWEST_RUNS:
            return ""
        whole_s = sum(seconds for _, seconds in self._runs)
        by_value: dict[float, float] = {}
        for value_w, seconds in self._runs:
            by_value[value_w] = by_value.get(value_w, 0.0) + seconds
        middle_w = sum(value_w * seconds for value_w, seconds in self._runs) / whole_s
        is_noisy = len(by_value) >= FEWEST_VALUES and max(by_value.values()) <= TOP_SHARE * whole_s
        is_noisy = is_noisy and _turns([value_w for value_w, _ in self._runs]) >= FEWEST_TURNS
        is_steady = max(by_value) - min(by_value) <= STEADY_SPREAD * middle_w
        usual_s = whole_s / len(self._runs)
        if not is_noisy or not (is_busy or is_steady) or self.held_s < REPEATED_DWELLS * usual_s:
            return ""
        return (
            f"the sensor repeats {self._value_w:.3f} W for {self.held_s:.0f} s, where it changed every {usual_s:.1f} s"
        )


def _turns(values_w: list[float]) -> int:
    """Return how often neighbouring values, which differ, change their direction."""
    rises = [after_w > before_w for before_w, after_w in pairwise(values_w)]
    return sum(before != after for before, after in pairwise(rises))
