"""The link: envelopes accepted and refused, the watch through its failures, the Lease of a well agent."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from powertrain.api.v1alpha1 import (
    PROTOCOL,
    NodePolicy,
    Phase,
    PowerNodeStatus,
    PowerShare,
    SessionSpec,
    SessionStatus,
    find,
)
from powertrain_agent.link import Link, LinkSettings
from powertrain_agent.link.contact import Contact
from powertrain_agent.link.envelope import read
from powertrain_agent.link.lease import DURATION_S, RENEW_S
from powertrain_agent.link.watcher import RESYNC_S
from powertrain_agent.simulate import ManualClock
from powertrain_kube import ApiError, AwayError, GoneError, NotFoundError, Object
from powertrain_kube.backoff import Backoff
from powertrain_kube.log import Log

NODE = "jetson-1"
NOW = datetime(2026, 3, 1, 12, 0, 0, 250000, tzinfo=UTC)


def power_node(session: dict[str, Any] | None = None, release: str | None = None, version: int = 5) -> Object:
    spec = {name: value for name, value in (("session", session), ("release", release)) if value is not None}
    return {"metadata": {"name": NODE, "uid": "u-1", "resourceVersion": str(version)}, "spec": spec}


def session(**changes: Any) -> dict[str, Any]:
    return {
        "protocol": PROTOCOL,
        "uid": "s-1",
        "generation": 2,
        "job": {"namespace": "team", "name": "lstm"},
        "limits": {"powerWatts": 30},
        "workload": {"name": "lstm"},
        **changes,
    }


class FakeApi:
    """Answers from lists of prepared answers; an exception among them is raised."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.lists: list[Object | ApiError] = []
        self.watches: list[list[Object | ApiError]] = []
        self.refuse: ApiError | None = None
        self.watched: list[Mapping[str, str]] = []
        self.listed: list[Mapping[str, str]] = []
        self.applied: list[tuple[str, Object]] = []
        self.merged: list[tuple[str, Object]] = []

    def list(self, path: str, query: Mapping[str, str]) -> Object:
        self.listed.append(query)
        answer = self.lists.pop(0) if self.lists else AwayError("no answer")
        if isinstance(answer, ApiError):
            raise answer
        return answer

    def watch(self, path: str, query: Mapping[str, str]) -> Iterator[Object]:
        self.watched.append(query)
        for event in self.watches.pop(0) if self.watches else []:
            if isinstance(event, ApiError):
                raise event
            yield event
        self.clock.advance(300.0)

    def apply(self, path: str, body: Object) -> Object:
        if self.refuse:
            raise self.refuse
        self.applied.append((path, body))
        return body

    def merge_patch(self, path: str, body: Object) -> Object:
        if self.refuse:
            raise self.refuse
        self.merged.append((path, body))
        return body


