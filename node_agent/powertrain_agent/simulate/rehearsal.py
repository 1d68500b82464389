"""A rehearsal: the whole governor on a simulated board in virtual time, so that an hour of training takes seconds."""

from __future__ import annotations

import heapq
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from powertrain.api.v1alpha1 import NodePolicy, SessionSpec, SessionStatus
from powertrain_agent.control.controller import Controller
from powertrain_agent.control.snapshot import SnapshotStore, StateDir
from powertrain_agent.governor.board_port import ControlledBoard
from powertrain_agent.governor.events import (
    EnvelopeSeen,
    Event,
    Planned,
    PolicySeen,
    PowerNodeGone,
    SensorFailed,
    Tick,
)
from powertrain_agent.governor.foreign import ForeignLoad
from powertrain_agent.governor.helm import Settings
from powertrain_agent.governor.loop import Governor
from powertrain_agent.governor.planner import InlinePlanner
from powertrain_agent.governor.ports import Metrics, NoMetrics
from powertrain_agent.governor.session_file import SessionFiles
from powertrain_agent.hardware.board import CorePolicy, discover
from powertrain_agent.keeper import Keeper
from powertrain_agent.simulate.board import SimulatedBoard
from powertrain_agent.simulate.clock import ManualClock
from powertrain_agent.site import Site
from powertrain_agent.steps import StepsSeen
from powertrain_agent.telemetry import Reading, SourceError, SysfsSource
from powertrain_kube.log import Log

JITTER = 0.01
READING_S, TICK_S, LOOK_S = 0.1, 1.0, 0.5
NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


