"""Link: watcher, status writer and Lease of one node, as three threads that only talk to the loop's inbox."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from powertrain.api.v1alpha1 import (
    NodeFigures,
    NodeHistory,
    NodePolicy,
    Phase,
    PowerNodeStatus,
    PowerShare,
    SessionSpec,
    SessionStatus,
    ShareStatus,
    with_condition,
)
from powertrain_agent.link import envelope as envelopes
from powertrain_agent.link.api import Api
from powertrain_agent.link.contact import Contact
from powertrain_agent.link.envelope import Envelope
from powertrain_agent.link.lease import LeaseKeeper
from powertrain_agent.link.status import Pace, StatusWriter, in_session
from powertrain_agent.link.watcher import Watcher
from powertrain_kube import Object
from powertrain_kube.log import Log

ACCEPTED = "SessionAccepted"
READY = "Ready"
POLICY = "PolicyApplied"
SHARES = "ShareTaken"


class Inbox(Protocol):
    """Where the link tells what it learns; called from its threads, so it must only take note."""

    def envelope(self, spec: SessionSpec | None, release: str | None, refused: bool = False) -> None:
        """Take note of what the PowerNode asks now."""
        ...

    def policy(self, policy: NodePolicy | None) -> None:
        """Take note of the site's policy (None: there is none); comes before the envelope."""
        ...

    def shares(self, shares: tuple[PowerShare, ...]) -> None:
        """Take note of the board's shares of PowerBudgets; comes before the envelope."""
        ...

    def power_node_gone(self) -> None:
        """Take note that the PowerNode is not there."""
        ...

    def api_away(self, since: float) -> None:
        """Take note that the API server has not answered since then (monotonic)."""
        ...

    def api_back(self) -> None:
        """Take note that it answers again."""
        ...


@dataclass(frozen=True)
class LinkSettings:
    """Whose link this is."""

    node: str
    namespace: str
    holder: str
    pace: Pace = field(default_factory=Pace)