class RecordingInbox:
    """An inbox that remembers."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def envelope(self, spec: SessionSpec | None, release: str | None, refused: bool = False) -> None:
        self.calls.append(("envelope", spec.uid if spec else None, release))

    def policy(self, policy: NodePolicy | None) -> None:
        if policy is not None:
            self.calls.append(("policy", policy.max_watts))

    def shares(self, shares: tuple[PowerShare, ...]) -> None:
        if shares:
            self.calls.append(("shares", *(share.watts for share in shares)))

    def power_node_gone(self) -> None:
        self.calls.append(("gone",))

    def api_away(self, since: float) -> None:
        self.calls.append(("away", since))

    def api_back(self) -> None:
        self.calls.append(("back",))


class LinkHarness:
    """A link without its threads."""

    def __init__(self, healthy: Callable[[], str] = lambda: "") -> None:
        self.clock = ManualClock(100.0)
        self.api, self.inbox, self.lines = FakeApi(self.clock), RecordingInbox(), io.StringIO()
        settings = LinkSettings(NODE, "powertrain-system", "agent-abc")
        self.link = Link(
            settings, self.api, self.inbox, Log(self.lines), clock=self.clock, healthy=healthy, now=lambda: NOW
        )

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines.getvalue().splitlines()]

    def condition(self, type_: str) -> tuple[str, str, str]:
        matching_condition = find(self.link.writer.status.conditions, type_)
        assert matching_condition is not None
        return str(matching_condition.status), matching_condition.reason, matching_condition.message


@pytest.fixture
def rig() -> LinkHarness:
    return LinkHarness()


def listed(*items: Object, version: str = "5") -> Object:
    return {"metadata": {"resourceVersion": version}, "items": list(items)}


def event(kind: str, obj: Object) -> Object:
    return {"type": kind, "object": obj}


# Envelopes.


@pytest.mark.parametrize("theirs", [PROTOCOL, PROTOCOL + 1, PROTOCOL - 1])
def test_envelopes_of_neighbouring_protocols_are_accepted(theirs: int) -> None:
    envelope = read(power_node(session(protocol=max(theirs, 1))), protocol=PROTOCOL)
    assert envelope.spec is not None
    assert envelope.refusal is None


@pytest.mark.parametrize(("own", "theirs"), [(5, 3), (5, 7), (5, None), (5, "5")])
def test_other_protocols_are_version_skew_and_the_release_still_counts(own: int, theirs: object) -> None:
    envelope = read(power_node(session(protocol=theirs), release="s-0"), protocol=own)
    assert envelope.spec is None
    assert envelope.release == "s-0"
    assert envelope.refusal is not None
    assert (envelope.refusal.reason, envelope.refusal.uid) == ("VersionSkew", "s-1")
    assert "accepts 4 to 6" in envelope.refusal.message


def test_an_envelope_that_makes_no_sense_is_refused_with_field_and_value() -> None:
    envelope = read(power_node(session(risk=7)))
    assert envelope.refusal is not None
    assert envelope.refusal.reason == "InvalidEnvelope"
    assert envelope.refusal.message.startswith("session.risk: ")
    assert envelope.refusal.message.endswith("not 7")


@pytest.mark.parametrize(
    ("session_fields", "message"),
    [
        ({"timeZone": "Europe/Nowhere"}, "unknown time zone 'Europe/Nowhere'"),
        ({"timeZone": "Europe"}, "unknown time zone 'Europe'"),
        ({"availableWatts": {"watts": 12, "observedAt": "noon"}}, "'noon' is not a time"),
        ({"availableWatts": {"watts": 12, "observedAt": "2026-06-01T12:00:00"}}, "is not a time"),
        ({"uid": "../s-1"}, "a session's uid names a directory"),
    ],
)
def test_a_value_that_the_loop_can_not_work_with_is_refused_before_it_is_reached(
    session_fields: dict[str, object], message: str
) -> None:
    envelope = read(power_node(session(**session_fields), release="s-0"))
    assert envelope.spec is None
    assert envelope.release == "s-0"
    assert envelope.refusal is not None
    assert envelope.refusal.reason == "InvalidEnvelope"
    assert message in envelope.refusal.message


@pytest.mark.parametrize("spec", [None, {}, {"session": None}, {"session": "text"}])
def test_a_power_node_without_a_session_asks_nothing(spec: object) -> None:
    assert read({"spec": spec}).spec is None


def test_a_refused_envelope_is_told_in_the_status(rig: LinkHarness) -> None:
    rig.link.delivered(power_node(session(protocol=99)))
    status = rig.link.writer.status
    assert status.session is not None
    assert (status.session.uid, status.session.phase, status.session.protocol) == ("s-1", Phase.REFUSED, PROTOCOL)
    assert rig.condition("SessionAccepted")[:2] == ("False", "VersionSkew")
    assert rig.inbox.calls == [("envelope", None, None)]


def test_a_running_job_is_kept_when_a_refused_envelope_comes(rig: LinkHarness) -> None:
    rig.link.report(SessionStatus(uid="s-0", phase=Phase.RUNNING))
    rig.link.delivered(power_node(session(protocol=99)))
    assert rig.link.writer.status.session == SessionStatus(uid="s-0", phase=Phase.RUNNING)
    assert rig.condition("SessionAccepted")[1] == "VersionSkew"


def test_a_refusal_ends_with_its_envelope(rig: LinkHarness) -> None:
    rig.link.delivered(power_node(session(protocol=99)))
    rig.link.delivered(power_node())
    assert rig.link.writer.status.session is None
    assert rig.condition("SessionAccepted")[:2] == ("Unknown", "NoSession")


def test_the_policy_is_told_before_the_envelope(rig: LinkHarness) -> None:
    node = power_node(session())
    node["spec"]["policy"] = {"maxWatts": 25, "cpuCores": "Hotplug"}
    rig.link.delivered(node)
    assert rig.inbox.calls == [("policy", 25.0), ("envelope", "s-1", None)]


def test_a_policy_that_makes_no_sense_lifts_no_limit_and_is_told(rig: LinkHarness) -> None:
    node = power_node(session())
    node["spec"]["policy"] = {"maxWatts": -1}
    rig.link.delivered(node)
    assert rig.inbox.calls == [("envelope", "s-1", None)]
    status, reason, message = rig.condition("PolicyApplied")
    assert (status, reason) == ("False", "InvalidPolicy")
    assert "policy.maxWatts" in message
    assert "-1" in message


def test_the_same_news_is_logged_once(rig: LinkHarness) -> None:
    for _ in range(3):
        rig.link.delivered(power_node(session()))
    assert [(line["event"], line["state"], line["uid"]) for line in rig.log()] == [("envelope", "accepted", "s-1")]


# The watch.


def test_it_lists_and_watches_its_own_node_only(rig: LinkHarness) -> None:
    rig.api.lists = [listed(power_node(session()))]
    rig.api.watches = [[event("MODIFIED", power_node(release="s-1", version=9))]]
    assert rig.link.watcher.round() == 0.0
    assert rig.inbox.calls == [("envelope", "s-1", None), ("envelope", None, "s-1")]
    assert rig.api.listed == [{"fieldSelector": "metadata.name=jetson-1"}]
    assert rig.api.watched[0]["fieldSelector"] == "metadata.name=jetson-1"
    assert rig.api.watched[0]["resourceVersion"] == "5"


def test_a_watch_that_ends_goes_on_where_it_was_and_lists_again_now_and_then(rig: LinkHarness) -> None:
    rig.api.lists = [listed(), listed(version="20")]
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "12"}}}
    rig.api.watches = [[bookmark]]
    rounds = int(RESYNC_S // 300.0)
    for _ in range(rounds + 1):
        rig.link.watcher.round()
    assert [query["resourceVersion"] for query in rig.api.watched] == ["5", "12", "20"]


def test_a_deleted_power_node_is_gone(rig: LinkHarness) -> None:
    rig.api.lists = [listed(power_node(session()))]
    rig.api.watches = [[event("DELETED", power_node(version=9))]]
    rig.link.watcher.round()
    assert rig.inbox.calls[-1] == ("gone",)
    assert rig.link.writer.due_in_s() is None


def test_without_the_kind_every_power_node_is_gone(rig: LinkHarness) -> None:
    rig.api.lists = [NotFoundError("404")]
    assert rig.link.watcher.round() > 0
    assert rig.inbox.calls == [("gone",)]


def test_a_forgotten_version_is_listed_again(rig: LinkHarness) -> None:
    rig.api.lists = [listed(), listed(power_node(session()), version="90")]
    rig.api.watches = [[GoneError("410 too old")], []]
    assert 0 < rig.link.watcher.round() <= 0.5
    rig.link.watcher.round()
    assert rig.inbox.calls == [("gone",), ("envelope", "s-1", None)]
    assert rig.api.watched[-1]["resourceVersion"] == "90"


def test_an_api_server_that_is_away_and_comes_back_is_told_once_each(rig: LinkHarness) -> None:
    rig.api.lists = [listed(), AwayError("no answer"), AwayError("no answer"), listed(power_node(session()))]
    rig.api.watches = [[AwayError("cut")]]
    waits = [rig.link.watcher.round() for _ in range(4)]
    assert rig.inbox.calls == [("gone",), ("away", 100.0), ("back",), ("envelope", "s-1", None)]
    assert 0 < waits[0] < waits[1] < waits[2]
    assert waits[3] == 0.0


def test_a_server_that_refuses_is_not_away(rig: LinkHarness) -> None:
    rig.api.lists = [ApiError("403 forbidden")]
    assert rig.link.watcher.round() > 0
    assert rig.inbox.calls == []
    assert "403" in rig.log()[0]["reason"]


# The Lease.


def test_a_well_agent_renews_its_lease(rig: LinkHarness) -> None:
    assert rig.link.lease.renew() == RENEW_S
    ((path, body),) = rig.api.applied
    assert path == "/apis/coordination.k8s.io/v1/namespaces/powertrain-system/leases/jetson-1"
    assert body["spec"] == {
        "holderIdentity": "agent-abc",
        "leaseDurationSeconds": DURATION_S,
        "acquireTime": "2026-03-01T12:00:00.250000Z",
        "renewTime": "2026-03-01T12:00:00.250000Z",
    }
    assert rig.condition("Ready")[:2] == ("True", "Serving")


def test_an_unwell_agent_lets_its_lease_run_out_and_says_why() -> None:
    rig = LinkHarness(healthy=lambda: "no power reading for 12 s")
    rig.link.lease.renew()
    assert rig.api.applied == []
    assert rig.condition("Ready") == ("False", "Unhealthy", "no power reading for 12 s")
    assert rig.log()[-1]["reason"] == "not renewed: no power reading for 12 s"


def test_a_lease_that_can_not_be_written_is_tried_again_soon(rig: LinkHarness) -> None:
    rig.api.refuse = AwayError("no answer")
    assert 0 < rig.link.lease.renew() <= 1.0
    assert rig.inbox.calls == [("away", 100.0)]
    rig.api.refuse = None
    assert rig.link.lease.renew() == RENEW_S
    assert rig.inbox.calls[-1] == ("back",)


# Small parts.


def test_waits_grow_to_a_bound_and_begin_again() -> None:
    backoff = Backoff(1.0, 8.0, random.Random(1))
    waits = [backoff.next_s() for _ in range(6)]
    assert all(bound / 2 <= wait <= bound for wait, bound in zip(waits, [1, 2, 4, 8, 8, 8], strict=True))
    backoff.reset()
    assert backoff.next_s() <= 1.0


def test_contact_counts_from_the_last_answer() -> None:
    clock = ManualClock(0.0)
    contact = Contact(clock, lambda since: None, lambda: None)
    clock.advance(5.0)
    contact.note_answer()
    clock.advance(7.0)
    contact.note_failure()
    assert contact.away_s == 7.0
    contact.note_answer()
    assert contact.away_s == 0.0


def test_threads_start_write_and_end(rig: LinkHarness) -> None:
    rig.api.lists = [listed(power_node())]
    rig.api.watches = [[]] * 2
    rig.link.delivered(power_node())
    rig.link.start(PowerNodeStatus())
    rig.link.report(SessionStatus(uid="s-1", phase=Phase.RUNNING))
    rig.link.stop()
    assert rig.link.dead_threads() == ""
    statuses = [body["status"] for path, body in rig.api.merged if path.endswith("/status")]
    assert statuses[-1]["session"]["phase"] == "Running"


def test_a_thread_that_died_makes_the_agent_unwell(rig: LinkHarness) -> None:
    rig.link.start(PowerNodeStatus())
    rig.link.stop()
    for thread in rig.link._threads:
        thread.join(timeout=10.0)
    rig.link._stop.clear()
    assert rig.link.dead_threads() == "threads of the link have died: lease, watcher, status"
    assert rig.link.wellness().startswith("threads of the link have died")
