"""The fleet as the operator sees it: which nodes could take a job, and why the others can't."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from powertrain.api.session import PROTOCOL, AvailableWatts
from powertrain_operator import names
from powertrain_operator.policies import SitePolicy, selects

Object = dict[str, Any]
_BLOCKING = ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class NodeView:
    """One Jetson: its Node, its PowerNode, whether its agent is heard, and what the site's policies say about it."""

    name: str
    node: Object | None
    power_node: Object | None
    silent: bool
    policy: SitePolicy
    # The Lease was found, and nothing was heard since: enough for a job that runs there, not for a new one.
    unheard: bool = False
    supply: AvailableWatts | None = None

    @property
    def unpowered(self) -> str:
        """Return why no job may run there for now, empty if one may: the site has no power, and its policy says so."""
        if self.supply is None or self.supply.watts > 0 or not self.policy.suspends_unpowered:
            return ""
        return f"no power: {self.supply.problem or f'{names.AVAILABLE_WATTS} is 0'}"

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the Node's labels."""
        return (self.node or {}).get("metadata", {}).get("labels") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return the Node's annotations."""
        return (self.node or {}).get("metadata", {}).get("annotations") or {}

    @property
    def status(self) -> Object:
        """Return what the agent reports."""
        return (self.power_node or {}).get("status") or {}

    @property
    def spec(self) -> Object:
        """Return what the agent was asked for."""
        return (self.power_node or {}).get("spec") or {}

    @property
    def session_uid(self) -> str:
        """Return the session that the agent was asked to serve, empty if none."""
        return str((self.spec.get("session") or {}).get("uid", ""))

    @property
    def cordoned(self) -> bool:
        """Say whether the Node takes no new pods."""
        return bool((self.node or {}).get("spec", {}).get("unschedulable"))

    def restored(self, session: str) -> bool:
        """Say whether nothing of a session is left on the board: the agent says so, or there is no board any more."""
        if self.power_node is None:
            return True
        reported = self.status.get("session") or {}
        return bool(reported.get("uid") == session and reported.get("restored"))

    def not_ready(self) -> bool:
        """Say whether the cluster has lost the Node."""
        conditions = (self.node or {}).get("status", {}).get("conditions") or []
        ready: Object = next((c for c in conditions if c["type"] == "Ready"), {})
        return ready.get("status") != "True"


@dataclass(frozen=True)
class Needs:
    """What a job asks of a node; jobs with equal needs have equal candidates."""

    namespace: str
    selector: tuple[tuple[str, str], ...]
    tolerations: tuple[tuple[str, str, str, str], ...]


def needs(namespace: str, selector: Mapping[str, str], template: Object) -> Needs:
    """Return the needs of a job: its own selector, its template's, and what its pods tolerate."""
    spec = template.get("spec") or {}
    both = {**(spec.get("nodeSelector") or {}), **selector}
    tolerations = tuple(
        (str(t.get("key", "")), str(t.get("operator", "Equal")), str(t.get("value", "")), str(t.get("effect", "")))
        for t in spec.get("tolerations") or []
    )
    return Needs(namespace, tuple(sorted(both.items())), tolerations)


def unfit(board: NodeView, needs_of_job: Needs) -> str:
    """Return why a job can't run on a board, free or not; empty if it could."""
    if board.node is None:
        return "there is no such node"
    if not selects(dict(needs_of_job.selector), board.labels):
        return "labels do not match the selector"
    if board.labels.get(names.IGNORE, "false") != "false" or board.annotations.get(names.IGNORE, "false") != "false":
        return f"{names.IGNORE} is set"
    if board.cordoned:
        return "cordoned"
    if board.not_ready():
        return "NotReady"
    taint = untolerated((board.node.get("spec") or {}).get("taints") or [], needs_of_job.tolerations)
    if taint:
        return f"taint {taint} is not tolerated"
    return board.policy.refuses(needs_of_job.namespace) or board.unpowered or _agent_problem(board)


def _agent_problem(board: NodeView) -> str:
    if board.power_node is None:
        return "no agent has joined from there"
    if board.silent:
        return "its agent is silent"
    protocol = (board.status.get("agent") or {}).get("protocol", 0)
    if protocol and abs(int(protocol) - PROTOCOL) > 1:
        return f"VersionSkew: its agent speaks protocol {protocol}, this operator {PROTOCOL} ± 1"
    if not protocol:
        return "its agent has not reported yet"
    if (board.status.get("agent") or {}).get("observes"):
        return "its agent only observes (the chart's agent.mode is Observe)"
    if not (board.status.get("capabilities") or {}).get("modes", 0):
        return "its agent can't set power modes there"
    return ""


def untolerated(taints: Iterable[Object], tolerations: Iterable[tuple[str, str, str, str]]) -> str:
    """Return the first taint that keeps pods with these tolerations away, empty if none does."""
    for taint in taints:
        if taint.get("effect") in _BLOCKING and not any(_tolerates(t, taint) for t in tolerations):
            return f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
    return ""


def _tolerates(toleration: tuple[str, str, str, str], taint: Object) -> bool:
    key, operator, value, effect = toleration
    if effect and effect != taint["effect"]:
        return False
    if key and key != taint["key"]:
        return False
    return operator == "Exists" or (bool(key) and value == (taint.get("value") or ""))


def parse_time(text: str) -> datetime:
    """Return a moment of the API, with or without fractions of a second."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
