"""A real runtime, with its threads and clock, started again under a job that runs: what was in force stays in force."""

from __future__ import annotations

import io
import json
import shutil
import threading
from pathlib import Path

from powertrain.api.v1alpha1 import SessionStatus
from powertrain_agent.main import open_runtime, parser
from powertrain_agent.simulate import ManualClock, SimulatedBoard
from powertrain_agent.steps import StepsSeen
from powertrain_kube.log import Log

TICKS = 4


def copied(memory_dir: Path, name: str, profiled: tuple[Path, float]) -> Path:
    root = memory_dir / f"copy-{name}"
    shutil.copytree(profiled[0], root, symlinks=True)
    return root


def test_an_agent_that_is_started_under_a_running_job_keeps_its_mode_from_the_first_tick_on(
    memory_dir: Path, tmp_path: Path, profiled: tuple[Path, float]
) -> None:
    root = copied(memory_dir, tmp_path.name, profiled)
    mode = SimulatedBoard.open(root, now=ManualClock(profiled[1])).mode()
    statuses: list[SessionStatus] = []
    stop, ticks = threading.Event(), iter(range(TICKS))
    options = parser().parse_args(["--host-root", str(root), "--standalone", "--simulate", "orin-agx"])
    runtime = open_runtime(
        options,
        Log(io.StringIO()),
        lambda status, urgent: statuses.append(status),
        beat=lambda: None if next(ticks, None) is not None else stop.set(),
    )
    runtime.run(stop)
    assert {(status.phase, status.mode) for status in statuses} == {("Running", str(mode))}
    assert not [c for status in statuses for c in status.conditions if c.reason == "SensorLost"]


def test_an_event_that_fails_is_told_and_the_loop_goes_on_guarding(
    memory_dir: Path, tmp_path: Path, profiled: tuple[Path, float]
) -> None:
    root, lines = copied(memory_dir, tmp_path.name, profiled), io.StringIO()
    stop, ticks = threading.Event(), iter(range(TICKS))
    options = parser().parse_args(["--host-root", str(root), "--standalone", "--simulate", "orin-agx"])
    runtime = open_runtime(options, Log(lines), beat=lambda: None if next(ticks, None) is not None else stop.set())
    runtime.put(StepsSeen(0, 0.0, 1.0))  # no receiver makes such a thing: it divides by zero
    runtime.run(stop)
    errors = [event for event in map(json.loads, lines.getvalue().splitlines()) if event["event"] == "error"]
    assert [event["reason"] for event in errors] == ["StepsSeen: ZeroDivisionError('float division by zero')"]
    assert "Traceback" in errors[0]["trace"]
    assert runtime.sessions.record is not None
