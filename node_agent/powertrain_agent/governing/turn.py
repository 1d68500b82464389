"""A turn: one event's worth of deciding. It knows the session and the facts, and collects commands in their order.

A decision that needs the result of a command awaits it: `await turn.apply(mode)`. No event loop is involved: `decide`
in `machine.py` runs the decision until it waits, hands the commands out, and goes on when the result comes as an event.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator
from typing import Any, Generic, TypeVar, cast

from powertrain import PowerMode
from powertrain.api.conditions import with_condition
from powertrain.api.v1alpha1 import Phase, ProfilingCaution, Reason, SessionSpec
from powertrain_agent.governing.budget_guard import Guard
from powertrain_agent.governing.commands import ApplyMode, AskPlanner, Command, Inspect, Publish, RestPlanner, Save, Say
from powertrain_agent.governing.drift import DriftWatch
from powertrain_agent.governing.events import Inspected, ModeApplied
from powertrain_agent.governing.limits import MomentLimits
from powertrain_agent.governing.mean_watch import MeanWatch
from powertrain_agent.governing.record import SessionRecord
from powertrain_agent.governing.session import Facts, Session
from powertrain_agent.governing.settings import SessionSettings
from powertrain_agent.governing.states import Planning
from powertrain_agent.governing.status import bare_status, status_of
from powertrain_agent.planning.asking import plan_request
from powertrain_agent.planning.messages import Question
from powertrain_agent.telemetry import Reading

MODE_APPLIED, REACHABLE, PROFILED, STEADY = "ModeApplied", "BudgetReachable", "Profiled", "LoadSteady"
APPLY_FAILED = "ApplyFailed"
UNKNOWN_LEFT_S, LEAST_LEFT_S = 4 * 3600.0, 300.0
NUMBERS = itertools.count(1)  # of requests: a late answer to a session before must not pass for this one's
R = TypeVar("R")


class _Result(Generic[R]):
    """Waits for the result of the last command."""

    def __await__(self) -> Generator[None, Any, R]:
        result = yield
        return cast("R", result)


class Turn:
    """What every part of a decision works with. Every decision is one log line and the status' message."""

    def __init__(self, session: Session, facts: Facts) -> None:
        self.session, self.facts = session, facts
        self.commands: list[Command] = []
        self.reading = facts.last_reading

    # What is known

    @property
    def record(self) -> SessionRecord:
        """Return what survives a restart."""
        return self.session.record

    @property
    def spec(self) -> SessionSpec:
        """Return the envelope."""
        return self.session.record.spec

    @property
    def settings(self) -> SessionSettings:
        """Return the session's numbers."""
        return self.session.settings

    @property
    def guard(self) -> Guard:
        """Return the budget guard."""
        return self.session.guard

    @property
    def watch(self) -> MeanWatch:
        """Return what is known of the last readings, against the mean limits of this moment."""
        self.session.watch.keep(*self.limits.means)
        return self.session.watch

    @property
    def by_ledger(self) -> bool:
        """Say whether a ledger keeps the limit while modes are tried; else every reading has to keep it.

        A board that only lowers its clocks can't come back from a rest.
        """
        limits, normal = self.limits, self.spec.plan.caution is ProfilingCaution.NORMAL
        return normal and limits.is_mean and bool(limits.means) and not self.session.board.descending_only

    @property
    def drift(self) -> DriftWatch:
        """Return the watch for drift."""
        return self.session.drift

    @property
    def now_s(self) -> float:
        """Return the time."""
        return self.facts.now_s

    @property
    def is_running(self) -> bool:
        """Say whether a mode was chosen and is in force."""
        return self.record.phase is Phase.RUNNING

    @property
    def is_held(self) -> bool:
        """Say whether the plan holds the session."""
        return self.spec.plan.hold

    @property
    def limits(self) -> MomentLimits:
        """Return the limits of this moment."""
        session, facts = self.session, self.facts
        running, trying = self.is_running, session.is_trying
        return MomentLimits(self.spec, facts.policy, session.budget, facts.hard_limit_w, running, trying)

    # Commands with a result

    async def apply(self, mode: PowerMode) -> ModeApplied:
        """Set a mode; the one way in which modes are set."""
        self.commands.append(ApplyMode(mode))
        applied = await _Result[ModeApplied]()
        self.record.verified = applied.ok
        if applied.ok:
            self.session.unlowered = ()
            self.record.mode = mode
            self.condition(MODE_APPLIED, True, "Verified", f"{mode} was read back")
            self.withdraw(REACHABLE, APPLY_FAILED)
            self.guard.mode_changed(self.now_s)
            self.session.plausibility.mode_changed(self.now_s, mode)
            self.session.watch.mode_changed()
        else:
            self.condition(MODE_APPLIED, False, APPLY_FAILED, applied.reason)
            if self.record.mode is not None:  # before the first mode nothing trains, and nothing is judged
                self.condition(REACHABLE, False, APPLY_FAILED, f"{mode} could not be set, {self.record.mode} stays")
            self.guard.judge_anew()
        return applied

    async def apply_unless_set(self, mode: PowerMode | None) -> None:
        """Set a mode, if there is one and another is in force."""
        if mode is not None and mode != self.record.mode:
            await self.apply(mode)

    async def inspect(self, clocks_of: PowerMode | None, health: bool) -> Inspected:
        """Look at the board."""
        self.commands.append(Inspect(clocks_of, health))
        return await _Result[Inspected]()

    # Commands without

    def do(self, command: Command) -> None:
        """Have something done."""
        self.commands.append(command)

    def ask(self, question: Question) -> Planning:
        """Ask the planner; an earlier question that is still open no longer counts."""
        record, board, limits, number = self.record, self.session.board, self.limits, next(NUMBERS)
        request = plan_request(
            question,
            self.spec,
            board.space,
            record.reports,
            power_w=limits.budget.power_w,
            explore_w=limits.explore_w,
            hard_limit_w=limits.hard_w,
            rules=self.watch.rules_for(windows_to_come(self)) if self.by_ledger else None,
            strategy=record.strategy,
            device=board.device,
            descending_only=board.descending_only,
            extra_modes=record.extra,
            references=self.settings.references,
        )
        self.do(AskPlanner(number, request))
        return Planning(question, number)

    def rest_planner(self) -> None:
        """Let the planner's process end."""
        self.do(RestPlanner())

    def say(self, reason: Reason, text: str, **fields: object) -> None:
        """Note a decision: in the log, in the status, on the disk."""
        self.record.reason, self.record.message = reason, text
        self.do(Say(reason, text, fields))
        self.save()
        self.publish(urgent=True)

    def save(self) -> None:
        """Write the session to the disk, once for all that is decided now."""
        if Save() not in self.commands:
            self.do(Save())
        self.session.saved_s = self.now_s

    def publish(self, urgent: bool) -> None:
        """Report the session as it is at this point of the decision."""
        step_s, power_w = (None, None) if self.record.restored else self.observed()
        try:
            status = status_of(self.record, self.session.result_of(self.record), step_s, power_w)
        except Exception as error:  # figures that make no sense must not hold back what was decided
            self.do(Publish(bare_status(self.record), urgent, error))
            return
        self.do(Publish(status, urgent))

    def observed(self) -> tuple[float | None, float | None]:
        """Return step time and power: of the last seconds where a mode stays, else what was seen last."""
        step_s, power_w = self.session.step_s, self.reading.power_w if self.reading else None
        if self.drift.expected is not None:
            step_s = self.drift.observed()[0] or step_s
        return step_s, self.guard.mean_w if self.guard.mean_w > 0 else power_w

    # What changes in the session alone

    def condition(self, kind: str, holds: bool, reason: str, message: str) -> None:
        """Set a condition of the session."""
        self.record.conditions = with_condition(
            self.record.conditions, kind, holds, reason, message, at=self.facts.now, generation=self.spec.generation
        )

    def withdraw(self, kind: str, reason: str | None = None) -> None:
        """Take a condition back, whatever its reason or only with this one."""
        others = (c for c in self.record.conditions if c.type != kind or reason not in (None, c.reason))
        self.record.conditions = tuple(others)

    def set_guard(self) -> None:
        """Let the guard keep the limit of what is done now."""
        limits, policy = self.limits, self.facts.policy
        fresh = Guard(self.spec.limits.guard_window_seconds, policy.guard_window_seconds)
        if (fresh.window_s, fresh.site_window_s) != (self.guard.window_s, self.guard.site_window_s):
            was_lowered, self.session.guard = self.guard.lowered, fresh
            if was_lowered:
                self.guard.keep_lowered(self.now_s)
        self.guard.set_limits(limits.guarded_w, limits.hard_w, limits.is_peak, limits.site_w)
        self.guard.by_ledger = self.by_ledger
        self.guard.trying = self.by_ledger and self.session.is_trying

    def learn_load(self) -> bool:
        """Follow what was learned of the load; say whether other rules hold from now on."""
        watch = self.session.watch
        if not self.by_ledger or not watch.learn_load():
            return False
        if watch.finding.reason:
            self.condition(STEADY, False, watch.finding.reason, watch.finding.message)
        return True

    def leave_trial(self) -> None:
        """Give up what is tried: nothing of it is recorded."""
        self.session.is_trying = False

    def saw(self, reading: Reading) -> None:
        """Take a reading as the latest one."""
        self.reading = reading


def windows_to_come(turn: Turn) -> float:
    """Return how many windows of the limit the training still lasts; those of some hours where nobody knows."""
    work, record = turn.spec.workload, turn.record
    seconds, step_s = UNKNOWN_LEFT_S, turn.session.latest_step_s
    if work.epochs is not None and work.samples_per_epoch is not None and step_s is not None:
        steps = work.epochs * work.samples_per_epoch / work.batch_size - record.steps
        seconds = max(steps * step_s, LEAST_LEFT_S)
    window_s: float = turn.spec.limits.guard_window_seconds
    return seconds / window_s
