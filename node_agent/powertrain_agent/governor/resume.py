"""Resume: a session goes on where an earlier run of the agent ended, in the mode that was in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from powertrain.api.v1alpha1 import Phase, Reason
from powertrain_agent.governor.drift import FLOOR_SHARE

if TYPE_CHECKING:
    from powertrain_agent.governor.course import Course


def resume(course: Course) -> None:
    """Take the session up again; the board holds its mode already. What was lost or lowered stays so for now."""
    state, tools, helm = course.state, course.tools, course.helm
    if state.boot_id != tools.board.boot_id() or state.start is None or not state.gate_open:
        state.gate_open = state.verified = False
        why = "the board was booted anew" if state.start else "the start was not finished"
        helm.say(Reason.START, f"{why}; {state.measured} measured modes are kept")
        helm.ask("start")
        return
    course.gate_opened_s = tools.clock()
    course.step_seen = state.steps > 0
    reason = state.reason
    tools.metrics.mode(state.mode, state.verified)
    helm.say(Reason.HOLD, f"the agent is back; {state.measured} measured modes are kept")
    if course.sensor.is_blind:
        course.sensor.go_low()
    elif state.phase is Phase.RUNNING and (reason is Reason.GUARD or state.lowered_from is not None):
        _stay_down(course)
    elif state.phase is Phase.RUNNING and state.chosen is not None:
        fits = helm.ceiling.holds(state.chosen.scaled(1.0, 1.0 - FLOOR_SHARE), 0.0)  # by less, it is for the guard
        kept = state.chosen if fits else helm.best_of(state.proven_points())
        words = "the chosen mode again" if kept is state.chosen else "the limit is lower than when it left"
        course.run(kept or state.chosen, reason, f"the agent is back: {words}")
    else:
        course.go_on()


def _stay_down(course: Course) -> None:
    """Keep what the guard has set until it was quiet for as long as ever."""
    helm, now_s = course.helm, course.tools.clock()
    course.running_since_s = now_s
    helm.guard.keep_lowered(now_s)
    helm.drift.expect(course.state.chosen if course.step_seen else None)
    helm.say(Reason.GUARD, "the agent is back: the guard had lowered the mode, which is kept")
