"""OperatorProcess: all parts of one operator, from the first look at the cluster to the Lease given back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from powertrain_kube import ForbiddenError, KubeApi, Log, NotFoundError
from powertrain_kube.health import HealthServer, Pulse
from powertrain_operator.plan import FIELD_MANAGER, AffectedKeys, FailureActions, Rank, RankOf, Reconcile
from powertrain_operator.resources import WATCHED_RESOURCES
from powertrain_operator.runtime.background import BackgroundQueue, send_all
from powertrain_operator.runtime.kopf_watch import KopfWatch
from powertrain_operator.runtime.lease import LeaseLostError, OperatorLease
from powertrain_operator.runtime.messages import BackgroundWrite, Wakeup
from powertrain_operator.runtime.one_release import claim, lease_settings
from powertrain_operator.runtime.resync import Resync
from powertrain_operator.runtime.watch import ResourceWatch
from powertrain_operator.runtime.worker import Worker
from powertrain_operator.settings import Settings

# A key at hand is a few calls; what takes longer is cut off by the end of the process, which every write survives.
FINISH_S = 20.0
API = "API server"


class MissingResourcesError(Exception):
    """The cluster does not serve one of our kinds."""


class MissingRightsError(Exception):
    """The operator may not see what it must."""


class OperatorProcess:
    """Build it, `look`, then `run`. Ends by itself only when it must: with the Lease lost, or a thread dead."""

    def __init__(
        self,
        settings: Settings,
        load: Callable[[], Any],
        reconcilers: Mapping[str, Reconcile],
        affected_keys: AffectedKeys,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
        *,
        rank_of: RankOf = lambda cache, key: Rank.REST,
        pauses_s: Mapping[str, float] | None = None,
        failure_actions: FailureActions = lambda cache, key, words, context: (),
    ) -> None:
        self._log = log
        self.api = KubeApi(load, FIELD_MANAGER, settings.call_s)
        self._pulse = Pulse(clock, {API: settings.api_stale_s})
        self.lease = OperatorLease(self.api, settings, log, clock, on_answer=self._on_answer)
        self._settings = settings
        self.cluster_lease = OperatorLease(self.api, lease_settings(settings), log, clock)
        self.worker = Worker(
            self.api,
            settings,
            reconcilers,
            affected_keys,
            self.lease.check,
            log,
            clock,
            lease_held=lambda: self.lease.is_held,
            rank_of=rank_of,
            pauses_s=pauses_s,
            failure_actions=failure_actions,
        )
        self._events = BackgroundQueue(self.worker.announce)
        self.worker.announce = self._events.put
        tell = self.worker.inbox.put
        send = self.worker.gateway.send
        self._writes = BackgroundQueue[BackgroundWrite](lambda write: tell(send_all(write, send)))
        self.worker.run_background_write = self._writes.put
        self.resync = Resync(self.api, settings, tell, log, self._on_answer)
        # Why not all through kopf: docs/decisions/0011-watching-with-kopf.md.
        plain = [kind for kind in WATCHED_RESOURCES if kind.in_release or kind.by_tenants]
        restarted = self.worker.metrics.watches_restarted
        self.watches: tuple[KopfWatch | ResourceWatch, ...] = (
            KopfWatch(
                [kind for kind in WATCHED_RESOURCES if kind not in plain], None, load, settings, tell, log, restarted
            ),
            *(ResourceWatch(kind, self.api, settings, self.resync.list_all, tell, log, restarted) for kind in plain),
        )
        self.server = HealthServer(self.worker.metrics.registry, self.problem, settings.metrics_port)
        self._stop = threading.Event()
        self._worked = threading.Event()
        self._released = threading.Event()
        self._failure: BaseException | None = None
        self._leading = False

    def check_access(self) -> None:
        """Raise what makes it pointless to begin."""
        try:
            self.cluster_lease.check_access()
            self.resync.check_access()
        except NotFoundError as error:
            raise MissingResourcesError(f"{error}: install the CRDs first: kubectl apply -f crds/") from error
        except ForbiddenError as error:
            raise MissingRightsError(str(error)) from error
        self._on_answer()

    def run(self) -> None:
        """Serve until told to stop; raises what ended it otherwise."""
        self.server.start()
        self._log("serving", port=self.server.port)
        try:
            if self.lease.acquire(self._stop):
                self._lead()
        finally:
            self.server.stop()
        if self._failure is not None:
            raise self._failure
        self._log("stopped", reason="told to")

    def stop(self) -> None:
        """Ask it to end; safe in a signal handler."""
        self._stop.set()
        self.worker.inbox.put(Wakeup())

    def problem(self) -> str:
        """Return what is wrong, empty if nothing is."""
        return "; ".join(filter(None, (self._pulse.problem(), self.worker.problem() if self._leading else "")))

    def _lead(self) -> None:
        keepers = [self._thread("lease", self.lease.keep, self._released)]
        try:
            if claim(self.cluster_lease, self._stop, self._settings.lease_retry_s):
                keepers.append(self._thread("cluster-lease", self.cluster_lease.keep, self._released))
                self._work()
        finally:
            self._released.set()
            for keeper in keepers:
                keeper.join(FINISH_S)
            if not isinstance(self._failure, LeaseLostError):
                self.cluster_lease.give_back()
                self.lease.give_back()

    def _work(self) -> None:
        self.resync.once()
        worker = self._thread("worker", self.worker.run, self._stop)
        background = [
            self._thread("events", self._events.run, self._worked),
            self._thread("writes", self._writes.run, self._worked),
        ]
        self._leading = True
        self._thread("resync", self.resync.run, self._stop)
        for number, watch in enumerate(self.watches):
            self._thread(f"watch-{number}", watch.run, self._stop)
        self._stop.wait()
        for watch in self.watches:
            watch.end()
        if not isinstance(self._failure, LeaseLostError):
            worker.join(FINISH_S)
            self._worked.set()
            for thread in background:
                thread.join(FINISH_S)

    def _thread(self, name: str, run: Callable[[threading.Event], None], stop: threading.Event) -> threading.Thread:
        """Start a part; if it dies, so does the process."""

        def guarded() -> None:
            try:
                run(stop)
            except BaseException as error:
                self._failure = self._failure or error
                self.stop()

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        thread.start()
        return thread

    def _on_answer(self) -> None:
        self._pulse.beat(API)
