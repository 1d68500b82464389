"""Watcher: keeps up with the one PowerNode of this node; lists, then watches, and lists again now and then."""

from __future__ import annotations

import threading
from collections.abc import Callable

from powertrain.api.resources import POWER_NODES
from powertrain_agent.link.api import Api
from powertrain_agent.link.contact import Contact
from powertrain_kube import ApiError, AwayError, GoneError, NotFoundError, Object
from powertrain_kube.backoff import Backoff
from powertrain_kube.log import Log

# A watch ends by itself after this time, so that a connection that hangs half-open never lasts.
WATCH_S = 300
# Watches are reliable; a list now and then makes sure of what can't be tested.
RESYNC_S = 600.0


class Watcher:
    """Calls `deliver` with the PowerNode whenever it may have changed, and with None when there is none."""

    def __init__(
        self,
        api: Api,
        node: str,
        deliver: Callable[[Object | None], None],
        contact: Contact,
        log: Log,
        clock: Callable[[], float],
        backoff: Backoff | None = None,
    ) -> None:
        self._api = api
        self._selector = {"fieldSelector": f"metadata.name={node}"}
        self._deliver = deliver
        self._contact = contact
        self._log = log
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._version = ""
        self._listed_s = 0.0
        self._failing = False

    def run(self, stop: threading.Event) -> None:
        """Follow the object until told to stop."""
        while not stop.is_set():
            wait_s = self.round()
            if wait_s:
                stop.wait(wait_s)

    def round(self) -> float:
        """List where it is due, watch until the watch ends, and return how long to wait before the next round."""
        try:
            if not self._version or self._clock() - self._listed_s >= RESYNC_S:
                self._list()
            began_s = self._clock()
            self._watch()
            if self._clock() - began_s >= 1.0:
                self._backoff.reset()
                return 0.0
            # A server that ends every watch at once (a proxy, a full queue) must not be asked in a tight loop.
            return self._backoff.next_s()
        except GoneError as error:
            self._log("watch", reason=f"listing again: {error}")
            self._version = ""
            return self._backoff.next_s()
        except ApiError as error:
            return self._fail(error)

    def _list(self) -> None:
        try:
            nodes = self._api.list(POWER_NODES.path(), self._selector)
        except NotFoundError:
            # The kind itself is not served: with its definition every PowerNode is gone.
            self._note_answer()
            self._deliver(None)
            raise
        self._note_answer()
        self._version = str(nodes["metadata"]["resourceVersion"])
        self._listed_s = self._clock()
        items = nodes.get("items") or []
        self._deliver(items[0] if items else None)

    def _watch(self) -> None:
        query = {
            **self._selector,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        for event in self._api.watch(POWER_NODES.path(), query):
            self._note_answer()
            self._backoff.reset()
            self._version = str(event["object"]["metadata"]["resourceVersion"])
            if event["type"] == "DELETED":
                self._deliver(None)
            elif event["type"] != "BOOKMARK":
                self._deliver(event["object"])

    def _note_answer(self) -> None:
        self._contact.note_answer()
        self._failing = False

    def _fail(self, error: ApiError) -> float:
        if isinstance(error, AwayError):
            self._contact.note_failure()
        if not self._failing:
            self._log("api", reason=str(error), answered=not isinstance(error, AwayError))
        self._failing = True
        self._version = ""
        return self._backoff.next_s()
