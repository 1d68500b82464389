"""LeaseKeeper: says "this node's agent is ready" by a Lease named after the node, as long as that is true."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime

from powertrain_agent.link.api import Api
from powertrain_agent.link.contact import Contact
from powertrain_kube import ApiError, AwayError, Object, micro_time
from powertrain_kube.backoff import Backoff
from powertrain_kube.log import Log

# As the kubelet's: three renewals may fail before the agent counts as silent.
RENEW_S = 10.0
DURATION_S = 40
LABELS = {"app.kubernetes.io/name": "powertrain", "app.kubernetes.io/component": "agent"}


class LeaseKeeper:
    """Renews the Lease while `healthy()` says nothing against it (an empty text); an unwell agent lets it run out."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        node: str,
        holder: str,
        healthy: Callable[[], str],
        contact: Contact,
        log: Log,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._node = node
        self._holder = holder
        self._healthy = healthy
        self._contact = contact
        self._log = log
        self._now = now
        self._acquired = micro_time(now())
        self._backoff = Backoff(1.0, RENEW_S)
        self._last_reason = ""

    @property
    def path(self) -> str:
        """Return where the Lease lies."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases/{self._node}"

    def run(self, stop: threading.Event) -> None:
        """Renew until told to stop; the Lease then runs out by itself, as a new agent may be on its way."""
        while not stop.is_set():
            stop.wait(self.renew())

    def renew(self) -> float:
        """Renew once where the agent is well, and return when to come again."""
        unwell = self._healthy()
        if unwell:
            self._say(f"not renewed: {unwell}")
            return RENEW_S
        try:
            self._api.apply(self.path, self.body())
        except ApiError as error:
            self._contact.note_failure() if isinstance(error, AwayError) else self._contact.note_answer()
            self._say(str(error))
            return self._backoff.next_s()
        self._contact.note_answer()
        self._backoff.reset()
        self._say("renewed")
        return RENEW_S

    def body(self) -> Object:
        """Return the Lease as of now."""
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._node, "namespace": self._namespace, "labels": LABELS},
            "spec": {
                "holderIdentity": self._holder,
                "leaseDurationSeconds": DURATION_S,
                "acquireTime": self._acquired,
                "renewTime": micro_time(self._now()),
            },
        }

    def _say(self, reason: str) -> None:
        if reason != self._last_reason:
            self._log("lease", name=f"{self._namespace}/{self._node}", reason=reason)
        self._last_reason = reason
