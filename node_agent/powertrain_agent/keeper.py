"""Keeper: what the agent does with a board that it finds changed: holds the job's mode, or restores what was found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from powertrain_agent.control import cgroups
from powertrain_agent.control.cgroups import PodCgroup
from powertrain_agent.control.controller import Controller, Report
from powertrain_agent.control.hold import Action, Decision, Facts, decide
from powertrain_agent.control.snapshot import SnapshotError
from powertrain_agent.log import Log

SESSION = "session.json"


class SessionFileError(Exception):
    """A session file that can't be read: a job may hold the board, so its mode is kept."""


@dataclass(frozen=True)
class Session:
    """The job that holds the board, as far as it must be known without the API server."""

    uid: str
    pod_uids: tuple[str, ...]

    @classmethod
    def load(cls, directory: Path) -> Session | None:
        """Return the session that the state directory holds, None if there is none."""
        try:
            raw = json.loads((directory / SESSION).read_text(encoding="utf-8"))
            return cls(str(raw["uid"]), tuple(str(uid) for uid in raw["podUIDs"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SessionFileError(f"{directory / SESSION} can't be read: {error!r}") from error


class Keeper:
    """Decides again on every tick; nothing here raises the board above the mode a job has."""

    def __init__(self, controller: Controller, state_dir: Path, log: Log, clock: Callable[[], float]) -> None:
        self.controller = controller
        self._state_dir = state_dir
        self._log = log
        self._clock = clock
        self._started_s = clock()
        self._absent_since_s: float | None = None
        self._last: Decision | None = None

    def tick(self) -> None:
        """Look at the board and the host once, and do what the truth table says."""
        try:
            if self.controller.store.load() is None:
                return
            decision = self._decide()
            report = self.controller.restore() if decision.action is Action.RESTORE else self._hold()
        except SnapshotError as error:
            self._say(Decision(Action.HOLD, str(error)), None)
            return
        self._say(decision, report)

    def _hold(self) -> Report:
        """At start-up the mode is written again; later it is only checked."""
        first = self._last is None or self._last.action is not Action.HOLD
        return self.controller.resume() if first else self.controller.check()

    def _decide(self) -> Decision:
        try:
            session = Session.load(self._state_dir)
        except SessionFileError as error:
            return Decision(Action.HOLD, str(error))
        if session is None:
            # The session is on the disk before its first mode is applied: without one no job holds the board.
            return Decision(Action.RESTORE, "no session is recorded")
        return decide(self._facts(session))

    def _facts(self, session: Session) -> Facts:
        now_s = self._clock()
        state = cgroups.look(self.controller.sysfs, session.pod_uids)
        if state is not PodCgroup.ABSENT:
            self._absent_since_s = None
        elif self._absent_since_s is None:
            self._absent_since_s = now_s
        absent_s = 0.0 if self._absent_since_s is None else now_s - self._absent_since_s
        # Without a link to the API server it has been away since the start; nothing is known to be released or gone.
        return Facts(state, absent_s, now_s - self._started_s, power_node_gone=False, release_seen=False)

    def _say(self, decision: Decision, report: Report | None) -> None:
        problems = [str(problem) for problem in report.problems] if report else []
        foreign = [f"{change.path} = {change.value}" for change in report.foreign] if report else []
        if self._last is None or decision.action is not self._last.action or problems or foreign:
            mode = str(report.mode) if report and report.mode else None
            self._log(decision.action.value, reason=decision.reason, mode=mode, problems=problems, foreign=foreign)
        self._last = decision
