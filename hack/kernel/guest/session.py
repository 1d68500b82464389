"""A whole session on the guest's kernel: the agent alone, a training that follows the clocks, and what came of it."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import knobs
import power

from powertrain.api.v1alpha1 import PROTOCOL, SessionSpec
from powertrain.limit_table import DEFAULT_WINDOW_S
from powertrain_agent import main
from powertrain_agent.hardware.board import discover
from powertrain_agent.process import Process
from powertrain_agent.simulate import workloads
from powertrain_agent.sysfs import Sysfs
from powertrain_agent.telemetry import SysfsSource

UID = "kernel-session"


def session(board: str, workload: str, power_w: float, modes: int, limit_s: float) -> dict[str, Any]:
    """Profile a training within a budget until a mode is chosen, end it, and restore the board."""
    sysfs = Sysfs()
    before = knobs.shown_values(sysfs, discover(sysfs))
    watts = _background(power.forever, board)
    reports: list[dict[str, Any]] = []
    options = main.parser().parse_args(["--standalone", "--state-dir", str(knobs.STATE)])
    runtime = main.open_runtime(options, main.Log(), lambda status, urgent: reports.append(status.wire()))
    stop, meter = threading.Event(), Meter(sysfs)
    loop = threading.Thread(target=runtime.run, args=(stop, _spec(workload, power_w, modes), Process.of(os.getpid())))
    loop.start()
    training = 0
    try:
        gate_open = _wait(lambda: _last(reports).get("gateOpen", False), limit_s)
        training = _background(train, board, workload) if gate_open else 0
        meter.start()
        is_running = _wait(lambda: _last(reports).get("phase") == "Running", limit_s)
    finally:
        meter.stop()
        for child in filter(None, (training, watts)):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        stop.set()
        loop.join()
    problems = runtime.restore("the training has ended")
    after = knobs.shown_values(sysfs, discover(sysfs))
    last = _last(reports)
    return {
        "opened": gate_open,
        "chosen": is_running,
        "phase": last.get("phase"),
        "mode": last.get("mode"),
        "samples": len((last.get("result") or {}).get("samples", {}).get("powerWatts", [])),
        "highest_mean_w": meter.highest_mean_w,
        "readings": len(meter.readings),
        "left": problems,
        "differs": {path: [text, after.get(path)] for path, text in before.items() if after.get(path) != text},
    }


def train(board: str, workload: str) -> None:
    """Make steps of the length that the clocks in force allow, and report each through the SDK."""
    os.environ["POWERTRAIN_SESSION_DIR"] = str(knobs.STATE / "sessions" / UID)
    import powertrain_sdk

    live_board = power.Board(board)
    power.announce(workload, workloads.get(workload).batch_size)
    while True:
        time.sleep(live_board.instant().step_s)
        powertrain_sdk.step()


class Meter:
    """Reads the sensors beside the agent, and keeps the highest mean over the guard's window."""

    def __init__(self, sysfs: Sysfs) -> None:
        self._source = SysfsSource(sysfs, discover(sysfs).sensors)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.readings: list[tuple[float, float]] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def highest_mean_w(self) -> float:
        means = [0.0]
        for at_s, _ in self.readings:
            window = [power_w for time_s, power_w in self.readings if at_s - DEFAULT_WINDOW_S < time_s <= at_s]
            if at_s - self.readings[0][0] >= DEFAULT_WINDOW_S:
                means.append(sum(window) / len(window))
        return max(means)

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            reading = self._source.read()
            self.readings.append((reading.at_s, reading.power_w))


def _spec(workload: str, power_w: float, modes: int) -> SessionSpec:
    return SessionSpec.model_validate(
        {
            "protocol": PROTOCOL,
            "uid": UID,
            "job": {"namespace": "local", "name": UID},
            "limits": {"powerWatts": power_w},
            "workload": {"name": workload, "batchSize": workloads.get(workload).batch_size},
            "plan": {"strategy": "transfer", "maxModes": modes},
        }
    )


def _background(work: Any, *arguments: str) -> int:
    child = os.fork()
    if child == 0:
        try:
            work(*arguments)
        finally:
            os._exit(1)
    return child


def _last(reports: list[dict[str, Any]]) -> dict[str, Any]:
    return reports[-1] if reports else {}


def _wait(result: Any, limit_s: float) -> bool:
    end_s = time.monotonic() + limit_s
    while not result():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.2)
    return True
