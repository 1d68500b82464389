"""A part of the loop raises an exception, again and again: the others go on, and everybody can see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from powertrain.api.v1alpha1 import NodePolicy, SessionStatus
from powertrain_agent.governing import monitoring, turn
from powertrain_agent.metrics import AgentMetrics
from powertrain_agent.simulate import Fault, FaultKind

from ..agent.scenarios.conftest import POD, UID, Scenario, envelope


class BrokenError(Exception):
    """What no code foresees."""


def broken(*_: object, **__: object) -> None:
    raise BrokenError("as no code foresees")


def load_step(scenario: Scenario) -> None:
    """Something beside the training takes a lot of power from now on."""
    scenario.board.inject(Fault(FaultKind.POWER_OFFSET, value=6.0))


def break_port(scenario: Scenario, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    executor = scenario.simulation.sessions.executor
    monkeypatch.setattr(executor, "ports", replace(executor.ports, **{name: broken}))  # type: ignore[arg-type]


def break_report(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    break_port(scenario, monkeypatch, "report")


def break_figures(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "status_of", broken)


def break_fan(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = scenario.simulation.sessions.executor
    monkeypatch.setattr(executor.ports.board, "fan_max", broken)
    executor.ports.site.in_force = NodePolicy.model_validate({"fanMaxWhileProfiling": True})


def break_saving(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario.simulation.sessions.ports.files, "save", broken)


def break_holding(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario.simulation.sessions._board_restorer, "tick", broken)


BREAKS = (break_report, break_figures, break_fan, break_saving, break_holding)


@pytest.mark.parametrize("break_part", BREAKS, ids=lambda part: part.__name__)
def test_the_guard_lowers_the_mode_whatever_else_fails(
    running: Scenario, monkeypatch: pytest.MonkeyPatch, break_part: Callable[[Scenario, pytest.MonkeyPatch], None]
) -> None:
    running.simulation.strict = False
    break_part(running, monkeypatch)
    running.run(2)
    load_step(running)
    before = running.board.mode()
    running.run(15)
    assert running.simulation.sessions.failures.count > 0
    assert running.board.mode() != before
    assert running.true_w() + 6.0 <= 30.5


def test_a_failure_is_a_condition_and_a_metric_and_ends_with_its_cause(
    running: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.simulation.strict = False
    metrics = AgentMetrics()
    monkeypatch.setattr(running.simulation.sessions.failures, "_count", metrics.loop_failed)
    with monkeypatch.context() as for_a_while:
        break_fan(running, for_a_while)
        running.run(5)
    assert running.condition("LoopHealthy") == ("False", "Failing")
    counter = metrics.registry.get_sample_value("powertrain_loop_failures_total", {"part": "fan"})
    assert counter is not None
    assert counter >= 4
    running.run(65)
    assert running.condition("LoopHealthy") == ("True", "Recovered")


def test_figures_that_can_not_be_published_do_not_hold_back_that_a_board_is_restored(
    running: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.simulation.strict = False
    break_figures(running, monkeypatch)
    running.simulation.stop_training()
    running.board.remove_pod(POD)
    running.simulation.envelope(None, release=UID)
    running.run(20, lambda: running.status.restored)
    status: SessionStatus = running.status
    assert (status.uid, status.phase) == (UID, "Ended")


def test_readings_that_can_not_be_judged_count_as_a_lost_sensor(
    running: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.simulation.strict = False
    monkeypatch.setattr(monitoring, "_judge", broken)
    running.run(6)
    assert running.condition("PowerSensor") == ("False", "SensorLost")
    state = running.simulation.sessions.record
    assert state is not None
    assert running.board.mode() == state.start


def test_a_directory_that_can_not_be_listened_in_costs_the_steps_alone(
    running: Scenario, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    running.simulation.strict = False
    break_port(running, monkeypatch, "listen")
    running.simulation.sessions.close("for another one")
    running.simulation.envelope(envelope(uid="session-2"))
    running.run(5)
    assert running.status.uid == "session-2"
    assert running.status.gate_open
