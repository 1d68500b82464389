"""The end of a session as the operator asks for it: every release is answered, and nothing is held for nobody."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from powertrain_agent.governing.events import HeldBy
from powertrain_agent.process import Process
from powertrain_agent.simulate.faults import Fault, FaultKind

from .conftest import POD, UID, Scenario, envelope

NewScenario = Callable[..., Scenario]


def restored(scenario: Scenario) -> list[str]:
    """The sessions that were reported as restored, in order."""
    return list(dict.fromkeys(status.uid for status in scenario.simulation.statuses if status.restored))


def end_pod(scenario: Scenario) -> None:
    scenario.simulation.stop_training()
    scenario.board.remove_pod(POD)


def original_values(scenario: Scenario) -> dict[str, str]:
    return {path: scenario.board.sysfs.read(path) for path in scenario.board.sysfs.rules.attributes}


def test_a_release_of_a_session_that_was_never_opened_is_answered(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    scenario.simulation.envelope(envelope(), release=UID)
    scenario.run(2)
    assert (scenario.status.uid, scenario.status.phase, scenario.status.restored) == (UID, "Ended", True)


def test_a_release_without_an_envelope_is_answered(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    scenario.simulation.envelope(None, release="long-gone")
    scenario.run(2)
    assert restored(scenario) == ["long-gone"]


def test_a_release_is_answered_once(new_scenario: NewScenario) -> None:
    scenario = new_scenario()
    scenario.simulation.envelope(None, release="long-gone")
    scenario.run(30)
    assert len(scenario.simulation.statuses) == 1


def test_an_agent_that_is_started_after_the_end_answers_again(running: Scenario) -> None:
    end_pod(running)
    running.simulation.envelope(envelope(), release=UID)
    running.run(30, lambda: bool(running.status.restored))
    running.simulation.statuses.clear()  # the report was lost: the agent was killed before it was written
    running.restart_agent()
    running.simulation.envelope(envelope(), release=UID)
    running.run(2)
    assert restored(running) == [UID]


def test_a_release_is_not_answered_before_the_board_is_as_it_was_found(running: Scenario) -> None:
    end_pod(running)
    gpu = f"{running.board.sysfs.layout.devfreq}/max_freq"
    running.board.inject(Fault(FaultKind.FAIL_WRITE, gpu))
    running.simulation.sessions.ports.files.remove()  # killed between the end of the session and its restore
    running.restart_agent()
    running.simulation.statuses.clear()
    running.simulation.envelope(envelope(), release=UID)
    running.run(15)
    assert restored(running) == []
    running.board.clear()
    running.run(15)
    assert restored(running) == [UID]


def test_what_a_dead_process_left_is_restored_before_the_next_session_begins(running: Scenario) -> None:
    here = Process.of(os.getpid())
    assert here is not None
    sessions = running.simulation.sessions
    sessions.handle(HeldBy(UID, replace(here, started_ticks=1)))
    running.simulation.stop_training()
    running.board.inject(Fault(FaultKind.FAIL_WRITE, f"{running.board.sysfs.layout.devfreq}/max_freq"))
    sessions = running.simulation.start_agent()
    sessions.offer(envelope(uid="session-2", podUIDs=[]), here)
    running.run(2)
    assert (running.status.uid, running.status.phase) == (UID, "Restoring")
    assert "max_freq" in running.status.message
    reports = running.simulation.urgent_reports
    running.run(20)
    assert running.simulation.urgent_reports == reports, "a restore that keeps failing is told once"
    running.board.clear()
    running.run(5, lambda: running.status.uid == "session-2" and running.status.gate_open)
    assert restored(running) == [UID]
    sessions = running.simulation.start_agent()
    assert sessions.record is not None
    assert sessions.record.process == here


def test_a_session_that_nobody_asks_for_any_more_is_over_once_its_pods_are_gone(running: Scenario) -> None:
    """A PowerNode was deleted and made anew while its job ended: no release will ever come."""
    running.simulation.lose_power_node()
    running.simulation.envelope(None)
    running.run(30)
    assert running.is_running(), "its pod still runs"
    end_pod(running)
    running.run(30, lambda: bool(running.status.restored))
    assert restored(running) == [UID]


def test_a_session_that_another_one_has_followed_is_over_once_its_pods_are_gone(running: Scenario) -> None:
    running.restart_agent()
    end_pod(running)
    running.simulation.envelope(envelope(uid="session-2", podUIDs=[]))
    running.run(30, lambda: running.status.uid == "session-2")
    assert restored(running) == [UID]


def test_a_follower_that_is_withdrawn_before_its_turn_is_never_opened(running: Scenario) -> None:
    running.simulation.envelope(envelope(uid="session-2", podUIDs=[]))
    end_pod(running)
    running.simulation.envelope(None, release=UID)
    running.run(30, lambda: bool(running.status.restored))
    running.run(5)
    assert running.status.uid == UID


def test_an_envelope_that_can_not_be_understood_ends_nothing(running: Scenario) -> None:
    end_pod(running)
    running.simulation.envelope(None, refused=True)
    running.run(60)
    assert restored(running) == []
