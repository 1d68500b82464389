"""The front: the points that are known to be worth taking, with what was measured or is predicted of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from powertrain import PowerMode
from powertrain.objectives import ASSUMED_PEAK_FACTOR
from powertrain.profiling.history import peak_factor
from powertrain.samples import Sample


@dataclass(frozen=True)
class Point:
    """One mode: step time and power with one standard deviation; `measured` in this session or a trusted one."""

    mode: PowerMode
    step_s: float
    power_w: float
    step_std_s: float = 0.0
    power_std_w: float = 0.0
    measured: bool = False
    peak_factor: float = ASSUMED_PEAK_FACTOR  # how far single readings lie above the power

    @classmethod
    def of(cls, sample: Sample, noise: float = 0.0, power_noise: float | None = None) -> Point:
        """Return the point that a sample shows; `power_noise` is the power's own where it differs from the time's."""
        step_s, power_w = sample.step_s, sample.power_w
        power_std_w = power_w * (noise if power_noise is None else power_noise)
        return cls(sample.mode, step_s, power_w, step_s * noise, power_std_w, True, peak_factor(sample))

    def scaled(self, time_factor: float, power_factor: float) -> Point:
        """Return the point after a drift."""
        return replace(
            self,
            step_s=self.step_s * time_factor,
            step_std_s=self.step_std_s * time_factor,
            power_w=self.power_w * power_factor,
            power_std_w=self.power_std_w * power_factor,
        )

    def burdened(self, expected_w: float, observed_w: float) -> Point:
        """Return the point with what another takes too much: as many watts (a load) or times (a drift) more."""
        if observed_w <= expected_w:
            return self
        return self.scaled(1.0, max(1.0 + (observed_w - expected_w) / self.power_w, observed_w / expected_w))

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "mode": str(self.mode)}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Point:
        """Return the point that `as_dict` wrote."""
        return cls(**{**raw, "mode": PowerMode.parse(raw["mode"])})


@dataclass(frozen=True)
class Ceiling:
    """What a point has to keep: a limit for its mean, or for its single readings, and a hard one for readings alone."""

    power_w: float | None
    is_peak: bool = False
    hard_w: float | None = None

    @property
    def reading_w(self) -> float | None:
        """Return what no single reading may exceed."""
        limits = (self.hard_w, self.power_w if self.is_peak else None)
        return min((watts for watts in limits if watts is not None), default=None)

    def holds(self, point: Point, sigmas: float = 2.0) -> bool:
        """Say whether a point stays below, even with its uncertainty."""
        mean_w = point.power_w + sigmas * point.power_std_w
        peak_w = mean_w * point.peak_factor
        keeps_power = self.power_w is None or (peak_w if self.is_peak else mean_w) <= self.power_w
        return keeps_power and (self.hard_w is None or peak_w <= self.hard_w)


def fastest_within(points: Iterable[Point], ceiling: Ceiling) -> Point | None:
    """Return the fastest point that keeps the limits even with its uncertainty; None where none does."""
    return min(filter(ceiling.holds, points), key=lambda point: (point.step_s, point.power_w), default=None)


def lowest(points: Iterable[Point]) -> Point | None:
    """Return the point of least power."""
    return min(points, key=lambda point: point.power_w, default=None)


def non_dominated(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other beats in time and power, fastest first."""
    front: list[Point] = []
    for point in sorted(points, key=lambda p: (p.step_s, p.power_w)):
        if not front or point.power_w < front[-1].power_w:
            front.append(point)
    return front
