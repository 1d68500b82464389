"""The planner's side that thinks: fits, plans and chooses, in a low-priority process that ends when it is not needed.

It keeps nothing between two requests: each brings the whole session. One JSON object a line, in and out.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import IO, Any

import numpy as np

from powertrain.objectives import Limits, PowerStatistic
from powertrain.pareto import pareto_front, stored_front
from powertrain.prediction import Prediction
from powertrain.profiling.belief import Belief
from powertrain.reference import Reference, available, closest
from powertrain.session import Ask, Done, ProfilingSession
from powertrain.strategies import UnknownStrategyError, strategy_class
from powertrain.strategies.base import StrategyUnavailableError, Validated, measured_prediction
from powertrain.strategies.transfer import Transfer
from powertrain_agent.governor.front import Point

FRONT_POINTS = 128
CLIMB_POINTS = 16


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to one request; `want` is start, climb, ask, check or choose."""
    session, reference = _session(request)
    want = request["want"]
    if want == "start":
        row = Belief(session.problem, reference.physics).start(np.ones(len(session.problem.space), dtype=np.bool_))
        return {"mode": str(session.problem.space[row]), "reason": "least power by the reference: the safe start"}
    if want == "climb":
        return {"climb": _climb(session, reference)}
    limits = _limits(request["limits"])
    card = reference.card
    found: dict[str, Any] = {
        "strategy": session.strategy_name,
        "reference": card.name,
        "reference_version": card.version,
    }
    if want in ("ask", "check"):
        found |= _asked(session, session.ask() if want == "ask" else session.ask_check(limits))
    final = want == "choose" or (want == "ask" and found["ask"] is None)
    known = _known(session, final)
    found |= {"planned": session.max_modes, "front": _front(session, known)}
    if final:
        found["choice"] = _choice(session, limits)
        found["validation"] = _validation(session)
    return found


def _session(request: dict[str, Any]) -> tuple[ProfilingSession, Reference]:
    state = dict(request["session"])
    references = available().references
    session = ProfilingSession.from_dict(state)
    reference = closest(references, session.problem.device, session.history)
    most = session.problem.max_modes or strategy_class(session.strategy_name).default_max_modes  # type: ignore[attr-defined]
    if most:
        # What was known before or is asked for on top does not use up the plan; fixed strategies have none.
        session.problem = replace(session.problem, max_modes=most + request.get("extra", 0))
    session.reference = reference
    return session, reference


def _limits(given: dict[str, Any]) -> Limits:
    return Limits(**{**given, "power_statistic": PowerStatistic(given["power_statistic"])})


def _asked(session: ProfilingSession, asked: Ask | Done) -> dict[str, Any]:
    if isinstance(asked, Done):
        return {"ask": None, "done": asked.reason}
    known = _known(session, final=False)
    row = session.problem.space.index(asked.mode)
    step_s = float(known.time_s[row]) if known is not None and np.isfinite(known.time_s[row]) else None
    return {"ask": {"mode": str(asked.mode), "reason": asked.reason, "step_s": step_s}, "done": None}


def _choice(session: ProfilingSession, limits: Limits) -> dict[str, Any]:
    choice = session.choose(limits)
    space = session.problem.space
    runner_up = None if choice.runner_up is None else str(space[choice.runner_up])
    if choice.row is None:
        return {"mode": None, "runner_up": None, "reason": choice.reason}
    return {"mode": str(space[choice.row]), "runner_up": runner_up, "reason": choice.reason}


def _validation(session: ProfilingSession) -> list[float] | None:
    strategy = session.strategy
    errors = strategy.validation_percent(session.history) if isinstance(strategy, Validated) else None
    return None if errors is None else list(errors)


def _known(session: ProfilingSession, final: bool) -> Prediction | None:
    """Return what is known of every mode: measured values where there are any, else the strategy's prediction.

    Networks take their time to train: they are asked only for the final answer.
    """
    if not len(session.history.modes):
        return None
    if isinstance(session.strategy, Transfer):
        return session.strategy.belief.known(session.history)
    predicted = session.predict() if final else None
    measured = measured_prediction(session.problem, session.history)
    if predicted is None:
        return measured
    seen = np.isfinite(measured.time_s)
    columns = ("time_s", "time_std_s", "power_w", "power_std_w")
    return Prediction(*(np.where(seen, getattr(measured, name), getattr(predicted, name)) for name in columns))


def _front(session: ProfilingSession, known: Prediction | None) -> list[dict[str, Any]]:
    if known is None:
        return []
    rows = stored_front(known.time_s, known.power_w, known.time_std_s, known.power_std_w, FRONT_POINTS)
    rows = np.union1d(rows, session.history.rows[session.history.rows >= 0])
    measured = set(session.history.rows.tolist())
    return [
        Point(
            session.problem.space[int(row)],
            float(known.time_s[row]),
            float(known.power_w[row]),
            float(known.time_std_s[row]),
            float(known.power_std_w[row]),
            int(row) in measured,
            float(session.history.peak_factors[row]),
        ).as_dict()
        for row in rows
        if np.isfinite(known.time_s[row]) and np.isfinite(known.power_w[row])
    ]


def _climb(session: ProfilingSession, reference: Reference) -> list[dict[str, Any]]:
    """Return modes of the reference's front by rising power: the way up where no step can be seen."""
    modes = session.problem.modes
    expected = reference.physics.evaluate(modes)
    time_s, power_w = np.exp(expected.log_time), np.exp(expected.log_power)
    rows = pareto_front(time_s, power_w)[::-1]
    kept = rows[np.unique(np.linspace(0, rows.size - 1, CLIMB_POINTS).round().astype(int))]
    return [Point(session.problem.space[int(row)], float(time_s[row]), float(power_w[row])).as_dict() for row in kept]


def serve(lines: IO[str], replies: IO[str]) -> None:
    """Answer line by line until the input ends."""
    for line in lines:
        try:
            reply: dict[str, Any] = {"answer": answer(json.loads(line)), "error": None}
        except (StrategyUnavailableError, UnknownStrategyError) as error:
            reply = {"answer": {"unavailable": True}, "error": str(error)}
        except Exception as error:
            reply = {"answer": {}, "error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
