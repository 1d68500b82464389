"""The conditions of a TrainingJob, and the Events that their changes are worth."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from powertrain.api.v1alpha1 import (
    Condition,
    ConditionStatus,
    Phase,
    SessionStatus,
    TrainingJobStatus,
    find,
    with_condition,
)
from powertrain_operator.attempts import ReplicaView
from powertrain_operator.plan import Announce, EventType
from powertrain_operator.profiles.matching import Object

ADMITTED, PROFILED, MODE_APPLIED = "Admitted", "Profiled", "ModeApplied"
BUDGET_MET, COMPLETE, DEGRADED, LIMITED = "BudgetMet", "Complete", "Degraded", "LimitedByPolicy"
# Whether the PowerBudgets of its boards have watts for it; absent where there are none.
POWERED = "Powered"
# Whether the trainings compute on the GPU; absent where no training has said so.
USES_GPU = "UsesGPU"
# What is only under way is no warning.
_UNDER_WAY = ("NotVerified", "Profiling", "SharePending")
# What every job begins with.
_AT_FIRST = (MODE_APPLIED, "NotVerified")
# What every job comes to if nothing is wrong: the condition says it, and the Event about the chosen mode follows.
_AS_EXPECTED = ((MODE_APPLIED, "Verified"), (BUDGET_MET, "Kept"), (POWERED, "SharesGiven"), (USES_GPU, "OnGPU"))
# For these, True is the bad news.
_BAD_IF_TRUE = (DEGRADED, LIMITED)
# Conditions of a session that a job is worse for: the condition of the agent, and the word for the job.
_AGENT_TROUBLE = (("StepSignal", "NoStepSignal"), ("PowerSensor", "SensorLost"), ("ModeApplied", "ApplyFailed"))

ON_CPU_ADVICE = (
    "computes on the CPU: set `runtimeClassName: nvidia`, use an image whose PyTorch is built for the board's release "
    "of Jetson Linux, and move the model to 'cuda'; if it should use the CPU, set POWERTRAIN_EXPECT_CPU=1"
)


class Conditions:
    """Collects conditions; what changed becomes an Event."""

    def __init__(self, status: TrainingJobStatus, generation: int, now: datetime) -> None:
        self._before = status.conditions
        self._generation = generation
        self._now = now
        self.conditions = status.conditions

    def set(self, type_: str, holds: bool | None, reason: str, message: str = "") -> None:
        """Set a condition."""
        self.conditions = with_condition(
            self.conditions, type_, holds, reason, message, at=self._now, generation=self._generation
        )

    def withdraw(self, type_: str) -> None:
        """Remove a condition that nobody can evaluate any more."""
        self.conditions = tuple(c for c in self.conditions if c.type != type_)

    def announcements(self, regarding: Object) -> list[Announce]:
        """Return an Event for every verdict that is new or has another reason, and is not what every job comes to."""
        order = [ADMITTED, POWERED, LIMITED, MODE_APPLIED, PROFILED, BUDGET_MET, USES_GPU, DEGRADED, COMPLETE]
        was_profiled = find(self._before, PROFILED) is not None
        changed = [c for c in self.conditions if _is_news(find(self._before, c.type), c, was_profiled)]
        changed.sort(key=lambda c: order.index(c.type) if c.type in order else len(order))
        return [Announce(regarding, _event_type(c), c.reason, c.message or f"{c.type}: {c.reason}") for c in changed]


def is_quiet(condition: Condition) -> bool:
    """Say whether a verdict only says that nothing is wrong, or nothing yet; news only after it was another one."""
    if condition.status is ConditionStatus.UNKNOWN or (condition.type, condition.reason) == _AT_FIRST:
        return True
    return condition.type in _BAD_IF_TRUE and condition.status is ConditionStatus.FALSE


def is_expected(condition: Condition) -> bool:
    """Say whether a verdict is what every job comes to if nothing is wrong; news only after it was another one."""
    return (condition.type, condition.reason) in _AS_EXPECTED


def _is_news(before: Condition | None, after: Condition, was_profiled: bool) -> bool:
    if after.status is ConditionStatus.UNKNOWN:
        return False
    if is_quiet(after):
        return before is not None and before.status is ConditionStatus.TRUE
    if is_expected(after):
        return before is not None and before.status is ConditionStatus.FALSE and (was_profiled or not is_quiet(before))
    if before is None:
        return True
    return (before.status, before.reason) != (after.status, after.reason)


def _event_type(condition: Condition) -> EventType:
    bad = (condition.status is ConditionStatus.TRUE) == (condition.type in _BAD_IF_TRUE)
    return "Warning" if bad and condition.reason not in _UNDER_WAY else "Normal"


def evaluate_sessions(conditions: Conditions, views: Sequence[ReplicaView]) -> None:
    """Set what follows from the agents' reports: mode applied, profiled, budget kept."""
    reports = [view.report for view in views]
    applied = [r is not None and r.verified and r.gate_open for r in reports]
    where = ", ".join(f"{v.node.name}: {v.report.mode}" for v in views if v.report and v.report.mode)
    if all(applied):
        conditions.set(MODE_APPLIED, True, "Verified", where)
    elif any(r is not None and r.phase is not Phase.ENDED for r in reports):
        missing = ", ".join(v.node.name for v, ok in zip(views, applied, strict=True) if not ok)
        conditions.set(MODE_APPLIED, False, "NotVerified", f"no safe mode is verified yet on {missing}")
    if reports and all(r is not None and r.phase is Phase.RUNNING for r in reports):
        conditions.set(PROFILED, True, "Chosen", "; ".join(_chosen_words(v) for v in views))
    elif any(r is not None and r.phase is Phase.PROFILING for r in reports):
        conditions.set(PROFILED, False, "Profiling", _profiling(views))
    _evaluate_budget(conditions, views)
    _evaluate_gpu(conditions, views)


