"""A round over a few points of the front: what moved since they were measured, and what follows for all others."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from powertrain import PowerMode
from powertrain.profiling.history import ModeReport
from powertrain.samples import Sample
from powertrain_agent.governing.drift import Factors, deviating, interpolated, is_uniform, middle_of
from powertrain_agent.planning.front import Point, non_dominated

ROUND_POINTS = 3  # the second paper checks its tables by a few entries


@dataclass
class Round:
    """Points to measure again, and how each compares with before."""

    todo: list[Point]
    reports_before: int = 0  # reports that there were before it: later ones need no correction
    factors: dict[PowerMode, Factors] = field(default_factory=dict)
    predicted: dict[PowerMode, Factors] = field(default_factory=dict)  # the same of points that were only predicted
    excess: float = 1.0  # the most that any mode was seen to take, against what was known of it
    is_broken: bool = False  # a point was left above the limit

    @classmethod
    def over(
        cls, points: list[Point], present: PowerMode | None, limit_w: float | None, reports_before: int = 0
    ) -> Round:
        """Choose the present mode and two others of the measured front that keep the limit, far apart in power."""
        front = [p for p in non_dominated(points) if limit_w is None or p.power_w <= limit_w]
        here = [p for p in points if p.mode == present]
        others = [p for p in front if p.mode != present]
        picked = others[:: max(1, len(others) // (ROUND_POINTS - 1))][: ROUND_POINTS - 1]
        return cls([*here, *picked], reports_before)

    def note(self, before: Point, now: Sample, is_proven: bool = True) -> None:
        """Take what a point does now; of one that was only predicted, it may be the prediction that is off."""
        factors = Factors(now.step_s / before.step_s, now.power_w / before.power_w)
        (self.factors if is_proven else self.predicted)[before.mode] = factors
        self.excess = max(self.excess, factors.power)

    def broke(self, before: Point, power_w: float) -> None:
        """Take the power of a point that was left because of the limit."""
        self.is_broken = True
        self.excess = max(self.excess, power_w / before.power_w)

    def close(self) -> None:
        """End the round: where nothing else could be measured, what differs from its prediction has drifted."""
        self.factors = self.factors or self.predicted

    @property
    def verdict(self) -> str:
        """Say what the round found."""
        if not self.factors:
            return "nothing could be measured again"
        middle = middle_of(list(self.factors.values()))
        if is_uniform(list(self.factors.values())):
            return f"a uniform shift ({middle.text})"
        moved = ", ".join(f"{mode.human}: {self.factors[mode].text}" for mode in deviating(self.factors))
        return f"a change between modes ({moved or middle.text})"

    @property
    def uniform(self) -> bool:
        """Say whether all points moved alike."""
        return is_uniform(list(self.factors.values()))

    def corrected(self, reports: list[ModeReport]) -> list[ModeReport]:
        """Return the reports as they would be measured now; those of the round itself hold already."""
        if not self.factors:
            return reports
        middle = middle_of(list(self.factors.values()))
        shift = (middle.time, middle.power)
        before, since = reports[: self.reports_before], reports[self.reports_before :]
        measured = {report.mode for report in before if report.sample is not None and not report.sample.unsafe}
        moved: list[ModeReport] = []
        for report in before:
            time, power = shift if self.uniform else interpolated(report.mode, self.factors)
            # A mode that was left early takes at least what was read; of less power than then, that says nothing.
            if power < 1.0 and report.sample is not None and report.sample.unsafe and report.mode in measured:
                continue
            moved.append(_scaled(report, time, power))
        return [*moved, *since]


def _scaled(report: ModeReport, time: float, power: float) -> ModeReport:
    if report.sample is None:
        return report
    peak_w, step_error_s, power_error_w = (
        getattr(report.sample, name) for name in ("power_peak_w", "step_error_s", "power_error_w")
    )
    moved = replace(
        report.sample,
        step_s=report.sample.step_s * time,
        power_w=report.sample.power_w * power,
        power_peak_w=None if peak_w is None else peak_w * power,
        step_error_s=None if step_error_s is None else step_error_s * time,
        power_error_w=None if power_error_w is None else power_error_w * power,
    )
    return replace(report, sample=moved)
