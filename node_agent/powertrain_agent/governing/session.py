"""What a session knows, whatever state it is in; and the facts of the moment at which it decides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from powertrain import ModeSpace
from powertrain.api.v1alpha1 import NodePolicy, Phase
from powertrain.profiling.history import ModeReport
from powertrain_agent.governing import schedule
from powertrain_agent.governing.budget_guard import Guard
from powertrain_agent.governing.drift import DriftWatch
from powertrain_agent.governing.limits import MomentLimits
from powertrain_agent.governing.mean_watch import MeanWatch
from powertrain_agent.governing.plausibility import Plausibility
from powertrain_agent.governing.record import SessionRecord
from powertrain_agent.governing.schedule import Budget
from powertrain_agent.governing.settings import SessionSettings
from powertrain_agent.governing.status import ResultOf
from powertrain_agent.planning.front import Ceiling
from powertrain_agent.site import POLICY_SOURCE
from powertrain_agent.telemetry import Reading


@dataclass(frozen=True)
class BoardFacts:
    """What is true of the board for as long as a session lasts."""

    space: ModeSpace
    boot_id: str
    device: str | None = None
    descending_only: bool = False


@dataclass(frozen=True)
class Facts:
    """What is true at the moment of an event."""

    now_s: float
    now: datetime
    policy: NodePolicy  # whose watts hold at once, with the board's share of a PowerBudget in them
    hard_limit_w: float | None  # of single readings, by the job, the site and the supply
    in_force: NodePolicy  # whose other rules hold since no session ran
    site_source: str = POLICY_SOURCE  # where the site's watts come from
    planner_busy: bool = False
    last_reading: Reading | None = None  # before this event
    guarded_s: float | None = None  # when a reading was taken to its end for the last time
    sensor_failure: str = ""  # why the last reading gave nothing
    clock_doubt: str = ""  # why the time of day can't be trusted
    supply_alarm: str = ""  # which alarm of the supply holds the power down
    loop_failure: str = ""  # what failed in the agent within the last minute
    may_admit: bool = True  # a pod that comes now would be known
    gate_is_open: bool | None = None  # None: nobody has looked
    fan_maximum: bool | None = None  # None: the fan is as it was found


@dataclass
class Session:
    """The memory of one session. `record` survives a restart of the agent, the rest is seen again."""

    record: SessionRecord
    board: BoardFacts
    settings: SessionSettings
    budget: Budget
    ceiling: Ceiling  # as it was when the budget was looked at last
    guard: Guard
    watch: MeanWatch
    drift: DriftWatch = field(default_factory=DriftWatch)
    plausibility: Plausibility = field(default_factory=Plausibility)
    was_silent: bool = False  # the sensor gave nothing, in this run of the agent; else it was wrong, or nobody knows
    is_trying: bool = False
    step_seen: bool = False
    step_s: float | None = None  # of the last steps that were seen
    latest_step_s: float | None = None  # … or measured: told of a mode that is left before its own steps are known
    uses_gpu: bool | None = None  # as the training says; None: it has not said
    gate_opened_s: float | None = None
    running_since_s: float | None = None
    validated_s: float = 0.0
    watched_since_s: float | None = None
    saved_s: float = 0.0
    failed_confirmations: int = 0
    periods: int = 1  # of the sensor, that the last reading stands for
    unlowered: tuple[object, ...] = ()  # why the guard could not lower the mode; every reading would say so again
    result_of: ResultOf = field(default_factory=ResultOf)

    @classmethod
    def of(cls, record: SessionRecord, board: BoardFacts, settings: SessionSettings, facts: Facts) -> Session:
        """Return the memory of a session that begins, or is taken up again."""
        spec, policy = record.spec, facts.policy
        budget = schedule.budget_now(spec, facts.now, policy.max_watts, facts.clock_doubt, facts.site_source)
        limits = MomentLimits(spec, policy, budget, facts.hard_limit_w, record.phase is Phase.RUNNING, False)
        guard = Guard(spec.limits.guard_window_seconds, policy.guard_window_seconds)
        guard.set_limits(limits.guarded_w, limits.hard_w, limits.is_peak, limits.site_w)
        session = cls(
            record,
            board,
            settings,
            budget,
            limits.ceiling,
            guard,
            MeanWatch(settings.period_s),
            latest_step_s=record.samples[-1].step_s if record.samples else None,
            validated_s=facts.now_s,
            saved_s=facts.now_s,
        )
        session.set_apart()
        if record.mode is not None:
            session.plausibility.mode_changed(facts.now_s, record.mode)
        session.learn(report for report in record.reports if report.mode in record.fresh)
        return session

    def set_apart(self) -> None:
        """Note which modes of a profile can't be set here: the site's floor is above them."""
        outside = {report.mode for report in self.record.reports if report.mode not in self.board.space}
        self.record.outside = frozenset(outside)

    def learn(self, reports: Iterable[ModeReport]) -> None:
        """Note what was measured of this training on this board: later readings are compared with it."""
        for sample in (report.sample for report in reports if report.sample is not None and not report.sample.unsafe):
            self.plausibility.response.knows(sample.mode, sample.power_w, sample.step_s)
