"""The approach: a new mode is reached clock by clock, the sensor in view, and left at the first reading above."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from powertrain import ModeSpace, PowerMode
from powertrain.modes import KNOBS
from powertrain_agent.telemetry import Reading

RAISED = ("emc_hz", "cpu_khz", "cores", "gpu_hz")  # the GPU, which takes most power, comes last
STRIDES = 8  # at most so many steps a clock: the CPU's table has 29
PERIODS_A_STEP = 2


def meet(first: PowerMode, second: PowerMode) -> PowerMode:
    """Return the mode with the lower of each knob."""
    return PowerMode(*(min(getattr(first, knob), getattr(second, knob)) for knob in KNOBS))


def is_within(mode: PowerMode, other: PowerMode) -> bool:
    """Say whether no knob of a mode is higher than the other's: then it takes no more power."""
    return all(getattr(mode, knob) <= getattr(other, knob) for knob in KNOBS)


def path(
    space: ModeSpace, now: PowerMode, target: PowerMode, proven_modes: Iterable[PowerMode] = ()
) -> list[PowerMode]:
    """Return the modes on the way: down at once to what a proven mode covers of the target, then up one clock a time.

    `proven` are modes that were measured within the limit; below one of them nothing has to be tried.
    """
    start = max((meet(target, safe) for safe in (now, *proven_modes)), key=lambda mode: _height(space, mode))
    steps = [start]
    for knob in RAISED:
        axis = [int(v) for v in getattr(space, knob) if getattr(start, knob) < v <= getattr(target, knob)]
        stride = max(1, -(-len(axis) // STRIDES))
        steps += [replace(steps[-1], **{knob: value}) for value in axis[::-1][::stride][::-1]]
    legal = [mode for mode in steps if mode in space]
    return [mode for mode in legal if mode != now] or [target]


def one_step_lower(space: ModeSpace, mode: PowerMode) -> PowerMode | None:
    """Return the mode with one clock a step lower, the hungriest that still can; it takes less power, whatever runs."""
    for knob in ("gpu_hz", "cpu_khz", "emc_hz"):
        lower = [int(value) for value in getattr(space, knob) if value < getattr(mode, knob)]
        if lower and (stepped := replace(mode, **{knob: lower[-1]})) in space:
            return stepped
    return None


def _height(space: ModeSpace, mode: PowerMode) -> int:
    return sum(int((getattr(space, knob) <= getattr(mode, knob)).sum()) for knob in KNOBS)


@dataclass
class Approach:
    """Walks a path; `power` says what to do with each reading. The last mode of the path is the target."""

    steps: list[PowerMode]
    limit_w: float | None
    period_s: float
    applied_s: float = 0.0
    _position: int = -1
    above: Reading | None = field(default=None)

    @property
    def target(self) -> PowerMode:
        """Return where the path ends."""
        return self.steps[-1]

    @property
    def mode(self) -> PowerMode:
        """Return the mode that was applied last."""
        return self.steps[max(0, self._position)]

    @property
    def has_arrived(self) -> bool:
        """Say whether the target is applied."""
        return self._position == len(self.steps) - 1

    def next(self, now_s: float) -> PowerMode:
        """Return the next mode to apply; call it once per application."""
        self._position += 1
        self.applied_s = now_s
        return self.steps[self._position]

    def power(self, reading: Reading) -> bool:
        """Take a reading; True when the next mode may be applied. A reading above the limit ends it (`above`)."""
        if self.limit_w is not None and reading.power_w > self.limit_w:
            self.above = reading
            return False
        if self.limit_w is None:
            return True
        return reading.at_s - self.applied_s >= PERIODS_A_STEP * self.period_s * 0.95
