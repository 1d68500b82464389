"""ResourceWatch: a plain watch of one kind, for what changes too often, or may be too large or too deep, for kopf."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from powertrain_kube import ApiError, KubeApi, Log
from powertrain_kube.backoff import Backoff
from powertrain_operator.observation import version_of
from powertrain_operator.resources import ResourceType
from powertrain_operator.runtime.decode import take
from powertrain_operator.runtime.messages import Message, ObjectDeletion, ObjectUpdate
from powertrain_operator.settings import Settings

# A watch ends by itself after this time, so that a connection that hangs half-open never lasts.
WATCH_S = 300
# A server that ends every watch sooner must not be asked in a tight loop.
SHORT_S = 1.0


class ResourceWatch:
    """Lists, then watches, and lists again when the server has forgotten where it was; decides nothing."""

    def __init__(
        self,
        kind: ResourceType,
        api: KubeApi,
        settings: Settings,
        list_all: Callable[[ResourceType], int],
        tell: Callable[[Message], None],
        log: Log,
        restarted: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._kind = kind
        self._api = api
        self._path = kind.path(settings.namespace if kind.in_release else "")
        self._list_all = list_all
        self._tell = tell
        self._log = log
        self._restarted = restarted
        self._version = 0

    def run(self, stop: threading.Event) -> None:
        """Follow the kind until told to stop."""
        backoff = Backoff(1.0, 5.0)
        while not stop.is_set():
            began_s = self._clock()
            try:
                self._round(stop)
            except ApiError as error:
                self._version = 0
                self._restarted()
                self._log("watch", reason=str(error))
            if self._clock() - began_s < SHORT_S:
                stop.wait(backoff.next_s())
            else:
                backoff.reset()

    def _round(self, stop: threading.Event) -> None:
        if not self._version:
            self._version = self._list_all(self._kind)
        self._watch(stop)

    def end(self) -> None:
        """Nothing to do: a read that hangs ends with the process."""

    def _watch(self, stop: threading.Event) -> None:
        query = {"resourceVersion": str(self._version), "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_S)}
        query |= {"labelSelector": self._kind.selector} if self._kind.selector else {}
        for event in self._api.watch(self._path, query):
            if stop.is_set():
                return
            body = event["object"]
            self._version = version_of(body)
            observation = None if event["type"] == "BOOKMARK" else take(self._kind, body, self._log)
            if observation is not None and event["type"] == "DELETED":
                self._tell(ObjectDeletion(observation.key, self._version))
            elif observation is not None:
                self._tell(ObjectUpdate(observation, "watch"))
