"""The helm of one session: sets modes, asks the planner, keeps the guard at the limit of the moment, says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from powertrain import PowerMode
from powertrain.api.conditions import with_condition
from powertrain.api.v1alpha1 import Phase, Reason
from powertrain.objectives import PowerStatistic
from powertrain_agent.governor.approach import one_step_lower
from powertrain_agent.governor.drift import DriftWatch
from powertrain_agent.governor.front import Point, fastest_within, lowest
from powertrain_agent.governor.guard import Guard, GuardAction
from powertrain_agent.governor.planner import request
from powertrain_agent.governor.ports import Applied, BoardPort, Metrics, Planner
from powertrain_agent.governor.schedule import Budget, budget_at
from powertrain_agent.governor.session_file import SessionState
from powertrain_agent.governor.windows import WindowRules
from powertrain_agent.log import Log
from powertrain_agent.telemetry import Reading

MARGIN = 0.99  # a guard that lands on the limit acts again


@dataclass(frozen=True)
class Settings:
    """The loop's own numbers, each with its reason."""

    period_s: float = 0.1  # of the sensor
    rules: WindowRules = field(default_factory=WindowRules)
    no_steps_s: float = 300.0  # longer than a container takes to start its first step
    sensor_lost_s: float = 2.0  # twenty readings
    checks: int = 2  # in-flight checks after a choice: more found nothing in the study
    check_after_s: float = 15.0  # the chosen mode first shows that it keeps the budget
    extension_modes: int = 6  # what a raised budget is worth
    confirmations: int = 5  # predicted choices in a row that may fail before a measured one is taken
    warm_noise: float = 0.05  # samples of a similar profile teach, but weakly
    exact_band: float = 0.05  # a profile whose chosen mode is off by more is only a warm start
    retry_s: float = 10.0


@dataclass(frozen=True)
class Tools:
    """What a session works with."""

    board: BoardPort
    planner: Planner
    metrics: Metrics
    log: Log
    clock: Callable[[], float]
    now: Callable[[], datetime]
    save: Callable[[SessionState], None]
    changed: Callable[[], None]  # something that is published at once has changed
    open_gate: Callable[[SessionState], None]
    settings: Settings = field(default_factory=Settings)


