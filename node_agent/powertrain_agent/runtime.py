"""Runtime: the loop with its threads (sampler, steps, planner) around one board, from start to stop."""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from powertrain.api.v1alpha1 import SessionSpec
from powertrain.expected_gain import ExpectedGain
from powertrain_agent.board_restorer import BoardRestorer
from powertrain_agent.control.controller import Controller
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.governing.board_port import ControlledBoard
from powertrain_agent.governing.board_sessions import Sessions, SiteChanged
from powertrain_agent.governing.commands import Command
from powertrain_agent.governing.events import Event, SensorFailed, SessionEvent, Tick
from powertrain_agent.governing.executor import Ports
from powertrain_agent.governing.foreign_load import ForeignLoad
from powertrain_agent.governing.ports import ReportStatus
from powertrain_agent.governing.session import Session
from powertrain_agent.governing.session_file import SessionFiles
from powertrain_agent.governing.settings import SessionSettings
from powertrain_agent.governing.share_reports import SharesKept, tell_nobody
from powertrain_agent.history import HistoryRecorder
from powertrain_agent.observing import gain_of_running_load
from powertrain_agent.planning.messages import SHIPPED_ONLY
from powertrain_agent.planning.process import PlannerProcess
from powertrain_agent.process import Process
from powertrain_agent.session_dir import SessionDir
from powertrain_agent.simulate import SimulatedBoard
from powertrain_agent.site import Site
from powertrain_agent.steps import StepReceiver, StepsSeen, TrainingSaid
from powertrain_agent.sysfs import Sysfs
from powertrain_agent.telemetry import PowerSource, Reading, Sampler, SourceError
from powertrain_agent.telemetry.sampler import PERIOD_S
from powertrain_kube.log import Log

if TYPE_CHECKING:
    from powertrain_agent.metrics import (
        AgentMetrics,  # loads prometheus_client, which an agent without metrics does not
    )

TICK_S = 1.0
FASTEST_TICK_S = 0.2  # a look at every file of a simulated board takes a while
REFRESH_S = 1.0  # how often the plain files of a simulated board follow what changes by itself, for those who look
IDLE_HEALTH_TICKS = 10  # some dozens of files: an idle agent looks at heat less often
GAIN_TICKS = 30  # how often an agent that observes predicts what another mode would bring
SESSIONS = "sessions"


def settings_for(time_scale: float, references: tuple[str, ...] = SHIPPED_ONLY) -> SessionSettings:
    """Return the loop's numbers; what waits for people, pods and threads is not sped up with the board."""
    usual = SessionSettings()
    return replace(
        usual,
        no_steps_s=usual.no_steps_s * time_scale,
        sensor_lost_s=usual.sensor_lost_s * max(1.0, time_scale),
        references=references,
    )


