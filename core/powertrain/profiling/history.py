"""History: the measurements of a session so far, good and bad, in the order they came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from powertrain.modes import PowerMode
from powertrain.objectives import ASSUMED_PEAK_FACTOR
from powertrain.samples import EarlySample, Sample
from powertrain.space import BoolArray, FloatArray, IntArray, ModeSpace, as_matrix


@dataclass(frozen=True, slots=True)
class PowerEstimate:
    """Where a mode's power settles, by a visit that was too short to time its steps. `noise` is relative."""

    power_w: float
    noise: float


@dataclass(frozen=True, slots=True)
class ModeReport:
    """One report: a sample, a power without a time, or a mode that could not be measured and why.

    `noise` is the relative standard deviation of the sample's step time, and of its power unless `power_noise` says
    otherwise; None where unknown.
    """

    mode: PowerMode
    asked_mode: PowerMode | None = None
    sample: Sample | None = None
    noise: float | None = None
    failure: str | None = None
    power_noise: float | None = None
    power_only: PowerEstimate | None = None
    left_early: bool = False  # a ledger ended the visit before its power had settled

    @classmethod
    def of_early(cls, early: EarlySample, least_noise: float = 0.0) -> ModeReport:
        """Return what a profile knows of a mode that was left early: nobody has visited it in this session."""
        power_noise = max(least_noise, early.power_error_w / early.power_w)
        if early.step_s is None or early.step_error_s is None:
            return cls(early.mode, power_only=PowerEstimate(early.power_w, power_noise), left_early=True)
        noise = max(least_noise, early.step_error_s / early.step_s)
        sample = Sample(early.mode, early.step_s, early.power_w)
        return cls(early.mode, None, sample, noise, power_noise=power_noise, left_early=True)

    def early(self) -> EarlySample | None:
        """Return what a visit that was left early tells; None of a whole measurement, or of a failure."""
        if not self.left_early:
            return None
        if self.power_only is not None:
            return EarlySample(self.mode, self.power_only.power_w, self.power_only.noise * self.power_only.power_w)
        if self.sample is None:
            return None
        step_s, power_w, noise = self.sample.step_s, self.sample.power_w, self.noise or 0.0
        power_noise = noise if self.power_noise is None else self.power_noise
        return EarlySample(self.mode, power_w, power_noise * power_w, step_s, noise * step_s)

    @property
    def was_visited(self) -> bool:
        """Say whether a visit of this session, or a whole measurement of a profile, is behind it."""
        return not self.left_early or self.asked_mode is not None

    @property
    def time_noise(self) -> float | None:
        """Return the relative error of the time: as reported, or as the sample itself says."""
        sample = self.sample
        if self.noise is not None or sample is None or sample.step_error_s is None:
            return self.noise
        return sample.step_error_s / sample.step_s

    @property
    def own_power_noise(self) -> float | None:
        """Return the relative error of the power, likewise; that of the time, where nothing else is known."""
        sample = self.sample
        if self.power_noise is not None:
            return self.power_noise
        if self.noise is None and sample is not None and sample.power_error_w is not None:
            return sample.power_error_w / sample.power_w
        return self.time_noise

    @property
    def usable(self) -> bool:
        """Say whether the sample may teach a model (throttled ones may not)."""
        return self.sample is not None and not self.sample.throttled


