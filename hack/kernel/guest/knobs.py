"""What the agent does to a board's knobs, each as one function that a test calls inside the guest."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from powertrain_agent.board_report import collect
from powertrain_agent.control.attributes import controlled
from powertrain_agent.control.controller import Controller
from powertrain_agent.control.snapshot import SnapshotStore, StateDir
from powertrain_agent.doctor import run_doctor
from powertrain_agent.hardware.board import Board, CorePolicy, discover
from powertrain_agent.sysfs import Sysfs
from powertrain_agent.telemetry import SysfsSource

STATE = Path("/var/lib/powertrain")


class MortalSysfs(Sysfs):
    """The board's files; the process kills itself with the n-th write, before or after the kernel has it."""

    def __init__(self, writes_left: int, after: bool) -> None:
        super().__init__()
        self._left, self._after = writes_left, after

    def write_now(self, path: str, text: str) -> None:
        self._left -= 1
        if self._left <= 0 and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        super().write_now(path, text)
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def examine() -> dict[str, Any]:
    """Examine the board, cores included, and write its report."""
    sysfs = Sysfs()
    report = run_doctor(sysfs, state_dir=STATE / "doctor", try_cores=True)
    return {"doctor": report.as_dict(), "report": collect(sysfs, report)}


def discovery() -> dict[str, Any]:
    """Return what discovery finds."""
    board = discover(Sysfs())
    return {
        "name": board.name,
        "jetson": board.identity.is_jetson,
        "fingerprint": board.fingerprint(CorePolicy.HOTPLUG).as_dict(),
        "policies": {policy.path: policy.cpus for policy in board.cpu.policies},
        "cpu_khz": board.cpu.table_khz,
        "gpu_hz": board.gpu.table_hz if board.gpu else (),
        "gpu": board.gpu.path if board.gpu else "",
        "emc": board.emc.kind if board.emc else "",
        "rails": [rail.label for rail in board.sensors.rails],
        "total": board.sensors.total,
        "zones": list(board.thermal.zones),
        "over_current": list(board.thermal.over_current),
        "access": {name: capability.access.value for name, capability in board.capabilities.items()},
    }


def shown_values(sysfs: Sysfs, board: Board) -> dict[str, str]:
    """Return every attribute that a mode may change, as the kernel shows it."""
    return {attribute.path: sysfs.read(attribute.path) for attribute in controlled(board, CorePolicy.HOTPLUG)}


def _controller(sysfs: Sysfs) -> Controller:
    return Controller(sysfs, discover(sysfs), SnapshotStore(StateDir(STATE), sysfs), CorePolicy.HOTPLUG)


def _die_applying(seed: int) -> int:
    """Apply random modes in a process that is killed at a random write; returns how it ended."""
    child = os.fork()
    if child == 0:
        chance = random.Random(seed)
        controller = _controller(MortalSysfs(chance.randint(1, 60), chance.random() < 0.5))
        while True:
            controller.apply(controller.space[chance.randrange(len(controller.space))])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _kills(seeds: list[int]) -> Iterator[tuple[int, Sysfs, dict[str, str]]]:
    for seed in seeds:
        sysfs = Sysfs()
        before = shown_values(sysfs, discover(sysfs))
        ended = _die_applying(seed)
        if ended != -signal.SIGKILL:
            raise AssertionError(f"seed {seed}: the process ended with {ended} instead of being killed")
        yield seed, sysfs, before


def killed(seeds: list[int]) -> list[dict[str, Any]]:
    """Kill an applying process, take the mode up again, then restore; returns what is not as it was."""
    wrong = []
    for seed, sysfs, before in _kills(seeds):
        controller = _controller(sysfs)
        resumed, restored = controller.resume(), controller.restore()
        after = shown_values(sysfs, discover(sysfs))
        problems = [str(problem) for problem in (*resumed.problems, *restored.problems)]
        differs = {path: [text, after.get(path)] for path, text in before.items() if after.get(path) != text}
        if problems or differs:
            wrong.append({"seed": seed, "problems": problems, "differs": differs})
    return wrong


def restored_by_script(seeds: list[int]) -> list[dict[str, Any]]:
    """Kill an applying process and let restore.sh put the board back under busybox' sh; returns what is not."""
    wrong = []
    for seed, sysfs, before in _kills(seeds):
        script = subprocess.run(
            ["/usr/bin/busybox", "sh", str(STATE / "restore.sh")], capture_output=True, text=True, check=False
        )
        after = shown_values(sysfs, discover(sysfs))
        differs = {path: [text, after.get(path)] for path, text in before.items() if after.get(path) != text}
        if script.returncode or differs:
            wrong.append({"seed": seed, "script": script.stdout + script.stderr, "differs": differs})
    return wrong


def sampling(readings: int) -> dict[str, float]:
    """Return the seconds of a reading by the agent, and of the plain reads of the same files."""
    sysfs = Sysfs()
    board = discover(sysfs)
    source = SysfsSource(sysfs, board.sensors, others_every=readings + 1)
    paths = [path for rail in board.sensors.total_rails() for path in rail.paths]

    def plain() -> None:
        for path in paths:
            Path(path).read_text(encoding="utf-8")

    return {"agent_s": _seconds(source.read, readings), "plain_s": _seconds(plain, readings), "files": len(paths)}


def _seconds(work: Any, times: int) -> float:
    work()
    began_s = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began_s) / times


def power() -> dict[str, float]:
    """Return what the agent's source reads now."""
    sysfs = Sysfs()
    reading = SysfsSource(sysfs, discover(sysfs).sensors, others_every=1).read()
    return {"total": reading.power_w, **reading.rails_w}
