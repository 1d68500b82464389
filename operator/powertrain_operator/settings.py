"""Settings of one operator process: every number has its unit in its name and its reason beside it."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass, field

from powertrain_operator.training_pods import PodSettings

NAMESPACE = "powertrain-system"
PORT = 9096


def _identity() -> str:
    """Return a holder that no other process has had: a restarted operator must not trust its predecessor's Lease."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True)
class Settings:
    """What the command line may change comes first."""

    # The release's namespace: the operator's own Lease and those of the agents lie here.
    namespace: str = NAMESPACE
    # /metrics and /healthz; beside the agent's 9095, because both may run on one host's network. 0 takes a free one.
    metrics_port: int = PORT
    # What training pods get beside what their users wrote.
    pods: PodSettings = field(default_factory=PodSettings)
    # Watches are reliable; a full list now and then makes sure of what can't be tested, and prunes.
    resync_s: float = 300.0

    # Each edit of a template begins another profile; the newest ones of a workload and board are worth keeping.
    profiles_kept: int = 5

    # How often the watts of a PowerBudget are shared out anew; a falling cap is passed on at once.
    reshare_s: float = 30.0

    identity: str = field(default_factory=_identity)
    # Not the name that a node, and so an agent's Lease, is likely to have.
    lease_name: str = "operator.powertrain.io"
    # One release in a cluster: the Lease of this name in kube-system says, by its namespace, which release that is.
    cluster_lease_name: str = "powertrain-operator"
    # As client-go's defaults: others may take the Lease 15 s after it was last renewed; the holder stops to act when
    # it could not renew for 10 s, and tries every 2 s.
    lease_duration_s: float = 15.0
    lease_deadline_s: float = 10.0
    lease_retry_s: float = 2.0
    # A call that was begun just before the deadline must have ended before somebody else may act: 10 + 4 < 15.
    call_s: float = 4.0

    # A failing key is tried again after half a second, then ever less often; a minute is still quick for a person.
    backoff_first_s: float = 0.5
    backoff_most_s: float = 60.0
    # Objects per page of a list: a full PowerNode is 128 KiB on the wire and five times that in memory.
    page_size: int = 25

    # Red when the worker has not ended a turn for so long: a turn is a few calls of at most call_s each.
    worker_stale_s: float = 60.0
    # Red when nobody at the API server has answered for so long; the Lease is lost long before, a waiting operator
    # has none.
    api_stale_s: float = 60.0
    # Red when a watch has not shown for so long what a list or an own write proved to exist.
    watch_stale_s: float = 60.0
    # Red when a key is due and nobody takes it; longer than the worst backlog after a start with hundreds of jobs.
    queue_stale_s: float = 300.0

    # The same Event again within this time counts up instead of making another object.
    event_window_s: float = 600.0
    # At most one write per such time for an Event that keeps being repeated.
    event_series_s: float = 60.0
    # Different Events about one object within the window; more is noise.
    events_per_object: int = 30
    # Events that are remembered in order to count them up.
    events_remembered: int = 2_000