@dataclass(frozen=True, eq=False)
class History:
    """All reports, with the usable ones merged per mode into columns for the models. Grows by `add`, built by `of`."""

    space: ModeSpace
    reports: tuple[ModeReport, ...]
    default_noise: float
    visited: BoolArray  # rows that need no further measurement: measured, failed or throttled, asked or told
    measured: int  # how many reports were measurements of time and power
    left_early: int = 0  # how many visits a ledger ended early

    @classmethod
    def of(cls, space: ModeSpace, reports: Iterable[ModeReport] = (), default_noise: float = 0.0) -> History:
        """Build the history of these reports against a space."""
        history = cls(space, (), default_noise, np.zeros(len(space), dtype=np.bool_), 0)
        for report in reports:
            history = history.add(report)
        return history

    def add(self, report: ModeReport) -> History:
        """Return the history with one more report."""
        visited = self.visited.copy()
        for mode in (report.mode, report.asked_mode) if report.was_visited else ():
            if mode is not None and (row := self._row(mode)) >= 0:
                visited[row] = True
        return History(
            self.space,
            (*self.reports, report),
            self.default_noise,
            visited,
            self.measured + (report.sample is not None),
            self.left_early + (report.left_early and report.was_visited),
        )

    def within(self, space: ModeSpace) -> History:
        """Return the same reports against another space (a board whose space shrank)."""
        return History.of(space, self.reports, self.default_noise)

    def __len__(self) -> int:
        return len(self.reports)

    @cached_property
    def _merged(self) -> dict[PowerMode, list[ModeReport]]:
        merged: dict[PowerMode, list[ModeReport]] = {}
        for report in self.reports:
            if report.usable:
                merged.setdefault(report.mode, []).append(report)
        return merged

    @cached_property
    def modes(self) -> FloatArray:
        """Return the measured modes, one row each, in the order of their first measurement."""
        return as_matrix(list(self._merged))

    @cached_property
    def step_s(self) -> FloatArray:
        """Return the median step time of each measured mode."""
        return np.array([_median([t.sample.step_s for t in reports if t.sample]) for reports in self._merged.values()])

    @cached_property
    def power_w(self) -> FloatArray:
        """Return the median power of each measured mode."""
        return np.array([_median([t.sample.power_w for t in reports if t.sample]) for reports in self._merged.values()])

    @cached_property
    def noise(self) -> FloatArray:
        """Return the relative noise of each measured mode's step time; repeats lower it."""
        return np.array([self._noise_of([t.time_noise for t in reports]) for reports in self._merged.values()])

    @cached_property
    def power_noise(self) -> FloatArray:
        """Return the relative noise of each measured mode's power."""
        single = [[t.own_power_noise for t in reports] for reports in self._merged.values()]
        return np.array([self._noise_of(noises) for noises in single])

    def _noise_of(self, noises: Sequence[float | None]) -> float:
        single = [self.default_noise if noise is None else noise for noise in noises]
        return float(np.median(single) / np.sqrt(len(single)))

    @cached_property
    def estimates(self) -> dict[PowerMode, PowerEstimate]:
        """Return the last power of each mode that was never timed."""
        untimed = {t.mode: t.power_only for t in self.reports if t.power_only is not None}
        return {mode: power for mode, power in untimed.items() if mode not in self._merged}

    @cached_property
    def estimate_rows(self) -> IntArray:
        """Return the row in the space of each mode of `estimates`, −1 for modes outside it."""
        return np.array([self._row(mode) for mode in self.estimates], dtype=np.int64)

    @cached_property
    def peak_factor(self) -> FloatArray:
        """Return how far single readings lie above the median in each measured mode, never less than is assumed: a
        short window misses the highest.
        """
        return np.array([max(peak_factor(t.sample) for t in reports if t.sample) for reports in self._merged.values()])

    @cached_property
    def peak_factors(self) -> FloatArray:
        """Return the same for every mode of the space; what was not measured may be as bad as the worst that was."""
        factors = np.full(len(self.space), self.peak_factor.max(initial=ASSUMED_PEAK_FACTOR))
        inside = self.rows >= 0
        factors[self.rows[inside]] = self.peak_factor[inside]
        return factors

    @cached_property
    def rows(self) -> IntArray:
        """Return the row in the space of each measured mode, −1 for modes outside it."""
        return np.array([self._row(mode) for mode in self._merged], dtype=np.int64)

    @cached_property
    def failed(self) -> BoolArray:
        """Return the rows of which the last that is known is a failure, be it after a measurement."""
        mask = np.zeros(len(self.space), dtype=np.bool_)
        for report in self.reports:
            if (row := self._row(report.mode)) >= 0:
                mask[row] = report.failure is not None
        return mask

    def _row(self, mode: PowerMode) -> int:
        return self.space.index(mode) if mode in self.space else -1


def peak_factor(sample: Sample) -> float:
    """Return how far single readings lie above the median of a sample, by its own peak or as is assumed."""
    own = ASSUMED_PEAK_FACTOR if sample.power_peak_w is None else sample.power_peak_w / sample.power_w
    return max(ASSUMED_PEAK_FACTOR, own)


def _median(values: list[float]) -> float:
    return float(np.median(values))
