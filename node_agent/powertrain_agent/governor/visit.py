"""A visit to one mode: the approach, then windows until one counts; says in the end what to record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from powertrain import PowerMode
from powertrain.samples import Sample
from powertrain_agent.governor.approach import Approach, path
from powertrain_agent.governor.ports import Applied, BoardPort, Health
from powertrain_agent.governor.windows import Outcome, Verdict, Window, WindowRules, clocks_reason
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
    """Under which terms modes are visited."""

    limit_w: float | None
    proven: Sequence[PowerMode] = ()
    batch_size: int = 1
    needs_steps: bool = True
    period_s: float = 0.1
    rules: WindowRules = field(default_factory=WindowRules)
    is_fitting: Callable[[], bool] = lambda: False  # the planner takes a core: then nothing is measured


class Visit:
    """Drives one visit; `outcome` is set at its end. `set_mode` applies a mode, which is how all modes are applied."""

    def __init__(
        self,
        target: PowerMode,
        purpose: Purpose,
        board: BoardPort,
        terms: Terms,
        set_mode: Callable[[PowerMode], Applied],
        clock: Callable[[], float],
        expected_step_s: float | None = None,
        latest_step_s: float | None = None,
    ) -> None:
        """Plan the visit; `latest_step_s` of any mode is told of one that is left before its own steps are known."""
        self.target = target
        self.purpose = purpose
        self.outcome: Outcome | None = None
        self.started_s = clock()
        self.rejected: list[str] = []
        self._board, self._terms, self._set_mode, self._clock = board, terms, set_mode, clock
        self._expected_step_s, self._latest_step_s = expected_step_s, latest_step_s
        self._last_step_s: float | None = None
        self._approach: Approach | None = None
        self._window: Window | None = None
        self._health = Health()

    @property
    def limit_w(self) -> float | None:
        """Return what no reading may exceed during the visit."""
        return self._terms.limit_w

    @property
    def begun(self) -> bool:
        """Say whether it has set out."""
        return self._approach is not None

    def begin(self, now: PowerMode | None) -> None:
        """Set out from the present mode."""
        direct = self._terms.limit_w is None or now is None or self._board.descending_only
        steps = (
            [self.target] if direct or now is None else path(self._board.space, now, self.target, self._terms.proven)
        )
        self._approach = Approach(steps, self._terms.limit_w, self._terms.period_s)
        self._advance()

    def power(self, reading: Reading) -> None:
        """Take a reading: on the way it lets the next clock rise or ends the visit, in the window it is measured."""
        if self.outcome is not None or self._approach is None:
            return
        if self._window is not None:
            self._window.power(reading)
            self._watch_fits(reading.at_s)
            self._look()
            return
        if reading.at_s < self._approach.applied_s:
            return
        if self._approach.power(reading):
            self._open_window() if self._approach.arrived else self._advance()
        elif self._approach.above is not None:
            self._turn_back(reading)

    def steps(self, seen: StepsSeen) -> None:
        """Take steps."""
        if seen.duration_s is not None:
            self._last_step_s = seen.duration_s / seen.count
        if self._window is not None and self.outcome is None:
            self._window.steps(seen)
            self._look()

    def tick(self, now_s: float) -> None:
        """Look at clocks, heat and load in the middle of a window."""
        if self._window is None or self.outcome is not None:
            return
        self._window.clocks(self._board.off_clock(self.target), now_s)
        health = self._board.health()
        self._window.temperature_c = health.temperature_c
        reason = disturbed(self._health, health)
        if reason:
            self._window.disturb(reason, now_s)
        self._look()

    def abort(self, reason: str) -> None:
        """End it without a sample."""
        if self.outcome is None:
            self.outcome = Outcome(Verdict.REJECTED, reason, seconds=self._clock() - self.started_s)

    def _advance(self) -> None:
        assert self._approach is not None
        applied = self._set_mode(self._approach.next(self._clock()))
        self._approach.applied_s = self._clock()
        if not applied.ok:
            self.abort(applied.reason)
            return
        if self._approach.arrived:
            self._open_window()

    def _watch_fits(self, now_s: float) -> None:
        if self._window is not None and self._terms.is_fitting():
            self._window.disturb("a fit was running", now_s)

    def _open_window(self) -> None:
        """Begin to measure; where a fit runs, with a reading after its end."""
        terms = self._terms
        if terms.is_fitting():
            self._window = None
            return
        self._health = self._board.health()
        self._window = Window(
            self.target,
            self._clock(),
            terms.batch_size,
            terms.limit_w,
            terms.needs_steps,
            self._expected_step_s or self._last_step_s or self._latest_step_s,
            terms.rules,
        )
        self._window.temperature_c = self._health.temperature_c

    def _look(self) -> None:
        """See whether the window has ended; one that counts is confirmed by a last look at the clocks."""
        assert self._window is not None
        outcome = self._window.outcome
        if outcome is None:
            return
        off = self._board.off_clock(self.target) if outcome.verdict is Verdict.MEASURED else {}
        if off:
            outcome = Outcome(Verdict.REJECTED, clocks_reason(off), seconds=outcome.seconds)
        if outcome.verdict is not Verdict.REJECTED:
            self.outcome = outcome
            return
        self.rejected.append(outcome.reason)
        if len(self.rejected) < TRIES:
            self._open_window()
        else:
            self.outcome = outcome

    def _turn_back(self, reading: Reading) -> None:
        assert self._approach is not None
        reason = f"a reading of {reading.power_w:.2f} W is above the limit of {self._terms.limit_w:g} W on the way"
        step_s = self._last_step_s or self._expected_step_s or self._latest_step_s
        sample = None
        if step_s is not None:
            sample = Sample(self._approach.mode, step_s, reading.power_w, self._terms.batch_size, unsafe=True)
        seconds = self._clock() - self.started_s
        self.outcome = Outcome(Verdict.UNSAFE, f"{reason}, at {self._approach.mode}", sample, 0.05, seconds)


def disturbed(before: Health, now: Health) -> str | None:
    """Say what spoils a window between two looks at the board; None if nothing does."""
    if now.throttling:
        return f"throttled: {', '.join(now.throttling)}"
    rising = [name for name, count in now.over_current.items() if count > before.over_current.get(name, count)]
    if rising:
        return f"over-current: {', '.join(rising)}"
    return now.foreign_load
