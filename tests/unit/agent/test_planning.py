"""The planner's questions and answers: what goes over the pipe comes back the same; the safe start needs no fit."""

from __future__ import annotations

import subprocess
from dataclasses import fields
from io import StringIO

import pytest

from powertrain import ModeSpace
from powertrain.objectives import Limits
from powertrain.profiling.history import ModeReport
from powertrain.profiling.problem import Problem
from powertrain.samples import Sample
from powertrain_agent.planning.answering import answer, answer_or_failure, serve
from powertrain_agent.planning.codec import answer_from_line, answer_to_line, request_from_line, request_to_line
from powertrain_agent.planning.front import Point
from powertrain_agent.planning.messages import (
    NextMode,
    PlanAnswer,
    PlanFailure,
    PlannedChoice,
    PlanRequest,
    Question,
)
from powertrain_agent.planning.process import COMMAND
from powertrain_agent.planning.safe_start import safe_start

SPACE = ModeSpace.grid([4], [800_000, 1_500_000], [300_000_000, 600_000_000], [2_133_000_000])
LOWEST, HIGHEST = SPACE[0], SPACE[len(SPACE) - 1]
MEASURED = ModeReport(LOWEST, LOWEST, Sample(LOWEST, 0.5, 8.0, power_peak_w=8.2), 0.004)
FAILED = ModeReport(HIGHEST, HIGHEST, failure="throttled")
FULL = PlanAnswer(
    next_mode=NextMode(HIGHEST, "it may be faster", 0.25),
    done="enough",
    choice=PlannedChoice(HIGHEST, LOWEST, "fastest"),
    way_up=(Point(LOWEST, 1.0, 5.0),),
    front=(Point(HIGHEST, 0.5, 12.0, 0.01, 0.1, True, 1.05),),
    reference="resnet18",
    reference_version="1",
    planned_modes=8,
    validation_percent=(3.5, 1.25),
)


@pytest.mark.parametrize("message", [FULL, PlanAnswer(), PlanFailure("no torch", unavailable=True)])
def test_an_answer_comes_over_the_pipe_as_it_was_sent(message: PlanAnswer | PlanFailure) -> None:
    line = answer_to_line(message)
    assert "\n" not in line
    assert answer_from_line(line) == message


def test_the_answer_above_uses_every_field() -> None:
    assert [field.name for field in fields(PlanAnswer) if getattr(FULL, field.name) == field.default] == []


def test_a_request_comes_over_the_pipe_as_it_was_sent() -> None:
    request = PlanRequest(Question.CHECK, Problem(SPACE, explore_limit_w=15.0), "ucb", (MEASURED, FAILED), 3)
    received = request_from_line(request_to_line(request))
    assert (received.question, received.strategy, received.extra_modes) == (Question.CHECK, "ucb", 3)
    assert received.reports == request.reports
    assert received.problem.space == SPACE
    assert received.problem.explore_limit_w == 15.0


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"error": "x"}', '{"next_mode": 1}', "3"])
def test_a_line_that_is_no_answer_is_refused_as_one(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        answer_from_line(line)


def test_each_question_gets_what_it_asks_for() -> None:
    def ask(question: Question) -> PlanAnswer:
        return answer(
            PlanRequest(question, Problem(SPACE, limits=Limits(power_w=15.0), noise=0.005), "transfer", (MEASURED,))
        )

    assert ask(Question.NEXT_MODE).next_mode is not None
    choice = ask(Question.CHOICE).choice
    assert choice is not None
    assert choice.mode in SPACE
    powers = [point.power_w for point in ask(Question.WAY_UP).way_up]
    assert len(powers) > 1
    assert powers == sorted(powers)
    check = ask(Question.CHECK)
    assert (check.next_mode is None) == (check.done is not None)


def test_a_strategy_that_does_not_exist_is_a_failure_that_no_retry_mends() -> None:
    failure = answer_or_failure(PlanRequest(Question.CHOICE, Problem(SPACE), "nobody"))
    assert isinstance(failure, PlanFailure)
    assert failure.unavailable
    assert "nobody" in failure.error


def test_a_request_that_can_not_be_read_is_answered_and_the_next_one_too() -> None:
    good = request_to_line(PlanRequest(Question.WAY_UP, Problem(SPACE), "transfer"))
    replies = StringIO()
    serve(StringIO(f"nonsense\n{good}\n"), replies)
    first, second = map(answer_from_line, replies.getvalue().splitlines())
    assert isinstance(first, PlanFailure)
    assert isinstance(second, PlanAnswer)


def test_a_planner_whose_agent_was_killed_ends_without_a_word() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(COMMAND, text=True, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write("not a request\n")
        process.stdin.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_the_safe_start_is_the_mode_of_least_power_by_the_reference() -> None:
    assert safe_start(SPACE, None) == LOWEST
