"""An agent that observes: it writes nothing to the board, whatever comes, and predicts what would be gained."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from powertrain import PowerMode
from powertrain.api.v1alpha1 import PROTOCOL, NodePolicy, SessionSpec
from powertrain_agent.governing.events import EnvelopeSeen, PolicySeen, PowerNodeGone
from powertrain_agent.main import SetupError, open_runtime, parser, serve
from powertrain_agent.metrics import AgentMetrics
from powertrain_agent.simulate import SimulatedBoard
from powertrain_agent.simulate.simulated_sysfs import SimulatedSysfs
from powertrain_agent.sysfs import SysfsError
from powertrain_devcluster.testing.waits import wait_for
from powertrain_kube.log import Log

SPEC = SessionSpec.model_validate(
    {
        "protocol": PROTOCOL,
        "uid": "s-1",
        "job": {"namespace": "a", "name": "b"},
        "limits": {"powerWatts": 15},
        "workload": {"name": "w"},
    }
)
LOW = PowerMode(12, 729600, 318750000, 665600000)


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every write that reaches the simulated kernel."""
    written_paths: list[str] = []
    real = SimulatedSysfs.write_now

    def write_now(self: SimulatedSysfs, path: str, text: str) -> None:
        written_paths.append(path)
        real(self, path, text)

    monkeypatch.setattr(SimulatedSysfs, "write_now", write_now)
    return written_paths


def observe(root: Path, *more: str) -> list[str]:
    return ["--host-root", str(root), "--simulate", "orin-agx", "--time-scale", "10", "--observe", *more]


def test_an_observing_agent_writes_nothing(tmp_path: Path, writes: list[str]) -> None:
    board = SimulatedBoard.create(tmp_path, "orin-agx", time_scale=10)
    board.load("resnet18")
    metrics, lines = AgentMetrics(), io.StringIO()
    runtime = open_runtime(parser().parse_args(observe(tmp_path)), Log(lines), metrics=metrics)
    stop = threading.Event()
    loop = threading.Thread(target=runtime.run, args=(stop,))
    loop.start()
    try:
        for event in (EnvelopeSeen(SPEC, None, 0.0), PolicySeen(NodePolicy(max_watts=10)), PowerNodeGone()):
            runtime.put(event)
        gain = wait_for("a prediction for the load", lambda: runtime.gain)
        wait_for("a reading", lambda: metrics.registry.get_sample_value("powertrain_power_watts", {"rail": "total"}))
    finally:
        stop.set()
        loop.join()
    assert writes == []
    # All clocks are at their highest: nothing is faster, but the same speed needs a little less power.
    assert gain.speedup == 0
    assert 0 < gain.power_saving < 0.2
    assert metrics.registry.get_sample_value("powertrain_expected_power_saving_ratio") == gain.power_saving
    assert runtime.sessions.record is None
    events = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert "only observes" in next(each for each in events if each["event"] == "observe")["reason"]


def test_what_an_earlier_agent_left_stays_as_it_is(tmp_path: Path, writes: list[str]) -> None:
    steering = ["--host-root", str(tmp_path), "--simulate", "orin-agx"]
    first = open_runtime(parser().parse_args(steering), Log(io.StringIO()))
    first.board_restorer.controller.apply(LOW)
    first.let_go()
    writes.clear()
    stop = threading.Event()
    stop.set()
    serve(parser().parse_args(observe(tmp_path)), Log(io.StringIO()), stop)
    assert writes == []


def test_an_idle_board_has_nothing_to_gain(tmp_path: Path) -> None:
    metrics = AgentMetrics()
    runtime = open_runtime(parser().parse_args(observe(tmp_path)), Log(io.StringIO()), metrics=metrics)
    stop = threading.Event()
    loop = threading.Thread(target=runtime.run, args=(stop,))
    loop.start()
    try:
        wait_for("a reading", lambda: metrics.registry.get_sample_value("powertrain_power_watts", {"rail": "total"}))
    finally:
        stop.set()
        loop.join()
    assert runtime.gain is None
    assert metrics.registry.get_sample_value("powertrain_expected_speedup_ratio") is None


def test_the_port_to_the_kernel_refuses_a_write_and_says_why(tmp_path: Path) -> None:
    runtime = open_runtime(parser().parse_args(observe(tmp_path)), Log(io.StringIO()))
    with pytest.raises(SysfsError, match="the agent only observes this board"):
        runtime.board_restorer.controller.sysfs.write("/sys/devices/system/cpu/cpu1/online", "0")


def test_it_can_not_keep_a_limit(tmp_path: Path) -> None:
    options = parser().parse_args(observe(tmp_path, "--standalone", "--power-watts", "20"))
    with pytest.raises(SetupError, match="leave out --observe"):
        serve(options, Log(io.StringIO()), threading.Event())
