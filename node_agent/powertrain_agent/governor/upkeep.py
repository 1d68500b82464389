"""Upkeep of a running session: checks of predicted-better modes, drift, validation, and a limit that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from powertrain.api.v1alpha1 import Phase, Reason, When
from powertrain_agent.governor.front import fastest_within
from powertrain_agent.governor.revisit import Round
from powertrain_agent.governor.visit import Purpose, Visit
from powertrain_agent.governor.windows import Outcome, Verdict

if TYPE_CHECKING:
    from powertrain_agent.governor.course import Course

DRIFT = "Drift"


class Upkeep:
    """What happens to a chosen mode as time goes by."""

    def __init__(self, course: Course) -> None:
        self.round: Round | None = None
        self._course, self._helm = course, course.helm
        self._validated_s = course.tools.clock()

    def tick(self, now_s: float) -> None:
        """Begin what is due while the chosen mode runs."""
        helm, state, settings = self._helm, self._helm.state, self._helm.tools.settings
        running_since_s = self._course.running_since_s
        if not helm.is_running or running_since_s is None or state.spec.plan.when is When.OFFLINE:
            return
        every_s = state.spec.plan.validate_every_seconds
        if helm.drift.shifted is not None:
            self._revisit(f"{helm.drift.shifted.text} against what was measured")
        elif every_s is not None and now_s - self._validated_s >= every_s:
            self._revisit(f"validated every {every_s:g} s")
        elif state.checks < settings.checks and now_s - running_since_s >= settings.check_after_s:
            state.checks += 1
            if not helm.guard.lowered:
                helm.ask("check")

    # Drift and validation

    def _revisit(self, because: str) -> None:
        helm = self._helm
        self._validated_s = helm.tools.clock()
        if helm.drift.shifted is not None:
            helm.condition(DRIFT, True, "Shifted", because)
        state = helm.state
        kept = [p for p in state.proven_points() if p.mode == state.mode or helm.ceiling.holds(p, 0.0)]
        self.round = Round.over(kept, state.mode, helm.budget.power_w, len(state.reports))
        helm.say(Reason.DRIFT, f"{because}: {len(self.round.todo)} points are measured again")
        self._next_of_round(self.round)

    def _next_of_round(self, due: Round) -> None:
        if due.todo:
            point = due.todo[0]
            self._course.set_out(point.mode, Purpose.DRIFT, "measured again", point.step_s)
            return
        helm, self.round = self._helm, None
        state = helm.state
        state.reports = due.corrected(state.reports)
        state.corrections += bool(due.factors)
        relative = bool(due.factors) and not due.uniform
        if relative:
            state.extra += helm.tools.settings.extension_modes
            state.phase = Phase.PROFILING
        helm.condition(DRIFT, False, "Corrected" if due.factors else "NotMeasured", due.verdict)
        helm.say(Reason.DRIFT, f"{due.verdict}: the profile is corrected")
        helm.ask("ask" if relative else "choose")

    def revisited(self, visit: Visit, outcome: Outcome) -> None:
        """Take the result of one point of the round."""
        if self.round is None:
            return
        point = self.round.todo.pop(0)
        if outcome.verdict is Verdict.MEASURED and outcome.sample is not None:
            self.round.seen(point, outcome.sample)
        self._next_of_round(self.round)

    # The limit of the moment

    def follow_budget(self) -> None:
        """A lower limit is kept at once; a higher one is used at once as far as it is proven, then explored."""
        helm, state = self._helm, self._helm.state
        before, helm.budget = helm.budget, helm.budget_now()
        limit_w = helm.budget.power_w
        if before.power_w == limit_w:
            self._follow_exploration()
            return
        helm.tools.metrics.budget(limit_w)
        helm.set_guard()
        helm.forget_verdict()
        change = f"the limit changes: {_watts(before.power_w)} → {_watts(limit_w)} ({helm.budget.source})"
        raised = before.power_w is not None and (limit_w is None or limit_w > before.power_w)
        if not self._course.sensor.is_blind and not self._course.step_seen and self._course.climb.begun:
            self._course.climb.follow(raised, change)
            return
        waits = state.phase not in (Phase.RUNNING, Phase.PROFILING) or not self._course.step_seen
        if waits or self._course.sensor.is_blind:
            helm.say(state.reason, change)
            return
        self._course.drop_visit("the limit changes")
        if raised:
            state.extra += helm.tools.settings.extension_modes
        proven = fastest_within(state.proven_points(), helm.ceiling)
        profiling = state.phase is Phase.PROFILING
        if proven is not None:
            self._course.run(proven, Reason.SCHEDULE, change)
        else:
            helm.retreat()
            helm.say(Reason.SCHEDULE, change)
        if self._course.hold.on:
            return
        if profiling or raised:
            state.phase = Phase.PROFILING
        helm.ask("ask" if profiling or raised else "choose")

    def _follow_exploration(self) -> None:
        """The limit of tried modes has fallen alone: what is tried above it is left at once."""
        helm, visit = self._helm, self._course.visit
        if helm.guard.limit_w != helm.guarded_w:
            helm.set_guard()
        limit_w = helm.explore_w
        if visit is None or limit_w is None or (visit.limit_w is not None and visit.limit_w <= limit_w):
            return
        change = f"the limit of tried modes changes: {_watts(visit.limit_w)} → {_watts(limit_w)}"
        self._course.drop_visit(change)
        helm.retreat()
        helm.set_guard()
        helm.say(Reason.SCHEDULE, change)
        helm.ask("ask" if helm.state.phase is Phase.PROFILING else "choose")


def _watts(power_w: float | None) -> str:
    return "no limit" if power_w is None else f"{power_w:g} W"
