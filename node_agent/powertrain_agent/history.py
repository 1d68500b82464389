"""Records the history of the session that is served: on the host, and a compact copy for the PowerNode's status.

It watches what the loop decides, as the metrics do, and changes nothing. The file is of the session that is served or
was served last: it outlives the session's directory and restarts of the agent, and the next session replaces it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from powertrain import PowerMode
from powertrain.api.v1alpha1 import NodeHistory, Reason, moment
from powertrain.session_history import Happening, SessionHistory
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.governing.commands import Command, Forget, Say
from powertrain_agent.governing.events import SensorFailed, SessionEvent, Tick
from powertrain_agent.governing.limits import watts
from powertrain_agent.governing.session import Session
from powertrain_agent.telemetry import Reading
from powertrain_kube.log import Log

FILE = "history.json"
# A crash loses at most this much; more often would wear out the flash of small boards.
SAVE_S = 60.0
# A copy in the status is some kilobytes: it is renewed less often than figures are.
PUBLISH_S = 30.0
_KINDS = {
    Reason.PROFILING: Happening.TRIAL,
    Reason.CHECK: Happening.TRIAL,
    Reason.GUARD: Happening.GUARD,
    Reason.SCHEDULE: Happening.LIMIT,
}


class HistoryRecorder:
    """`observe` and `close` are called by the loop's thread; `published` may be read by any."""

    def __init__(
        self,
        directory: StateDir,
        log: Log,
        clock: Callable[[], float],
        scale: float = 1.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`clock` is the loop's, which runs `scale` times as fast as the wall's on a simulated board."""
        self._directory, self._log, self._clock, self._scale, self._now = directory, log, clock, scale, now
        self._session, self._history = "", SessionHistory("")
        self._zero_s = 0.0  # the loop's time of second 0
        self._last: tuple[Reason | None, PowerMode | None] = (None, None)
        self._limit_w: float | None = None
        self._saved_s = self._published_s = clock()
        self._failing = False
        self.published: NodeHistory | None = None
        self._load()

    @property
    def history(self) -> SessionHistory:
        """Return the history of the session that is served, or was served last."""
        return self._history

    def observe(self, event: SessionEvent | SensorFailed, session: Session | None, commands: Sequence[Command]) -> None:
        """Take one event of the loop, with what was decided on it."""
        if session is None:
            return
        if session.record.spec.uid != self._session:
            self._begin(session)
        at_s = max(0.0, self._clock() - self._zero_s)
        if isinstance(event, Reading):
            self._take(event, session)
        self._mark(at_s, session, commands)
        if any(isinstance(command, Forget) for command in commands):
            self._publish()
            self.close()
        elif isinstance(event, Tick):
            self._keep()

    def close(self) -> None:
        """Write what is known to the disk."""
        self._saved_s = self._clock()
        if not self._session:
            return
        document = {"session": self._session, "history": self._history.to_dict()}
        try:
            self._directory.replace(FILE, json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode())
        except OSError as error:
            if not self._failing:
                self._log("disk", reason=f"the session's history could not be saved: {error}")
            self._failing = True
            return
        self._failing = False

    def _load(self) -> None:
        """Take up what an earlier run left; a file that can't be read is replaced with the next save."""
        try:
            document = json.loads(self._directory.read(FILE) or b"null")
            if document is None:
                return
            self._history, self._session = SessionHistory.from_dict(document["history"]), str(document["session"])
            began = datetime.fromisoformat(self._history.began_at)
            passed_s = (self._now() - began).total_seconds() * self._scale
        except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            self._history, self._session = SessionHistory(""), ""
            self._log("disk", reason=f"the last session's history can't be read: {error!r}"[:300])
            return
        # A wall clock that was set back must not bring time back.
        last_s = self._history.rows[-1].at_s if self._history.rows else 0.0
        self._zero_s = self._clock() - max(passed_s, last_s)
        self._publish()

    def _begin(self, session: Session) -> None:
        self._session, self._zero_s = session.record.spec.uid, self._clock()
        self._history = SessionHistory(moment(self._now()))
        self._last, self._limit_w = (None, None), session.budget.power_w

    def _take(self, reading: Reading, session: Session) -> None:
        mode = session.record.mode
        self._history.add(
            max(0.0, reading.at_s - self._zero_s),
            reading.power_w,
            session.step_s,
            None if mode is None else str(mode),
            session.guard.limit_w,
        )

    def _mark(self, at_s: float, session: Session, commands: Sequence[Command]) -> None:
        record, budget = session.record, session.budget
        if budget.power_w != self._limit_w:
            text = f"limit {watts(self._limit_w)} → {watts(budget.power_w)}: {budget.source}"
            self._history.mark(at_s, Happening.LIMIT, text)
            self._limit_w = budget.power_w
        for command in commands:
            if isinstance(command, Say):
                mode_text = command.fields.get("mode")
                mode = PowerMode.parse(mode_text) if isinstance(mode_text, str) else record.mode
                if (command.reason, mode) != self._last:
                    self._history.mark(at_s, _KINDS.get(command.reason, Happening.MODE), command.text)
                self._last = (command.reason, mode)
        # A trial approaches its mode in steps: the rows have them, and the trial is marked already.
        reason, mode = self._last
        if record.mode not in (None, mode) and _KINDS.get(reason or Reason.START) is not Happening.TRIAL:
            self._history.mark(at_s, Happening.MODE, f"mode {record.mode.human}")
            self._last = (reason, record.mode)

    def _keep(self) -> None:
        now_s = self._clock()
        if now_s - self._published_s >= PUBLISH_S * self._scale:
            self._publish()
        if now_s - self._saved_s >= SAVE_S * self._scale:
            self.close()

    def _publish(self) -> None:
        self._published_s = self._clock()
        if self._session:
            self.published = NodeHistory(session=self._session, data=self._history.compact().to_text())
