"""Hold: while the plan says so no mode is tried. Nodes that train in step profile one at a time, the others held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from powertrain.api.v1alpha1 import Instrumentation, Phase, Reason

if TYPE_CHECKING:
    from powertrain_agent.governor.course import Course


class Hold:
    """Keeps the safe start mode, or the mode that is chosen already; the guard stays on."""

    def __init__(self, course: Course) -> None:
        self._course, self._helm = course, course.helm

    @property
    def on(self) -> bool:
        """Say whether the session is held."""
        return self._helm.state.spec.plan.hold

    def follow(self, before: bool) -> None:
        """Act where the envelope changed it; before the gate is open there is nothing to stop or to begin."""
        if self.on == before or not self._helm.state.gate_open:
            return
        self._begin() if self.on else self._end()

    def _begin(self) -> None:
        state, helm = self._helm.state, self._helm
        visiting = self._course.visit is not None
        self._course.drop_visit("the plan holds the session")
        if state.phase is Phase.RUNNING:
            if visiting and state.chosen is not None:
                self._course.run(state.chosen, Reason.HOLD, "held by the plan: back to the chosen mode")
            else:
                helm.say(Reason.HOLD, "held by the plan: the mode stays")
            return
        if state.phase is Phase.PROFILING:
            state.phase = Phase.STARTING
        if state.start is not None and state.mode != state.start:
            helm.set_mode(state.start)
        helm.set_guard()
        helm.say(Reason.HOLD, f"held by the plan at the safe start mode; {state.measured} measured modes are kept")

    def _end(self) -> None:
        state, helm = self._helm.state, self._helm
        helm.say(Reason.HOLD, "the plan holds the session no longer")
        if state.phase is Phase.RUNNING and self._course.step_seen:
            helm.ask("choose")
        elif self._course.step_seen:
            self._course.begin_profiling()
        elif self._course.climb.begun:
            self._course.climb.again(Reason.NO_STEP_SIGNAL, "the plan holds the session no longer")
        elif state.spec.workload.instrumentation is Instrumentation.NONE:
            self._course.climb.begin("instrumentation is None")
