"""The plain watch of Leases: what it tells, from where it goes on, and how often it asks a server in trouble."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Mapping

from powertrain_kube import ApiError, AwayError, GoneError, Log, Object
from powertrain_operator.resources import LEASE, ResourceType
from powertrain_operator.runtime.messages import Message, ObjectDeletion, ObjectUpdate
from powertrain_operator.runtime.watch import ResourceWatch
from powertrain_operator.settings import Settings

from .fakes import Clock


def event(kind: str, version: int) -> Object:
    return {"type": kind, "object": {"metadata": {"name": "a", "namespace": "here", "resourceVersion": str(version)}}}


class Server:
    """Answers from prepared watches; stops the follower after the last."""

    def __init__(self, *watches: list[Object | ApiError]) -> None:
        self.watches, self.clock, self.stop = list(watches), Clock(), threading.Event()
        self.versions_asked: list[str] = []
        self.lists = 0
        self.messages: list[Message] = []

    def list_all(self, kind: ResourceType) -> int:
        self.lists += 1
        return 100 * self.lists

    def watch(self, path: str, query: Mapping[str, str]) -> Iterator[Object]:
        assert path == "/apis/coordination.k8s.io/v1/namespaces/here/leases"
        assert query["labelSelector"] == LEASE.selector
        self.versions_asked.append(query["resourceVersion"])
        for each in self.watches.pop(0):
            if isinstance(each, ApiError):
                raise each
            yield each
        self.clock.s += 300.0
        if not self.watches:
            self.stop.set()

    def run(self) -> Server:
        settings, log = Settings(namespace="here"), Log(io.StringIO())
        ResourceWatch(LEASE, self, settings, self.list_all, self.messages.append, log, clock=self.clock).run(self.stop)  # type: ignore[arg-type]
        return self


def test_it_tells_what_it_sees_and_goes_on_where_it_was() -> None:
    server = Server(
        [event("ADDED", 101), event("MODIFIED", 102), event("BOOKMARK", 110)], [event("DELETED", 111)]
    ).run()
    assert (server.versions_asked, server.lists) == (["100", "110"], 1)
    assert [type(news) for news in server.messages] == [ObjectUpdate, ObjectUpdate, ObjectDeletion]
    assert isinstance(server.messages[-1], ObjectDeletion)
    assert (server.messages[-1].key.name, server.messages[-1].version) == ("a", 111)


def test_a_server_that_has_forgotten_or_is_away_is_listed_again_after_a_while() -> None:
    waited: list[float | None] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout)
            return super().is_set()

    server = Server([GoneError("410")], [AwayError("no answer")], [event("ADDED", 301)])
    server.stop = Stop()
    server.run()
    assert (server.versions_asked, server.lists) == (["100", "200", "300"], 3)
    assert len(waited) == 2
    assert all(wait_s and wait_s > 0.2 for wait_s in waited)
