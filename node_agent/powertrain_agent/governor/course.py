"""The course of one session: start low, profile, choose, run; upkeep and fallbacks take over from there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from powertrain import PowerMode
from powertrain.api.v1alpha1 import Instrumentation, Phase, PriorMatch, Reason, SessionSpec
from powertrain.objectives import Objective
from powertrain.profiling.history import Told
from powertrain_agent.governor.events import Planned
from powertrain_agent.governor.fallbacks import STEPS, Climb, SensorWatch
from powertrain_agent.governor.front import Point, fastest_within, lowest
from powertrain_agent.governor.guard import GuardAction
from powertrain_agent.governor.helm import REACHABLE, Helm, Tools
from powertrain_agent.governor.holding import Hold
from powertrain_agent.governor.session_file import SessionState
from powertrain_agent.governor.upkeep import Upkeep
from powertrain_agent.governor.visit import Purpose, Terms, Visit
from powertrain_agent.governor.windows import Outcome, Verdict
from powertrain_agent.steps import StepsSeen
from powertrain_agent.telemetry import Reading

REASONS = {Purpose.CHECK: Reason.CHECK, Purpose.DRIFT: Reason.DRIFT, Purpose.CLIMB: Reason.NO_STEP_SIGNAL}
RETOLD = (Purpose.DRIFT, Purpose.CLIMB)  # visits that record nothing by themselves; what is unsafe is never lost
THOROUGH = ("auto", "transfer")  # learn from every sample in milliseconds; networks would be trained anew for minutes
PROFILED = "Profiled"
STEP_LOWER = "; a step lower, because it broke the limit"
KEPT = (Reason.DRIFT, Reason.SCHEDULE, Reason.GUARD)  # why a mode changed outlives the refinement of the choice


class Course:
    """Decides the mode of one session, one visit at a time."""

    def __init__(self, state: SessionState, tools: Tools) -> None:
        self.state, self.tools = state, tools
        self.helm = Helm(state, tools)
        self.visit: Visit | None = None
        self.step_seen = False
        self.gate_opened_s: float | None = None
        self.running_since_s: float | None = None
        self.upkeep = Upkeep(self)
        self.climb = Climb(self)
        self.hold = Hold(self)
        self.sensor = SensorWatch(self)
        self._failed_confirmations = 0
        self._retry: tuple[float, str] | None = None
        self._because = ""
        # Of any mode: a sample that is unsafe is told even where its own step time is not known.
        self._latest_step_s = state.samples[-1].step_s if state.samples else None

    # Begin

    def begin(self) -> None:
        """Start a new session: the safe mode first, then the gate."""
        prior = self.state.spec.prior
        if prior is not None:
            noise = None if prior.match is PriorMatch.EXACT else self.tools.settings.warm_noise
            self.state.reports = [Told(sample.mode, None, sample, noise) for sample in prior.samples.samples()]
            self.state.extra = len(self.state.reports)
            known = f"{len(self.state.reports)} modes are known from a profile ({prior.match.value})"
            self.helm.say(Reason.START, known)
        self.helm.ask("start")

    def go_on(self) -> None:
        """Take up what the session was about to do before it ran."""
        if self.state.phase is Phase.PROFILING:
            self.helm.ask("ask")
        elif self.hold.on:
            return
        elif self.step_seen:
            self.begin_profiling()
        elif self.climb.begun:
            self.climb.begin("steps are still not seen")

    def amend(self, spec: SessionSpec) -> None:
        """Take a changed envelope of the same session."""
        held, self.state.spec = self.hold.on, spec
        self.tools.save(self.state)
        self.limits_changed()
        self.hold.follow(held)
        self.tools.changed()

    def limits_changed(self) -> None:
        """Keep to the limits of this moment, the job's or the site's."""
        self.upkeep.follow_budget()
        self.helm.set_guard()

    # What happens

    def power(self, reading: Reading) -> None:
        """Take a reading: guard and visit look at it first (they leave a mode at once), then the watch for drift."""
        guard = self.helm.guard
        if self.state.mode is None:
            return  # nothing trains before the gate, and without a mode there is nothing to lower
        before = (guard.violations, guard.hard_violations)
        action = guard.power(reading)
        self.helm.count_violations(*before)
        if self.visit is not None:
            self._power_of_visit(self.visit, reading, action)
            return
        if action is GuardAction.LOWER:
            if self.helm.is_running and self.helm.want in ("choose", "check"):
                self.helm.want = None  # an answer from before would go up again; after the quiet time it is asked anew
            self.helm.lower(reading)
        elif action is GuardAction.RAISE and self.helm.is_running:
            self.upkeep.go_up(reading.at_s)
        self.helm.drift.power(reading.at_s, reading.power_w)

    def _power_of_visit(self, visit: Visit, reading: Reading, action: GuardAction) -> None:
        guard, limit_w = self.helm.guard, visit.limit_w
        if not visit.begun:
            self._begin_visit(visit)
        elif not guard.settling or limit_w is None or reading.power_w <= limit_w:
            visit.power(reading)  # else it shows the mode before, which was left for it
        if action is GuardAction.LOWER:
            visit.abort(f"the guard: {guard.mean_w:.2f} W over the window, {reading.power_w:.2f} W now")
        self._end_visit()

    def steps(self, seen: StepsSeen) -> None:
        """Take steps; the first ones begin the profiling."""
        if seen.duration_s is not None:
            self._latest_step_s = seen.duration_s / seen.count
            self.helm.drift.step(seen.at_s, seen.duration_s / seen.count)
        if self.visit is not None:
            self.visit.steps(seen)
            self._end_visit()
        first, self.step_seen = not self.step_seen, True
        if first and self.state.gate_open:
            self._first_step()

    def planned(self, event: Planned) -> None:
        """Take the planner's answer; an outdated one is ignored."""
        if event.number != self.helm.number or self.helm.want is None:
            return
        want, self.helm.want = self.helm.want, None
        if self.sensor.is_blind and want != "start":
            return  # asked again once the power is read
        if event.error is not None:
            self._plan_failed(event, want)
            return
        answer = event.answer
        for name in ("reference", "reference_version", "planned", "validation"):
            setattr(self.state, name, answer.get(name, getattr(self.state, name)))
        if answer.get("front"):
            self.state.points = [Point.from_dict(raw) for raw in answer["front"]]
        if want == "start":
            self._start(PowerMode.parse(answer["mode"]))
        elif want == "climb":
            self.climb.go([Point.from_dict(raw) for raw in answer["climb"]])
        elif want == "check" and answer["ask"] is None:
            self.state.checks = self.tools.settings.checks
            self.tools.planner.rest()
        elif want == "choose" or answer["ask"] is None:
            self._choose(answer, want)
        else:
            asked = answer["ask"]
            purpose = Purpose.CHECK if want == "check" else Purpose.PROFILE
            self.set_out(PowerMode.parse(asked["mode"]), purpose, asked["reason"], asked["step_s"])

    def tick(self, now_s: float, last_reading_s: float | None) -> None:
        """Do what time alone asks for."""
        if self._retry is not None and now_s >= self._retry[0] and self.helm.want is None:
            want, self._retry = self._retry[1], None
            self.helm.ask(want)
        if self.sensor.is_lost(now_s, last_reading_s):
            return
        self.upkeep.follow_budget()
        if self.visit is not None:
            self.visit.tick(now_s)
            self._end_visit()
        elif self.hold.on:
            return
        elif self.helm.want is None and not self.step_seen:
            self.climb.tick(now_s)
        elif self.helm.want is None:
            self.upkeep.tick(now_s)

    # Start

    def _start(self, mode: PowerMode) -> None:
        state, helm = self.state, self.helm
        state.start, state.boot_id = mode, self.tools.board.boot_id()
        applied = helm.set_mode(mode)
        if not applied.ok:
            helm.say(Reason.START, f"the safe mode could not be set, tried again soon: {applied.reason}")
            self._retry = (self.tools.clock() + self.tools.settings.retry_s, "start")
            return
        state.gate_open = True
        self.gate_opened_s = self.tools.clock()
        self.tools.open_gate(state)
        helm.say(Reason.START, f"safe mode {mode.human} verified, the gate is open")
        if self.step_seen:
            self._first_step()
        elif state.spec.workload.instrumentation is Instrumentation.NONE and not self.hold.on:
            self.climb.begin("instrumentation is None")

    def _first_step(self) -> None:
        self.drop_visit("steps are seen")
        self.helm.condition(STEPS, True, "StepsSeen", "the training counts its steps")
        if self.hold.on:
            self.helm.say(Reason.HOLD, "the first steps were seen; held by the plan at the safe start mode")
        else:
            self.begin_profiling()

    def begin_profiling(self) -> None:
        """Begin with what is known: nothing, a profile that only has to be checked, or an earlier choice."""
        state = self.state
        prior = state.spec.prior
        exact = prior is not None and prior.match is PriorMatch.EXACT and bool(state.reports)
        if exact or (state.chosen is not None and state.proven_points()):
            self.helm.ask("choose")
            return
        self._profile("the first steps were seen: profiling begins")

    def _profile(self, because: str) -> None:
        self.state.phase = Phase.PROFILING
        self.helm.condition(PROFILED, False, "InProgress", because)
        self.helm.say(Reason.PROFILING, because)
        self.helm.ask("ask")

    def _plan_failed(self, event: Planned, want: str) -> None:
        state = self.state
        state.error = event.error
        if event.answer.get("unavailable") and state.strategy != "transfer":
            instead = f"strategy {state.strategy!r} can't run here: {event.error}; 'transfer' instead"
            state.strategy = "transfer"
            self.helm.say(state.reason, instead)
            self.helm.ask(want)
            return
        self.helm.say(state.reason, f"planning failed: {event.error}")
        best = fastest_within(state.proven_points(), self.helm.ceiling)
        if best is not None:
            self.helm.condition(PROFILED, True, "PlanningFailed", event.error or "")
            self.run(best, Reason.CHOSEN, "the best measured mode; planning failed")
        else:
            self._retry = (self.tools.clock() + self.tools.settings.retry_s, want)

    # Visits

    def set_out(self, mode: PowerMode, purpose: Purpose, why: str, expected_step_s: float | None = None) -> None:
        """Visit a mode; what follows depends on the purpose."""
        settings, helm = self.tools.settings, self.helm
        limit_w = helm.explore_w
        terms = Terms(
            limit_w,
            [p.mode for p in self.state.proven_points() if helm.ceiling_of(limit_w).holds(p, 0.0)],
            self.state.spec.workload.batch_size,
            purpose is not Purpose.CLIMB,
            settings.period_s,
            settings.rules,
            lambda: self.tools.planner.busy,
        )
        helm.visiting = True
        helm.set_guard()
        helm.drift.expect(None)
        helm.say(REASONS.get(purpose, Reason.PROFILING), f"{purpose.value} {mode.human}: {why}", mode=str(mode))
        self.visit = Visit(
            mode,
            purpose,
            self.tools.board,
            terms,
            helm.set_mode,
            self.tools.clock,
            expected_step_s,
            self._latest_step_s,
        )
        self._begin_visit(self.visit)
        self._end_visit()

    def _begin_visit(self, visit: Visit) -> None:
        """Set out once the power is down again: trials that break the limit must not add up to a mean above it."""
        if not self.helm.guard.recovering:
            visit.begin(self.state.mode)

    def drop_visit(self, reason: str) -> None:
        """Give a visit up without recording anything."""
        if self.visit is not None:
            self.visit.abort(reason)
            self.visit, self.helm.visiting = None, False
        self.upkeep.round = None
        self.helm.want = None

    def _end_visit(self) -> None:
        visit = self.visit
        if visit is None or visit.outcome is None:
            return
        outcome, self.visit, self.helm.visiting = visit.outcome, None, False
        self.state.profiling_s += self.tools.clock() - visit.started_s
        self.tools.metrics.window(outcome.verdict.value, outcome.seconds)
        if outcome.verdict is not Verdict.MEASURED:
            self.helm.retreat_from(outcome)
        self.helm.set_guard()
        self._say_visit(visit, outcome)
        if visit.purpose in RETOLD and outcome.verdict is Verdict.UNSAFE:
            self.tell(visit, outcome)
        {
            Purpose.PROFILE: self._profiled,
            Purpose.CONFIRM: self._confirmed,
            Purpose.CHECK: self._checked,
            Purpose.DRIFT: self.upkeep.revisited,
            Purpose.CLIMB: self.climb.climbed,
        }[visit.purpose](visit, outcome)

    def _say_visit(self, visit: Visit, outcome: Outcome) -> None:
        sample = outcome.sample
        figures = {"powerWatts": round(sample.power_w, 2), "stepSeconds": round(sample.step_s, 5)} if sample else {}
        text = f"{visit.purpose.value} {visit.target.human} {outcome.verdict.value.lower()}: {outcome.reason}"
        self.helm.say(self.state.reason, text, mode=str(visit.target), thrownAway=visit.rejected, **figures)

    def tell(self, visit: Visit, outcome: Outcome) -> None:
        """Record what a visit found."""
        if outcome.sample is not None:
            told = Told(outcome.sample.mode, visit.target, outcome.sample, outcome.noise)
            self.state.fresh.add(outcome.sample.mode)
        else:
            told = Told(visit.target, visit.target, failure=outcome.reason)
        self.state.reports.append(told)
        self.tools.metrics.profiling(self.state.measured, self.state.planned, self.state.profiling_s)
        self.tools.save(self.state)

    def _profiled(self, visit: Visit, outcome: Outcome) -> None:
        self.tell(visit, outcome)
        self.helm.ask("ask")

    def _checked(self, visit: Visit, outcome: Outcome) -> None:
        self.tell(visit, outcome)
        self.helm.ask("choose")

    def _confirmed(self, visit: Visit, outcome: Outcome) -> None:
        """The choice was not measured in this session before: does it do what was expected?"""
        expected = self.helm.point(visit.target)
        self.tell(visit, outcome)
        if outcome.verdict is not Verdict.MEASURED:
            self._failed_confirmations += 1
        sample = outcome.sample
        if self.state.spec.prior is not None and expected is not None and expected.measured and sample is not None:
            off = max(abs(sample.step_s / expected.step_s - 1), abs(sample.power_w / expected.power_w - 1))
            if off > self.tools.settings.exact_band:
                self._demote_prior(off)
                return
        kept = sample is not None and not sample.unsafe and self.helm.ceiling.holds(Point.of(sample))
        if self.state.strategy in THOROUGH or sample is None:
            self.helm.ask("choose")
        elif not kept:
            self._take(visit.target, self._because.removesuffix(STEP_LOWER) + STEP_LOWER)
        else:
            self.helm.condition(PROFILED, True, "Complete", self._because)
            self.run(Point.of(sample, outcome.noise), Reason.CHOSEN, f"{self._because}; measured to keep the limits")

    def _demote_prior(self, off: float) -> None:
        state, noise = self.state, self.tools.settings.warm_noise
        state.reports = [t if t.mode in state.fresh else replace(t, noise=noise) for t in state.reports]
        self._profile(f"the profile does not fit ({off:.0%} off): it is only a start, profiling begins")

    # Choose and run

    def _choose(self, answer: dict[str, Any], want: str) -> None:
        choice = answer["choice"]
        done = answer.get("done") if want == "ask" else None
        because = choice["reason"] + (f" (profiling ended: {done})" if done else "")
        if choice["mode"] is None:
            self.unreachable(because)
            return
        self.state.runner_up = PowerMode.parse(choice["runner_up"]) if choice["runner_up"] else None
        self._take(PowerMode.parse(choice["mode"]), because)

    def _take(self, wanted: PowerMode, because: str) -> None:
        """Run in a mode that was measured to keep the limit; one that was not is measured first."""
        mode = self.helm.within_limit(wanted)
        if mode is None:
            self.unreachable(because)
            return
        point = self.helm.point(mode)
        limits, objective = self.state.spec.limits, self.state.spec.objective
        saves = limits.energy_joules is not None or limits.energy_joules_per_epoch is not None
        if mode != wanted and point is not None and objective is Objective.MIN_TIME and not saves:
            # A step lower was only a guess: what is proven may be faster.
            point = fastest_within([point, *self.state.proven_points()], self.helm.ceiling) or point
            mode = point.mode
        if mode not in self.state.fresh or point is None:
            if self._failed_confirmations < self.tools.settings.confirmations:
                self._because = because
                self.set_out(mode, Purpose.CONFIRM, because, point.step_s if point else None)
                return
            point = fastest_within(self.state.proven_points(), self.helm.ceiling)
            because = "predicted modes failed again and again: the best measured one"
        if point is None:
            self.unreachable(because)
            return
        self.helm.condition(PROFILED, True, "Complete", because)
        kept = self.state.reason in KEPT and self.running_since_s is not None
        self.run(point, self.state.reason if kept else Reason.CHOSEN, because)

    def run(self, point: Point, reason: Reason, because: str) -> None:
        """Train in this mode from now on."""
        state, helm = self.state, self.helm
        state.phase, state.chosen, state.lowered_from = Phase.RUNNING, point, None
        if point.mode != state.mode:
            applied = helm.set_mode(point.mode)
            if not applied.ok:
                because = f"it could not be set ({applied.reason}); it was chosen because: {because}"
        helm.set_guard()
        helm.drift.expect(point if self.step_seen else None)
        self.running_since_s = self.tools.clock()
        limit = "no limit" if helm.budget.power_w is None else f"limit {helm.budget.power_w:g} W"
        helm.condition(REACHABLE, True, "Kept", f"{point.power_w:.1f} W expected, {limit}")
        helm.say(reason, f"{point.mode.human}: {because}", mode=str(point.mode), powerWatts=round(point.power_w, 2))
        if state.checks >= self.tools.settings.checks:
            self.tools.planner.rest()

    def unreachable(self, because: str) -> None:
        """Nothing keeps the limits: stay at the least power and say so."""
        state = self.state
        known = lowest(state.proven_points())
        mode = known.mode if known is not None else state.start
        if mode is not None and mode != state.mode:
            self.helm.set_mode(mode)
        closest = f"the closest mode is {mode}" + (f", {known.power_w:.1f} W" if known is not None else "")
        state.phase, state.chosen, state.lowered_from = Phase.RUNNING, known, None
        self.running_since_s = self.tools.clock()
        self.helm.set_guard()
        self.helm.drift.expect(known if self.step_seen else None)  # what becomes less may come within reach
        reason = self.helm.out_of_reach(f"{because}: {closest}")
        if self.step_seen:
            self.helm.condition(PROFILED, True, "Complete", because)
        self.helm.say(Reason.GUARD, f"{reason}: {because}; the mode of least power is kept")
        self.tools.planner.rest()
