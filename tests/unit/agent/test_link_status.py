"""How often the status is written: decisions at once, figures seldom, the newest after a failure."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from powertrain.api.v1alpha1 import (
    NodeFigures,
    NodeHistory,
    Phase,
    PowerNodeStatus,
    Reason,
    SessionResult,
    SessionStatus,
    with_condition,
)
from powertrain_agent.link.contact import Contact
from powertrain_agent.link.status import StatusWriter, is_transition
from powertrain_agent.simulate import ManualClock
from powertrain_kube import ApiError, AwayError, NotFoundError, Object
from powertrain_kube.log import Log
from powertrain_kube.patches import patched

RUNNING = SessionStatus(uid="s-1", phase=Phase.RUNNING)
SLOW, FAST = "12c_729600_306000000_2133000000", "12c_2201600_1300500000_3199000000"
NOW = datetime(2026, 3, 1, tzinfo=UTC)


class FakeStatusApi:
    """An API server that takes what it is given, or fails."""

    def __init__(self) -> None:
        self.stored: Object = {}
        self.bodies: list[Object] = []  # the status after each write
        self.patches: list[Object] = []
        self.error: ApiError | None = None
        self.answers = True

    def merge_patch(self, path: str, body: Object) -> Object:
        assert path == "/apis/powertrain.io/v1alpha1/powernodes/n/status"
        if self.error:
            raise self.error
        self.patches.append(body["status"])
        self.stored = json.loads(json.dumps(patched(self.stored, body)))
        self.bodies.append(self.stored["status"])
        if not self.answers:
            raise AwayError("done, but not answered")
        return json.loads(json.dumps(self.stored))

    def apply(self, path: str, body: Object) -> Object:
        raise AssertionError("the writer never applies")

    def list(self, path: str, query: Any) -> Object:
        raise AssertionError("the writer never lists")

    def watch(self, path: str, query: Any) -> Any:
        raise AssertionError("the writer never watches")


class WriterHarness:
    """A writer with its clock and server; `serve` does what the thread would do until then."""

    def __init__(self) -> None:
        self.clock, self.api, self.watts = ManualClock(0.0), FakeStatusApi(), 10.0
        contact = Contact(self.clock, lambda since: None, lambda: None)
        figures = lambda: NodeFigures(watts=self.watts)  # noqa: E731
        self.history: NodeHistory | None = None
        log = Log(io.StringIO())
        self.writer = StatusWriter(self.api, "n", figures, contact, log, self.clock, history=lambda: self.history)

    def report(self, status: SessionStatus, urgent: bool = False) -> None:
        self.writer.update(lambda before: before.model_copy(update={"session": status}), urgent)

    def serve(self, seconds: float) -> int:
        """Let time pass in tenths and return how many writes there were."""
        before = len(self.api.bodies)
        for _ in range(round(seconds * 10)):
            self.clock.advance(0.1)
            if self.writer.due_in_s() == 0.0:
                self.writer.write()
        return len(self.api.bodies) - before


@pytest.fixture
def desk() -> WriterHarness:
    desk = WriterHarness()
    desk.writer.object_seen(True)
    desk.serve(0.1)
    return desk


def test_nothing_is_written_before_the_power_node_is_there() -> None:
    desk = WriterHarness()
    assert desk.serve(100.0) == 0
    desk.writer.object_seen(True)
    assert desk.writer.due_in_s() == 0.0


def test_an_idle_node_writes_figures_at_most_once_a_minute(desk: WriterHarness) -> None:
    assert desk.serve(600.5) == 10


def test_in_a_session_figures_are_written_at_most_every_ten_seconds(desk: WriterHarness) -> None:
    desk.report(RUNNING)
    assert desk.serve(0.1) == 1
    for number in range(600):
        desk.report(RUNNING.model_copy(update={"energy_joules": float(number)}))
        desk.serve(0.1)
    assert len(desk.api.bodies) == 2 + 5
    assert desk.api.bodies[-1]["session"]["energyJoules"] > 450


@pytest.mark.parametrize(
    "change",
    [
        {"gate_open": True},
        {"mode": "12c_2201600_1300500000_3199000000"},
        {"verified": True},
        {"restored": True},
        {"phase": Phase.ENDED},
        {"reason": Reason.GUARD},
        {"conditions": with_condition((), "StepSignal", False, "NoStepSignal", at=NOW)},
        {"result": SessionResult(strategy="transfer")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_decision_is_written_at_once(desk: WriterHarness, change: dict[str, Any]) -> None:
    desk.report(RUNNING)
    desk.serve(0.1)
    desk.report(RUNNING.model_copy(update=change))
    assert desk.writer.due_in_s() == 0.0


@pytest.mark.parametrize(
    "change",
    [{"observed_generation": 4}, {"conditions": with_condition((), "StepSignal", True, "Steps", at=NOW)}],
    ids=lambda change: next(iter(change)),
)
def test_news_that_nobody_acts_upon_waits_for_two_seconds_or_the_next_decision(
    desk: WriterHarness, change: dict[str, Any]
) -> None:
    desk.report(RUNNING)
    desk.serve(0.1)
    status = RUNNING.model_copy(update=change)
    desk.report(status)
    assert (desk.serve(1.8), desk.serve(0.3)) == (0, 1), "alone it waits"
    desk.report(RUNNING.model_copy(update={"observed_generation": 5}))
    desk.report(status.model_copy(update={"observed_generation": 5, "gate_open": True}))
    assert (desk.serve(0.1), desk.serve(5.0)) == (1, 0), "a decision takes it along"


def test_a_session_is_told_with_its_safe_mode(desk: WriterHarness) -> None:
    accepted = RUNNING.model_copy(update={"uid": "next", "phase": Phase.STARTING})
    desk.report(accepted)
    assert desk.serve(1.5) == 0
    desk.report(accepted.model_copy(update={"gate_open": True, "verified": True}))
    assert (desk.serve(0.1), desk.serve(5.0)) == (1, 0)
    desk.report(accepted.model_copy(update={"uid": "slow"}))
    assert desk.serve(2.1) == 1, "a board that takes longer is not waited for"
    desk.report(accepted.model_copy(update={"uid": "other", "phase": Phase.REFUSED}))
    assert desk.serve(0.1) == 1, "a refusal is told at once"


def test_a_trial_is_told_once_with_its_mode(desk: WriterHarness) -> None:
    desk.report(RUNNING)
    desk.serve(0.1)
    announced = RUNNING.model_copy(update={"reason": Reason.PROFILING})
    desk.report(announced)
    assert desk.serve(1.0) == 0
    desk.report(announced.model_copy(update={"mode": FAST}))
    assert desk.serve(0.1) == 1


def test_a_check_in_flight_is_told_with_its_end_or_after_two_seconds(desk: WriterHarness) -> None:
    chosen = RUNNING.model_copy(update={"reason": Reason.CHOSEN, "mode": SLOW})
    desk.report(chosen)
    desk.serve(0.1)
    for mode in (FAST, SLOW):
        desk.report(chosen.model_copy(update={"reason": Reason.CHECK, "mode": mode}))
        assert desk.serve(0.9) == 0
    desk.report(chosen.model_copy(update={"mode": FAST}))
    assert (desk.serve(0.1), desk.serve(5.0)) == (1, 0)
    desk.report(chosen.model_copy(update={"reason": Reason.CHECK}))
    assert (desk.serve(1.8), desk.serve(0.3)) == (0, 1), "one that takes longer is told alone"
    desk.report(chosen.model_copy(update={"reason": Reason.CHECK, "verified": True}))
    assert desk.serve(0.1) == 1, "any other decision is told at once"


def test_a_bad_verdict_on_the_node_is_written_at_once_a_good_one_soon_and_that_there_is_none_waits(
    desk: WriterHarness,
) -> None:
    for holds, due_s in ((True, 2.0), (None, 60.0), (False, 0.0)):
        conditions = with_condition((), "SessionAccepted", holds, "Some", at=NOW)
        desk.writer.update(lambda before, new=conditions: before.model_copy(update={"conditions": new}))
        assert desk.writer.due_in_s() == pytest.approx(due_s, abs=0.2)
        desk.serve(2.1)


def test_figures_alone_are_no_decision() -> None:
    richer = RUNNING.model_copy(update={"energy_joules": 5.0, "message": "other words", "violations": 1})
    assert not is_transition(RUNNING, richer)


def test_what_the_loop_calls_urgent_is_written_at_once(desk: WriterHarness) -> None:
    desk.report(RUNNING)
    desk.serve(0.1)
    desk.report(RUNNING.model_copy(update={"violations": 1}), urgent=True)
    assert desk.writer.due_in_s() == 0.0


def test_figures_are_those_of_the_moment_of_writing(desk: WriterHarness) -> None:
    desk.watts = 33.0
    desk.serve(60.5)
    assert desk.api.bodies[-1]["figures"] == {"watts": 33.0}


def test_after_a_failure_the_newest_state_is_written(desk: WriterHarness) -> None:
    desk.api.error = AwayError("no answer")
    desk.report(RUNNING)
    desk.serve(5.0)
    desk.report(RUNNING.model_copy(update={"phase": Phase.HOLDING}))
    desk.api.error = None
    assert desk.serve(30.0) >= 1
    assert next(body["session"]["phase"] for body in desk.api.bodies if "session" in body) == "Holding"


def test_an_object_that_went_away_is_waited_for_and_a_new_one_gets_everything(desk: WriterHarness) -> None:
    desk.api.error = NotFoundError("404")
    desk.report(RUNNING)
    desk.serve(1.0)
    assert desk.writer.due_in_s() is None
    desk.api.error = None
    desk.writer.object_seen(True, anew=True)
    desk.serve(1.0)
    assert desk.api.bodies[-1]["session"]["phase"] == "Running"


def test_a_power_node_made_anew_gets_everything_at_once(desk: WriterHarness) -> None:
    desk.writer.object_seen(True, anew=False)
    assert desk.writer.due_in_s() != 0.0
    desk.writer.object_seen(True, anew=True)
    assert desk.writer.due_in_s() == 0.0


def test_what_is_not_known_is_left_out(desk: WriterHarness) -> None:
    desk.writer.update(lambda _: PowerNodeStatus(), urgent=True)
    desk.serve(0.1)
    assert set(desk.api.bodies[-1]) == {"agent", "figures", "conditions"}


def test_only_what_is_new_is_sent(desk: WriterHarness) -> None:
    desk.report(RUNNING.model_copy(update={"result": SessionResult(strategy="transfer")}))
    desk.serve(0.1)
    desk.report(RUNNING.model_copy(update={"result": SessionResult(strategy="transfer"), "gate_open": True}))
    desk.watts = 11.0
    desk.serve(0.1)
    assert desk.api.patches[-1] == {"figures": {"watts": 11.0}, "session": {"gateOpen": True}}
    desk.report(RUNNING)
    desk.serve(0.1)
    assert desk.api.patches[-1] == {"session": {"gateOpen": False, "result": None}}
    assert "result" not in desk.api.bodies[-1]["session"]


def test_what_was_done_but_not_answered_is_undone_if_it_is_not_so_any_more(desk: WriterHarness) -> None:
    before = RUNNING.model_copy(update={"runner_up": "12c_2201600_1300500000_3199000000"})
    desk.report(RUNNING)
    desk.serve(0.1)
    desk.api.answers = False
    desk.report(before.model_copy(update={"gate_open": True}))
    desk.serve(0.1)
    desk.api.answers = True
    desk.report(RUNNING)
    desk.serve(10.0)
    assert desk.api.bodies[-1]["session"] == RUNNING.wire()


def test_what_somebody_else_changed_is_put_right_again(desk: WriterHarness) -> None:
    desk.report(RUNNING)
    desk.serve(0.1)
    desk.api.stored["status"]["session"] |= {"phase": "Ended", "restored": True, "foreign": "field"}
    desk.serve(21.0)
    assert desk.api.bodies[-1]["session"] == RUNNING.wire()


def test_another_power_node_of_the_name_gets_everything(desk: WriterHarness) -> None:
    desk.report(RUNNING)
    desk.serve(0.1)
    desk.api.stored = {}
    desk.writer.object_seen(True, anew=True)
    desk.serve(0.1)
    assert desk.api.bodies[-1] == desk.writer.status.model_copy(update={"figures": NodeFigures(watts=10.0)}).wire()


def test_a_history_goes_with_the_write_that_tells_of_the_end_and_is_sent_only_when_it_changes() -> None:
    desk = WriterHarness()
    desk.writer.object_seen(True)
    desk.history = NodeHistory(session="s-1", data="{}")
    desk.report(RUNNING)
    desk.serve(3.0)
    assert desk.api.stored["status"]["history"] == {"session": "s-1", "data": "{}"}
    desk.watts = 11.0
    desk.serve(12.0)
    assert "history" not in desk.api.patches[-1]
    desk.history = NodeHistory(session="s-1", data='{"end":1}')
    desk.report(SessionStatus(uid="s-1", phase=Phase.ENDED, restored=True))
    desk.serve(0.2)
    last = desk.api.patches[-1]
    assert (last["session"]["restored"], last["history"]["data"]) == (True, '{"end":1}')
