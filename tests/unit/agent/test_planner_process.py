"""The planner's process: one request at a time, in time, and the loop never waits for it."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from powertrain import ModeSpace
from powertrain.api.v1alpha1 import SessionSpec
from powertrain_agent.governor.events import Planned
from powertrain_agent.governor.planner import request
from powertrain_agent.governor.planner_process import PlannerProcess

# Answers with what it was asked; "hang" never, "die" by ending, "noise" with something that is no answer.
ECHO = """
import json, sys, time
for line in sys.stdin:
    want = json.loads(line)["want"]
    if want == "hang":
        time.sleep(600)
    if want == "die":
        break
    print("noise" if want == "noise" else json.dumps({"answer": {"echo": want}, "error": None}), flush=True)
"""


class Asked:
    """A planner with its answers."""

    def __init__(self, *command: str, deadline_s: float = 60.0) -> None:
        self.answers: queue.Queue[Planned] = queue.Queue()
        self.planner = PlannerProcess(self.answers.put, command or (sys.executable, "-c", ECHO), deadline_s)

    def answer(self) -> Planned:
        return self.answers.get(timeout=60.0)


@pytest.fixture
def asked() -> Iterator[Asked]:
    made = Asked()
    yield made
    made.planner.stop()


def test_requests_are_answered_one_by_one_and_only_the_latest_counts(asked: Asked) -> None:
    for number in range(1, 51):
        asked.planner.submit(number, {"want": f"w{number}"})
    assert asked.planner.busy
    seen = [asked.answer()]
    while seen[-1].number != 50:
        seen.append(asked.answer())
    assert all(planned.answer == {"echo": f"w{planned.number}"} for planned in seen)
    assert not asked.planner.busy


@pytest.mark.parametrize(("want", "said"), [("die", "process ended"), ("noise", "process failed")])
def test_a_process_that_dies_or_talks_nonsense_is_replaced(asked: Asked, want: str, said: str) -> None:
    asked.planner.submit(1, {"want": want})
    assert said in (asked.answer().error or "")
    asked.planner.submit(2, {"want": "ask"})
    assert asked.answer() == Planned(2, {"echo": "ask"}, None)


def test_a_fit_that_hangs_is_ended_at_its_deadline_and_its_strategy_counts_as_unavailable() -> None:
    asked = Asked(deadline_s=1.0)
    asked.planner.submit(1, {"want": "hang"})
    assert asked.answer() == Planned(1, {"unavailable": True}, "no plan within 1 s")
    assert not asked.planner.busy
    asked.planner.stop()


def test_the_loop_does_not_wait_for_a_fit_that_nobody_needs_any_more(asked: Asked) -> None:
    asked.planner.submit(1, {"want": "hang"})
    asked.planner.rest()
    asked.planner.submit(2, {"want": "ask"})
    seen = [asked.answer()]
    while seen[-1].number != 2:
        seen.append(asked.answer())
    assert seen[-1] == Planned(2, {"echo": "ask"}, None)
    assert all(planned.error for planned in seen[:-1])


def test_a_fit_given_up_before_its_process_was_started_never_starts(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    exchange = asked.planner._exchange

    def held_up(line: str) -> str:
        begun.set()
        assert go_on.wait(60.0)
        return exchange(line)

    monkeypatch.setattr(asked.planner, "_exchange", held_up)
    asked.planner.submit(1, {"want": "hang"})
    assert begun.wait(60.0)
    asked.planner.rest()
    go_on.set()
    assert asked.answer() == Planned(1, {}, "the planner's process ended")


def test_a_process_that_can_not_be_started_is_an_answer_too() -> None:
    asked = Asked("/no/such/command")
    asked.planner.submit(1, {"want": "ask"})
    assert "failed" in (asked.answer().error or "")
    asked.planner.stop()


def test_a_ctrl_c_at_the_terminal_ends_the_command_and_not_its_fit() -> None:
    """A terminal's signal goes to the whole group of the command; a fit that got it would print a traceback."""
    code = (
        "import json, os, sys; next(sys.stdin); print(json.dumps({'answer': {'group': os.getpgrp()}, 'error': None}))"
    )
    asked = Asked(sys.executable, "-c", code)
    asked.planner.submit(1, {})
    planned = asked.answer()
    asked.planner.stop()
    assert planned.answer["group"] != os.getpgrp()


def test_the_process_that_fits_has_the_lowest_priority_and_ends_when_nothing_is_asked() -> None:
    answers: queue.Queue[Planned] = queue.Queue()
    planner = PlannerProcess(answers.put)
    spec = SessionSpec.model_validate(
        {"protocol": 1, "uid": "u", "job": {"namespace": "n", "name": "j"}, "workload": {"name": "w"}}
    )
    space = ModeSpace.grid([4], [800_000, 1_500_000], [300_000_000, 600_000_000], [2_133_000_000])
    start = request(
        "start", spec, space, [], power_w=15, explore_w=15, strategy="auto", device=None, descending_only=False
    )
    planner.submit(1, start)
    planned = answers.get(timeout=120.0)
    assert (planned.error, planned.answer["mode"]) == (None, "4c_800000_300000000_2133000000")
    process = planner._process
    assert process is not None
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
    planner.rest()
    assert process.wait(timeout=60.0) is not None
    planner.stop()
    assert not Path(f"/proc/{process.pid}").exists()
