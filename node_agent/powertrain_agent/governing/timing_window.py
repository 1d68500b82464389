"""TimingWindow: measures a mode that a ledger watches. The power comes from the visit's ramp, here steps are timed."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median, pstdev

from powertrain import PowerMode
from powertrain.exploring import SettledPower
from powertrain.limit_table import DEFAULT_WINDOW_S
from powertrain.profiling.history import PowerEstimate
from powertrain.samples import Sample
from powertrain_agent.governing.mean_visit import MeanVisit
from powertrain_agent.governing.measurement_window import Verdict, WindowOutcome, WindowRules, clocks_reason
from powertrain_agent.governing.timed_steps import SPREAD_FROM, TimedSteps
from powertrain_agent.steps import StepsSeen
from powertrain_agent.telemetry import Reading

SHORTEST_S = DEFAULT_WINDOW_S  # a window of the limit: a shorter visit says little about the mean
MANY_STEPS = 8  # enough if they agree
MANY_READINGS = 10  # fewer say little about their scatter
PRECISE = 0.006  # relative error of the power that is good enough …
LONG_S = 8.0  # … unless it took so long; then fewer steps are enough, too
FEWEST_TIMED = 2  # of a visit that was left early
LEAST_ERROR = 0.002


@dataclass
class TimingWindow:
    """Collects steps while a visit under the ledger lasts. Feed it until `outcome` is set."""

    mode: PowerMode
    started_s: float
    visit: MeanVisit
    batch_size: int = 1
    rules: WindowRules = field(default_factory=WindowRules)
    outcome: WindowOutcome | None = None
    temperature_c: float | None = None
    _watts: list[float] = field(default_factory=list)
    _steps: TimedSteps = field(default_factory=TimedSteps)

    def power(self, reading: Reading) -> None:
        """Take a reading of the power."""
        if self.outcome is None and reading.at_s >= self.started_s:
            self._watts.append(reading.power_w)
            self._conclude(reading.at_s)

    def steps(self, message: StepsSeen) -> None:
        """Take steps; those that began before the mode was set are dropped."""
        if self.outcome is None and message.at_s >= self.started_s:
            self._steps.take(message)

    def clocks(self, off: dict[str, int], at_s: float) -> None:
        """Take what the clocks were read to be: those that are not the asked ones, by file."""
        if off:
            self.disturb(clocks_reason(off), at_s)

    def disturb(self, reason: str, at_s: float) -> None:
        """Throw the window away: what it holds is not this mode alone."""
        if self.outcome is None:
            self.outcome = WindowOutcome(Verdict.REJECTED, reason, seconds=at_s - self.started_s)

    def leave(self, reason: str, at_s: float) -> WindowOutcome:
        """Return what is known of a mode that must be left: its power, and its time if it was seen."""
        power, seconds = self.visit.end(self._steps.median_s), at_s - self.started_s
        if self._steps.count < FEWEST_TIMED:
            estimate = PowerEstimate(power.watts, _relative(power))
            return WindowOutcome(Verdict.LEFT, reason, seconds=seconds, power_only=estimate)
        return self._outcome(Verdict.LEFT, reason, power, seconds)

    def _conclude(self, at_s: float) -> None:
        rules, waited_s = self.rules, at_s - self.started_s
        if waited_s > rules.patience_s and self._steps.count < rules.few_steps:
            self.disturb(f"only {self._steps.count} steps in {waited_s:.0f} s", at_s)
        if self.outcome is not None or waited_s < SHORTEST_S or not self.visit.is_held(waited_s):
            return
        if not self._is_timed(waited_s):
            return
        power = self.visit.settled_power()
        if _relative(power) > PRECISE and waited_s < LONG_S:
            return
        changed = self._steps.trend
        if changed > rules.trend_share:
            self.disturb(f"steps became {changed:.0%} faster or slower within the window (cold cache?)", at_s)
            return
        reason = f"{self._steps.count} steps, {len(self._watts)} readings"
        # The visit learns lag and noise first: whether the mode keeps the limit depends on them.
        power = self.visit.end(self._steps.median_s)
        self.outcome = self._outcome(Verdict.MEASURED, reason, power, waited_s, self.visit.keeps())

    def _is_timed(self, waited_s: float) -> bool:
        rules, steps = self.rules, self._steps.count
        tight = self._steps.is_tight(rules.tight_share)
        if steps >= rules.max_steps or (tight and steps >= MANY_STEPS):
            return True
        fewer = steps >= rules.few_steps
        return fewer and ((tight and waited_s >= LONG_S) or waited_s >= rules.limit_s)

    def _outcome(
        self, verdict: Verdict, reason: str, power: SettledPower, seconds: float, may_stay: bool | None = None
    ) -> WindowOutcome:
        flat_w = self.visit.flat
        sample = Sample(
            self.mode,
            median(self._steps.step_s),
            power.watts,
            self.batch_size,
            step_spread_s=self._steps.spread_s,
            steps=self._steps.count,
            power_peak_w=max(flat_w) if len(flat_w) >= SPREAD_FROM else None,
            power_spread_w=pstdev(flat_w) if len(flat_w) >= MANY_READINGS else None,
            temperature_c=self.temperature_c,
        )
        noise = max(self._steps.error, LEAST_ERROR)
        return WindowOutcome(
            verdict, reason, sample, noise, seconds, max(_relative(power), LEAST_ERROR), may_stay=may_stay
        )


def _relative(power: SettledPower) -> float:
    return power.std_w / power.watts
