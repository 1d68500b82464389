"""The sessions of one board: which one is served, when the board is released, and what the site's policy says.

It turns the agent's events into events of the session that is served; `Executor` takes those to their end.
"""

from __future__ import annotations

from collections.abc import Callable

from powertrain.api.v1alpha1 import NodePolicy, Phase, Reason, SessionSpec, SessionStatus
from powertrain_agent.board_restorer import BoardRestorer
from powertrain_agent.control.hold_or_restore import Action, Decision
from powertrain_agent.control.report import BoardReport
from powertrain_agent.governing.events import (
    Amended,
    ApiAway,
    ApiBack,
    EnvelopeSeen,
    Event,
    HeldBy,
    ModeChecked,
    Opened,
    PolicyChanged,
    PolicySeen,
    PowerNodeGone,
    ReportDue,
    Restored,
    Resumed,
    SensorFailed,
    SharesSeen,
    Tick,
)
from powertrain_agent.governing.executor import Executor, Ports
from powertrain_agent.governing.record import SessionRecord
from powertrain_agent.governing.sensor_loss import doubt
from powertrain_agent.governing.settings import SessionSettings
from powertrain_agent.governing.share_reports import ShareReports, SharesKept, tell_nobody
from powertrain_agent.process import Process
from powertrain_agent.steps import StepsSeen, TrainingSaid
from powertrain_agent.telemetry import Reading
from powertrain_agent.telemetry.plausibility import implausible, most_w

SiteChanged = Callable[[bool, str, str], None]  # the policy is in force or not, with reason and message
BoardTick = tuple[Decision, BoardReport | None]


