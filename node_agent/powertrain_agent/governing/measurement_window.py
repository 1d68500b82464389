"""One measurement of one mode: waits until the power has settled, collects steps and readings, and judges the window.

A pure state machine: it is fed with readings, steps, clocks and disturbances, each with its time, and never sleeps.
All times are the board's (a simulated one may run faster).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import fmean, median, pstdev

from powertrain import PowerMode
from powertrain.profiling.history import PowerEstimate
from powertrain.samples import Sample
from powertrain_agent.governing.timed_steps import SPREAD_FROM, TimedSteps, median_error
from powertrain_agent.steps import StepsSeen
from powertrain_agent.telemetry import Reading


@dataclass(frozen=True)
class WindowRules:
    """How long to wait and how much to collect. The defaults measure a mode in 6 s where steps take up to 50 ms."""

    stable_s: float = 2.0  # power is compared over so long: shorter windows can't tell noise from settling
    stable_share: float = 0.01  # … and has settled when its halves differ by less than this share
    settle_limit_s: float = 8.0  # a load that pulses never settles: then it is measured as it is
    min_readings: int = 20  # 2 s at 10 Hz: the median is then good to 0.3 % where one reading is to 1 %
    min_steps: int = 10
    max_steps: int = 40  # what the papers collect
    few_steps: int = 3  # enough where a step takes so long that the time limit comes first
    tight_share: float = 0.01  # half of the 95 % interval of the median, relative to it
    limit_s: float = 30.0
    trend_share: float = 0.10  # steps that change by more within a window are those of a cold cache
    patience_s: float = 90.0  # without the few steps by then, nothing was measured


class Verdict(StrEnum):
    """How a window ended."""

    MEASURED = "Measured"
    UNSAFE = "Unsafe"  # left early: a reading was above the exploration limit
    LEFT = "Left"  # left early: the ledger, or its power is too high to be chosen
    REJECTED = "Rejected"


@dataclass(frozen=True)
class WindowOutcome:
    """What a window gave. `noise` is the relative standard error of the medians; a rejected window has no sample.

    A visit under the ledger knows the errors of time and power apart, and may have seen the power alone. `may_stay`
    says of a mode that was held whether it may run for good.
    """

    verdict: Verdict
    reason: str
    sample: Sample | None = None
    noise: float = 0.0
    seconds: float = 0.0
    power_noise: float | None = None
    power_only: PowerEstimate | None = None
    may_stay: bool | None = None

    @property
    def power_w(self) -> float:
        """Return the power that was seen; 0 where none was."""
        if self.sample is not None:
            return self.sample.power_w
        return 0.0 if self.power_only is None else self.power_only.power_w

    @property
    def sample_with_errors(self) -> Sample | None:
        """Return the sample with the errors of its time and its power."""
        sample, power_noise = self.sample, self.noise if self.power_noise is None else self.power_noise
        if sample is None:
            return None
        return replace(sample, step_error_s=self.noise * sample.step_s, power_error_w=power_noise * sample.power_w)


@dataclass
class Window:
    """Measures one mode. Feed it until `outcome` is set; `limit_w` is what no reading may exceed."""

    mode: PowerMode
    started_s: float
    batch_size: int = 1
    limit_w: float | None = None
    needs_steps: bool = True
    expected_step_s: float | None = None  # what is told of a mode that is left before its first step
    rules: WindowRules = field(default_factory=WindowRules)
    outcome: WindowOutcome | None = None
    settled_s: float | None = None
    has_settled: bool = False
    _recent: deque[Reading] = field(default_factory=deque)
    _watts: list[float] = field(default_factory=list)
    _steps: TimedSteps = field(default_factory=TimedSteps)
    temperature_c: float | None = None

    def power(self, reading: Reading) -> None:
        """Take a reading of the power."""
        if self.outcome is not None or reading.at_s < self.started_s:
            return
        self._recent.append(reading)
        while self._recent[-1].at_s - self._recent[0].at_s > self.rules.stable_s:
            self._recent.popleft()
        if self.limit_w is not None and reading.power_w > self.limit_w:
            self._leave(reading)
            return
        if self.settled_s is None:
            self._settle(reading)
        else:
            self._watts.append(reading.power_w)
        self._conclude(reading.at_s)

    def steps(self, message: StepsSeen) -> None:
        """Take steps; those that began before the mode was set are dropped."""
        if self.outcome is None and message.at_s >= self.started_s and self._steps.take(message):
            self._conclude(message.at_s)

    def clocks(self, off: dict[str, int], at_s: float) -> None:
        """Take what the clocks were read to be: those that are not the asked ones, by file."""
        if off:
            self.disturb(clocks_reason(off), at_s)

    def disturb(self, reason: str, at_s: float) -> None:
        """Throw the window away: what it holds is not this mode alone."""
        if self.outcome is None:
            self.outcome = WindowOutcome(Verdict.REJECTED, reason, seconds=at_s - self.started_s)

    def _settle(self, reading: Reading) -> None:
        waited_s = reading.at_s - self.started_s
        if self._is_stable():
            self.has_settled, self.settled_s = True, reading.at_s
            # Halves that agree so well leave the later one within half a percent of where the power ends.
            self._watts += [r.power_w for r in self._recent if r.at_s >= reading.at_s - 0.5 * self.rules.stable_s]
        elif waited_s >= self.rules.settle_limit_s:
            self.settled_s = reading.at_s

    def _is_stable(self) -> bool:
        """Compare the halves of the last seconds; noise may make them differ as much as noise does."""
        covered_s = self._recent[-1].at_s - self._recent[0].at_s
        if covered_s < 0.9 * self.rules.stable_s or len(self._recent) < 2 * SPREAD_FROM:
            return False
        middle_s = self._recent[0].at_s + 0.5 * covered_s
        before = [r.power_w for r in self._recent if r.at_s < middle_s]
        after = [r.power_w for r in self._recent if r.at_s >= middle_s]
        if min(len(before), len(after)) < SPREAD_FROM:
            return False
        noise = math.sqrt(pstdev(before) ** 2 / len(before) + pstdev(after) ** 2 / len(after))
        allowed = max(self.rules.stable_share * fmean(after), 1.5 * noise)
        return abs(fmean(before) - fmean(after)) <= allowed

    def _conclude(self, at_s: float) -> None:
        rules, waited_s = self.rules, at_s - self.started_s
        if len(self._watts) < rules.min_readings:
            if waited_s > rules.patience_s:
                self.disturb(f"only {len(self._watts)} power readings in {waited_s:.0f} s", at_s)
            return
        if not self.needs_steps:
            self._measured(at_s)
            return
        steps = self._steps.count
        if waited_s > rules.patience_s and steps < rules.few_steps:
            self.disturb(f"only {steps} steps in {waited_s:.0f} s", at_s)
        enough = steps >= rules.max_steps or (steps >= rules.min_steps and self._steps.is_tight(rules.tight_share))
        if enough or (waited_s >= rules.limit_s and steps >= rules.few_steps):
            self._measured(at_s)

    def _measured(self, at_s: float) -> None:
        trend = self._steps.trend
        if trend > self.rules.trend_share:
            self.disturb(f"steps became {trend:.0%} faster or slower within the window (cold cache?)", at_s)
            return
        noise = max(median_error(self._watts), self._steps.error, 0.002)
        noise = noise if self.has_settled else max(noise, self.rules.stable_share)
        addition = "" if self.has_settled else "; the power never settled"
        reason = f"{self._steps.count} steps, {len(self._watts)} readings{addition}"
        self.outcome = WindowOutcome(Verdict.MEASURED, reason, self._sample(self._watts), noise, at_s - self.started_s)

    def _leave(self, reading: Reading) -> None:
        """Above the limit: keep what is known. Before it settled, the power is at least what was read."""
        enough = len(self._watts) >= self.rules.min_readings // 2
        watts = [*self._watts, reading.power_w] if enough else [reading.power_w]
        noise = max(median_error(watts), 0.002) if enough else 0.05
        reason = f"a reading of {reading.power_w:.2f} W is above the limit of {self.limit_w:g} W"
        seconds = reading.at_s - self.started_s
        self.outcome = WindowOutcome(Verdict.UNSAFE, reason, self._sample(watts, unsafe=True), noise, seconds)

    def _sample(self, watts: list[float], unsafe: bool = False) -> Sample | None:
        median_s = self._steps.median_s
        step_s = self.expected_step_s if median_s is None else median_s
        if step_s is None:
            return None
        return Sample(
            self.mode,
            step_s,
            median(watts),
            self.batch_size,
            step_spread_s=self._steps.spread_s,
            steps=self._steps.count,
            power_peak_w=max(watts),
            power_spread_w=pstdev(watts) if len(watts) >= SPREAD_FROM else None,
            temperature_c=self.temperature_c,
            unsafe=unsafe,
        )


def clocks_reason(off: dict[str, int]) -> str:
    """Say which clocks are wrong."""
    names = ", ".join(f"{path} = {value}" for path, value in sorted(off.items()))
    return f"clocks differ from the mode: {names}"
