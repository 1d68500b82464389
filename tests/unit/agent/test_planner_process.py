"""The planner's process: one request at a time, in time, and the loop never waits for it."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from powertrain import ModeSpace
from powertrain.profiling.problem import Problem
from powertrain_agent.planning.messages import PlanAnswer, PlanFailure, Planned, PlanRequest, Question
from powertrain_agent.planning.process import PlannerProcess

# Answers with the strategy that it was asked for; "hang" never, "die" by ending, "noise" with something else.
ECHO = """
import json, sys, time
from powertrain_agent.planning.codec import answer_to_line
from powertrain_agent.planning.messages import PlanAnswer
for line in sys.stdin:
    strategy = json.loads(line)["session"]["strategy"]
    if strategy == "hang":
        time.sleep(600)
    if strategy == "die":
        break
    print("noise" if strategy == "noise" else answer_to_line(PlanAnswer(done=strategy)), flush=True)
"""
SPACE = ModeSpace.grid([4], [800_000, 1_500_000], [300_000_000, 600_000_000], [2_133_000_000])


def request_for(strategy: str, question: Question = Question.NEXT_MODE, **more: Any) -> PlanRequest:
    return PlanRequest(question, Problem(SPACE, **more), strategy)


class PlannerHarness:
    """A planner with its answers."""

    def __init__(self, *command: str, deadline_s: float = 60.0) -> None:
        self.answers: queue.Queue[Planned] = queue.Queue()
        self.planner = PlannerProcess(self.answers.put, command or (sys.executable, "-c", ECHO), deadline_s)

    def answer(self) -> Planned:
        return self.answers.get(timeout=60.0)

    def error(self) -> str:
        answer = self.answer().answer
        assert isinstance(answer, PlanFailure)
        return answer.error


@pytest.fixture
def planner() -> Iterator[PlannerHarness]:
    harness = PlannerHarness()
    yield harness
    harness.planner.stop()


def test_requests_are_answered_one_by_one_and_only_the_latest_counts(planner: PlannerHarness) -> None:
    for number in range(1, 51):
        planner.planner.submit(number, request_for(f"s{number}"))
    assert planner.planner.busy
    answers = [planner.answer()]
    while answers[-1].number != 50:
        answers.append(planner.answer())
    assert all(planned.answer == PlanAnswer(done=f"s{planned.number}") for planned in answers)
    assert not planner.planner.busy


@pytest.mark.parametrize(("strategy", "error"), [("die", "process ended"), ("noise", "process failed")])
def test_a_process_that_dies_or_talks_nonsense_is_replaced(planner: PlannerHarness, strategy: str, error: str) -> None:
    planner.planner.submit(1, request_for(strategy))
    assert error in planner.error()
    planner.planner.submit(2, request_for("transfer"))
    assert planner.answer() == Planned(2, PlanAnswer(done="transfer"))


def test_a_fit_that_hangs_is_ended_at_its_deadline_and_its_strategy_counts_as_unavailable() -> None:
    planner = PlannerHarness(deadline_s=1.0)
    planner.planner.submit(1, request_for("hang"))
    assert planner.answer() == Planned(1, PlanFailure("no plan within 1 s", unavailable=True))
    assert not planner.planner.busy
    planner.planner.stop()


def test_the_loop_does_not_wait_for_a_fit_that_nobody_needs_any_more(planner: PlannerHarness) -> None:
    planner.planner.submit(1, request_for("hang"))
    planner.planner.rest()
    planner.planner.submit(2, request_for("transfer"))
    answers = [planner.answer()]
    while answers[-1].number != 2:
        answers.append(planner.answer())
    assert answers[-1] == Planned(2, PlanAnswer(done="transfer"))
    assert all(isinstance(planned.answer, PlanFailure) for planned in answers[:-1])


def test_a_fit_given_up_before_its_process_was_started_never_starts(
    planner: PlannerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun, go_on = threading.Event(), threading.Event()
    exchange = planner.planner._exchange

    def held_up(line: str) -> str:
        has_begun.set()
        assert go_on.wait(60.0)
        return exchange(line)

    monkeypatch.setattr(planner.planner, "_exchange", held_up)
    planner.planner.submit(1, request_for("hang"))
    assert has_begun.wait(60.0)
    planner.planner.rest()
    go_on.set()
    assert planner.answer() == Planned(1, PlanFailure("the planner's process ended"))


def test_a_process_that_can_not_be_started_is_an_answer_too() -> None:
    planner = PlannerHarness("/no/such/command")
    planner.planner.submit(1, request_for("transfer"))
    assert "failed" in planner.error()
    planner.planner.stop()


def test_a_ctrl_c_at_the_terminal_ends_the_command_and_not_its_fit() -> None:
    """A terminal's signal goes to the whole group of the command; a fit that got it would print a traceback."""
    reply = "json.dumps({'error': str(os.getpgrp()), 'unavailable': False})"
    code = f"import json, os, sys; next(sys.stdin); print({reply})"
    planner = PlannerHarness(sys.executable, "-c", code)
    planner.planner.submit(1, request_for("transfer"))
    group = int(planner.error())
    planner.planner.stop()
    assert group != os.getpgrp()


def test_the_process_that_fits_has_the_lowest_priority_and_ends_when_nothing_is_asked() -> None:
    answers: queue.Queue[Planned] = queue.Queue()
    planner = PlannerProcess(answers.put)
    planner.submit(1, request_for("transfer", explore_limit_w=15.0))
    planned = answers.get(timeout=120.0)
    assert isinstance(planned.answer, PlanAnswer)
    assert planned.answer.next_mode is not None
    assert str(planned.answer.next_mode.mode) == "4c_800000_300000000_2133000000"
    process = planner._process
    assert process is not None
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
    planner.rest()
    assert process.wait(timeout=60.0) is not None
    planner.stop()
    assert not Path(f"/proc/{process.pid}").exists()