class Sessions:
    """Serves one session after the other. `handle` is called by one thread only."""

    def __init__(
        self,
        ports: Ports,
        board_restorer: BoardRestorer,
        settings: SessionSettings | None = None,
        site_changed: SiteChanged = lambda in_force, reason, message: None,
        shares_kept: SharesKept = tell_nobody,
    ) -> None:
        self.ports, self._board_restorer, self._site_changed = ports, board_restorer, site_changed
        self.executor = Executor(ports, settings or SessionSettings())
        self.failures = self.executor.failures
        self._shares = ShareReports(self.executor, shares_kept)
        self._next: tuple[SessionSpec, Process | None] | None = None  # waits until the board is free
        self._answered_uid: str | None = None  # the release that was last reported as restored
        self._most_w = most_w(ports.board.preset_watts)

    @property
    def record(self) -> SessionRecord | None:
        """Return what is known of the session that is served; None without one."""
        return self.executor.record

    # The life of sessions

    def start(self) -> None:
        """Take care of what an earlier run left; call it once before the first event. Nothing that it left raises."""
        board_tick: BoardTick | None = None
        with self.failures.catching("start"):
            board_tick = self._board_restorer.tick()
        record = self.ports.files.load()
        with self.failures.catching("policy"):
            if record is None:
                self._settle_policy()
            self._tell_policy()
        if record is None:
            return
        try:
            self._take_up(record, board_tick)
        except Exception as error:
            self.failures.note("resume", error)
            self._begin_anew(record)

    def offer(self, spec: SessionSpec, process: Process | None = None) -> None:
        """Begin a session now, or as soon as the one before has released the board."""
        if self.record is None:
            self._open(spec, process)
        else:
            self._next = (spec, process)

    def close(self, reason: str) -> None:
        """End the session: its board is restored already."""
        self._end(Restored(reason, was_changed=False))

    def _take_up(self, record: SessionRecord, board_tick: BoardTick | None) -> None:
        self._board_restorer.power_node_gone = False
        restored = self._restored(board_tick)
        if restored is None and board_tick is None and self._board_restorer.over():
            restored = Restored("the session is over, and the board is not changed for it", was_changed=False)
        if restored is None:
            self.executor.begin(record, Resumed())
        else:
            self.executor.begin(record, restored)
            self._after_end(record)

    def _begin_anew(self, unusable: SessionRecord) -> None:
        """Guard the session without what was saved of it: from the safe mode on, as if it had just begun."""
        try:
            self.executor.begin(SessionRecord(unusable.spec, process=unusable.process), Resumed())
        except Exception as error:
            self.failures.note("resume", error)
            self.executor.drop()

    def _open(self, spec: SessionSpec, process: Process | None = None) -> None:
        self._board_restorer.power_node_gone = False
        self.executor.begin(SessionRecord(spec, process=process, strategy=spec.plan.strategy), Opened())

    def _end(self, event: Restored) -> None:
        record = self.record
        if record is not None:
            self.executor.handle(event)
            self._after_end(record)

    def _after_end(self, record: SessionRecord) -> None:
        """Begin the next session, if this one has ended."""
        if self.record is not None:
            return
        self._board_restorer.session_ended()
        self._answered_uid = record.spec.uid
        self._settle_policy()
        waiting, self._next = self._next, None
        if waiting is not None and waiting[0].uid != self._board_restorer.released:
            self._open(*waiting)

    # Events

    def handle(self, event: Event) -> None:
        """Take one event to its end; one that fails is told and passed over, since nobody else guards the job."""
        with self.failures.catching(type(event).__name__):
            self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case Reading():
                self._reading(event)
            case SensorFailed():
                self._no_reading(event)
            case StepsSeen() | TrainingSaid():
                self._board_restorer.note_sign_of_life()
                self.executor.handle(event)
            case Tick():
                self._tick(event)
            case EnvelopeSeen():
                self._envelope(event)
            case PolicySeen():
                self._policy(event.policy)
            case SharesSeen():
                self._shares.take(event)
            case HeldBy():
                self._held_by(event)
            case ApiAway():
                self._board_restorer.api_is_away(self.ports.clock() - event.since)
                self.ports.log("api", reason="the API server does not answer: the mode is held and guarded")
            case ApiBack():
                self._board_restorer.api_away_since_s = None
                self.ports.log("api", reason="the API server is back")
            case PowerNodeGone():
                self._board_restorer.power_node_gone = True
            case _:
                self.executor.handle(event)

    def _reading(self, reading: Reading) -> None:
        executor = self.executor
        wrong = implausible(reading, self._most_w)
        if not wrong and executor.session is not None:
            wrong = doubt(executor.session, reading)
        if wrong:
            self._no_reading(SensorFailed(wrong, first=not executor.sensor_failure))
            return
        executor.sensor_failure = ""
        self._shares.reading(reading)
        try:
            executor.handle(reading)
        finally:
            executor.last_reading = reading
        executor.guarded_s = reading.at_s

    def _no_reading(self, event: SensorFailed) -> None:
        self.ports.observe(event, self.executor.session, ())
        if event.first:
            self.ports.log("sensor", reason=event.reason)
        self.executor.sensor_failure = event.reason

    def _tick(self, event: Tick) -> None:
        goes_on = True  # on doubt the session is guarded
        with self.failures.catching("board"):
            goes_on = self._hold_or_restore()
        if goes_on:
            with self.failures.catching("session"):
                self.executor.handle(event)
            self.executor.handle(ReportDue())
        self._shares.tick()

    def _hold_or_restore(self) -> bool:
        """Hold the board or restore it, as the truth table says; say whether the session goes on."""
        board_tick, record = self._board_restorer.tick(), self.record
        if record is None:
            if board_tick is None:
                self._answer_release()
            self._settle_policy()
            return False
        restored = self._restored(board_tick)
        if restored is None and board_tick is None and record.mode is None and self._board_restorer.over():
            restored = Restored("the session is over before a mode was set", was_changed=False)
        if restored is not None:
            self._end(restored)
            return False
        if board_tick is not None and board_tick[1] is not None:
            self.executor.handle(ModeChecked(board_tick[1].mode, tuple(map(str, board_tick[1].problems))))
        return True

    def _restored(self, board_tick: BoardTick | None) -> Restored | None:
        if board_tick is None or board_tick[0].action is not Action.RESTORE:
            return None
        problems = (
            ("the board could not be read",) if board_tick[1] is None else tuple(map(str, board_tick[1].problems))
        )
        return Restored(board_tick[0].reason, problems)

    def _answer_release(self) -> None:
        """BoardReport a released session that left nothing here: the operator waits for that, whoever served it."""
        uid = self._board_restorer.released
        if uid is None or uid == self._answered_uid:
            return
        self._answered_uid = uid
        message = "released: nothing of this session is left on the board"
        self.ports.log("ended", session=uid, reason=message)
        status = SessionStatus(uid=uid, phase=Phase.ENDED, reason=Reason.HOLD, message=message, restored=True)
        with self.failures.catching("report"):
            self.ports.report(status, True)

    def _envelope(self, event: EnvelopeSeen) -> None:
        self._board_restorer.released = event.release
        self._board_restorer.api_away_since_s = None
        spec, record = event.spec, self.record
        if not event.refused:
            # A PowerNode that asks for another session, or for none, is as good as gone for the one that is served.
            self._board_restorer.power_node_gone = (spec and spec.uid) != (record and record.spec.uid)
        self._next = None
        if spec is None or spec.uid == event.release:
            return
        if record is None:
            self._open(spec)
        elif record.spec.uid != spec.uid:
            self._next = (spec, None)
        elif record.spec != spec:
            self.executor.handle(Amended(spec))

    def _held_by(self, event: HeldBy) -> None:
        record = self.record
        if record is not None and record.spec.uid == event.uid:
            record.process = event.process
            self.ports.files.save(record)

    # The site's policy

    def _policy(self, policy: NodePolicy | None) -> None:
        site = self.ports.site
        if not site.take(policy):
            return
        self.ports.log("policy", reason="the site's policy changes", **site.newest.wire())
        self.executor.handle(PolicyChanged())
        self._settle_policy()
        self._tell_policy()

    def _settle_policy(self) -> None:
        """Put the whole policy in force once no session runs; a session keeps the modes it began with."""
        site, board = self.ports.site, self.ports.board
        if self.record is not None or site.in_force == site.newest:
            return
        fitted = board.refit(site.newest)
        site.shortfall = fitted.reason
        if fitted.ok:
            site.settle()
        self.ports.log("cores", reason=fitted.reason or "the policy is in force", modes=len(board.space), ok=fitted.ok)
        self._tell_policy()

    def _tell_policy(self) -> None:
        site = self.ports.site
        if site.is_pending:
            waits = "the watts are in force; the rest follows when the session has ended"
            self._site_changed(False, "SessionRunning" if self.record else "BoardHeld", site.shortfall or waits)
        else:
            self._site_changed(not site.shortfall, "CoresStayFixed" if site.shortfall else "InForce", site.shortfall)
