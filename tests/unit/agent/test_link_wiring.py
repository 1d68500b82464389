"""What the agent tells about its board, its figures, and how the link's news reach the loop in the loop's time."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from powertrain.api.v1alpha1 import Figures, KnobAccess, NodePolicy, SessionStatus
from powertrain_agent.cluster import ClusterError, QueueInbox, Sight, about, add_options, in_cluster, open_api, settings
from powertrain_agent.governing.events import ApiAway, ApiBack, EnvelopeSeen, Event, PolicySeen, PowerNodeGone
from powertrain_agent.hardware.board import CorePolicy, discover
from powertrain_agent.simulate import ManualClock, SimulatedBoard
from powertrain_agent.telemetry import Reading

BoardFactory = Callable[..., SimulatedBoard]
NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(arguments)


def test_the_status_tells_the_fingerprint_and_every_knob(board: BoardFactory) -> None:
    hardware = discover(board().sysfs)
    status = about(hardware, CorePolicy.FIXED, modes=348, strategies=("transfer",))
    assert status.device is not None
    assert (status.device.name, status.device.core_policy) == ("orin-agx", "Fixed")
    assert status.device.tables == hardware.fingerprint().tables
    assert status.capabilities is not None
    assert {k.knob for k in status.capabilities.knobs if k.access is KnobAccess.WRITABLE} >= {"cpu", "gpu", "emc"}
    assert status.agent.protocol >= 1
    assert about(hardware, CorePolicy.FIXED, 348).wire() == status.wire() | {
        "capabilities": {**status.capabilities.wire(), "strategies": []}
    }


def test_figures_are_the_mean_power_the_hottest_zone_and_the_step(board: BoardFactory) -> None:
    simulated = board()
    hardware = discover(simulated.sysfs)
    sight = Sight(now=lambda: NOW)
    assert sight.figures(hardware, simulated.sysfs).watts is None
    for tenth in range(11):
        sight.take(Reading(tenth / 10, 20.0 if tenth <= 5 else 30.0))
    sight.session(SessionStatus(uid="s", observed=Figures(step_seconds=0.123456)))
    figures = sight.figures(hardware, simulated.sysfs)
    assert figures.watts == pytest.approx(24.5)
    assert figures.step_seconds == 0.1235
    assert figures.temperature_celsius is not None
    assert 20 < figures.temperature_celsius < 60
    assert figures.at == "2026-03-01T12:00:00Z"
    sight.take(None)
    sight.session(SessionStatus(uid="s"))
    figures = sight.figures(hardware, simulated.sysfs)
    assert (figures.watts, figures.step_seconds) == (None, None)


def test_news_of_the_link_become_events_in_the_loops_time() -> None:
    events: list[Event] = []
    loop, link = ManualClock(1000.0), ManualClock(50.0)
    up: list[bool] = []
    inbox = QueueInbox(events.append, loop, link, up.append)
    inbox.policy(NodePolicy(max_watts=25))
    inbox.envelope(None, "s-1")
    inbox.power_node_gone()
    inbox.api_away(38.0)
    inbox.api_back()
    assert events[0] == PolicySeen(NodePolicy(max_watts=25))
    assert events[1:] == [EnvelopeSeen(None, "s-1", 1000.0), PowerNodeGone(), ApiAway(988.0), ApiBack()]
    assert up == [True, True, False, True]


def test_a_nodes_name_is_never_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    with pytest.raises(ClusterError, match="needs --node-name or \\$NODE_NAME"):
        settings(options())


def test_a_pod_is_told_its_node_namespace_and_name_by_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"NODE_NAME": "jetson-1", "POD_NAMESPACE": "power", "POD_NAME": "agent-x"}.items():
        monkeypatch.setenv(name, value)
    link_settings = settings(options())
    assert (link_settings.node, link_settings.namespace, link_settings.holder) == ("jetson-1", "power", "agent-x")


@pytest.mark.parametrize(
    ("environment", "arguments", "expected"),
    [({}, (), False), ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, (), True), ({}, ("--kubeconfig", "x"), True)],
)
def test_there_is_a_cluster_where_a_pod_or_a_kubeconfig_says_so(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], arguments: tuple[str, ...], expected: bool
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert in_cluster(options(*arguments)) is expected


def test_a_kubeconfig_that_can_not_be_read_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"can't be read from .*nowhere"):
        open_api(options("--kubeconfig", str(tmp_path / "nowhere")))