class Link:
    """Start it, report to it, stop it. It decides nothing except whether an envelope can be understood."""

    def __init__(
        self,
        settings: LinkSettings,
        api: Api,
        inbox: Inbox,
        log: Log,
        *,
        clock: Callable[[], float],
        figures: Callable[[], NodeFigures | None] = lambda: None,
        history: Callable[[], NodeHistory | None] = lambda: None,
        healthy: Callable[[], str] = lambda: "",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._inbox = inbox
        self._log = log
        self._now = now
        self._healthy = healthy
        self.contact = Contact(clock, inbox.api_away, inbox.api_back)
        self.writer = StatusWriter(
            api, settings.node, figures, self.contact, log, clock, settings.pace, history=history
        )
        self.watcher = Watcher(api, settings.node, self.delivered, self.contact, log, clock)
        self.lease = LeaseKeeper(
            api, settings.namespace, settings.node, settings.holder, self.wellness, self.contact, log, now
        )
        self._uid: str | None = None
        self._last_line: tuple[object, ...] = ()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=run, args=(self._stop,), name=name, daemon=True)
            for name, run in (("lease", self.lease.run), ("watcher", self.watcher.run), ("status", self.writer.run))
        ]

    def start(self, about: PowerNodeStatus) -> None:
        """Begin, with what is known of the board."""
        self.writer.update(lambda _: about)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End; the status thread writes what is urgent, the others may hang in a read and end with the process."""
        self._stop.set()
        self._threads[-1].join(timeout=5.0)

    def dead_threads(self) -> str:
        """Return which threads have died of something unforeseen, empty if none; the agent should be started anew."""
        started = [thread for thread in self._threads if thread.ident is not None]
        dead = [thread.name for thread in started if not thread.is_alive() and not self._stop.is_set()]
        return f"threads of the link have died: {', '.join(dead)}" if dead else ""

    def report(self, status: SessionStatus, urgent: bool = False) -> None:
        """Take the loop's report; written at once where it holds a decision."""
        self.writer.update(lambda before: before.model_copy(update={"session": status}), urgent)

    def shares_kept(self, shares: tuple[ShareStatus, ...]) -> None:
        """Tell which shares of PowerBudgets are kept; at once, since other boards wait for what this one gives up."""
        lowest_w = min((share.watts for share in shares), default=None)
        changes = {"shares": shares or None, "share_watts": lowest_w}
        self.writer.update(lambda before: before.model_copy(update=changes), urgent=True)

    def describe(self, about: PowerNodeStatus, urgent: bool = True) -> None:
        """Tell anew what the board is and what can be done with it."""
        changes = {"device": about.device, "capabilities": about.capabilities, "self_check": about.self_check}
        self.writer.update(lambda before: before.model_copy(update=changes), urgent)

    def condition(self, type_: str, holds: bool | None, reason: str, message: str = "") -> None:
        """Set a condition of the node."""

        def change(status: PowerNodeStatus) -> PowerNodeStatus:
            conditions = with_condition(status.conditions, type_, holds, reason, message, at=self._now())
            return status.model_copy(update={"conditions": conditions})

        self.writer.update(change)

    def wellness(self) -> str:
        """Return what is wrong with the agent, empty if nothing is; the Ready condition follows it."""
        unwell = self._healthy() or self.dead_threads()
        self.condition(READY, not unwell, "Unhealthy" if unwell else "Serving", unwell)
        return unwell

    def delivered(self, power_node: Object | None) -> None:
        """Take what the watcher saw."""
        if power_node is None:
            self._uid = None
            self.writer.object_seen(False)
            self._say("powernode", "absent")
            self._inbox.power_node_gone()
            return
        uid = str(power_node["metadata"].get("uid", ""))
        envelope = envelopes.read(power_node)
        self._judge(envelope)
        self.writer.object_seen(True, anew=uid != self._uid)
        self._uid = uid
        policy = envelopes.read_policy(power_node)
        if policy.problem:
            # The policy before stays in force: no policy at all would lift the site's limits.
            self.condition(POLICY, False, "InvalidPolicy", policy.problem)
        else:
            self._inbox.policy(policy.policy)
        shares = envelopes.read_shares(power_node)
        if shares.problem:
            # The shares before stay in force: none at all would lift the site's limit.
            self.condition(SHARES, False, "InvalidShare", shares.problem)
        else:
            self._inbox.shares(shares.shares)
        self._inbox.envelope(envelope.spec, envelope.release, envelope.refusal is not None)

    def _judge(self, envelope: Envelope) -> None:
        """Say in the status whether the envelope is accepted."""
        refusal, spec = envelope.refusal, envelope.spec
        if refusal is not None:
            self._say("envelope", "refused", refusal.uid, reason=f"{refusal.reason}: {refusal.message}")
            self.condition(ACCEPTED, False, refusal.reason, refusal.message)
            self._refuse(refusal.uid, refusal.generation, refusal.message)
        elif spec is not None:
            self._say("envelope", "accepted", spec.uid, generation=spec.generation, job=str(spec.job))
            self.condition(ACCEPTED, True, "Understood", f"session {spec.uid}, protocol {spec.protocol}")
        else:
            self._say("envelope", "none", envelope.release, release=envelope.release)
            self.condition(ACCEPTED, None, "NoSession")
            self.writer.update(_without_refusal)

    def _refuse(self, uid: str, generation: int, message: str) -> None:
        def change(status: PowerNodeStatus) -> PowerNodeStatus:
            if in_session(status.session):
                return status  # a running job is kept; its report says more than this refusal
            refused = SessionStatus(
                uid=uid, observed_generation=generation, phase=Phase.REFUSED, message=message[:1024]
            )
            return status.model_copy(update={"session": refused})

        self.writer.update(change)

    def _say(self, event: str, *what: object, **fields: object) -> None:
        line = (event, *what, *fields.values())
        if line != self._last_line:
            self._log(event, state=what[0], uid=what[1] if len(what) > 1 else None, **fields)
        self._last_line = line


def _without_refusal(status: PowerNodeStatus) -> PowerNodeStatus:
    """A refusal is over when its envelope is gone."""
    refused = status.session is not None and status.session.phase is Phase.REFUSED
    return status.model_copy(update={"session": None}) if refused else status
