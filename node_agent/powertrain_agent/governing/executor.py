"""The executor: gives a session's events to the machine and carries its commands out. It decides nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from powertrain.api.v1alpha1 import SessionSpec, SessionStatus
from powertrain_agent.governing.commands import (
    ApplyMode,
    AskPlanner,
    CloseGate,
    Command,
    Forget,
    Inspect,
    OpenGate,
    Publish,
    RestPlanner,
    Save,
    Say,
    SetFan,
)
from powertrain_agent.governing.events import (
    Amended,
    Inspected,
    ModeApplied,
    Opened,
    Restored,
    Result,
    Resumed,
    SensorFailed,
    SessionEvent,
    Tick,
)
from powertrain_agent.governing.failures import Failures
from powertrain_agent.governing.machine import Waiting, decide
from powertrain_agent.governing.ports import BoardPort, Health, ReportStatus
from powertrain_agent.governing.record import SessionRecord
from powertrain_agent.governing.session import BoardFacts, Facts, Session
from powertrain_agent.governing.session_file import SessionFiles
from powertrain_agent.governing.settings import SessionSettings
from powertrain_agent.governing.states import Ended, New, Refused, State
from powertrain_agent.planning.messages import Planner
from powertrain_agent.session_dir import SessionDir
from powertrain_agent.site import Site
from powertrain_agent.steps import StepsSeen
from powertrain_agent.telemetry import Reading
from powertrain_kube.log import Log

Observe = Callable[[SessionEvent | SensorFailed, Session | None, Sequence[Command]], None]


@dataclass(frozen=True)
class Ports:
    """What the executor works with."""

    board: BoardPort
    planner: Planner
    files: SessionFiles
    sessions_dir: Path
    log: Log
    report: ReportStatus
    clock: Callable[[], float]
    now: Callable[[], datetime]
    site: Site
    listen: Callable[[SessionDir | None], None] = lambda directory: None  # to this session's steps, or to none
    observe: Observe = lambda event, session, commands: None  # for whoever counts
    count_failure: Callable[[str], None] = lambda part: None
    clock_doubt: Callable[[], str] = lambda: ""
    may_admit: Callable[[], bool] = lambda: True


class Executor:
    """Serves one session at a time. `session` and `state` are None where there is none."""

    def __init__(self, ports: Ports, settings: SessionSettings) -> None:
        self.ports, self.settings = ports, settings
        self.failures = Failures(ports.log, ports.clock, ports.count_failure)
        self.session: Session | None = None
        self.state: State | None = None
        self.last_reading: Reading | None = None
        self.guarded_s: float | None = None  # the time of the last reading that was taken to its end
        self.sensor_failure = ""
        self._may_admit = True
        self._gate_is_open: bool | None = None
        self._fan_maximum: bool | None = None

    @property
    def record(self) -> SessionRecord | None:
        """Return what is known of the session."""
        return None if self.session is None else self.session.record

    def begin(self, record: SessionRecord, event: Opened | Resumed | Restored) -> None:
        """Serve a session, new or left by an earlier run."""
        ports, board = self.ports, self.ports.board
        self._gate_is_open = self._fan_maximum = None
        with self.failures.catching("listen"):  # without its socket a training counts as one without steps
            ports.listen(SessionDir(ports.sessions_dir, record.spec.uid))
        facts = BoardFacts(board.space, board.boot_id(), board.device, board.descending_only)
        self.session = Session.of(record, facts, self.settings, self._facts(record.spec, event))
        self.state = New()
        self.handle(event)

    def drop(self) -> None:
        """Stop serving a session that can't be served; its mode is held as long as its pods live."""
        self.session = self.state = None

    def handle(self, event: SessionEvent) -> None:
        """Take one event to its end; a decision that fails leaves the state as it was."""
        session, state = self.session, self.state
        if session is None or state is None:
            self.ports.observe(event, None, ())
            return
        following: SessionEvent | None = event
        after: State | Waiting = state
        while following is not None:
            after, commands = decide(session, after, following, self._facts(session.record.spec, following))
            with self.failures.catching("metrics"):
                self.ports.observe(following, session, commands)
            following = self._carry_out(session, commands)
        assert not isinstance(after, Waiting)
        self.state = after
        if isinstance(after, Ended | Refused):
            self.drop()

    def _facts(self, spec: SessionSpec, event: SessionEvent) -> Facts:
        ports, limits = self.ports, event.spec.limits if isinstance(event, Amended) else spec.limits
        now, clock_doubt = ports.now(), ports.clock_doubt()
        policy, site_source = ports.site.limits_at(now, clock_doubt)
        if not isinstance(event, Reading | StepsSeen):  # those come too often for a look at the host
            self._may_admit = ports.may_admit()
        return Facts(
            now_s=event.at if isinstance(event, Tick) else ports.clock(),  # readings before it were taken by then
            now=now,
            policy=policy,
            site_source=site_source,
            hard_limit_w=ports.site.hard_limit_w(limits),
            in_force=ports.site.in_force,
            planner_busy=ports.planner.busy,
            last_reading=self.last_reading,
            guarded_s=self.guarded_s,
            sensor_failure=self.sensor_failure,
            clock_doubt=clock_doubt,
            supply_alarm=ports.site.supply.alarm,
            loop_failure=self.failures.recent(),
            may_admit=self._may_admit,
            gate_is_open=self._gate_is_open,
            fan_maximum=self._fan_maximum,
        )

    def _carry_out(self, session: Session, commands: Sequence[Command]) -> Result | None:
        """Carry commands out in their order; the last may have a result."""
        result: Result | None = None
        for command in commands:
            match command:
                case ApplyMode(mode):
                    applied = self.ports.board.apply(mode)
                    result = ModeApplied(mode, applied.ok, applied.reason)
                case Inspect(mode, health):
                    off_clock = {} if mode is None else self.ports.board.off_clock(mode)
                    result = Inspected(off_clock, self.ports.board.health() if health else Health())
                case AskPlanner(number, request):
                    self.ports.planner.submit(number, request)
                case RestPlanner():
                    self.ports.planner.rest()
                case Say(reason, text, fields):
                    self._log("decision", session, reason=reason.value, what=text, **fields)
                case Publish(status, urgent, failure):
                    self._publish(status, urgent, failure)
                case _:
                    self._look_after(session, command)
        return result

    def _look_after(self, session: Session, command: Command) -> None:
        """Carry out what touches the session's files, its gate and the fan; a part that fails stops no other."""
        match command:
            case Save():
                self._save(session)
            case OpenGate():
                with self.failures.catching("gate"):
                    self._open_gate(session)
            case CloseGate():
                with self.failures.catching("gate"):
                    self._directory(session).close_gate()
                    self._gate_is_open = False
                    self._log(
                        "gate", session, open=False, reason="no known pod is left, and the API server does not answer"
                    )
            case SetFan(maximum):
                with self.failures.catching("fan"):
                    outcome = self.ports.board.fan_max(maximum)
                    self._fan_maximum = maximum
                    self.ports.log("fan", max=maximum, ok=outcome.ok, reason=outcome.reason)
            case Forget(reason):
                self._forget(session, reason)

    def _open_gate(self, session: Session) -> None:
        if not self._may_admit:
            return  # a moment later, when a pod that comes would be known
        was_closed, self._gate_is_open = self._gate_is_open is False, True
        self._directory(session).write_ready(session.record.boot_id, str(session.record.mode))
        if was_closed:
            self._log("gate", session, open=True, reason="a known pod or the API server is back")

    def _publish(self, status: SessionStatus, urgent: bool, failure: Exception | None) -> None:
        if failure is not None:
            self.failures.note("status", failure)
        with self.failures.catching("report"):
            self.ports.report(status, urgent)

    def _save(self, session: Session) -> None:
        """Put the session on the disk; what can't be saved is told, and the session goes on."""
        try:
            self.ports.files.save(session.record)
        except OSError as error:
            self._log("disk", session, reason=f"the session could not be saved: {error}")
        except Exception as error:
            self.failures.note("save", error)

    def _forget(self, session: Session, reason: str) -> None:
        with self.failures.catching("close"):
            self.ports.listen(None)
            self._directory(session).remove()
        with self.failures.catching("save"):
            self.ports.files.remove()
        self._log("ended", session, reason=reason)

    def _directory(self, session: Session) -> SessionDir:
        return SessionDir(self.ports.sessions_dir, session.record.spec.uid)

    def _log(self, event: str, session: Session, **fields: object) -> None:
        spec = session.record.spec
        self.ports.log(event, session=spec.uid, job=str(spec.job), **fields)
