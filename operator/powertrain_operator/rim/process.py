"""OperatorProcess: all parts of one operator, from the first look at the cluster to the Lease given back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from powertrain_kube import ForbiddenError, KubeApi, Log, NotFoundError
from powertrain_kube.health import HealthServer, Pulse
from powertrain_operator.kinds import WATCHED
from powertrain_operator.plan import FIELD_MANAGER, Affected, Rank, Ranked, Reconcile
from powertrain_operator.rim.follow import Follow
from powertrain_operator.rim.inbox import Wake
from powertrain_operator.rim.lane import Lane
from powertrain_operator.rim.lease import LeaseLostError, OperatorLease
from powertrain_operator.rim.outbox import Outbox
from powertrain_operator.rim.resync import Resync
from powertrain_operator.rim.watch import Watch
from powertrain_operator.rim.worker import Worker
from powertrain_operator.settings import Settings

# A key at hand is a few calls; what takes longer is cut off by the end of the process, which every write survives.
FINISH_S = 20.0
API = "API server"


class MissingKindsError(Exception):
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
        affected: Affected,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
        *,
        ranked: Ranked = lambda world, key: Rank.REST,
    ) -> None:
        self._log = log
        self.api = KubeApi(load, FIELD_MANAGER, settings.call_s)
        self._pulse = Pulse(clock, {API: settings.api_stale_s})
        self.lease = OperatorLease(self.api, settings, log, clock, answered=self._answered)
        self.worker = Worker(
            self.api,
            settings,
            reconcilers,
            affected,
            self.lease.check,
            log,
            clock,
            lease_held=lambda: self.lease.held,
            ranked=ranked,
        )
        self._outbox = Outbox(self.worker.announce)
        self.worker.announce = self._outbox.put
        tell = self.worker.inbox.put
        self._lane = Lane(self.worker.gateway.send, tell)
        self.worker.run_errand = self._lane.put
        self.resync = Resync(self.api, settings, tell, log, self._answered)
        wide = [kind for kind in WATCHED if not kind.in_release]
        here = [kind for kind in WATCHED if kind.in_release]
        restarted = self.worker.metrics.watches_restarted
        # Of the agents' Leases only the time counts, and of hundreds of boards there are dozens in a second.
        self.watches: tuple[Watch | Follow, ...] = (
            Watch(wide, None, load, settings, tell, log, restarted),
            *(Follow(kind, self.api, settings, self.resync.list_all, tell, log, restarted) for kind in here),
        )
        self.server = HealthServer(self.worker.metrics.registry, self.problem, settings.metrics_port)
        self._stop = threading.Event()
        self._worked = threading.Event()
        self._released = threading.Event()
        self._failure: BaseException | None = None
        self._leading = False

    def look(self) -> None:
        """Raise what makes it pointless to begin."""
        try:
            self.resync.look()
        except NotFoundError as error:
            raise MissingKindsError(f"{error}: install the definitions first, kubectl apply -f crds/") from error
        except ForbiddenError as error:
            raise MissingRightsError(str(error)) from error
        self._answered()

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
        self.worker.inbox.put(Wake())

    def problem(self) -> str:
        """Return what is wrong, empty if nothing is."""
        return "; ".join(filter(None, (self._pulse.problem(), self.worker.problem() if self._leading else "")))

    def _lead(self) -> None:
        keeper = self._thread("lease", self.lease.keep, self._released)
        self.resync.once()
        worker = self._thread("worker", self.worker.run, self._stop)
        beside = [
            self._thread("events", self._outbox.run, self._worked),
            self._thread("lane", self._lane.run, self._worked),
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
            for thread in beside:
                thread.join(FINISH_S)
        self._released.set()
        keeper.join(FINISH_S)
        if self._failure is None:
            self.lease.give_back()

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

    def _answered(self) -> None:
        self._pulse.beat(API)
