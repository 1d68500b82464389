"""Resync: full lists of every kind, at the start and now and then, which also show what a cut watch missed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from powertrain_kube import ApiError, GoneError, KubeApi, Log, Object
from powertrain_kube.backoff import Backoff
from powertrain_operator.kinds import WATCHED, Kind
from powertrain_operator.rim.inbox import Listed, News, Seen
from powertrain_operator.settings import Settings
from powertrain_operator.sighting import Key, sight, version_of

# A list in pages is over when the server forgets where it was; more tries than that mean a server in trouble.
TRIES = 3


class Resync:
    """Tells what it finds; decides nothing."""

    def __init__(
        self,
        api: KubeApi,
        settings: Settings,
        tell: Callable[[News], None],
        log: Log,
        answered: Callable[[], None] = lambda: None,
        kinds: Iterable[Kind] = WATCHED,
    ) -> None:
        self._api = api
        self._settings = settings
        self._tell = tell
        self._log = log
        self._answered = answered
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

    def look(self) -> None:
        """Raise what stands in the way of listing any kind: no server, no such kind, no right."""
        for kind in self._kinds:
            self._api.list(self._path(kind), self._query(kind) | {"limit": "1"})

    def once(self) -> None:
        """List every kind."""
        for kind in self._kinds:
            self.list_all(kind)

    def list_all(self, kind: Kind) -> int:
        """List a kind and return the version at which that was all there was."""
        for attempt in range(TRIES):
            present: set[Key] = set()
            version = 0
            try:
                for page in self._pages(kind):
                    version = version_of(page)
                    for item in page.get("items") or ():
                        sighting = sight(kind, item)
                        present.add(sighting.key)
                        self._tell(Seen(sighting, "list"))
                self._tell(Listed(kind.name, frozenset(present), version))
                return version
            except GoneError:
                if attempt == TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def _pages(self, kind: Kind) -> Iterator[Object]:
        query = self._query(kind) | {"limit": str(self._settings.page_size)}
        while True:
            page = self._api.list(self._path(kind), query)
            self._answered()
            yield page
            token = page["metadata"].get("continue")
            if not token:
                return
            query["continue"] = token

    def _path(self, kind: Kind) -> str:
        return kind.path(self._settings.namespace if kind.in_release else "")

    def _query(self, kind: Kind) -> dict[str, str]:
        return {"labelSelector": kind.selector} if kind.selector else {}
