"""OperatorLease: only the holder acts; judged on the monotonic clock, so that no changed wall clock makes a second."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from powertrain_kube import ApiError, ConflictError, KubeApi, Log, NotFoundError, Object, micro_time
from powertrain_operator.resources import LEASE
from powertrain_operator.settings import Settings


class LeaseLostError(Exception):
    """Another operator may act by now; this process must end."""


class OperatorLease:
    """`attempt` takes or renews; `held` says whether this process may still act."""

    def __init__(
        self,
        api: KubeApi,
        settings: Settings,
        log: Log,
        clock: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        self._api = api
        self._settings = settings
        self._log = log
        self._clock = clock
        self._now = now
        self._on_answer = on_answer
        self._path = LEASE.path(settings.namespace, settings.lease_name)
        self._renewed_s: float | None = None
        self._rival: tuple[str, float] = ("", 0.0)  # the version of another's Lease, and when it was first seen
        self._last_reason = ""
        self.rival = ""  # who else has it, as far as was seen
        self.rival_lives = False  # and has renewed it since we look

    @property
    def is_held(self) -> bool:
        """Say whether nobody else can have taken the Lease."""
        return self._renewed_s is not None and self._clock() - self._renewed_s < self._settings.lease_deadline_s

    def check(self) -> None:
        """Raise if this process may not act."""
        if not self.is_held:
            raise LeaseLostError(f"the Lease {self._settings.lease_name} was not renewed in time")

    def check_access(self) -> None:
        """Raise what stands in the way of reading it; that there is none yet is no obstacle."""
        with contextlib.suppress(NotFoundError):
            self._api.get(self._path)

    def acquire(self, stop: threading.Event) -> bool:
        """Wait until the Lease is ours; False if told to stop before."""
        while not stop.is_set():
            if self.attempt():
                return True
            stop.wait(self._settings.lease_retry_s)
        return False

    def keep(self, stop: threading.Event) -> None:
        """Renew until told to stop; raises when the Lease is lost."""
        while not stop.wait(self._settings.lease_retry_s):
            self.attempt()
            self.check()

    def attempt(self) -> bool:
        """Take or renew the Lease where that is allowed; says whether it worked."""
        began_s = self._clock()
        try:
            succeeded = self._attempt(began_s)
            self._on_answer()
        except ConflictError:
            succeeded = False  # somebody else was faster; the next look tells who
            self._on_answer()
        except ApiError as error:
            succeeded = False
            self._say(f"not renewed: {error}")
        if succeeded:
            # From before the call: the server may have written it at once.
            self._renewed_s = began_s
            self._say("held")
        return succeeded

    def give_back(self) -> None:
        """Let another operator take over at once."""
        if not self.is_held:
            return
        try:
            lease = self._api.get(self._path)
            if lease["spec"].get("holderIdentity") == self._settings.identity:
                spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                self._api.replace(self._path, {**lease, "spec": spec})
                self._say("given back")
        except ApiError as error:
            self._say(f"not released; it expires by itself: {error}")
        self._renewed_s = None

    def _attempt(self, began_s: float) -> bool:
        try:
            lease = self._api.get(self._path)
        except NotFoundError:
            self._api.create(LEASE.path(self._settings.namespace), self._body({}))
            return True
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self._settings.identity) and not self._ran_out(lease, began_s):
            self.rival = holder
            self._say(f"waiting: {holder} has it")
            if self._renewed_s is not None:
                raise LeaseLostError(f"{holder} has taken the Lease {self._settings.lease_name}")
            return False
        self._api.replace(self._path, self._body(lease))
        return True

    def _ran_out(self, lease: Object, now_s: float) -> bool:
        """Say whether another's Lease has not changed for its whole duration, seen on our own clock."""
        version = str(lease["metadata"]["resourceVersion"])
        if version != self._rival[0]:
            self.rival_lives = bool(self._rival[0])
            self._rival = (version, now_s)
        duration_s = float(lease["spec"].get("leaseDurationSeconds") or self._settings.lease_duration_s)
        return now_s - self._rival[1] >= duration_s

    def _body(self, lease: Object) -> Object:
        spec = lease.get("spec") or {}
        at = micro_time(self._now())
        mine = spec.get("holderIdentity") == self._settings.identity
        metadata = lease.get("metadata") or {"name": self._settings.lease_name, "namespace": self._settings.namespace}
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.name,
            "metadata": metadata,
            "spec": {
                "holderIdentity": self._settings.identity,
                "leaseDurationSeconds": round(self._settings.lease_duration_s),
                "acquireTime": spec["acquireTime"] if mine and "acquireTime" in spec else at,
                "renewTime": at,
                "leaseTransitions": (spec.get("leaseTransitions") or 0) + (0 if mine or not spec else 1),
            },
        }

    def _say(self, reason: str) -> None:
        if reason != self._last_reason:
            self._log("lease", name=self._settings.lease_name, identity=self._settings.identity, reason=reason)
        self._last_reason = reason
