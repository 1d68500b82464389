"""What is done without a signal: no steps → a climb by power alone; no power reading → the mode of least power."""

from __future__ import annotations

from typing import TYPE_CHECKING

from powertrain.api.conditions import ConditionStatus, find
from powertrain.api.v1alpha1 import Phase, Reason
from powertrain_agent.governor.front import Point, fastest_within
from powertrain_agent.governor.visit import Purpose, Visit
from powertrain_agent.governor.windows import Outcome, Verdict

if TYPE_CHECKING:
    from powertrain_agent.governor.course import Course

SENSOR = "PowerSensor"


class Climb:
    """Goes up the reference's front until the power says stop; nothing is known of the training's own speed."""

    def __init__(self, course: Course) -> None:
        self._course, self._helm = course, course.helm
        self._left: list[Point] = []
        self._begun = False

    def tick(self, now_s: float) -> None:
        """Begin when steps are overdue."""
        opened_s, patience_s = self._course.gate_opened_s, self._helm.tools.settings.no_steps_s
        if not self._begun and opened_s is not None and now_s - opened_s >= patience_s:
            self.begin(f"no step within {patience_s:.0f} s")

    def begin(self, because: str) -> None:
        """Say why, and ask for the way up."""
        self._begun = True
        self._helm.condition("StepSignal", False, "NoStepSignal", because)
        self._helm.say(Reason.NO_STEP_SIGNAL, f"NoStepSignal: {because}; climbing by power alone")
        self._helm.ask("climb")

    def go(self, points: list[Point]) -> None:
        """Climb these points, of rising power."""
        self._left = points
        self._next()

    def climbed(self, visit: Visit, outcome: Outcome) -> None:
        """Take the power of one point; the next one follows as long as there is room."""
        if outcome.verdict is not Verdict.MEASURED or outcome.sample is None:
            self._end(outcome.reason)
            return
        state, limit_w = self._helm.state, self._helm.budget.power_w
        point = Point.of(outcome.sample, outcome.noise)
        state.points = [*(p for p in state.points if p.mode != point.mode), point]
        if limit_w is not None and point.power_w + 2 * point.power_std_w > limit_w:
            self._end(f"{point.power_w:.2f} W is at the limit's edge")
        else:
            self._next()

    def _next(self) -> None:
        if not self._left:
            self._end("the top of the reference's front is reached")
            return
        point = self._left.pop(0)
        self._course.set_out(point.mode, Purpose.CLIMB, "power alone", point.step_s)

    def _end(self, because: str) -> None:
        best = fastest_within(self._helm.state.points, self._helm.budget.power_w)
        if best is None:
            self._course.unreachable(because)
        else:
            words = f"NoStepSignal: fastest by the reference within the limit; {because}"
            self._course.run(best, Reason.NO_STEP_SIGNAL, words)


class SensorWatch:
    """Without readings no budget can be kept: the mode of least power until they are back."""

    def __init__(self, course: Course) -> None:
        self._course, self._helm = course, course.helm

    def is_lost(self, now_s: float, last_reading_s: float | None) -> bool:
        """Say whether readings are missing; the first and the last moment of that are acted upon."""
        state = self._helm.state
        lost = last_reading_s is None or now_s - last_reading_s > self._helm.tools.settings.sensor_lost_s
        noted = find(state.conditions, SENSOR)
        known_lost = noted is not None and noted.status is ConditionStatus.FALSE
        if lost and not known_lost and state.start is not None:
            self._lose()
        elif known_lost and not lost:
            self._find()
        return lost

    def _lose(self) -> None:
        helm, state = self._helm, self._helm.state
        self._course.drop_visit("the power sensor was lost")
        if state.start is not None and state.mode != state.start:
            helm.set_mode(state.start)
        if state.phase is Phase.RUNNING:
            state.phase = Phase.HOLDING
        helm.drift.expect(None)
        helm.condition(SENSOR, False, "SensorLost", "no reading of the power")
        helm.say(Reason.HOLD, "SensorLost: no reading of the power, so the mode of least power is held")

    def _find(self) -> None:
        helm, state = self._helm, self._helm.state
        helm.condition(SENSOR, True, "Readings", "the power is read again")
        helm.say(Reason.HOLD, "the power is read again")
        if state.phase is Phase.PROFILING:
            helm.ask("ask")
        elif state.phase is Phase.HOLDING and state.fresh:
            helm.ask("choose")
        elif state.phase is Phase.HOLDING:
            self._course.climb.begin("the power is read again, steps are still not seen")
