"""The agent is cut off from the API server for eleven minutes, the kubelet is not, and the Job replaces its pod."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from powertrain.api.v1alpha1 import NodePolicy
from powertrain_agent.governing.events import ApiAway, ApiBack
from powertrain_agent.simulate.cgroups import Driver, pod_path

from ..agent.scenarios.conftest import POD, UID, WORKLOAD, Scenario, envelope

NEW_POD = "99999999-2222-3333-4444-555555555555"
NEIGHBOUR = "77777777-2222-3333-4444-555555555555"
CUT_OFF_MINUTES = 11
NewScenario = Callable[..., Scenario]


class Host:
    """The host's control groups, in the layout that a kubelet of one kind makes."""

    def __init__(self, root: Path, version: int, driver: Driver) -> None:
        self._root, self._version, self._driver = root, version, driver
        shutil.rmtree(root / "sys/fs/cgroup", ignore_errors=True)

    def add(self, uid: str) -> None:
        (self._root / pod_path(uid, self._version, self._driver)).mkdir(parents=True)

    def remove(self, uid: str) -> None:
        shutil.rmtree(self._root / pod_path(uid, self._version, self._driver))


@pytest.fixture(params=[(1, "cgroupfs"), (1, "systemd"), (2, "cgroupfs"), (2, "systemd")], ids=str)
def host(request: pytest.FixtureRequest, running: Scenario) -> Host:
    """A running job's host with another pod beside it, which has been there for a while."""
    version, driver = request.param
    new_host = Host(running.board.root, version, driver)
    new_host.add(POD)
    new_host.add(NEIGHBOUR)
    running.simulation.envelope(envelope())
    running.run(2)
    wait(running, 2)
    return new_host


@pytest.fixture
def v2(running: Scenario) -> Host:
    host = Host(running.board.root, 2, "systemd")
    host.add(POD)
    host.add(NEIGHBOUR)
    running.simulation.envelope(envelope())
    running.run(2)
    wait(running, 2)
    return host


def wait(scenario: Scenario, minutes: int) -> None:
    """Let minutes pass, of each of which the agent sees a second: what it decides here depends on time alone."""
    for _ in range(minutes):
        scenario.clock.advance(59.0)
        scenario.run(1.1)


def gate_is_open(scenario: Scenario) -> bool:
    return (scenario.simulation.state_dir / "sessions" / UID / "ready").exists()


def cut_off(scenario: Scenario) -> None:
    scenario.simulation.sessions.handle(ApiAway(scenario.clock()))


def replace_pod(scenario: Scenario, host: Host) -> None:
    """The Job's pod ends; its successor passed the gate before anybody noticed, and trains without telling steps."""
    host.remove(POD)
    scenario.simulation.counts_steps = False
    host.add(NEW_POD)


def is_restored(scenario: Scenario) -> bool:
    return any(status.restored for status in scenario.simulation.statuses)


def test_the_board_is_not_restored_under_a_pod_that_nobody_named(running: Scenario, host: Host) -> None:
    cut_off(running)
    replace_pod(running, host)
    wait(running, CUT_OFF_MINUTES)
    assert not is_restored(running)
    assert running.true_w() <= 30.0
    assert not gate_is_open(running)
    running.simulation.sessions.handle(ApiBack())
    running.simulation.envelope(envelope(generation=2, podUIDs=[NEW_POD]))
    running.run(2)
    assert gate_is_open(running)
    assert running.status.phase == "Running"


def test_an_agent_that_starts_again_while_it_is_cut_off_still_knows_who_was_there_before(
    running: Scenario, v2: Host
) -> None:
    cut_off(running)
    replace_pod(running, v2)
    running.run(5)
    running.restart_agent()
    wait(running, CUT_OFF_MINUTES)
    assert not is_restored(running)
    running.simulation.stop_training()
    v2.remove(NEW_POD)
    wait(running, CUT_OFF_MINUTES)
    running.run(15, lambda: is_restored(running))


def test_steps_on_the_session_s_socket_count_where_no_control_group_does(running: Scenario, v2: Host) -> None:
    cut_off(running)
    v2.remove(POD)
    wait(running, CUT_OFF_MINUTES)
    assert not is_restored(running)
    running.simulation.stop_training()
    wait(running, CUT_OFF_MINUTES)
    running.run(15, lambda: is_restored(running))


def test_a_board_whose_pods_are_gone_keeps_the_site_s_limit_until_the_api_server_is_back(
    running: Scenario, v2: Host
) -> None:
    running.simulation.policy(NodePolicy.model_validate({"maxWatts": 28}))
    running.run(5)
    cut_off(running)
    running.simulation.stop_training()
    v2.remove(POD)
    wait(running, 2 * CUT_OFF_MINUTES)
    assert not is_restored(running)
    running.simulation.train(WORKLOAD)  # somebody's pod after all, which no control group shows
    running.run(20)
    assert running.true_w() <= 28.0
    running.simulation.stop_training()
    running.simulation.envelope(None, release=UID)
    running.run(20, lambda: is_restored(running))


def test_a_new_pod_waits_at_the_gate_until_the_api_server_is_back(running: Scenario, v2: Host) -> None:
    cut_off(running)
    running.run(3)
    assert gate_is_open(running)
    running.simulation.stop_training()
    v2.remove(POD)
    running.run(2)
    assert not gate_is_open(running)
    running.simulation.sessions.handle(ApiBack())
    running.run(2)
    assert gate_is_open(running)
