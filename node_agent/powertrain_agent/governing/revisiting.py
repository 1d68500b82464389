"""Revisiting: after a drift, or when it is time, a few points are measured again, and the profile is corrected."""

from __future__ import annotations

from powertrain.api.v1alpha1 import Phase, Reason
from powertrain_agent.governing import trials
from powertrain_agent.governing.candidates import excess, point_of
from powertrain_agent.governing.lowering import stay_down
from powertrain_agent.governing.measurement_window import Verdict, WindowOutcome
from powertrain_agent.governing.revisit_round import Round
from powertrain_agent.governing.states import Planning, Revisiting, Running
from powertrain_agent.governing.turn import Turn
from powertrain_agent.governing.visit import Purpose
from powertrain_agent.planning.messages import Question

DRIFT = "Drift"


async def begin(turn: Turn, because: str) -> Revisiting | Planning | Running:
    """Measure a few points again."""
    record, times, ceiling = turn.record, excess(turn), turn.limits.ceiling
    turn.session.validated_s = turn.now_s
    if turn.drift.shifted is not None:
        turn.condition(DRIFT, True, "Shifted", because)
    present = point_of(turn, record.mode)
    holds = [p for p in record.proven_points() if ceiling.holds(p.scaled(1.0, times), 0.0)]
    points = [p for p in holds if p.mode != record.mode]
    if present is not None:
        points.append(present)  # also one that was only predicted so far
    due = Round.over(points, record.mode, turn.session.budget.power_w, len(record.reports))
    due.excess = times
    turn.say(Reason.DRIFT, f"{because}: {len(due.todo)} points are measured again")
    return await _next(turn, due)


async def revisited(turn: Turn, state: Revisiting, outcome: WindowOutcome) -> Revisiting | Planning | Running:
    """Take the result of one point of the round."""
    due = state.round
    point = due.todo.pop(0)
    if outcome.verdict is Verdict.MEASURED and outcome.sample is not None:
        is_proven = any(p.mode == point.mode for p in turn.record.proven_points())
        due.note(point, outcome.sample, is_proven)
        if not is_proven:
            trials.note(turn, state.visit, outcome)
    elif outcome.verdict is Verdict.UNSAFE and outcome.sample is not None:
        due.broke(point, outcome.sample.power_w)
    elif outcome.verdict is Verdict.LEFT:
        due.broke(point, outcome.power_w)
    return await _next(turn, due)


async def _next(turn: Turn, due: Round) -> Revisiting | Planning | Running:
    mode, ceiling = turn.record.mode, turn.limits.ceiling
    # With what was seen so far, a point would break the limit, for nothing: the shift is known.
    due.todo = [p for p in due.todo if p.mode == mode or ceiling.holds(p.scaled(1.0, due.excess), 0.0)]
    if not due.todo:
        return _correct(turn, due)
    point = due.todo[0]
    visit = trials.visit_to(turn, point.mode, Purpose.DRIFT, point.step_s)
    return await trials.set_out(turn, Revisiting(visit, due), "measured again")


def _correct(turn: Turn, due: Round) -> Planning | Running:
    record = turn.record
    due.close()
    trials.forget_confirmations(turn)
    record.reports = due.corrected(record.reports)
    record.corrections += bool(due.factors)
    relative = bool(due.factors) and not due.uniform
    if relative:
        record.extra += turn.settings.extension_modes
        record.phase = Phase.PROFILING
    turn.condition(DRIFT, False, "Corrected" if due.factors else "NotMeasured", due.verdict)
    if due.is_broken and not due.factors:
        stay_down(turn, f"{due.verdict}, because of power above the limit: a mode of less power is kept")
        return Running()
    turn.say(Reason.DRIFT, f"{due.verdict}: the profile is corrected")
    return turn.ask(Question.NEXT_MODE if relative else Question.CHOICE)
