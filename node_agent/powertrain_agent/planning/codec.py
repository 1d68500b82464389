"""Requests and answers as lines of JSON, and back: the one place that knows their form on the pipe."""

from __future__ import annotations

import json
from typing import Any

from powertrain import PowerMode
from powertrain.session.storage import session_from_dict, session_to_dict
from powertrain_agent.planning.front import Point
from powertrain_agent.planning.messages import (
    NextMode,
    PlanAnswer,
    PlanFailure,
    PlannedChoice,
    PlanRequest,
    Question,
)

_PLAIN = ("done", "reference", "reference_version", "planned_modes")


def request_to_line(request: PlanRequest) -> str:
    """Return a request as one line."""
    session = session_to_dict(request.problem, request.strategy, True, request.reports)
    return json.dumps(
        {
            "question": request.question.value,
            "session": session,
            "extra_modes": request.extra_modes,
            "references": request.references,
        }
    )


def request_from_line(line: str) -> PlanRequest:
    """Return the request that `request_to_line` wrote."""
    raw = json.loads(line)
    problem, strategy, _, reports = session_from_dict(raw["session"])
    references = tuple(raw["references"])
    return PlanRequest(Question(raw["question"]), problem, strategy, reports, raw["extra_modes"], references)


def answer_to_line(answer: PlanAnswer | PlanFailure) -> str:
    """Return an answer as one line."""
    if isinstance(answer, PlanFailure):
        return json.dumps({"error": answer.error, "unavailable": answer.unavailable})
    ahead, choice = answer.next_mode, answer.choice
    values: dict[str, Any] = {name: getattr(answer, name) for name in _PLAIN}
    values["next_mode"] = ahead and {
        "mode": str(ahead.mode),
        "reason": ahead.reason,
        "step_s": ahead.step_s,
        "upper_w": ahead.upper_w,
    }
    values["choice"] = choice and {
        "mode": _text(choice.mode),
        "runner_up": _text(choice.runner_up),
        "reason": choice.reason,
    }
    values["way_up"] = [point.as_dict() for point in answer.way_up]
    values["front"] = [point.as_dict() for point in answer.front]
    values["validation_percent"] = answer.validation_percent
    return json.dumps(values)


def answer_from_line(line: str) -> PlanAnswer | PlanFailure:
    """Return the answer that `answer_to_line` wrote; ValueError where the line is none."""
    raw = json.loads(line)
    try:
        if "error" in raw:
            return PlanFailure(str(raw["error"]), bool(raw["unavailable"]))
        ahead, choice, errors = raw["next_mode"], raw["choice"], raw["validation_percent"]
        return PlanAnswer(
            next_mode=ahead
            and NextMode(PowerMode.parse(ahead["mode"]), ahead["reason"], ahead["step_s"], ahead["upper_w"]),
            choice=choice and PlannedChoice(_mode(choice["mode"]), _mode(choice["runner_up"]), choice["reason"]),
            way_up=tuple(Point.from_dict(point) for point in raw["way_up"]),
            front=tuple(Point.from_dict(point) for point in raw["front"]),
            validation_percent=None if errors is None else (float(errors[0]), float(errors[1])),
            **{name: raw[name] for name in _PLAIN},
        )
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"not an answer of the planner: {error!r}") from error


def _text(mode: PowerMode | None) -> str | None:
    return None if mode is None else str(mode)


def _mode(text: str | None) -> PowerMode | None:
    return None if text is None else PowerMode.parse(text)
