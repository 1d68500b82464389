"""KopfWatch: kopf as a source of events and nothing else; it writes nothing into any object.

It watches every kind of `resources.WATCHED_RESOURCES` but Leases of agents, which change too often, and what tenants
write, which may be too large and too deep for its parser; `runtime.watch` reads those. Reasons and measurements:
docs/decisions/0011-watching-with-kopf.md.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import Any

import kopf

from powertrain_kube import KubeApi, Log, NotFoundError, Object
from powertrain_kube.backoff import Backoff
from powertrain_kube.credentials import authorization
from powertrain_operator.observation import observation_of, version_of
from powertrain_operator.plan import FIELD_MANAGER
from powertrain_operator.resources import ResourceType
from powertrain_operator.runtime.messages import Message, ObjectDeletion, ObjectUpdate
from powertrain_operator.settings import Settings

# kopf removes a finalizer of this name where it finds one that it does not need. Its default name is that of every
# other operator built with kopf, on pods and nodes that are not ours.
NOBODYS_FINALIZER = "powertrain.io/never-set-by-kopf"

# aiohttp closes TLS connections in the background; an event loop that ends before leaves their sockets open.
_CLOSING_S = 0.25


class NotServedError(Exception):
    """The server does not serve one of the kinds, or not yet: one that has just started learns of them by and by."""


class NoDiff(kopf.DiffBaseStorage):
    """kopf compares each object with a copy in its annotations; nobody needs that here, which costs 0.9 ms an event."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Return that nothing matters."""
        return kopf.BodyEssence({})

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        """Return that nothing was kept."""
        return None

    def store(self, **_: Any) -> None:
        """Keep nothing."""


class KopfWatch:
    """One kopf operator in a thread of its own, for kinds of the whole cluster or of one namespace."""

    def __init__(
        self,
        kinds: Iterable[ResourceType],
        namespace: str | None,
        load: Callable[[], Any],
        settings: Settings,
        tell: Callable[[Message], None],
        log: Log,
        restarted: Callable[[], None] = lambda: None,
    ) -> None:
        self._kinds = tuple(kinds)
        self._namespace = namespace
        self._load = load
        self._settings = settings
        self._tell = tell
        self._log = log
        self._restarted = restarted
        self._lock = threading.Lock()
        self._end: Callable[[], object] = lambda: None
        self._missing: list[str] = []

    def run(self, stop: threading.Event) -> None:
        """Watch until told to stop; kopf gives up on some errors of the server, and is then started anew."""
        # A server that is back is followed within seconds, however long it was away; one operator's tries cost nothing.
        backoff = Backoff(1.0, 5.0)
        while not stop.is_set():
            try:
                asyncio.run(self._serve(stop))
                reason = "the watches ended by themselves"
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
            if not stop.is_set():
                self._restarted()
                wait_s = backoff.next_s()
                self._log("watch", reason=reason, againS=round(wait_s, 1))
                stop.wait(wait_s)

    def end(self) -> None:
        """End the watches; the caller has set the flag that `run` was given."""
        with self._lock:
            self._end()

    async def _serve(self, stop: threading.Event) -> None:
        loop, flag = asyncio.get_running_loop(), asyncio.Event()
        self._missing = []
        with self._lock:
            self._end = lambda: loop.call_soon_threadsafe(flag.set)
        try:
            if not stop.is_set():
                await kopf.operator(
                    registry=self._registry(),
                    settings=self._kopf_settings(),
                    # kopf's own guess asks for the name of the user, which a container's user need not have.
                    identity=self._settings.identity,  # type: ignore[arg-type]
                    standalone=True,
                    clusterwide=self._namespace is None,
                    namespaces=[] if self._namespace is None else [self._namespace],
                    stop_flag=flag,
                )
        except Exception as error:
            if self._missing:
                raise NotServedError(f"the server does not serve {', '.join(self._missing)} yet") from error
            raise
        finally:
            with self._lock:
                self._end = lambda: None
            await asyncio.sleep(_CLOSING_S)

    async def _check_served(self, **_kopf: Any) -> None:
        """Fail the start where a resource is missing: kopf looks for resources once, and would never watch that one."""
        self._missing = await asyncio.to_thread(self._not_served)
        if self._missing:
            raise kopf.PermanentError(f"not served: {', '.join(self._missing)}")

    def _not_served(self) -> list[str]:
        api = KubeApi(self._load, FIELD_MANAGER, self._settings.call_s)
        plurals: dict[str, set[str]] = {}
        for version in {kind.api_version for kind in self._kinds}:
            try:
                resources = api.get(f"/{'apis' if '/' in version else 'api'}/{version}").get("resources") or []
            except NotFoundError:
                resources = []
            plurals[version] = {str(resource["name"]) for resource in resources}
        return [kind.plural for kind in self._kinds if kind.plural not in plurals[kind.api_version]]

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.startup(registry=registry, errors=kopf.ErrorsMode.PERMANENT)(self._check_served)
        kopf.on.login(registry=registry, retries=1)(self._login)
        for kind in self._kinds:
            group, _, version = kind.api_version.rpartition("/")
            kopf.on.event(group, version, kind.plural, registry=registry, id=kind.name)(self._handler(kind))
        return registry

    def _handler(self, kind: ResourceType) -> Callable[..., Any]:
        async def on_event(event: Any, **_kopf: Any) -> None:
            body: Object = event["object"]
            if event["type"] == "DELETED":
                self._tell(ObjectDeletion(observation_of(kind, body).key, version_of(body)))
            else:
                self._tell(ObjectUpdate(observation_of(kind, body), "watch"))

        return on_event

    async def _login(self, **_kopf: Any) -> kopf.ConnectionInfo:
        credentials = self._load()
        scheme, _, token = authorization(credentials).rpartition(" ")
        return kopf.ConnectionInfo(
            server=credentials.host,
            ca_path=credentials.ssl_ca_cert,
            insecure=not credentials.verify_ssl,
            certificate_path=credentials.cert_file,
            private_key_path=credentials.key_file,
            scheme=scheme or None,
            token=token or None,
        )

    def _kopf_settings(self) -> kopf.OperatorSettings:
        settings = kopf.OperatorSettings()
        settings.posting.enabled = False
        settings.scanning.disabled = True  # the kinds are known; no right to watch all definitions is needed
        settings.persistence.finalizer = NOBODYS_FINALIZER
        settings.persistence.diffbase_storage = NoDiff()
        settings.watching.chunk_size = self._settings.page_size
        settings.watching.connect_timeout = self._settings.call_s
        settings.networking.connect_timeout = self._settings.call_s
        settings.networking.request_timeout = 30.0
        # Short and then from the start again: a server that is back is seen within seconds.
        settings.networking.error_backoffs = (0.5, 1.0, 2.0, 2.0)
        settings.queueing.idle_timeout = 0.1  # an idle worker of kopf keeps the last event it saw in memory
        for kind in self._kinds:
            if kind.selector:
                group, _, version = kind.api_version.rpartition("/")
                settings.watching.label_selectors[group, version, kind.plural] = kind.selector
        return settings