class Rehearsal:
    """A board, a training and an agent that can be killed and started again; `run` lets time pass."""

    def __init__(
        self,
        board: SimulatedBoard,
        clock: ManualClock,
        log: Log,
        settings: Settings | None = None,
        seed: int = 0,
        fit_s: float | None = 0.5,
        metrics: Metrics | None = None,
        core_policy: CorePolicy = CorePolicy.FIXED,
    ) -> None:
        """Set the stage; a fit takes `fit_s` of virtual time, None: as long as it takes here."""
        self.board, self.clock, self.log = board, clock, log
        self.state_dir: Path = board.root / "var/lib/powertrain"
        self.statuses: list[SessionStatus] = []
        self.urgent_reports = 0
        self.policies: list[tuple[bool, str, str]] = []
        self.training = False
        self.counts_steps = True
        self.on_second: Callable[[], None] | None = None
        self._settings, self._fit_s, self._metrics = settings, fit_s, metrics or NoMetrics()
        self._core_policy = core_policy
        self._random = random.Random(seed)
        self._inbox: deque[Event] = deque()
        self._thinking: list[tuple[float, int, Planned]] = []
        self._epoch_s = clock()
        self._step_began_s, self._step_total_s, self._step_done = clock(), 0.0, 0.0
        self._times: list[tuple[float, str]] = [(clock() + READING_S, "reading"), (clock() + TICK_S, "tick")]
        self.governor = self.start_agent()

    def start_agent(self) -> Governor:
        """Start the agent (again): only what lies in files is known to it."""
        sysfs = self.board.sysfs
        defaults = NodePolicy.model_validate({"cpuCores": self._core_policy.value})
        site = Site(StateDir(self.state_dir), defaults, self.log)
        controller = Controller(
            sysfs,
            discover(sysfs),
            SnapshotStore(StateDir(self.state_dir), sysfs),
            CorePolicy(site.in_force.cpu_cores.value),
            site.in_force.min_cores or 1,
            pause=lambda seconds: None,
        )
        self._inbox.clear()
        self._thinking.clear()
        self._source = SysfsSource(sysfs, controller.board.sensors, clock=self.clock)
        self.governor = Governor(
            ControlledBoard(controller, ForeignLoad(sysfs, self._pod_uids, self.clock)),
            InlinePlanner(self._deliver, lambda: bool(self._thinking)),
            Keeper(controller, self.state_dir, self.log, self.clock),
            SessionFiles(self.state_dir),
            self.state_dir / "sessions",
            self.log,
            self._reported,
            self._metrics,
            self.clock,
            lambda: NOON + timedelta(seconds=self.clock() - self._epoch_s),
            lambda directory: None,
            site,
            self._settings,
            lambda in_force, reason, message: self.policies.append((in_force, reason, message)),
        )
        self.governor.start()
        return self.governor

    def _pod_uids(self) -> tuple[str, ...]:
        state = self.governor.state
        return state.spec.pod_uids if state is not None else ()

    def _reported(self, status: SessionStatus, urgent: bool) -> None:
        self.statuses.append(status)
        self.urgent_reports += urgent

    def envelope(self, spec: SessionSpec | None, release: str | None = None, refused: bool = False) -> None:
        """Let the operator write the PowerNode's spec."""
        self._handle(EnvelopeSeen(spec, release, self.clock(), refused))

    def lose_power_node(self) -> None:
        """Let somebody delete the PowerNode."""
        self._handle(PowerNodeGone())

    def policy(self, policy: NodePolicy | None) -> None:
        """Let the operator write the site's policy."""
        self._handle(PolicySeen(policy))

    def train(self, workload: str, batch_size: int | None = None) -> None:
        """Start a training."""
        self.board.load(workload, batch_size)
        self.training = True
        self._step_began_s, self._step_done = self.clock(), 0.0
        heapq.heappush(self._times, (self.clock() + 0.001, "step"))

    def stop_training(self) -> None:
        """End the training."""
        self.board.unload()
        self.training = False

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass, at most until a condition holds (looked at every second); say whether it does."""
        end_s = self.clock() + seconds
        for kind in self._happenings(end_s):
            if kind == "tick" and until is not None and until():
                return True
        return until() if until is not None else True

    @property
    def status(self) -> SessionStatus:
        """Return the last published status."""
        return self.statuses[-1]

    def _happenings(self, end_s: float) -> Iterator[str]:
        heapq.heapify(self._times)
        while True:
            at_s, kind = self._times[0]
            if self._thinking and self._thinking[0][0] <= at_s:
                self._advance(self._thinking[0][0])
                self._handle(heapq.heappop(self._thinking)[2])
                continue
            if at_s > end_s:
                self._advance(end_s)
                return
            heapq.heappop(self._times)
            self._advance(at_s)
            self._happen(kind)
            yield kind

    def _advance(self, at_s: float) -> None:
        self.clock.now_s = max(self.clock.now_s, at_s)

    def _happen(self, kind: str) -> None:
        now_s = self.clock()
        if kind == "reading":
            heapq.heappush(self._times, (now_s + READING_S, kind))
            self._handle(self._reading(now_s))
        elif kind == "tick":
            heapq.heappush(self._times, (now_s + TICK_S, kind))
            self._handle(Tick(now_s))
            if self.on_second is not None:
                self.on_second()
        elif self.training:
            self._progress(now_s)

    def _reading(self, now_s: float) -> Event:
        """A sound sensor is asked directly, which saves most of a rehearsal's time; a broken one through its files."""
        if not self.board.sysfs.faults.all():
            return Reading(now_s, self.board.sysfs.instant().measured_w)
        try:
            return self._source.read()
        except SourceError as error:
            return SensorFailed(str(error))

    def _progress(self, now_s: float) -> None:
        """A step is done when its share of work is: a mode that changes in its middle counts for its part."""
        step_s = self.board.step_s()
        self._step_done += (now_s - self._step_looked_s) / step_s if self._step_done > 0 else 1e-9
        self._step_looked_s = now_s
        if self._step_done >= self._step_work:
            if self.counts_steps:
                self._handle(StepsSeen(1, now_s, now_s - self._step_began_s))
            self._step_began_s, self._step_done = now_s, 1e-9
            self._step_work = self._random.gauss(1.0, JITTER)
        left_s = max(1e-4, (self._step_work - self._step_done) * step_s)
        heapq.heappush(self._times, (now_s + min(left_s, LOOK_S), "step"))

    _step_looked_s = 0.0
    _step_work = 1.0

    def _deliver(self, planned: Planned) -> None:
        took_s = self._fit_s if self._fit_s is not None else time.perf_counter() - self._asked_s
        heapq.heappush(self._thinking, (self.clock() + took_s, planned.number, planned))

    _asked_s = 0.0

    def _handle(self, event: Event) -> None:
        self._asked_s = time.perf_counter()
        self.governor.handle(event)
