"""A training sends anything at all to a real agent, which is killed and started again: its status is always taken."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.testing.waits import wait_for
from powertrain_kube import KubeApi

from ...unit.adversity.test_hostile_datagrams import hostile, packed
from ...unit.agent.scenarios.conftest import UID
from ..test_agent_link import Agent, change, create, node, power_nodes, session, status

__all__ = ["node", "power_nodes"]
SENT = 250  # every edge of every field; the noise after them is for the unit test


@pytest.fixture
def agents(control_plane: ControlPlane, node: str, test_namespace: str, tmp_path: Path) -> Iterator[list[Agent]]:
    """Agents of one board, one after the other."""
    started = [Agent(control_plane, tmp_path / "host", node, test_namespace)]
    yield started
    for agent in started:
        if agent.process.poll() is None:
            agent.process.kill()
        agent.process.wait()


def send(root: Path, datagrams: Iterator[bytes]) -> None:
    directory = os.open(root / "var/lib/powertrain/sessions" / UID, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(f"/proc/self/fd/{directory}/steps.sock")
        for data in datagrams:
            sender.send(data)
    os.close(directory)


def refused(agent: Agent) -> list[str]:
    """What of the agent's status the API server refused, and what failed in its loop."""
    lines = [line for line in agent.lines() if line["event"] in ("status", "error")]
    return [line["reason"] for line in lines if line["event"] == "error" or "not written" in line["reason"]]


def test_the_api_server_takes_the_status_of_an_agent_whose_training_says_anything(
    kube: KubeApi, control_plane: ControlPlane, node: str, test_namespace: str, agents: list[Agent]
) -> None:
    create(kube, node, session=session(uid=UID, limits={"powerWatts": 10}))
    wait_for("the gate", lambda: status(kube, node).get("session", {}), lambda reported: reported.get("gateOpen"), 90.0)
    last = packed(kind=3, sender=99, value=0.5)
    send(agents[0].root, itertools.chain(itertools.islice(hostile(), SENT), [last]))
    training = wait_for(
        "the accuracy",
        lambda: status(kube, node)["session"]["training"],
        lambda reported: reported.get("accuracy") == 0.5,
        60.0,
    )
    assert training["steps"] > 0
    agents[0].process.kill()
    agents[0].process.wait()
    agents.append(Agent(control_plane, agents[0].root, node, test_namespace))
    change(kube, node, session={"generation": 2})
    wait_for(
        "the restart", lambda: status(kube, node)["session"], lambda reported: reported["observedGeneration"] == 2, 60.0
    )
    change(kube, node, session=None, release=UID)
    wait_for("what was found", lambda: status(kube, node)["session"], lambda reported: reported["restored"], 60.0)
    assert refused(agents[0]) == []
    assert agents[1].stop() == 0
