"""The metrics of a session are there from its start to its end, and not after it."""

from __future__ import annotations

import io
from pathlib import Path

from powertrain_agent.metrics import AgentMetrics
from powertrain_agent.simulate import ManualClock, SimulatedBoard
from powertrain_agent.simulate.simulation import Simulation
from powertrain_kube.log import Log

from .conftest import POD, UID, envelope


def test_the_limit_and_the_mode_are_shown_while_a_job_has_the_board(tmp_path: Path) -> None:
    clock, metrics = ManualClock(), AgentMetrics()
    board = SimulatedBoard.create(tmp_path, "orin-agx", now=clock, timeout_s=None)
    simulation = Simulation(board, clock, Log(io.StringIO()), observe=metrics.observe)

    def figures() -> tuple[float | None, float | None]:
        value = metrics.registry.get_sample_value
        clocks = value("powertrain_gpu_frequency_hertz", {"state": "applied"})
        served = value("powertrain_session_info", {"job": str(envelope().job)})
        assert (served == 1) == (value("powertrain_power_limit_watts") is not None)
        return value("powertrain_power_limit_watts"), clocks

    assert figures() == (None, None)
    board.add_pod(POD)
    simulation.envelope(envelope())
    simulation.run(5)
    assert figures() == (30.0, 114750000.0)
    simulation.start_agent()
    simulation.envelope(envelope())
    simulation.run(5)
    assert figures() == (30.0, 114750000.0)
    board.remove_pod(POD)
    simulation.envelope(None, release=UID)
    assert simulation.run(30, lambda: bool(simulation.status.restored))
    assert figures() == (None, None)


def test_what_prometheus_adds_up_is_there_before_its_first_event() -> None:
    value = AgentMetrics().registry.get_sample_value
    assert value("powertrain_guard_actions_total", {"action": "lower"}) == 0
    assert [value("powertrain_violations_total", {"kind": kind}) for kind in ("window", "reading")] == [0, 0]