class Runtime:
    """One board's loop. Events may come from any thread by `put`; all else happens in the thread that calls `run`."""

    def __init__(
        self,
        controller: Controller,
        source: PowerSource | None,
        state_dir: Path,
        log: Log,
        report: ReportStatus,
        site: Site,
        *,
        metrics: AgentMetrics | None = None,
        simulated: SimulatedBoard | None = None,
        sessions_dir: Path | None = None,
        pods: Sysfs | None = None,
        beat: Callable[[], None] = lambda: None,
        site_changed: SiteChanged = lambda in_force, reason, message: None,
        shares_kept: SharesKept = tell_nobody,
        lock_fd: int | None = None,
        clock_doubt: Callable[[], str] = lambda: "",
        references: tuple[str, ...] = SHIPPED_ONLY,
        observing: bool = False,
    ) -> None:
        self.observing = observing
        self.gain: ExpectedGain | None = None
        self._scale = simulated.sysfs.time_scale if simulated is not None else 1.0
        self._simulated = simulated
        # Closes the handle on the state directory, which is open for as long as the board is served or may be.
        self.let_go: Callable[[], object] = (
            weakref.finalize(self, os.close, lock_fd) if lock_fd is not None else lambda: None
        )
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._receiver: StepReceiver | None = None
        self._metrics, self.site, self.state_dir = metrics, site, state_dir
        self._beat, self._log = beat, log
        self._planner = PlannerProcess(self.put)
        self._source = source
        self._sampler = self._sampling(source) if source is not None else None
        # Without the foreign load, whose every look begins a new interval for the windows.
        self._heat = ControlledBoard(controller)
        self._ticks = 0
        self.board_restorer = BoardRestorer(controller, state_dir, log, time.monotonic, pods, lambda: site.limits_power)
        ports = Ports(
            ControlledBoard(controller, ForeignLoad(controller.sysfs, self._pod_uids, time.monotonic)),
            self._planner,
            SessionFiles(state_dir),
            sessions_dir or state_dir / SESSIONS,
            log,
            report,
            self.clock,
            lambda: datetime.now(UTC),
            site,
            self._listen,
            observe=self._observe,
            clock_doubt=clock_doubt,
            may_admit=self.board_restorer.may_admit,
        )
        if metrics is not None:
            ports = replace(ports, count_failure=metrics.loop_failed)
        self.recorder = HistoryRecorder(StateDir(state_dir), log, self.clock, self._scale)
        settings = settings_for(self._scale, references)
        self.sessions = Sessions(ports, self.board_restorer, settings, site_changed, shares_kept)

    def clock(self) -> float:
        """Return the loop's time, which runs with the board's."""
        return time.monotonic() * self._scale

    def put(self, event: Event) -> None:
        """Hand an event to the loop."""
        self._queue.put(event)

    def run(self, stop: threading.Event, spec: SessionSpec | None = None, process: Process | None = None) -> None:
        """Serve until told to stop; the board keeps its mode. A session given here belongs to this process."""
        if not self.observing:
            self.sessions.start()
        if spec is not None:
            self.sessions.offer(spec, process)
        if self._sampler is not None:
            self._sampler.start()
        try:
            self._loop(stop)
        finally:
            if self._sampler is not None:
                self._sampler.stop()
            if self._source is not None:
                self._source.close()
            self._listen(None)
            self._planner.stop()
            self.recorder.close()
            self.let_go()

    def restore(self, reason: str) -> list[str]:
        """End the session of a stopped loop and bring back what was found; returns what could not be."""
        report = self.board_restorer.controller.restore()
        if report.ok:
            self.sessions.close(reason)
        return [str(problem) for problem in report.problems]

    def _loop(self, stop: threading.Event) -> None:
        tick_s = max(FASTEST_TICK_S, TICK_S / self._scale)
        next_tick_s = next_refresh_s = time.monotonic()
        while not stop.is_set():
            now_s = time.monotonic()
            if now_s >= next_tick_s:
                next_tick_s = now_s + tick_s
                self._tick()
            if self._simulated is not None and now_s >= next_refresh_s:
                next_refresh_s = now_s + REFRESH_S
                self._simulated.sysfs.refresh()
            self._take_events(min(next_tick_s, next_refresh_s if self._simulated else next_tick_s))

    def _take_events(self, until_s: float) -> None:
        # The first wait is short so that a stop is seen; what has piled up is taken in one go.
        wait_s = max(0.001, min(0.2, until_s - time.monotonic()))
        try:
            event = self._queue.get(timeout=wait_s)
            while True:
                self._take_steps()
                self._handle(event)
                if time.monotonic() >= until_s:
                    return
                event = self._queue.get_nowait()
        except queue.Empty:
            self._take_steps()

    def _take_steps(self) -> None:
        """Take the steps that have ended so far: what comes next may judge by them.

        Ten readings a second wake the loop; being woken by each of fifty datagrams would cost more than all else. Of
        those that the kernel does not keep while the loop is busy, the SDK adds the steps to its next one.
        """
        if self._receiver is None:
            return
        events: list[StepsSeen | TrainingSaid] = []
        with self.sessions.failures.catching("receive"):
            events = self._receiver.take()
        for event in events:
            self._handle(event)

    def _handle(self, event: Event) -> None:
        if self.observing:
            self._watch(event)
        else:
            self.sessions.handle(event)
        if isinstance(event, Tick):
            self._beat()

    def _watch(self, event: Event) -> None:
        """Take an event without acting on it: an agent that observes serves no session and keeps no policy."""
        if isinstance(event, Reading | SensorFailed):
            self._observe(event, None, ())
        elif isinstance(event, Tick) and self._ticks % GAIN_TICKS == 1:
            controller = self.board_restorer.controller
            with self.sessions.failures.catching("gain"):
                self.gain = gain_of_running_load(controller.sysfs, controller.board)
                if self._metrics is not None:
                    self._metrics.expected_gain(self.gain)

    def _tick(self) -> None:
        if self._simulated is not None:
            self._simulated.sysfs.absorb()
        self._ticks += 1
        with self.sessions.failures.catching("health"):
            if self.sessions.record is not None or self._ticks % IDLE_HEALTH_TICKS == 0:
                self._look_at_health()
            if self._metrics is not None and self._receiver is not None:
                self._metrics.dropped(self._receiver.counter.dropped)
        # Behind what came before it: a loop that was busy for a while must not take its own delay for a lost sensor.
        self.put(Tick(self.clock()))

    def _observe(
        self, event: SessionEvent | SensorFailed, session: Session | None, commands: Sequence[Command]
    ) -> None:
        """Show an event to those who only watch: what one of them can't take, the other still gets."""
        try:
            if self._metrics is not None:
                self._metrics.observe(event, session, commands)
        finally:
            self.recorder.observe(event, session, commands)

    def _look_at_health(self) -> None:
        health = self._heat.health()
        if self._metrics is not None:
            self._metrics.health(health)
        if alarms := self.site.supply.count(health.over_current, self.clock()):
            self._log(
                "supply", alarms=list(alarms), reason="the supply raised an alarm: readings must stay below its power"
            )

    def _sampling(self, source: PowerSource) -> Sampler:
        def deliver(reading: Reading) -> None:
            at = reading if self._scale == 1.0 else replace(reading, at_s=reading.at_s * self._scale)
            self.site.supply.note(at)
            self.put(at)

        def complain(error: SourceError, first: bool) -> None:
            self.put(SensorFailed(str(error), first))

        return Sampler(source, deliver, complain, PERIOD_S / self._scale)

    def _listen(self, directory: SessionDir | None) -> None:
        if self._receiver is not None:
            self._receiver.close()
            self._receiver = None
        if directory is not None:
            self._receiver = StepReceiver(directory, self.clock, self._scale)

    def _pod_uids(self) -> tuple[str, ...]:
        record = self.sessions.record
        return record.spec.pod_uids if record is not None else ()
