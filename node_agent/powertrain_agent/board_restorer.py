"""Restores a board's original settings once its session is over, and keeps the job's mode until then.

The rules, also those for an API server that is away, are in `control/hold_or_restore.py`; their facts come from here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from powertrain_agent.control import cgroups
from powertrain_agent.control.cgroups import PodCgroup
from powertrain_agent.control.controller import BoardReport, Controller
from powertrain_agent.control.hold_or_restore import API_AWAY_S, Action, Decision, Facts, decide
from powertrain_agent.control.snapshot import SnapshotError
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.neighbours import Neighbours
from powertrain_agent.process import Process
from powertrain_agent.sysfs import Sysfs
from powertrain_kube.log import Log

SESSION = "session.json"


class SessionFileError(Exception):
    """A session file that can't be read: a job may hold the board, so its mode is kept."""


@dataclass(frozen=True)
class BoardHolder:
    """The job that holds the board, as far as it must be known without the API server."""

    uid: str
    pod_uids: tuple[str, ...]
    process: Process | None = None  # of a training that runs without a pod

    @classmethod
    def load(cls, directory: Path) -> BoardHolder | None:
        """Return the session that the state directory holds, None if there is none."""
        try:
            raw = json.loads((directory / SESSION).read_text(encoding="utf-8"))
            process = raw.get("process")
            held_by = None if process is None else Process.from_dict(process)
            return cls(str(raw["uid"]), tuple(str(uid) for uid in raw["podUIDs"]), held_by)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise SessionFileError(f"{directory / SESSION} can't be read: {error!r}") from error


class BoardRestorer:
    """Decides again on every tick; nothing here raises the board above the mode a job has."""

    def __init__(
        self,
        controller: Controller,
        state_dir: Path,
        log: Log,
        clock: Callable[[], float],
        pods: Sysfs | None = None,
        site_limited: Callable[[], bool] = lambda: False,
    ) -> None:
        self.controller = controller
        self._pods = pods or controller.sysfs  # the host whose control groups tell whether pods live
        self._state_dir = state_dir
        self._log = log
        self._clock = clock
        self._site_limited = site_limited
        self._neighbours = Neighbours(StateDir(state_dir))
        self._heard_s: float | None = None
        self._absent_since_s: float | None = None
        self._last: Decision | None = None
        self._problems: list[str] = []
        # Without a link to the API server it has been away since the start.
        self.api_away_since_s: float | None = clock()
        self.power_node_gone = False
        self.released: str | None = None

    def tick(self) -> tuple[Decision, BoardReport | None] | None:
        """Look at the board and the host once, do what the truth table says and return it; None: nothing to keep."""
        try:
            if self.controller.store.load() is None:
                return None
            decision = self._decide()
            report = self.controller.restore() if decision.action is Action.RESTORE else self._hold()
        except SnapshotError as error:
            decision = Decision(Action.HOLD, str(error))
            self._say(decision, None)
            return decision, None
        self._say(decision, report)
        return decision, report

    def api_is_away(self, for_s: float) -> None:
        """Take note that the API server has not answered for so long."""
        self.api_away_since_s = self._clock() - for_s

    def note_sign_of_life(self) -> None:
        """Take note of a sign of life on the session's socket, which only its pods can reach."""
        self._heard_s = self._clock()

    def session_ended(self) -> None:
        """Forget what was learnt about the pods beside a session."""
        self._heard_s = self._absent_since_s = None
        self._neighbours.forget()

    def may_admit(self) -> bool:
        """Say whether a new pod may start: not while its uid could not be learnt and no known pod is left.

        Without the API server nobody would count it: it waits at the gate.
        """
        if self.api_away_since_s is None:
            return True
        try:
            session = BoardHolder.load(self._state_dir)
        except SessionFileError:
            return False
        if session is None or session.process is not None:
            return True
        return cgroups.look(self._pods, session.pod_uids) is not PodCgroup.ABSENT

    def over(self) -> bool:
        """Say whether the recorded session may be forgotten although the agent changed nothing for it."""
        try:
            return self._decide().action is Action.RESTORE
        except SnapshotError:
            return False

    def reason_held(self) -> str:
        """Return why the board belongs to a session that an earlier run recorded; empty where it is free."""
        decision = self._decide()
        return decision.reason if decision.action is Action.HOLD else ""

    def _hold(self) -> BoardReport:
        """At start-up the mode is written again; later it is only checked."""
        first = self._last is None or self._last.action is not Action.HOLD
        return self.controller.resume() if first else self.controller.check()

    def _decide(self) -> Decision:
        try:
            session = BoardHolder.load(self._state_dir)
        except SessionFileError as error:
            return Decision(Action.HOLD, str(error))
        if session is None:
            # The session is on the disk before its first mode is applied: without one no job holds the board.
            return Decision(Action.RESTORE, "no session is recorded")
        if session.process is not None:
            if session.process.is_alive:
                return Decision(Action.HOLD, f"the training's process {session.process.pid} runs")
            return Decision(Action.RESTORE, f"the training's process {session.process.pid} has ended")
        return decide(self._facts(session))

    def _facts(self, session: BoardHolder) -> Facts:
        now_s = self._clock()
        present = cgroups.pods(self._pods)
        state = cgroups.state_of(present, session.pod_uids)
        if self.api_away_since_s is None and present is not None:
            self._neighbours.learn(present, session.pod_uids, now_s)
        if state is not PodCgroup.ABSENT:
            self._absent_since_s = None
        elif self._absent_since_s is None:
            self._absent_since_s = now_s
        absent_s = 0.0 if self._absent_since_s is None else now_s - self._absent_since_s
        away_s = 0.0 if self.api_away_since_s is None else now_s - self.api_away_since_s
        released, is_node_gone = self.released == session.uid, self.power_node_gone
        shows_life = self._heard_s is not None and now_s - self._heard_s < API_AWAY_S
        lives = shows_life or bool(self._neighbours.unknown_pods(present or (), session.pod_uids))
        return Facts(state, absent_s, away_s, is_node_gone, released, lives, self._site_limited())

    def _say(self, decision: Decision, report: BoardReport | None) -> None:
        problems = [str(problem) for problem in report.problems] if report else []
        foreign = [f"{change.path} = {change.value}" for change in report.foreign] if report else []
        if self._last is None or decision.action is not self._last.action or problems != self._problems or foreign:
            mode = str(report.mode) if report and report.mode else None
            self._log(decision.action.value, reason=decision.reason, mode=mode, problems=problems, foreign=foreign)
        self._last, self._problems = decision, problems