class Helm:
    """What every part of a session's course shares. Every decision is one log line and the status' message."""

    def __init__(self, state: SessionState, tools: Tools) -> None:
        self.state, self.tools = state, tools
        self.budget = self.budget_now()
        self.guard = Guard(state.spec.limits.guard_window_seconds)
        self.drift = DriftWatch()
        self.visiting = False
        self.want: str | None = None
        self.number = 0
        self.set_guard()

    # Limits

    @property
    def is_running(self) -> bool:
        """Say whether a mode was chosen and is in force."""
        return self.state.phase is Phase.RUNNING

    @property
    def explore_w(self) -> float | None:
        """Return what no reading may exceed while a mode is tried."""
        limits = self.state.spec.limits
        tried_w = self.budget.power_w if limits.explore_watts is None else limits.explore_watts
        return min((w for w in (tried_w, limits.hard_limit_watts) if w is not None), default=None)

    @property
    def guarded_w(self) -> float | None:
        """Return the limit that the guard keeps: the budget of a chosen mode, the exploration limit of a tried one."""
        return self.budget.power_w if self.is_running and not self.visiting else self.explore_w

    def budget_now(self) -> Budget:
        """Return the power limit of this moment."""
        return budget_at(self.state.spec, self.tools.now())

    def set_guard(self) -> None:
        """Let the guard keep the limit of what is done now."""
        limits = self.state.spec.limits
        is_peak = limits.power_statistic is PowerStatistic.PEAK
        self.guard.set_limits(self.guarded_w, limits.hard_limit_watts, is_peak)

    # Modes

    def set_mode(self, mode: PowerMode) -> Applied:
        """Apply a mode; the one way in which modes are applied."""
        applied = self.tools.board.apply(mode)
        self.tools.metrics.mode(mode, applied.ok)
        self.state.verified = applied.ok
        if applied.ok:
            self.state.mode = mode
        self.guard.mode_changed()
        return applied

    def point(self, mode: PowerMode | None) -> Point | None:
        """Return what is known of a mode, measured before predicted."""
        return next((p for p in (*self.state.measured_points(), *self.state.points) if p.mode == mode), None)

    def retreat(self) -> None:
        """Go to a mode that is known to keep the limit, before anything else is thought about."""
        proven = fastest_within(self.state.measured_points(), self.explore_w)
        safe = proven.mode if proven is not None else self.state.start
        if safe is not None and safe != self.state.mode:
            self.set_mode(safe)

    def lower(self, reading: Reading) -> None:
        """The budget is broken: the fastest point that is expected to keep it, by what is observed now."""
        state, guard = self.state, self.guard
        self.tools.metrics.guard(GuardAction.LOWER.value)
        limit_w = min((w for w in (self.guarded_w, guard.hard_limit_w) if w is not None), default=reading.power_w)
        current = self.point(state.mode)
        mode = self._lower_mode(current, limit_w)
        mean = f"{guard.mean_w:.2f} W over {guard.window_s:g} s, {reading.power_w:.2f} W now, limit {limit_w:g} W"
        if mode is None or mode == state.mode:
            self.condition("BudgetReachable", False, "BudgetUnreachable", mean)
            self.say(Reason.GUARD, f"BudgetUnreachable: {mean}, and there is no lower mode")
            return
        applied = self.set_mode(mode)
        if self.is_running:
            self.drift.expect(self.point(mode))
        went = f"down to {mode.human}" if applied.ok else f"{mode.human} could not be set: {applied.reason}"
        self.say(Reason.GUARD, f"{mean}: {went}", mode=str(mode))

    def _lower_mode(self, current: Point | None, limit_w: float) -> PowerMode | None:
        points = [*self.state.measured_points(), *self.state.points]
        if current is not None:
            points = [p for p in points if p.power_w < current.power_w]
        # What the present mode takes too much, the others will too.
        excess = max(1.0, self.guard.mean_w / current.power_w) if current is not None else 1.0
        target = fastest_within([p.scaled(1.0, excess) for p in points], MARGIN * limit_w)
        if target is not None:
            return target.mode
        least = lowest(points)
        if least is not None or self.state.mode is None:
            return least.mode if least is not None else self.state.start
        # Nothing lower was ever measured or predicted: one clock, one step.
        return one_step_lower(self.tools.board.space, self.state.mode) or self.state.start

    # Planner

    def ask(self, want: str) -> None:
        """Ask the planner; an earlier question that is still open no longer counts."""
        state, board = self.state, self.tools.board
        self.number += 1
        self.want = want
        asked = request(
            want,
            state.spec,
            board.space,
            state.reports,
            power_w=self.budget.power_w,
            explore_w=self.explore_w,
            strategy=state.strategy,
            device=board.device,
            descending_only=board.descending_only,
            extra=state.extra,
        )
        self.tools.planner.submit(self.number, asked)

    # Words

    def count_violations(self, windows: int, readings: int) -> None:
        """Note what the guard has counted since those numbers."""
        for kind, count in (
            ("window", self.guard.violations - windows),
            ("reading", self.guard.hard_violations - readings),
        ):
            if count:
                self.state.violations += count
                self.tools.metrics.violation(kind, count)

    def condition(self, kind: str, holds: bool, reason: str, message: str) -> None:
        """Set a condition of the session."""
        state = self.state
        state.conditions = with_condition(
            state.conditions, kind, holds, reason, message, at=self.tools.now(), generation=state.spec.generation
        )

    def say(self, reason: Reason, text: str, **fields: object) -> None:
        """Note a decision: in the log, in the status, on the disk."""
        state = self.state
        state.reason, state.message = reason, text
        self.tools.log(
            "decision", session=state.spec.uid, job=str(state.spec.job), reason=reason.value, what=text, **fields
        )
        self.tools.save(state)
        self.tools.changed()
