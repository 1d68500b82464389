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
        self._ceiling = self._helm.ceiling

    def tick(self, now_s: float) -> None:
        """Begin what is due while the chosen mode runs."""
        helm, state, settings = self._helm, self._helm.state, self._helm.tools.settings
        running_since_s = self._course.running_since_s
        if not helm.is_running or running_since_s is None or state.spec.plan.when is When.OFFLINE:
            return
        if helm.guard.is_broken(now_s):
            # Above the limit nothing can be measured within it; what has drifted will still have done so afterwards.
            helm.drift.expect(helm.drift.expected)
            return
        every_s = state.spec.plan.validate_every_seconds
        if helm.drift.shifted is not None:
            self._revisit(f"{helm.drift.shifted.text} against what was measured")
        elif every_s is not None and now_s - self._validated_s >= every_s:
            self._revisit(f"validated every {every_s:g} s")
        elif helm.guard.lowered:
            return
        elif state.checks < settings.checks and now_s - running_since_s >= settings.check_after_s:
            state.checks += 1
            helm.ask("check")

    # Back up

    def go_up(self, now_s: float) -> None:
        """The guard was quiet for long enough: go back up, unless the present mode shows that it would break again."""
        helm, course = self._helm, self._course
        because = f"quiet for {helm.guard.quiet_s:.0f} s: is a faster mode possible again?"
        if helm.want is not None or not self._has_room():
            helm.guard.keep_lowered(now_s)
        elif course.hold.on:
            before = helm.state.lowered_from
            best = before if before is None or helm.ceiling.holds(before) else helm.best_of(helm.state.proven_points())
            if best is not None:
                course.run(best, Reason.HOLD, f"quiet for {helm.guard.quiet_s:.0f} s: as before, held by the plan")
        elif course.step_seen:
            helm.say(helm.state.reason, because)
            helm.ask("choose")
        else:
            helm.say(helm.state.reason, because)
            course.climb.again(Reason.NO_STEP_SIGNAL, because)

    def _has_room(self) -> bool:
        """Say whether what would be chosen keeps the limits also with what the present mode takes too much."""
        helm, excess = self._helm, self._helm.excess
        fastest = fastest_within(helm.state.proven_points() or helm.state.points, helm.ceiling)
        return excess == 1.0 or fastest is None or helm.ceiling.holds(fastest.scaled(1.0, excess), 0.0)

    # Drift and validation

    def _revisit(self, because: str) -> None:
        helm = self._helm
        self._validated_s = helm.tools.clock()
        if helm.drift.shifted is not None:
            helm.condition(DRIFT, True, "Shifted", because)
        state, excess, present = helm.state, helm.excess, helm.point(helm.state.mode)
        holds = [p for p in state.proven_points() if helm.ceiling.holds(p.scaled(1.0, excess), 0.0)]
        kept = [p for p in holds if p.mode != state.mode]
        if present is not None:
            kept.append(present)  # also one that was only predicted so far
        self.round = Round.over(kept, state.mode, helm.budget.power_w, len(state.reports))
        self.round.excess = excess
        helm.say(Reason.DRIFT, f"{because}: {len(self.round.todo)} points are measured again")
        self._next_of_round(self.round)

    def _next_of_round(self, due: Round) -> None:
        helm, state = self._helm, self._helm.state
        # With what was seen so far, a point would break the limit, for nothing: the shift is known.
        due.todo = [p for p in due.todo if p.mode == state.mode or helm.ceiling.holds(p.scaled(1.0, due.excess), 0.0)]
        if due.todo:
            point = due.todo[0]
            self._course.set_out(point.mode, Purpose.DRIFT, "measured again", point.step_s)
            return
        self.round = None
        due.close()
        state.reports = due.corrected(state.reports)
        state.corrections += bool(due.factors)
        relative = bool(due.factors) and not due.uniform
        if relative:
            state.extra += helm.tools.settings.extension_modes
            state.phase = Phase.PROFILING
        helm.condition(DRIFT, False, "Corrected" if due.factors else "NotMeasured", due.verdict)
        if due.broken and not due.factors:
            helm.stay_down(f"{due.verdict}, because of power above the limit: a mode of less power is kept")
            return
        helm.say(Reason.DRIFT, f"{due.verdict}: the profile is corrected")
        helm.ask("ask" if relative else "choose")

    def revisited(self, visit: Visit, outcome: Outcome) -> None:
        """Take the result of one point of the round."""
        if self.round is None:
            return
        point = self.round.todo.pop(0)
        if outcome.verdict is Verdict.MEASURED and outcome.sample is not None:
            proven = any(p.mode == point.mode for p in self._helm.state.proven_points())
            self.round.seen(point, outcome.sample, proven)
            if not proven:
                self._course.tell(visit, outcome)
        elif outcome.verdict is Verdict.UNSAFE and outcome.sample is not None:
            self.round.broke(point, outcome.sample)
        self._next_of_round(self.round)

    # The limit of the moment

    def follow_budget(self) -> None:
        """A lower limit is kept at once; a higher one is used at once as far as it is proven, then explored."""
        helm, state = self._helm, self._helm.state
        before, helm.budget = helm.budget, helm.budget_now()
        was, self._ceiling = self._ceiling, helm.ceiling
        limit_w, same = helm.budget.power_w, before.power_w == helm.budget.power_w
        # A lower limit of single readings is kept by the guard at the first of them.
        if same and not _is_raised(was.reading_w, helm.ceiling.reading_w):
            self._follow_exploration()
            return
        helm.tools.metrics.budget(limit_w)
        helm.set_guard()
        helm.forget_verdict()
        change = f"the limit changes: {_watts(before.power_w)} → {_watts(limit_w)} ({helm.budget.source})"
        if same:
            change = f"the limit of readings changes: {_watts(was.reading_w)} → {_watts(helm.ceiling.reading_w)}"
        raised = same or _is_raised(before.power_w, limit_w)
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
        proven, lowered_from = helm.best_of(state.proven_points()), state.lowered_from
        exceeds = helm.guard.lowered and helm.excess > 1.0
        profiling = state.phase is Phase.PROFILING
        if proven is None or proven.mode != state.mode:
            state.checks = 0  # what promised to be better was checked under the other limit
        if proven is not None:
            self._course.run(proven, Reason.SCHEDULE, change)
            state.lowered_from = lowered_from if helm.guard.lowered else None
        else:
            helm.retreat(*((state.mode, helm.guard.observed_w) if exceeds else ()))
            helm.say(Reason.SCHEDULE, change)
        if self._course.hold.on or (exceeds and not profiling):
            return  # nothing is tried; by what was measured without the load, a choice would break the limit
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


def _is_raised(before_w: float | None, now_w: float | None) -> bool:
    return before_w is not None and (now_w is None or now_w > before_w)


def _watts(power_w: float | None) -> str:
    return "no limit" if power_w is None else f"{power_w:g} W"
