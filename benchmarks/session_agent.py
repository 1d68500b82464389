"""A whole agent in a session, in a process of its own, for benchmarks that train beside it.

What a Jetson's kernel does (here: the simulated board) is a process of its own as well, and ends once the agent runs a
chosen mode. From then on the agent reads plain files that stand still: it does what it does on a real board, and is not
charged for simulating one. What is missing is the waiting for real sensors, about 0.5 ms a file, which takes no CPU.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

UID = "benchmark"
BOARD, SESSION = "orin-agx", "var/lib/powertrain/sessions"
REFRESH_S = 0.02  # a kernel shows a written clock at once
SPEC = {
    "protocol": 2,
    "uid": UID,
    "job": {"namespace": "bench", "name": "sdk"},
    "limits": {"powerWatts": 30},
    "workload": {"name": "sdk"},
    # Nothing is tried after the choice: stretches in which the agent stands still would look like a drift.
    "plan": {"strategy": "preset", "when": "Offline"},
}


class Agent:
    """The agent, from the gate's opening on; it can be stopped and let go on."""

    def __init__(self, root: Path) -> None:
        self.environ = {"POWERTRAIN_SESSION_DIR": str(root / SESSION / UID), "POWERTRAIN_SESSION_UID": UID}
        self._board = _start("board", root)
        _wait_for("there", self._board)
        self._process = _start("agent", root)
        self._phases: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        _wait_for("open", self._process)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self._phases.extend(line.strip() for line in self._process.stdout)

    @property
    def pid(self) -> int:
        """Return the agent's process."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Say whether a mode is chosen and guarded; from then on the board stands still."""
        if not self._reader.is_alive():
            raise RuntimeError("the agent ended")
        if "running" not in self._phases:
            return False
        _end(self._board)
        return True

    def let(self, run: bool) -> None:
        """Let it run, or stop it where it stands."""
        self._process.send_signal(signal.SIGCONT if run else signal.SIGSTOP)

    def end(self) -> None:
        """End it."""
        self.let(True)
        _end(self._process)
        _end(self._board)


def _start(part: str, root: Path) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, part, str(root)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _wait_for(word: str, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    while (line := process.stdout.readline()).strip() != word:
        if not line:
            raise RuntimeError(f"a process ended before it said {word!r}")


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


def _until_told() -> threading.Event:
    """Return what is set when this process' input ends."""
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    return stop


def be_board(root: Path) -> None:
    """Be the kernel of a board that trains: take over what was written, show what follows from it."""
    from powertrain_agent.simulate import SimulatedBoard

    board, stop = SimulatedBoard.create(root, BOARD), _until_told()
    board.load("mobilenet-v3")
    board.refresh()
    print("there", flush=True)
    while not stop.wait(REFRESH_S):
        board.refresh()


def be_agent(root: Path) -> None:
    """Be the agent, as its command runs it without a cluster, with metrics and health."""
    from powertrain.api.v1alpha1 import SessionSpec, SessionStatus
    from powertrain_agent.health import STALE_AFTER_S, BeatingSource
    from powertrain_agent.main import open_runtime, parser
    from powertrain_agent.metrics import AgentMetrics
    from powertrain_agent.process import Process
    from powertrain_kube.health import HealthServer, Pulse
    from powertrain_kube.log import Log

    printed_words: set[str] = set()

    def report(status: SessionStatus, urgent: bool) -> None:
        now = {"open"} if status.gate_open else set()
        now |= {"running"} if status.phase.value == "Running" else set()
        for word in now - printed_words:
            print(word, flush=True)
        printed_words.update(now)

    options = parser().parse_args(["--host-root", str(root), "--standalone"])
    metrics, pulse = AgentMetrics(), Pulse(time.monotonic, STALE_AFTER_S)
    runtime = open_runtime(
        options,
        Log(io.StringIO()),
        report,
        metrics,
        lambda source: BeatingSource(source, lambda: pulse.beat("sampler")),
        lambda: pulse.beat("loop"),
    )
    server = HealthServer(metrics.registry, pulse.problem, 0, "127.0.0.1")
    server.start()
    runtime.run(_until_told(), SessionSpec.model_validate(SPEC), Process.of(os.getpid()))
    server.stop()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("part", choices=["board", "agent"])
    options.add_argument("root", type=Path)
    arguments = options.parse_args()
    {"board": be_board, "agent": be_agent}[arguments.part](arguments.root)