def _chosen_words(view: ReplicaView) -> str:
    return f"{view.node.name}: {view.report.message}" if view.report else view.node.name


def _profiling(views: Sequence[ReplicaView]) -> str:
    parts = []
    for view in views:
        if view.report is not None and view.report.phase is Phase.PROFILING:
            planned = f" of at most {view.report.profiling.planned}" if view.report.profiling.planned else ""
            parts.append(f"{view.node.name} tries power modes{planned}")
    return "; ".join(parts)


def _evaluate_budget(conditions: Conditions, views: Sequence[ReplicaView]) -> None:
    """What an agent says about limits that were changed since is no news."""
    if not all(view.up_to_date for view in views):
        return
    reports = [(v.node.name, c) for v in views if v.report and (c := find(v.report.conditions, "BudgetReachable"))]
    unreachable = [(name, c) for name, c in reports if c.status is ConditionStatus.FALSE]
    if unreachable:
        final = any(c.reason != "WaitingForBudget" for _, c in unreachable)
        reason = "BudgetUnreachable" if final else "WaitingForBudget"
        conditions.set(BUDGET_MET, False, reason, "; ".join(f"{name}: {c.message}" for name, c in unreachable))
    elif reports and len(reports) == len(views):
        conditions.set(BUDGET_MET, True, "Kept", "; ".join(f"{name}: {c.message}" for name, c in reports))


def _evaluate_gpu(conditions: Conditions, views: Sequence[ReplicaView]) -> None:
    """Say whether the trainings use the GPU; only a training whose SDK checks it says so."""
    reports = [(v.node.name, c) for v in views if v.report and (c := find(v.report.conditions, USES_GPU))]
    on_cpu = [name for name, c in reports if c.status is ConditionStatus.FALSE]
    if on_cpu:
        conditions.set(USES_GPU, False, "OnCPU", f"the training on {', '.join(on_cpu)} {ON_CPU_ADVICE}")
    elif reports and len(reports) == len(views):
        conditions.set(USES_GPU, True, "OnGPU", "every replica computes on the GPU")
    elif not reports and all(view.report for view in views):
        conditions.withdraw(USES_GPU)  # of an earlier attempt


def trouble(report: SessionStatus | None) -> tuple[str, str] | None:
    """Return what an agent says is wrong with a session, as reason and words; None if nothing is."""
    if report is None:
        return None
    for type_, reason in _AGENT_TROUBLE:
        condition = find(report.conditions, type_)
        if condition is not None and condition.status is ConditionStatus.FALSE:
            return reason, condition.message
    return None
