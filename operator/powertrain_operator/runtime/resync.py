"""Resync: full lists of every kind, at the start and now and then, which also show what a cut watch missed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from powertrain_kube import ApiError, GoneError, KubeApi, Log, Object, TooLargeError
from powertrain_kube.backoff import Backoff
from powertrain_operator.observation import Key, version_of
from powertrain_operator.resources import WATCHED_RESOURCES, ResourceType
from powertrain_operator.runtime.decode import take
from powertrain_operator.runtime.messages import ListCompletion, Message, ObjectUpdate
from powertrain_operator.settings import Settings

# A list in pages is over when the server forgets where it was; more tries than that mean a server in trouble.
TRIES = 3
# JSON takes up to 25 times its length as Python objects, and anybody who may train may write objects of 1.5 MB. A page
# of 25 full PowerNodes is smaller.
PAGE_BYTES = 4 * 1024 * 1024


class Resync:
    """Tells what it finds; decides nothing."""

    def __init__(
        self,
        api: KubeApi,
        settings: Settings,
        tell: Callable[[Message], None],
        log: Log,
        on_answer: Callable[[], None] = lambda: None,
        kinds: Iterable[ResourceType] = WATCHED_RESOURCES,
    ) -> None:
        self._api = api
        self._settings = settings
        self._tell = tell
        self._log = log
        self._on_answer = on_answer
        self._kinds = tuple(kinds)

    def run(self, stop: threading.Event) -> None:
        """List everything again and again until told to stop."""
        backoff = Backoff(1.0, self._settings.resync_s)
        wait_s = self._settings.resync_s
        while not stop.wait(wait_s):
            try:
                self.once()
                backoff.reset()
                wait_s = self._settings.resync_s
            except ApiError as error:
                wait_s = backoff.next_s()
                self._log("resync", reason=str(error), againS=round(wait_s, 1))

    def check_access(self) -> None:
        """Raise what stands in the way of listing any kind: no server, no such kind, no right."""
        for kind in self._kinds:
            self._api.list(self._path(kind), self._query(kind) | {"limit": "1"})

    def once(self) -> None:
        """List every kind."""
        for kind in self._kinds:
            self.list_all(kind)

    def list_all(self, kind: ResourceType) -> int:
        """List a kind and return the version at which that was all there was."""
        for attempt in range(TRIES):
            present: set[Key] = set()
            version = 0
            try:
                for page in self._pages(kind):
                    version = version_of(page)
                    # Taken out one by one: what was seen need not stay in memory until the next page is there.
                    items = list(reversed(page.pop("items", None) or ()))
                    while items:
                        observation = take(kind, items.pop(), self._log)
                        if observation is not None:
                            present.add(observation.key)
                            self._tell(ObjectUpdate(observation, "list"))
                self._tell(ListCompletion(kind.name, frozenset(present), version))
                return version
            except GoneError:
                if attempt == TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def _pages(self, kind: ResourceType) -> Iterator[Object]:
        query, limit = self._query(kind), self._settings.page_size
        while True:
            query["limit"] = str(limit)
            try:
                page = self._api.list(self._path(kind), query, PAGE_BYTES if limit > 1 else None)
            except TooLargeError:
                limit = max(1, limit // 2)
                continue
            self._on_answer()
            yield page
            token = page["metadata"].get("continue")
            if not token:
                return
            query["continue"] = token

    def _path(self, kind: ResourceType) -> str:
        return kind.path(self._settings.namespace if kind.in_release else "")

    def _query(self, kind: ResourceType) -> dict[str, str]:
        return {"labelSelector": kind.selector} if kind.selector else {}
