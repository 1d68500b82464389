"""StatusWriter: brings the node's state into its PowerNode; decisions at once, figures at a gentle pace."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from powertrain.api.resources import POWER_NODES
from powertrain.api.v1alpha1 import (
    ConditionStatus,
    NodeFigures,
    NodeHistory,
    Phase,
    PowerNodeStatus,
    Reason,
    SessionStatus,
)
from powertrain_agent.link.api import Api
from powertrain_agent.link.contact import Contact
from powertrain_kube import ApiError, AwayError, InvalidError, NotFoundError, Object
from powertrain_kube.backoff import Backoff
from powertrain_kube.log import Log
from powertrain_kube.patches import difference

# What changes these is a decision, not a figure; somebody waits for it.
TRANSITIONS = ("uid", "observed_generation", "phase", "gate_open", "mode", "reason", "verified", "boot_id", "restored")

TRIALS = (Reason.PROFILING, Reason.CHECK)
# An envelope is accepted by the link and begun by the loop, a moment apart; both fit into one write.
GATHER_S = 0.05
# News that nobody acts upon waits so long for the decision that follows it: an envelope that is accepted for the safe
# mode, the first steps for the mode that they bring. Each write of a PowerNode is the dearest that an agent makes.
SETTLE_S = 2.0


@dataclass(frozen=True)
class Pace:
    """How often figures are written; a cluster of hundreds of boards shares one etcd."""

    in_session_s: float = 10.0
    idle_s: float = 60.0

    def period_s(self, session: SessionStatus | None) -> float:
        """Return the least time between two writes of figures."""
        return self.in_session_s if in_session(session) else self.idle_s


def in_session(session: SessionStatus | None) -> bool:
    """Say whether a job has the board."""
    return session is not None and session.phase not in (Phase.ENDED, Phase.REFUSED)


def is_transition(before: SessionStatus | None, after: SessionStatus | None) -> bool:
    """Say whether the report holds a decision that is news."""
    if before is None or after is None:
        return before is not after
    changed = {name for name in TRANSITIONS if getattr(before, name) != getattr(after, name)}
    # A trial that is announced is told with its mode, a moment later: it is the same decision.
    if changed - ({"reason"} if after.reason in TRIALS else set()):
        return True
    verdicts = [[(c.type, c.status, c.reason) for c in status.conditions] for status in (before, after)]
    return verdicts[0] != verdicts[1] or (before.result is None) != (after.result is None)


def is_pressing(before: SessionStatus | None, after: SessionStatus | None) -> bool:
    """Say whether somebody waits for what is news: gate, mode, phase, restored, and every verdict that is bad."""
    if after is None:
        return True
    if before is None or before.uid != after.uid:
        return after.phase is not Phase.STARTING or after.gate_open
    changed = {name for name in TRANSITIONS if getattr(before, name) != getattr(after, name)}
    # A check in flight tries a mode for a moment, most of them for less than the wait; what comes of it is a decision.
    told_with_its_end = {"mode", "reason"} if after.reason is Reason.CHECK else set()
    if changed - {"observed_generation"} - told_with_its_end or (before.result is None) != (after.result is None):
        return True
    before_states = {(c.type, c.status) for c in before.conditions}
    return any(c.status is ConditionStatus.FALSE and (c.type, c.status) not in before_states for c in after.conditions)


def without_figures(status: PowerNodeStatus) -> PowerNodeStatus:
    """Return the decisions alone: what somebody waits for must not wait for a figure that the server refuses."""
    session = status.session
    if session is not None:
        fields = {name: getattr(session, name) for name in (*TRANSITIONS, "message", "conditions")}
        session = SessionStatus(**fields)
    return status.model_copy(update={"session": session, "figures": None, "history": None})


def patch(server_status: Object | None, status: PowerNodeStatus) -> Object:
    """Return the merge patch of a status: what is other than the server has, all of it where that is not known."""
    if server_status is None:
        return {"status": status.model_dump(mode="json", by_alias=True)}  # null: there is no such field
    return {"status": difference(server_status, status.wire())}


class StatusWriter:
    """Holds the latest state and writes it when it is due; after a failure the newest is written, not what failed."""

    def __init__(
        self,
        api: Api,
        node: str,
        figures: Callable[[], NodeFigures | None],
        contact: Contact,
        log: Log,
        clock: Callable[[], float],
        pace: Pace | None = None,
        backoff: Backoff | None = None,
        history: Callable[[], NodeHistory | None] = lambda: None,
    ) -> None:
        self._api = api
        self._node = node
        self._figures = figures
        self._history = history
        self._contact = contact
        self._log = log
        self._clock = clock
        self._pace = pace or Pace()
        self._backoff = backoff or Backoff()
        self._changed = threading.Condition()
        self._status = PowerNodeStatus()
        self._urgent_s: float | None = clock()  # by when what is news has to be written
        self._present = False
        self._written_s: float | None = None
        self._not_before_s = 0.0
        self._failing = False
        self._refused = False  # the server took no such body: the next one holds decisions alone
        self._server_status: Object | None = None  # the status as the server answered last; None: nobody knows
        self._object = 0  # counts the objects that were there to be written to

    @property
    def status(self) -> PowerNodeStatus:
        """Return the state as it would be written now, without the figures."""
        with self._changed:
            return self._status

    def update(self, change: Callable[[PowerNodeStatus], PowerNodeStatus], urgent: bool = False) -> None:
        """Change the state; a decision in the session, or a changed verdict, makes it urgent by itself."""
        with self._changed:
            before, self._status = self._status, change(self._status)
            verdicts = self._new_verdicts(before)
            if urgent or ConditionStatus.FALSE in verdicts:
                self._write_within(0.0)
            elif is_transition(before.session, self._status.session):
                self._write_within(0.0 if is_pressing(before.session, self._status.session) else SETTLE_S)
            elif verdicts:
                self._write_within(SETTLE_S)
            self._changed.notify()

    def _write_within(self, seconds: float) -> None:
        by_s = self._clock() + seconds
        self._urgent_s = by_s if self._urgent_s is None else min(self._urgent_s, by_s)

    def _new_verdicts(self, before: PowerNodeStatus) -> set[ConditionStatus]:
        """Return how conditions of the node that are other ones stand; that there is nothing to judge can wait."""
        judged = (c for c in self._status.conditions if c.status is not ConditionStatus.UNKNOWN)
        return {condition.status for condition in judged if condition not in before.conditions}

    def object_seen(self, present: bool, anew: bool = False) -> None:
        """Note whether there is an object to write to; one that is new gets everything at once."""
        with self._changed:
            if present and (anew or not self._present):
                self._write_within(0.0)
                self._server_status, self._object = None, self._object + 1
            self._present = present
            self._changed.notify()

    def due_in_s(self) -> float | None:
        """Return when the next write is due; None while there is nothing to write to."""
        with self._changed:
            if not self._present:
                return None
            due_s = self._due_s()
            return max(0.0, max(self._not_before_s, due_s) - self._clock())

    def _due_s(self) -> float:
        """Return when figures are due, or news before them."""
        if self._written_s is None:
            return 0.0
        figures_s = self._written_s + self._pace.period_s(self._status.session)
        return figures_s if self._urgent_s is None else min(figures_s, self._urgent_s)

    def run(self, stop: threading.Event) -> None:
        """Write what is due until told to stop, then once more what is urgent."""
        while not stop.is_set():
            due_s = self.due_in_s()
            if due_s == 0.0:
                stop.wait(GATHER_S)
                self.write()
                continue
            with self._changed:
                if self.due_in_s() != 0.0:
                    self._changed.wait(1.0 if due_s is None else min(due_s, 1.0))
        if self._urgent_s is not None and self._present:
            self.write()

    def write(self) -> None:
        """Write once what is other than the server has; a failure is tried again after a while."""
        with self._changed:
            status, self._urgent_s, self._written_s = self._status, None, self._clock()
            server_status, written_to = self._server_status, self._object
        try:
            body = patch(server_status, self._to_write(status))
            answer = self._api.merge_patch(POWER_NODES.path(self._node, subresource="status"), body)
        except ApiError as error:
            self._failed(error)
            return
        except Exception as error:  # this thread must not end: it would take what is decided with it
            self._log("error", reason=f"the status: {error!r}"[:500], trace=traceback.format_exc())
            self._failed(InvalidError(str(error)))
            return
        with self._changed:
            # What somebody else has changed shows in the answer, and is put right with the next write.
            self._server_status = answer.get("status") if written_to == self._object else None
        self._contact.note_answer()
        self._backoff.reset()
        self._failing = self._refused = False

    def _to_write(self, status: PowerNodeStatus) -> PowerNodeStatus:
        """Return what to write: with the figures of this moment, or decisions alone after a refusal."""
        if self._refused:
            return without_figures(status)
        measured = {"figures": self._figures(), "history": self._history()}
        return status.model_copy(update={name: value for name, value in measured.items() if value is not None})

    def _failed(self, error: ApiError) -> None:
        self._contact.note_failure() if isinstance(error, AwayError) else self._contact.note_answer()
        with self._changed:
            self._write_within(0.0)
            self._server_status = None  # it may have been done all the same
            self._present = self._present and not isinstance(error, NotFoundError)
            self._not_before_s = self._clock() + self._backoff.next_s()
        if not self._failing:
            self._log("status", reason=f"not written: {error}")
        self._failing = True
        self._refused = isinstance(error, InvalidError)
