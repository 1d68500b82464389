"""A visit to one mode: the approach, then windows until one counts; says in the end what to record.

A pure machine: it is told what happens and answers what it needs next, a mode to be set or a look at the board.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum

from powertrain import ModeSpace, PowerMode
from powertrain.samples import Sample
from powertrain_agent.governing.approach import Approach, path
from powertrain_agent.governing.disturbances import disturbance
from powertrain_agent.governing.mean_visit import MeanVisit
from powertrain_agent.governing.measurement_window import Verdict, Window, WindowOutcome, WindowRules, clocks_reason
from powertrain_agent.governing.ports import Health
from powertrain_agent.governing.timing_window import TimingWindow
from powertrain_agent.steps import StepsSeen
from powertrain_agent.telemetry import Reading

TRIES = 2  # a window that is disturbed twice is no accident


class Purpose(StrEnum):
    """Why a mode is visited."""

    PROFILE = "profile"
    CONFIRM = "confirm"
    CHECK = "check"
    DRIFT = "drift"
    CLIMB = "climb"


@dataclass(frozen=True)
class Terms:
    """Under which terms modes are visited. With `mean` a ledger keeps the limit, else every reading has to."""

    limit_w: float | None
    proven_modes: Sequence[PowerMode] = ()
    batch_size: int = 1
    needs_steps: bool = True
    period_s: float = 0.1
    rules: WindowRules = field(default_factory=WindowRules)
    mean: MeanVisit | None = None


class Look(Enum):
    """A look at the board that a visit needs: at heat and load, at the clocks, or at all of them."""

    BEFORE = "before a window"
    WITHIN = "within a window"
    AFTER = "after a window"

    @property
    def clocks(self) -> bool:
        """Say whether the clocks are needed."""
        return self is not Look.BEFORE

    @property
    def health(self) -> bool:
        """Say whether heat and load are needed."""
        return self is not Look.AFTER


Need = PowerMode | Look | None


class Visit:
    """One visit; `outcome` is set at its end. What is returned is what it needs next, answered by `applied`, `looked`.

    `fitting` says that the planner takes a core: then nothing is measured.
    """

    def __init__(
        self,
        target: PowerMode,
        purpose: Purpose,
        terms: Terms,
        started_s: float,
        expected_step_s: float | None = None,
        latest_step_s: float | None = None,
    ) -> None:
        """Plan the visit; `latest_step_s` of any mode is told of one that is left before its own steps are known."""
        self.target, self.purpose, self.started_s = target, purpose, started_s
        self.outcome: WindowOutcome | None = None
        self.rejected: list[str] = []
        self._terms = terms
        self._expected_step_s, self._latest_step_s = expected_step_s, latest_step_s
        self._last_step_s: float | None = None
        self._approach: Approach | None = None
        self._window: Window | TimingWindow | None = None
        self._look: Look | None = None
        self._health = Health()

    @property
    def limit_w(self) -> float | None:
        """Return what no reading may exceed during the visit, or no mean where a ledger keeps it."""
        return self._terms.limit_w

    @property
    def mean(self) -> MeanVisit | None:
        """Return what a ledger decides of the visit; None where every reading counts."""
        return self._terms.mean

    @property
    def has_begun(self) -> bool:
        """Say whether it has set out."""
        return self._approach is not None

    def begin(self, now: PowerMode | None, space: ModeSpace, direct: bool, now_s: float) -> Need:
        """Set out from the present mode, `direct` or clock by clock."""
        stepwise = now is not None and not direct and self._reading_limit_w is not None
        steps = (
            path(space, now, self.target, self._terms.proven_modes) if stepwise and now is not None else [self.target]
        )
        self._approach = Approach(steps, self._reading_limit_w, self._terms.period_s)
        return self._approach.next(now_s)

    def applied(self, ok: bool, reason: str, now_s: float, fitting: bool) -> Need:
        """Take the result of the mode that was needed."""
        assert self._approach is not None
        self._approach.applied_s = now_s
        if not ok:
            self.abort(reason, now_s)
            return None
        if self.mean is not None:
            self.mean.begin()
        return self._open_window(fitting) if self._approach.has_arrived else None

    def looked(self, off_clock: dict[str, int], health: Health, now_s: float, fitting: bool) -> Need:
        """Take the look at the board that was needed."""
        look, self._look = self._look, None
        if look is Look.BEFORE:
            self._begin_window(health, now_s)
            return None
        assert self._window is not None
        if look is Look.WITHIN:
            self._window.clocks(off_clock, now_s)
            self._window.temperature_c = health.temperature_c
            reason = disturbance(self._health, health)
            if reason:
                self._window.disturb(reason, now_s)
            return self._see(fitting)
        outcome = self._window.outcome
        assert outcome is not None
        if off_clock:
            outcome = WindowOutcome(Verdict.REJECTED, clocks_reason(off_clock), seconds=outcome.seconds)
        return self._judge(outcome, fitting)

    def power(self, reading: Reading, fitting: bool, periods: int = 1) -> Need:
        """Take a reading: on the way it lets the next clock rise or ends the visit, in the window it is measured.

        It stands for so many periods of the sensor.
        """
        if self.outcome is not None or self._approach is None:
            return None
        age_s = reading.at_s - self._approach.applied_s
        if self.mean is not None and age_s > 0.0:
            reason = self.mean.power(reading.power_w, periods, age_s)
            if reason is not None:
                self._leave(self.mean, reason, reading.at_s)
                return None
        if self._window is not None:
            self._window.power(reading)
            if fitting:
                self._window.disturb("a fit was running", reading.at_s)
            return self._see(fitting)
        if reading.at_s < self._approach.applied_s:
            return None
        if self._approach.power(reading):
            return self._open_window(fitting) if self._approach.has_arrived else self._approach.next(reading.at_s)
        if self._approach.above is not None:
            self._turn_back(self._approach, reading)
        return None

    def steps(self, message: StepsSeen, fitting: bool) -> Need:
        """Take steps."""
        if message.duration_s is not None:
            self._last_step_s = message.duration_s / message.count
        if self._window is None or self.outcome is not None:
            return None
        self._window.steps(message)
        return self._see(fitting)

    def tick(self) -> Need:
        """Look at clocks, heat and load in the middle of a window."""
        return self._ask_for(Look.WITHIN) if self._window is not None and self.outcome is None else None

    def abort(self, reason: str, now_s: float) -> None:
        """End it without a sample."""
        if self.outcome is None:
            self.outcome = WindowOutcome(Verdict.REJECTED, reason, seconds=now_s - self.started_s)

    def _ask_for(self, look: Look) -> Look:
        self._look = look
        return look

    def _open_window(self, fitting: bool) -> Need:
        """Begin to measure; where a fit runs, with a reading after its end."""
        self._window = None
        return None if fitting else self._ask_for(Look.BEFORE)

    def _begin_window(self, health: Health, now_s: float) -> None:
        terms, self._health = self._terms, health
        if terms.mean is not None:
            self._window = TimingWindow(self.target, now_s, terms.mean, terms.batch_size, terms.rules)
        else:
            self._window = Window(
                self.target,
                now_s,
                terms.batch_size,
                terms.limit_w,
                terms.needs_steps,
                self._expected_step_s or self._last_step_s or self._latest_step_s,
                terms.rules,
            )
        self._window.temperature_c = health.temperature_c

    def _see(self, fitting: bool) -> Need:
        """See whether the window has ended; one that counts is confirmed by a last look at the clocks."""
        assert self._window is not None
        outcome = self._window.outcome
        if outcome is None:
            return None
        return self._ask_for(Look.AFTER) if outcome.verdict is Verdict.MEASURED else self._judge(outcome, fitting)

    def _judge(self, outcome: WindowOutcome, fitting: bool) -> Need:
        if outcome.verdict is Verdict.REJECTED:
            self.rejected.append(outcome.reason)
            if len(self.rejected) < TRIES:
                return self._open_window(fitting)
        self.outcome = outcome
        return None

    @property
    def _reading_limit_w(self) -> float | None:
        return None if self.mean is not None else self._terms.limit_w

    def _leave(self, mean: MeanVisit, reason: str, now_s: float) -> None:
        """Leave before a window breaks, with what was seen of the power."""
        window = self._window
        if not isinstance(window, TimingWindow):
            window = TimingWindow(self.target, now_s, mean, self._terms.batch_size, self._terms.rules)
        outcome = window.leave(reason, now_s)
        self.outcome = replace(outcome, seconds=now_s - self.started_s)

    def _turn_back(self, approach: Approach, reading: Reading) -> None:
        reason = f"a reading of {reading.power_w:.2f} W is above the limit of {self._terms.limit_w:g} W on the way"
        step_s = self._last_step_s or self._expected_step_s or self._latest_step_s
        sample = None
        if step_s is not None:
            sample = Sample(approach.mode, step_s, reading.power_w, self._terms.batch_size, unsafe=True)
        seconds = reading.at_s - self.started_s
        self.outcome = WindowOutcome(Verdict.UNSAFE, f"{reason}, at {approach.mode}", sample, 0.05, seconds)
