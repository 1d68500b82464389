"""The helm of one session: sets modes, asks the planner, keeps the guard at the limit of the moment, says why."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from powertrain import PowerMode
from powertrain.api.conditions import with_condition
from powertrain.api.v1alpha1 import Phase, Reason
from powertrain.objectives import ASSUMED_PEAK_FACTOR, PowerStatistic
from powertrain.profiling.history import Told
from powertrain.samples import Sample
from powertrain_agent.governor import schedule
from powertrain_agent.governor.approach import is_within, one_step_lower
from powertrain_agent.governor.drift import FLOOR_SHARE, DriftWatch
from powertrain_agent.governor.front import Ceiling, Point, fastest_within, lowest
from powertrain_agent.governor.guard import Guard, GuardAction
from powertrain_agent.governor.planner import request
from powertrain_agent.governor.ports import Applied, BoardPort, Metrics, Planner
from powertrain_agent.governor.schedule import Budget
from powertrain_agent.governor.session_file import SessionState
from powertrain_agent.governor.windows import Outcome, Verdict, WindowRules
from powertrain_agent.site import Site
from powertrain_agent.telemetry import Reading
from powertrain_kube.log import Log

MODE_APPLIED = "ModeApplied"
NUMBERS = itertools.count(1)  # of requests: a late answer to a session before must not pass for this one's
REACHABLE = "BudgetReachable"
GUARD_NOISE = 0.005  # of a mean over the guard window
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
    site: Site
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
        self._told: tuple[object, ...] = ()  # why the guard could not lower the mode; every reading would say so again
        self.set_guard()

    # Limits

    @property
    def is_running(self) -> bool:
        """Say whether a mode was chosen and is in force."""
        return self.state.phase is Phase.RUNNING

    @property
    def explore_w(self) -> float | None:
        """Return what no reading may exceed while a mode is tried: a limit of its own, or the budget of the moment.

        The limit of its own is for profiling; what is tried beside a chosen mode keeps that mode's budget.
        """
        return self._explored(self.budget.power_w)

    def _explored(self, power_w: float | None) -> float | None:
        own_w = None if self.is_running else self.state.spec.limits.explore_watts
        tried_w = power_w if own_w is None else _least(own_w, self.budget.available_w)
        return _least(tried_w, self.hard_limit_w, self.tools.site.asked.max_watts)

    @property
    def hard_limit_w(self) -> float | None:
        """Return what no single reading may exceed, by the job or by the site."""
        return _least(self.state.spec.limits.hard_limit_watts, self.tools.site.asked.hard_max_watts)

    @property
    def guarded_w(self) -> float | None:
        """Return the limit that the guard keeps: the budget of a chosen mode, the exploration limit of a tried one."""
        limit_w = self.budget.guarded_w
        return limit_w if self.is_running and not self.visiting else self._explored(limit_w)

    def budget_now(self) -> Budget:
        """Return the power limit of this moment."""
        return schedule.budget_now(self.state.spec, self.tools.now(), self.tools.site.asked.max_watts)

    def set_guard(self) -> None:
        """Let the guard keep the limit of what is done now."""
        limits = self.state.spec.limits
        if limits.guard_window_seconds != self.guard.window_s:
            was_lowered, self.guard = self.guard.lowered, Guard(limits.guard_window_seconds)
            if was_lowered:
                self.guard.keep_lowered(self.tools.clock())
        self.guard.set_limits(self.guarded_w, self.hard_limit_w, self._is_peak)

    @property
    def ceiling(self) -> Ceiling:
        """Return what the chosen mode has to keep now."""
        return self.ceiling_of(self.budget.power_w)

    def ceiling_of(self, limit_w: float | None) -> Ceiling:
        """Return what a mode has to keep under a limit, by the job's statistic."""
        return Ceiling(limit_w, self._is_peak, self.hard_limit_w)

    @property
    def _is_peak(self) -> bool:
        return self.state.spec.limits.power_statistic is PowerStatistic.PEAK

    def out_of_reach(self, words: str) -> str:
        """Set the condition of a budget that no mode keeps, and return its reason: for good, or for a while.

        What is lower than the job's own limit (a schedule, what the site delivers) will be raised again.
        """
        base_w, limit_w, hard_w = self.state.spec.limits.power_watts, self.budget.power_w, self.hard_limit_w
        lowered = limit_w is not None and (base_w is None or limit_w < base_w) and (hard_w is None or limit_w < hard_w)
        reason = "WaitingForBudget" if lowered else "BudgetUnreachable"
        if lowered:
            words += f"; it is held until the limit is above {limit_w:g} W ({self.budget.source})"
        self.condition(REACHABLE, False, reason, words)
        return reason

    def forget_verdict(self) -> None:
        """Withdraw what was judged of another limit: a verdict on this one begins anew."""
        self.state.conditions = tuple(c for c in self.state.conditions if c.type != REACHABLE)

    # Modes

    def set_mode(self, mode: PowerMode) -> Applied:
        """Apply a mode; the one way in which modes are applied."""
        applied = self.tools.board.apply(mode)
        self.tools.metrics.mode(mode, applied.ok)
        self.state.verified = applied.ok
        if applied.ok:
            self._told = ()
            self.state.mode = mode
            self.condition(MODE_APPLIED, True, "Verified", f"{mode} was read back")
            self.guard.mode_changed(self.tools.clock())
        else:
            self.condition(MODE_APPLIED, False, "ApplyFailed", applied.reason)
            self.guard.judge_anew()
        return applied

    def point(self, mode: PowerMode | None) -> Point | None:
        """Return what is known of a mode, measured before predicted."""
        return next((p for p in (*self.state.measured_points(), *self.state.points) if p.mode == mode), None)

    def within_limit(self, mode: PowerMode) -> PowerMode | None:
        """Step down from a mode that was seen to break the limit, itself or (if not measured) a mode below it."""
        found: PowerMode | None = mode
        while found is not None and self._breaks(found):
            found = one_step_lower(self.tools.board.space, found)
        return found

    def _breaks(self, mode: PowerMode) -> bool:
        limit_w, state = self.budget.power_w, self.state
        if limit_w is None:
            return False
        point, left = self.point(mode), state.left_above(limit_w)
        if mode in left or (mode in state.fresh and point is not None and not self.ceiling.holds(point, 0.0)):
            return True
        proven = [p.mode for p in state.proven_points() if self.ceiling.holds(p, 0.0)]
        # A single reading in a mode below one that was measured within the limit was noise.
        telling = [m for m in left if not any(is_within(m, safe) for safe in proven)]
        return mode not in proven and any(is_within(m, mode) for m in telling)

    @property
    def excess(self) -> float:
        """Return how many times more than is expected of it the present mode takes; 1 where that is no more than noise.

        A load beside the training, or a drift that is not corrected yet: other modes will take more, too.
        """
        point, mean_w = self.point(self.state.mode), self.guard.mean_of_mode_w
        times = 1.0 if point is None or mean_w is None else mean_w / point.power_w
        return times if times > 1.0 + FLOOR_SHARE else 1.0

    def best_of(self, points: list[Point]) -> Point | None:
        """Return the fastest point that keeps the limits of this moment, also with what is taken too much now."""
        here, mean_w = self.point(self.state.mode), self.guard.mean_of_mode_w
        if here is not None and mean_w is not None and self.excess > 1.0:
            points = [p.burdened(here.power_w, mean_w) for p in points]
        best = fastest_within(points, self.ceiling)
        return None if best is None else self.point(best.mode)

    def retreat(self, left: PowerMode | None = None, power_w: float = 0.0) -> None:
        """Go to a mode that is known to keep the limit, before anything else is thought about.

        A mode that was left at some power shows what the others may take too much now; one that covers it does.
        """
        points = self.state.proven_points()
        if left is not None:
            most_w = _most_w(left, points) or power_w
            points = [p.burdened(most_w, power_w) for p in points if not is_within(left, p.mode)]
        proven = fastest_within(points, self.ceiling_of(self.explore_w))
        safe = proven.mode if proven is not None else self.state.start
        if safe is not None and safe != self.state.mode:
            self.set_mode(safe)

    def retreat_from(self, outcome: Outcome) -> None:
        """Go back after a visit that measured nothing; from one that broke a limit, with what it showed."""
        guard, now_s, sample = self.guard, self.tools.clock(), outcome.sample
        if outcome.verdict is Verdict.UNSAFE:
            guard.broke(now_s)
        if not guard.is_broken(now_s):
            self.retreat()
        elif sample is not None:
            self.retreat(sample.mode, sample.power_w)
        else:
            self.retreat(self.state.mode, guard.observed_w)

    def lower(self, reading: Reading) -> None:
        """The budget is broken: the fastest point that is expected to keep it, by what is observed now."""
        state, guard = self.state, self.guard
        limit_w = min((w for w in (self.guarded_w, guard.hard_limit_w) if w is not None), default=reading.power_w)
        if self._told == ("lowest", state.mode, limit_w):
            return  # every reading asks again
        current = self.point(state.mode)
        if guard.again and current is not None and guard.observed_w <= (1.0 + FLOOR_SHARE) * current.power_w:
            self._give_up(current, reading, limit_w)
        mode = self._lower_mode(reading, limit_w)
        mean = f"{guard.mean_w:.2f} W over {guard.window_s:g} s, {reading.power_w:.2f} W now, limit {limit_w:g} W"
        if mode is None or mode == state.mode:
            if not self._is_news("lowest", state.mode, limit_w):
                return
            closest = f"the closest mode is {state.mode}, {guard.mean_w:.1f} W" if state.mode else "no mode is set"
            reason = self.out_of_reach(f"{mean}: {closest}")
            self.say(Reason.GUARD, f"{reason}: {mean}, and there is no lower mode")
            return
        self.tools.metrics.guard(GuardAction.LOWER.value)
        applied = self.set_mode(mode)
        if not applied.ok and not self._is_news("failed", state.mode, limit_w):
            return
        if self.is_running and applied.ok:
            self._expect_less()
        went = f"down to {mode.human}" if applied.ok else f"{mode.human} could not be set: {applied.reason}"
        self.say(Reason.GUARD, f"{mean}: {went}", mode=str(mode))

    def stay_down(self, because: str) -> None:
        """Keep the mode of less power that was gone back to, as if the guard had set it."""
        self._expect_less()
        self.guard.keep_lowered(self.tools.clock())
        self.say(Reason.GUARD, because)

    def _expect_less(self) -> None:
        state = self.state
        state.lowered_from = state.lowered_from or state.chosen
        state.chosen = self.point(state.mode)  # what is expected from now on, and what a restart goes back to
        self.drift.expect(state.chosen)

    def _is_news(self, *what: object) -> bool:
        told, self._told = self._told, what
        return told != what

    def _give_up(self, point: Point, reading: Reading, limit_w: float) -> None:
        """This mode takes what was measured, and that is too close: it broke the limit again after the quiet time.

        Power far above what was measured is a passing load or a drift, which cost no mode.
        """
        power_w = self.guard.observed_w if self.guard.observed_w > limit_w else reading.power_w
        batch_size = self.state.spec.workload.batch_size
        peak_w = max(power_w, reading.power_w)
        seen = Sample(point.mode, point.step_s, power_w, batch_size, power_peak_w=peak_w, unsafe=True)
        self.state.reports.append(Told(point.mode, None, seen, GUARD_NOISE))
        self.state.fresh.add(point.mode)
        self.say(Reason.GUARD, f"{point.mode.human} broke the limit twice and was given up", mode=str(point.mode))

    def _lower_mode(self, reading: Reading, limit_w: float) -> PowerMode | None:
        """Return the fastest mode that is expected to keep the limit by what is observed now, else the lowest.

        Every mode that is returned takes less than the one before as far as anything is known, else it is nowhere
        above it: however often the guard asks, it ends at the lowest.
        """
        now, left = self.state.mode, self.state.left_above(limit_w)
        if now is None:
            return self.state.start
        known = {p.mode: p for p in (*self.state.points, *self.state.measured_points())}
        most_w = _most_w(now, known.values())
        if most_w is not None:
            points = [p for p in known.values() if p.power_w < most_w]
        else:
            points = [p for p in known.values() if p.mode != now and is_within(p.mode, now)]
        here_w = known[now].power_w if now in known else most_w
        if here_w is not None:
            observed_w = self._observed_w(here_w, known.get(now), reading)
            points = [p.burdened(here_w, observed_w) for p in points]
        kept = [p for p in points if p.mode not in left]
        target = fastest_within(kept, self.ceiling_of(MARGIN * limit_w)) or lowest(points)
        if target is not None:
            return target.mode
        if self.state.start is not None and self.state.start != now and is_within(self.state.start, now):
            return self.state.start
        return one_step_lower(self.tools.board.space, now)

    def _observed_w(self, expected_w: float, point: Point | None, reading: Reading) -> float:
        """Return what the present mode takes; a reading beyond the usual peaks is the first of a new level."""
        usual_w = expected_w * (ASSUMED_PEAK_FACTOR if point is None else point.peak_factor)
        observed_w = self.guard.observed_w
        return max(observed_w, reading.power_w) if reading.power_w > usual_w else observed_w

    # Planner

    def ask(self, want: str) -> None:
        """Ask the planner; an earlier question that is still open no longer counts."""
        state, board = self.state, self.tools.board
        self.number = next(NUMBERS)
        self.want = want
        asked = request(
            want,
            state.spec,
            board.space,
            state.reports,
            power_w=self.budget.power_w,
            explore_w=self.explore_w,
            hard_limit_w=self.hard_limit_w,
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


def _least(*watts: float | None) -> float | None:
    """Return the lowest of the limits that there are."""
    return min((w for w in watts if w is not None), default=None)


def _most_w(mode: PowerMode, points: Iterable[Point]) -> float | None:
    """Return what a mode takes at most: the least that is known of itself or of a mode that is nowhere below it."""
    return min((point.power_w for point in points if is_within(mode, point.mode)), default=None)
