"""Running: what happens to a chosen mode as time goes by: in-flight checks, validation, drift, and the way back up."""

from __future__ import annotations

from powertrain.api.v1alpha1 import Reason, When
from powertrain_agent.governing import choosing, climbing_without_steps, revisiting
from powertrain_agent.governing.candidates import best_of, has_room, must_rest
from powertrain_agent.governing.states import Planning, Revisiting, Running
from powertrain_agent.governing.trials import forget_confirmations
from powertrain_agent.governing.turn import Turn, windows_to_come
from powertrain_agent.planning.messages import Question
from powertrain_agent.telemetry import Reading


async def look_after(turn: Turn, state: Running) -> Running | Revisiting | Planning:
    """Begin what is due while the chosen mode runs."""
    if state.retry_at_s is not None and turn.now_s >= state.retry_at_s:
        return turn.ask(Question.CHOICE)
    record, session, settings, plan = turn.record, turn.session, turn.settings, turn.spec.plan
    since_s, every_s = session.running_since_s, plan.validate_every_seconds
    if turn.is_held or since_s is None or plan.when is When.OFFLINE:
        return state
    if not session.step_seen:
        return climbing_without_steps.overdue(turn) or state
    if turn.guard.is_broken(turn.now_s):
        # Above the limit nothing can be measured within it; what has drifted will still have done so afterwards.
        turn.drift.expect(turn.drift.expected)
    elif turn.drift.shifted is not None:
        return await revisiting.begin(turn, f"{turn.drift.shifted.text} against what was measured")
    elif every_s is not None and turn.now_s - session.validated_s >= every_s:
        return await revisiting.begin(turn, f"validated every {every_s:g} s")
    elif not turn.guard.lowered and record.checks < settings.checks and turn.now_s - since_s >= settings.check_after_s:
        record.checks += 1
        return turn.ask(Question.CHECK)
    return state


def is_unsteady(turn: Turn, reading: Reading) -> bool:
    """Say whether the load has just been found to swing so much that the chosen mode is too close to the limit."""
    chosen, session = turn.record.chosen, turn.session
    if not turn.by_ledger or chosen is None or chosen.mode != turn.record.mode or turn.is_held:
        return False
    turn.watch.runs(reading.power_w, session.step_s)
    if not turn.learn_load() or not session.step_seen:
        return False
    return not turn.watch.keeps(chosen.power_w, 0.0, windows_to_come(turn))


async def end_rest(turn: Turn, state: Running, until_s: float) -> Running:
    """Set the chosen mode as soon as the windows have room for it."""
    chosen = turn.record.chosen
    if chosen is None:
        return Running()
    if turn.now_s < until_s and must_rest(turn, chosen):
        return state
    applied = await turn.apply(chosen.mode)
    turn.drift.expect(chosen if turn.session.step_seen else None)
    return Running() if applied.ok else Running(turn.now_s + turn.settings.retry_s)


async def go_up(turn: Turn, state: Running) -> Running | Planning:
    """The guard was quiet for long enough: go back up, unless the present mode shows that it would break again."""
    record, ceiling, quiet_s = turn.record, turn.limits.ceiling, turn.guard.quiet_s
    if not has_room(turn):
        turn.guard.keep_lowered(turn.now_s)
        return state
    if turn.is_held:
        before = record.lowered_from
        best = before if before is None or ceiling.holds(before) else best_of(turn, record.proven_points())
        if best is None:
            return state
        return await choosing.run(turn, best, Reason.HOLD, f"quiet for {quiet_s:.0f} s: as before, held by the plan")
    forget_confirmations(turn)
    because = f"quiet for {quiet_s:.0f} s: is a faster mode possible again?"
    turn.say(record.reason, because)
    if turn.session.step_seen:
        return turn.ask(Question.CHOICE)
    return await climbing_without_steps.again(turn, Reason.NO_STEP_SIGNAL, because)
