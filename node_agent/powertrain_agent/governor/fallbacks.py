"""What is done without a signal: no steps → a climb by power alone; no power reading → the mode of least power."""

from __future__ import annotations

from typing import TYPE_CHECKING

from powertrain.api.conditions import ConditionStatus, find
from powertrain.api.v1alpha1 import Phase, Reason
from powertrain_agent.governor.front import Point
from powertrain_agent.governor.visit import Purpose, Visit
from powertrain_agent.governor.windows import Outcome, Verdict

if TYPE_CHECKING:
    from powertrain_agent.governor.course import Course

SENSOR = "PowerSensor"
STEPS = "StepSignal"


class Climb:
    """Goes up the reference's front until the power says stop; nothing is known of the training's own speed."""

    def __init__(self, course: Course) -> None:
        self._course, self._helm = course, course.helm
        self._left: list[Point] = []
        self._climbing = False
        noted = find(course.state.conditions, STEPS)
        self._begun = noted is not None and noted.status is ConditionStatus.FALSE

    @property
    def begun(self) -> bool:
        """Say whether the training was found to count no steps, by this run of the agent or an earlier one."""
        return self._begun

    def tick(self, now_s: float) -> None:
        """Begin when steps are overdue."""
        opened_s, patience_s = self._course.gate_opened_s, self._helm.tools.settings.no_steps_s
        if not self._begun and opened_s is not None and now_s - opened_s >= patience_s:
            self.begin(f"no step within {patience_s:.0f} s")

    def begin(self, because: str) -> None:
        """Say why, and ask for the way up."""
        self._begun = self._climbing = True
        self._helm.condition(STEPS, False, "NoStepSignal", because)
        self._helm.say(Reason.NO_STEP_SIGNAL, f"NoStepSignal: {because}; climbing by power alone")
        self._helm.ask("climb")

    def again(self, reason: Reason, because: str) -> None:
        """Without steps nothing can be chosen anew: the fastest mode that the climb has proven, else the climb."""
        best = self._best()
        if best is None:
            self.begin(because)
        else:
            self._course.run(best, reason, because)

    def follow(self, raised: bool, change: str) -> None:
        """Keep to another limit at once, as far as the climb has come; a higher one is climbed on."""
        best, known, climbing = self._best(), bool(self._helm.state.points), self._climbing
        self._course.drop_visit("the limit changes")
        if best is not None:
            self._course.run(best, Reason.SCHEDULE, change)
        elif known:
            self._climbing = False
            self._course.unreachable(change)
            return
        if (raised or climbing or not known) and not self._course.hold.on:
            self.begin(change)

    def go(self, points: list[Point]) -> None:
        """Climb these points, of rising power; those that are climbed already say nothing new."""
        climbed = {point.mode for point in self._helm.state.points}
        self._left = [point for point in points if point.mode not in climbed]
        self._next()

    def climbed(self, visit: Visit, outcome: Outcome) -> None:
        """Take the power of one point; the next one follows as long as there is room."""
        if outcome.verdict is not Verdict.MEASURED or outcome.sample is None:
            self._end(outcome.reason)
            return
        state = self._helm.state
        point = Point.of(outcome.sample, outcome.noise)
        state.points = [*(p for p in state.points if p.mode != point.mode), point]
        if not self._helm.ceiling.holds(point):
            self._end(f"{point.power_w:.2f} W is at the limit's edge")
        else:
            self._next()

    def _next(self) -> None:
        if not self._left:
            self._end("the top of the reference's front is reached")
            return
        point = self._left.pop(0)
        self._course.set_out(point.mode, Purpose.CLIMB, "power alone", point.step_s)

    def _best(self) -> Point | None:
        state, limit_w = self._helm.state, self._helm.budget.power_w
        left = [] if limit_w is None else state.left_above(limit_w)
        return self._helm.best_of([point for point in state.points if point.mode not in left])

    def _end(self, because: str) -> None:
        self._climbing = False
        best = self._best()
        if best is None:
            self._course.unreachable(because)
        else:
            words = f"NoStepSignal: fastest by the reference within the limit; {because}"
            self._course.run(best, Reason.NO_STEP_SIGNAL, words)


class SensorWatch:
    """Without readings no budget can be kept: the mode of least power until they are back."""

    def __init__(self, course: Course) -> None:
        self._course, self._helm = course, course.helm
        self._watched_since_s: float | None = None

    @property
    def is_blind(self) -> bool:
        """Say whether the sensor is known to be lost: no mode above the least power may be set."""
        noted = find(self._helm.state.conditions, SENSOR)
        return noted is not None and noted.status is ConditionStatus.FALSE

    def is_lost(self, now_s: float, last_reading_s: float | None) -> bool:
        """Say whether readings are missing; the first and the last moment of that are acted upon."""
        state = self._helm.state
        if self._watched_since_s is None:
            self._watched_since_s = now_s  # an agent that has just started has had no reading yet
        seen_s = self._watched_since_s if last_reading_s is None else last_reading_s
        lost = now_s - seen_s > self._helm.tools.settings.sensor_lost_s
        if lost and not self.is_blind and state.start is not None:
            self._lose()
        elif self.is_blind and last_reading_s is not None and not lost:
            self._find()
        elif self.is_blind:
            self.go_low()
        return lost or self.is_blind

    def go_low(self) -> None:
        """Set the mode of least power, again and again where it can't be set."""
        state = self._helm.state
        if state.start is not None and state.mode != state.start:
            self._helm.set_mode(state.start)

    def _lose(self) -> None:
        helm, state = self._helm, self._helm.state
        self._course.drop_visit("the power sensor was lost")
        self.go_low()
        if state.phase is Phase.RUNNING:
            state.phase = Phase.HOLDING
        helm.drift.expect(None)
        helm.condition(SENSOR, False, "SensorLost", "no reading of the power")
        helm.say(Reason.HOLD, "SensorLost: no reading of the power, so the mode of least power is held")

    def _find(self) -> None:
        helm, state = self._helm, self._helm.state
        helm.condition(SENSOR, True, "Readings", "the power is read again")
        helm.say(Reason.HOLD, "the power is read again")
        if state.phase is not Phase.HOLDING:
            self._course.go_on()
        elif state.lowered_from is not None and state.chosen is not None:
            before = state.lowered_from
            self._course.run(state.chosen, Reason.GUARD, "the power is read again: no higher than the guard had set")
            state.lowered_from = before
            helm.guard.keep_lowered(helm.tools.clock())
        elif self._course.hold.on:
            if state.chosen is not None:
                self._course.run(
                    state.chosen, Reason.HOLD, "the power is read again: the chosen mode, held by the plan"
                )
        elif self._course.step_seen:
            helm.ask("choose")
        else:
            self._course.climb.again(Reason.NO_STEP_SIGNAL, "the power is read again, steps are still not seen")
