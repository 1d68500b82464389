"""The planner's side that thinks: fits, plans and chooses. It keeps nothing between two requests."""

from __future__ import annotations

from dataclasses import replace
from typing import IO

import numpy as np

from powertrain.pareto import pareto_front, stored_front
from powertrain.prediction import Prediction
from powertrain.profiling.history import History
from powertrain.reference import Reference, available, closest
from powertrain.session import Ask, Done, ProfilingSession
from powertrain.strategies import UnknownStrategyError, default_max_modes, needs_network
from powertrain.strategies.base import HasBelief, StrategyUnavailableError, Validated, measured_prediction
from powertrain_agent.planning.codec import answer_to_line, request_from_line
from powertrain_agent.planning.front import Point
from powertrain_agent.planning.messages import (
    NextMode,
    PlanAnswer,
    PlanFailure,
    PlannedChoice,
    PlanRequest,
    Question,
)

FRONT_POINTS = 128
WAY_UP_POINTS = 16


def answer(request: PlanRequest) -> PlanAnswer:
    """Return the answer to one request."""
    session, reference = _session(request)
    if request.question is Question.WAY_UP:
        return PlanAnswer(way_up=_way_up(session, reference))
    limits = request.problem.limits
    ahead: Ask | Done | None = None
    if request.question is Question.NEXT_MODE:
        ahead = session.ask()
    elif request.question is Question.CHECK:
        ahead = session.ask_check(limits)
    final = request.question is Question.CHOICE or (request.question is Question.NEXT_MODE and isinstance(ahead, Done))
    prediction = _prediction_of_all(session, final)
    return PlanAnswer(
        next_mode=_next_mode(session, ahead) if isinstance(ahead, Ask) else None,
        done=ahead.reason if isinstance(ahead, Done) else None,
        choice=_choice(session) if final else None,
        front=_front(session, prediction),
        reference=reference.card.name,
        reference_version=reference.card.version,
        planned_modes=session.max_modes,
        validation_percent=_validation_percent(session) if final else None,
    )


def answer_or_failure(request: PlanRequest) -> PlanAnswer | PlanFailure:
    """Return the answer, or why there is none: whatever fails here must not stop the session."""
    try:
        return answer(request)
    except (StrategyUnavailableError, UnknownStrategyError) as error:
        return PlanFailure(str(error), unavailable=True)
    except Exception as error:
        return PlanFailure(f"{type(error).__name__}: {error}")


def serve(lines: IO[str], replies: IO[str]) -> None:
    """Answer line by line until the input ends."""
    for line in lines:
        try:
            reply = answer_or_failure(request_from_line(line))
        except ValueError as error:
            reply = PlanFailure(f"the request can't be read: {error}")
        replies.write(answer_to_line(reply) + "\n")
        replies.flush()


def _session(request: PlanRequest) -> tuple[ProfilingSession, Reference]:
    problem = request.problem
    most = problem.max_modes or default_max_modes(request.strategy)
    if most:
        # What was known before or is asked for on top does not use up the plan; fixed strategies have none.
        problem = replace(problem, max_modes=most + request.extra_modes)
    session = ProfilingSession(problem, request.strategy)
    session.history = History.of(problem.space, request.reports, problem.noise)
    references = available(request.references).references
    reference = closest(references, problem.device, session.history, needs_network(request.strategy))
    session.reference = reference
    return session, reference


def _next_mode(session: ProfilingSession, ahead: Ask) -> NextMode:
    prediction = _prediction_of_all(session, final=False)
    row = session.problem.space.index(ahead.mode)
    step_s = float(prediction.time_s[row]) if prediction is not None and np.isfinite(prediction.time_s[row]) else None
    rules, upper_w = session.problem.ledger_rules, None
    if rules is not None and ahead.power_w is not None and ahead.power_std_w is not None:
        upper_w = ahead.power_w + rules.plan_sigmas * ahead.power_std_w
    return NextMode(ahead.mode, ahead.reason, step_s, upper_w)


def _choice(session: ProfilingSession) -> PlannedChoice:
    choice, space = session.choose(), session.problem.space
    if choice.row is None:
        return PlannedChoice(None, None, choice.reason)
    runner_up = None if choice.runner_up is None else space[choice.runner_up]
    return PlannedChoice(space[choice.row], runner_up, choice.reason)


def _validation_percent(session: ProfilingSession) -> tuple[float, float] | None:
    strategy = session.strategy
    return strategy.validation_percent(session.history) if isinstance(strategy, Validated) else None


def _prediction_of_all(session: ProfilingSession, final: bool) -> Prediction | None:
    """Return what is known of every mode: measured values where there are any, else the strategy's prediction.

    Networks take their time to train: they are asked only for the final answer.
    """
    if not len(session.history.modes):
        return None
    if isinstance(session.strategy, HasBelief):
        return session.strategy.belief.posterior(session.history)
    predicted = session.predict() if final else None
    measured = measured_prediction(session.problem, session.history)
    if predicted is None:
        return measured
    is_measured = np.isfinite(measured.time_s)
    columns = ("time_s", "time_std_s", "power_w", "power_std_w")
    return Prediction(*(np.where(is_measured, getattr(measured, name), getattr(predicted, name)) for name in columns))


def _front(session: ProfilingSession, prediction: Prediction | None) -> tuple[Point, ...]:
    if prediction is None:
        return ()
    rows = stored_front(
        prediction.time_s, prediction.power_w, prediction.time_std_s, prediction.power_std_w, FRONT_POINTS
    )
    rows = np.union1d(rows, session.history.rows[session.history.rows >= 0])
    measured = set(session.history.rows.tolist())
    return tuple(
        Point(
            session.problem.space[int(row)],
            float(prediction.time_s[row]),
            float(prediction.power_w[row]),
            float(prediction.time_std_s[row]),
            float(prediction.power_std_w[row]),
            int(row) in measured,
            float(session.history.peak_factors[row]),
        )
        for row in rows
        if np.isfinite(prediction.time_s[row]) and np.isfinite(prediction.power_w[row])
    )


def _way_up(session: ProfilingSession, reference: Reference) -> tuple[Point, ...]:
    """Return modes of the reference's front by rising power: the way up where no step can be seen."""
    expected = reference.physics.evaluate(session.problem.modes)
    time_s, power_w = np.exp(expected.log_time), np.exp(expected.log_power)
    rows = pareto_front(time_s, power_w)[::-1]
    spaced_rows = rows[np.unique(np.linspace(0, rows.size - 1, WAY_UP_POINTS).round().astype(int))]
    return tuple(Point(session.problem.space[int(row)], float(time_s[row]), float(power_w[row])) for row in spaced_rows)
