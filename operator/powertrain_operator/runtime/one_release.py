"""One release in a cluster: an operator refuses to start while one of another namespace serves the same boards."""

from __future__ import annotations

import threading
from dataclasses import replace

from powertrain_operator.runtime.lease import OperatorLease
from powertrain_operator.settings import Settings

SYSTEM = "kube-system"
# Renewed rarely, because it changes only when somebody installs a second release.
DURATION_S, DEADLINE_S, RENEW_S = 60.0, 40.0, 15.0


class AnotherReleaseError(Exception):
    """Another release's operator serves this cluster; this process must not begin."""


def lease_settings(settings: Settings) -> Settings:
    """Return the settings of the cluster's one Lease: all operators of a release hold it under their namespace."""
    return replace(
        settings,
        namespace=SYSTEM,
        lease_name=settings.cluster_lease_name,
        identity=settings.namespace,
        lease_duration_s=DURATION_S,
        lease_deadline_s=DEADLINE_S,
        lease_retry_s=RENEW_S,
    )


def claim(lease: OperatorLease, stop: threading.Event, look_s: float) -> bool:
    """Wait until the cluster is this release's; False if told to stop before. A holder that is dead is waited out."""
    while not stop.is_set():
        if lease.attempt():
            return True
        if lease.rival_lives:
            raise AnotherReleaseError(
                f"the operator of namespace {lease.rival} serves this cluster already: two releases would both write "
                f"to the same boards. Uninstall one of them (helm uninstall -n {lease.rival} …)"
            )
        stop.wait(look_s)
    return False
