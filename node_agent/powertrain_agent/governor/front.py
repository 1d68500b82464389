"""The front: the points that are known to be worth taking, with what was measured or is predicted of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from powertrain import PowerMode
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

    @classmethod
    def of(cls, sample: Sample, noise: float = 0.0) -> Point:
        """Return the point that a sample shows."""
        step_s, power_w = sample.step_s, sample.power_w
        return cls(sample.mode, step_s, power_w, step_s * noise, power_w * noise, measured=True)

    def scaled(self, time_factor: float, power_factor: float) -> Point:
        """Return the point after a drift."""
        return replace(
            self,
            step_s=self.step_s * time_factor,
            step_std_s=self.step_std_s * time_factor,
            power_w=self.power_w * power_factor,
            power_std_w=self.power_std_w * power_factor,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "mode": str(self.mode)}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Point:
        """Return the point that `as_dict` wrote."""
        return cls(**{**raw, "mode": PowerMode.parse(raw["mode"])})


def safer(points: Iterable[Point], than_w: float, share: float = 0.005) -> Point | None:
    """Return the fastest point whose power is lower by more than a share; None below the lowest."""
    lower = [point for point in points if point.power_w < than_w * (1.0 - share)]
    # The next safer one, not the fastest of all lower: a guard takes small steps, of points that help.
    return max(lower, key=lambda point: (point.power_w, -point.step_s), default=None)


def fastest_within(points: Iterable[Point], limit_w: float | None, sigmas: float = 2.0) -> Point | None:
    """Return the fastest point that keeps the limit even with its uncertainty; None where none does."""
    kept = [p for p in points if limit_w is None or p.power_w + sigmas * p.power_std_w <= limit_w]
    return min(kept, key=lambda point: (point.step_s, point.power_w), default=None)


def lowest(points: Iterable[Point]) -> Point | None:
    """Return the point of least power."""
    return min(points, key=lambda point: point.power_w, default=None)


def non_dominated(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other beats in time and power, fastest first."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda p: (p.step_s, p.power_w)):
        if not kept or point.power_w < kept[-1].power_w:
            kept.append(point)
    return kept
