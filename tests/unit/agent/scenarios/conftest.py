"""A job on a simulated board in virtual time: profiled once, then every scenario starts from a copy of its files."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from powertrain import ModeSpace
from powertrain.api.v1alpha1 import SessionSpec
from powertrain_agent.governing.events import Tick
from powertrain_agent.governing.machine import Waiting, advance, decide
from powertrain_agent.governing.session import Session
from powertrain_agent.governing.settings import SessionSettings
from powertrain_agent.governing.states import TRIALS, Running, State
from powertrain_agent.governing.turn import Turn
from powertrain_agent.governing.visit import Visit
from powertrain_agent.simulate import ManualClock, SimulatedBoard
from powertrain_agent.simulate.simulation import Simulation
from powertrain_kube.log import Log

POD = "11111111-2222-3333-4444-555555555555"
UID = "session-1"
WORKLOAD = "resnet18"
SHARED_MEMORY = Path("/dev/shm")
# These scenarios compare watts with the board's model to a percent. Loads that scatter more have tests of their own.
QUIET = "quiet"


def envelope(**options: Any) -> SessionSpec:
    fields = {
        "protocol": 1,
        "uid": UID,
        "job": {"namespace": "default", "name": "job"},
        "podUIDs": [POD],
        "limits": {"powerWatts": 30},
        "workload": {"name": WORKLOAD, "batchSize": 16},
        "plan": {"maxModes": 8},
    }
    return SessionSpec.model_validate({**fields, **options})


@dataclass
class Scenario:
    """A simulation with its board, and what a user sees of it."""

    board: SimulatedBoard
    clock: ManualClock
    simulation: Simulation
    lines: io.StringIO

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> None:
        assert self.simulation.run(seconds, until), f"not within {seconds} s; said: {self.decisions()[-3:]}"

    def decisions(self) -> list[str]:
        """What the log said, decision by decision."""
        events = [json.loads(line) for line in self.lines.getvalue().splitlines()]
        return [f"{event['reason']}: {event['what']}" for event in events if event["event"] == "decision"]

    def has_decided(self, text: str) -> bool:
        return any(text in line for line in self.decisions())

    @property
    def status(self) -> Any:
        return self.simulation.status

    def condition(self, kind: str) -> tuple[str, str] | None:
        matching_condition = [(c.status.value, c.reason) for c in self.status.conditions if c.type == kind]
        return matching_condition[0] if matching_condition else None

    def is_running(self) -> bool:
        return bool(self.status.phase == "Running")

    def is_settled(self) -> bool:
        """Say whether a mode is chosen and nothing is being tried or thought about."""
        return self.is_running() and isinstance(self.state, Running)

    @property
    def session(self) -> Session:
        session = self.simulation.sessions.executor.session
        assert session is not None
        return session

    @property
    def state(self) -> State:
        state = self.simulation.sessions.executor.state
        assert state is not None
        return state

    @property
    def visit(self) -> Visit | None:
        return self.state.visit if isinstance(self.state, TRIALS) else None

    @property
    def space(self) -> ModeSpace:
        return self.simulation.sessions.ports.board.space

    def turn(self) -> Turn:
        """What a decision of this moment would work with."""
        return Turn(
            self.session, self.simulation.sessions.executor._facts(self.session.record.spec, Tick(self.clock()))
        )

    def decide(self, decision: Callable[[Turn], Any]) -> None:
        """Let the session take a decision now, as if an event had led to it."""
        executor, turn, before = self.simulation.sessions.executor, self.turn(), self.state

        async def decided() -> State:
            after = decision(turn)
            return (await after if isinstance(after, Awaitable) else after) or before

        after, commands = advance(turn, decided())
        while (result := executor._carry_out(self.session, commands)) is not None:
            after, commands = decide(self.session, after, result, executor._facts(self.session.record.spec, result))
        assert not isinstance(after, Waiting)
        executor.state = after

    def modes_tried(self) -> list[str]:
        return [str(sample.mode) for sample in self.status.result.samples.samples()]

    def modes_profiled(self) -> list[str]:
        """The modes tried, without the hold under the ledger that confirms the choice before it runs."""
        tried, chosen = self.modes_tried(), self.status.mode
        return tried[:-1] if tried[-1] == chosen and tried.count(chosen) > 1 else tried

    def true_w(self) -> float:
        """What the board settles at, without noise and offset."""
        return self.board.sysfs.instant().steady_w

    def restart_agent(self) -> None:
        """Kill the agent as kill -9 does and start it again: only files are left."""
        self.simulation.start_agent()


def make_scenario(root: Path, clock: ManualClock, fresh: bool, settings: SessionSettings | None = None) -> Scenario:
    board = (
        SimulatedBoard.create(root, "orin-agx", now=clock, timeout_s=None, behaviour=QUIET)
        if fresh
        else SimulatedBoard.open(root, now=clock, timeout_s=None)
    )
    lines = io.StringIO()
    return Scenario(board, clock, Simulation(board, clock, Log(lines), settings), lines)


@pytest.fixture(scope="session")
def memory_dir() -> Iterator[Path]:
    base = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    directory = Path(tempfile.mkdtemp(prefix="powertrain-scenarios-", dir=base))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def profiled(memory_dir: Path) -> tuple[Path, float]:
    """The files of a board whose job was profiled under 30 W and runs, and the time at which that was."""
    clock = ManualClock()
    scenario = make_scenario(memory_dir / "profiled", clock, fresh=True)
    scenario.board.add_pod(POD)
    scenario.simulation.envelope(envelope())
    scenario.run(2)
    scenario.simulation.train(WORKLOAD)
    scenario.run(200, scenario.is_running)
    scenario.run(
        60, lambda: scenario.simulation.sessions.record is not None and scenario.simulation.sessions.record.checks == 2
    )
    scenario.run(12)
    return scenario.board.root, clock()


@pytest.fixture
def new_scenario(memory_dir: Path, tmp_path: Path) -> Callable[..., Scenario]:
    """A freshly booted board without a job."""

    def make(settings: SessionSettings | None = None) -> Scenario:
        scenario = make_scenario(memory_dir / tmp_path.name, ManualClock(), fresh=True, settings=settings)
        scenario.board.add_pod(POD)
        return scenario

    return make


@pytest.fixture
def running(memory_dir: Path, tmp_path: Path, profiled: tuple[Path, float]) -> Scenario:
    """A profiled job that runs in its chosen mode; the agent has just been started again."""
    root = memory_dir / f"copy-{tmp_path.name}"
    shutil.copytree(profiled[0], root, symlinks=True)
    scenario = make_scenario(root, ManualClock(profiled[1]), fresh=False)
    scenario.simulation.envelope(envelope())
    scenario.simulation.train(WORKLOAD)
    scenario.run(5)
    return scenario
