"""A simulation: the whole agent on a simulated board in virtual time, so that an hour of training takes seconds."""

from __future__ import annotations

import heapq
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from powertrain.api.v1alpha1 import NodePolicy, PowerShare, SessionSpec, SessionStatus, ShareStatus
from powertrain_agent.board_restorer import BoardRestorer
from powertrain_agent.control.controller import Controller
from powertrain_agent.control.snapshot import SnapshotStore
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.governing.board_port import ControlledBoard
from powertrain_agent.governing.board_sessions import Sessions
from powertrain_agent.governing.events import (
    EnvelopeSeen,
    Event,
    PolicySeen,
    PowerNodeGone,
    SensorFailed,
    SharesSeen,
    Tick,
)
from powertrain_agent.governing.executor import Observe, Ports
from powertrain_agent.governing.foreign_load import ForeignLoad
from powertrain_agent.governing.session_file import SessionFiles
from powertrain_agent.governing.settings import SessionSettings
from powertrain_agent.hardware.board import CorePolicy, discover
from powertrain_agent.planning.inline import InlinePlanner
from powertrain_agent.planning.messages import Planned
from powertrain_agent.simulate.board import SimulatedBoard
from powertrain_agent.simulate.clock import ManualClock
from powertrain_agent.site import Site
from powertrain_agent.steps import StepsSeen
from powertrain_agent.telemetry import Reading, SourceError, SysfsSource
from powertrain_kube.log import Log

JITTER = 0.01
READING_S, TICK_S, LOOK_S = 0.1, 1.0, 0.5
NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


class Simulation:
    """A board, a training and an agent that can be killed and started again; `run` lets time pass."""

    def __init__(
        self,
        board: SimulatedBoard,
        clock: ManualClock,
        log: Log,
        settings: SessionSettings | None = None,
        seed: int = 0,
        fit_s: float | None = 0.5,
        observe: Observe = lambda event, session, commands: None,
        core_policy: CorePolicy = CorePolicy.FIXED,
        strict: bool = True,
    ) -> None:
        """Set the stage; a fit takes `fit_s` of virtual time, None: as long as it takes here.

        The loop survives its failures, which would hide them from tests: `strict` makes the first one an error.
        """
        self.board, self.clock, self.log = board, clock, log
        self.state_dir: Path = board.root / "var/lib/powertrain"
        self.statuses: list[SessionStatus] = []
        self.urgent_reports = 0
        self.policies: list[tuple[bool, str, str]] = []
        self.confirmed_shares: tuple[ShareStatus, ...] = ()
        self.training = False
        self.clock_doubt = ""
        self.counts_steps = True
        self.on_second: Callable[[], None] | None = None
        self._settings, self._fit_s, self._observe = settings, fit_s, observe
        self._core_policy, self.strict = core_policy, strict
        self._random = random.Random(seed)
        self._inbox: deque[Event] = deque()
        self._thinking: list[tuple[float, int, Planned]] = []
        self._epoch_s = clock()
        self._step_began_s, self._step_done = clock(), 0.0
        self._times: list[tuple[float, str]] = [(clock() + READING_S, "reading"), (clock() + TICK_S, "tick")]
        self.sessions = self.start_agent()

    def start_agent(self) -> Sessions:
        """Start the agent (again): only what lies in files is known to it."""
        sysfs = self.board.sysfs
        defaults = NodePolicy.model_validate({"cpuCores": self._core_policy.value})
        self._site = site = Site(StateDir(self.state_dir), defaults, self.log)
        controller = Controller(
            sysfs,
            discover(sysfs),
            SnapshotStore(StateDir(self.state_dir), sysfs),
            CorePolicy(site.in_force.cpu_cores.value),
            site.in_force.min_cores or 1,
            pause=lambda seconds: None,
            floor=site.in_force.min_mode,
        )
        self._inbox.clear()
        self._thinking.clear()
        self._thermal = controller.board.thermal
        total = {rail.label for rail in controller.board.sensors.total_rails()}
        self._supply_v = max(rail.millivolts / 1e3 for rail in sysfs.layout.rails if rail.name in total)
        self._source = SysfsSource(sysfs, controller.board.sensors, clock=self.clock)
        board_restorer = BoardRestorer(
            controller, self.state_dir, self.log, self.clock, site_limited=lambda: site.limits_power
        )
        ports = Ports(
            ControlledBoard(controller, ForeignLoad(sysfs, self._pod_uids, self.clock)),
            InlinePlanner(self._deliver, lambda: bool(self._thinking)),
            SessionFiles(self.state_dir),
            self.state_dir / "sessions",
            self.log,
            self._reported,
            self.clock,
            lambda: NOON + timedelta(seconds=self.clock() - self._epoch_s),
            site,
            observe=self._observe,
            clock_doubt=lambda: self.clock_doubt,
            may_admit=board_restorer.may_admit,
        )
        self.sessions = Sessions(ports, board_restorer, self._settings, self._site_changed, self._shares_kept)
        self.sessions.start()
        return self.sessions

    def _shares_kept(self, shares: tuple[ShareStatus, ...]) -> None:
        self.confirmed_shares = shares

    def _site_changed(self, in_force: bool, reason: str, message: str) -> None:
        self.policies.append((in_force, reason, message))

    def _pod_uids(self) -> tuple[str, ...]:
        record = self.sessions.record
        return record.spec.pod_uids if record is not None else ()

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

    def shares(self, *shares: PowerShare) -> None:
        """Let the operator write the board's shares of PowerBudgets."""
        self._handle(SharesSeen(shares))

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
            reading = self._reading(now_s)
            if isinstance(reading, Reading):
                self._site.supply.note(reading)
            self._handle(reading)
        elif kind == "tick":
            heapq.heappush(self._times, (now_s + TICK_S, kind))
            self._site.supply.count(self._thermal.over_current_events(self.board.sysfs), now_s)
            self._handle(Tick(now_s))
            if self.on_second is not None:
                self.on_second()
        elif self.training:
            self._progress(now_s)

    def _reading(self, now_s: float) -> Event:
        """A sound sensor is asked directly, which saves most of a simulation's time; a broken one through its files."""
        if not self.board.sysfs.faults.all():
            return Reading(now_s, self.board.sysfs.instant().measured_w, supply_v=self._supply_v)
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
        self.sessions.handle(event)
        if self.strict and self.sessions.failures.count:
            raise AssertionError(f"a part of the loop failed: {self.sessions.failures.recent()}")
