"""The cluster at one moment, as the operator's own cache, so that its reasons can be asked for and not guessed."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from datetime import datetime

from powertrain.api.v1alpha1 import TrainingJob
from powertrain_cli.jobs.connection import Connection
from powertrain_kube import ForbiddenError, Object
from powertrain_operator import lookup, node_view
from powertrain_operator.cache import Cache
from powertrain_operator.claims import Rank
from powertrain_operator.node_view import Needs, NodeView
from powertrain_operator.observation import observation_of
from powertrain_operator.plan import Context
from powertrain_operator.profiles.lookup import profile_for
from powertrain_operator.reconcile.queue import Ranking, applicant, is_waiting
from powertrain_operator.resources import JOB, LEASE, NODE, OURS, POD, ResourceType
from powertrain_operator.settings import NAMESPACE, Settings

_DECIDING = ("TrainingJob", "PowerNode", "PowerPolicy", "PowerProfile")
_KINDS = {kind.name: kind for kind in (*(ours for ours in OURS if ours.name in _DECIDING), NODE, LEASE, JOB, POD)}


@dataclass(frozen=True)
class Snapshot:
    """What was listed, when, and what these credentials may not see."""

    cache: Cache
    context: Context
    hidden_kinds: tuple[str, ...] = ()

    @property
    def now(self) -> datetime:
        """Return when it was taken."""
        return self.context.now


@dataclass(frozen=True)
class Candidate:
    """One board as the queue sees it for one job."""

    name: str
    device: str
    excluded: str  # why it can't take the job at all, empty if it could
    held_by: str  # namespace/name of the job that has it, empty if it is free
    profile: str
    rank: Rank


def take(connection: Connection, *jobs: Object, required: str = "") -> Snapshot:
    """List everything that decides about jobs; `jobs` TrainingJobs are in it also where none may be listed.

    What may not be listed in the whole cluster is listed in the connection's namespace; `required` names the kind
    without which there is nothing to tell.
    """
    objects = [(_KINDS["TrainingJob"], copy.deepcopy(body)) for body in jobs]
    hidden_kinds: list[str] = []
    for kind in _KINDS.values():
        try:
            visible, missing = _visible(connection, kind)
        except ForbiddenError:
            if kind.name == required:
                raise
            visible, missing = [], kind.plural
        objects += [(kind, body) for body in visible]
        hidden_kinds += [missing] if missing else []
    # The clock of whoever asks may be off; that of the server has stamped what it sent.
    cache, now = Cache(), connection.api.now()
    for kind, body in objects:
        heard_s = _heard_s(kind, body, now)
        cache.put(observation_of(kind, body), heard_s)
    release = next((key.namespace for key in cache.keys("Lease")), NAMESPACE)
    return Snapshot(cache, Context(now, 0.0, Settings(namespace=release)), tuple(hidden_kinds))


def _visible(connection: Connection, kind: ResourceType) -> tuple[list[Object], str]:
    """Return what these credentials may list of a kind, and in words what they may not."""
    try:
        return _list(connection, kind), ""
    except ForbiddenError:
        if not kind.namespaced or kind.in_release:
            raise
    return _list(connection, kind, connection.namespace), f"{kind.plural} of other namespaces"


def _heard_s(kind: ResourceType, body: Object, now: datetime) -> float:
    """Return when an object changed, in seconds from now; of Leases one look has only what is written in them.

    The API server notes when a field was changed; the time that an agent writes is by its board's clock.
    """
    if kind.name != "Lease":
        return 0.0
    times = [str(field["time"]) for field in body["metadata"].get("managedFields") or [] if field.get("time")]
    changed = max(times, default=(body.get("spec") or {}).get("renewTime"))
    return (node_view.parse_time(str(changed)) - now).total_seconds() if changed else 0.0


def _list(connection: Connection, kind: ResourceType, namespace: str = "") -> list[Object]:
    from powertrain.api.resources import RESOURCES

    ours = next((resource for resource in RESOURCES if resource.kind == kind.name), None)
    if ours is not None:
        return connection.list(ours, namespace)
    query = {"labelSelector": kind.selector} if kind.selector else {}
    return list(connection.api.list(kind.path(namespace=namespace), query)["items"])


def candidates(snapshot: Snapshot, job: TrainingJob) -> list[Candidate]:
    """Return every board, the best for the job first, those that can't take it last."""
    holders, applicant_of_job, ranking = lookup.holders(snapshot.cache), applicant(job), Ranking(snapshot.cache)
    candidates_found = [
        Candidate(
            name,
            str((board.status.get("device") or {}).get("name", "")),
            unfit(snapshot, board, applicant_of_job.needs),
            holders.get(name, ""),
            profile_for(snapshot.cache, job, board).name,
            ranking.rank(job, board),
        )
        for name, board in lookup.node_views(snapshot.cache, snapshot.context).items()
    ]
    return sorted(candidates_found, key=lambda each: (bool(each.excluded), each.rank.key()))


def unfit(snapshot: Snapshot, board: NodeView, needs: Needs) -> str:
    """Return why a job can't run on a board, in the operator's words; what may not be seen is held against no board."""
    if board.node is None and NODE.plural in snapshot.hidden_kinds:
        return "unknown: these credentials may not list nodes"
    silent = board.silent and LEASE.plural not in snapshot.hidden_kinds
    return node_view.unfit(replace(board, silent=silent), needs)


def board(snapshot: Snapshot, name: str) -> NodeView:
    """Return one board."""
    return lookup.node_view(snapshot.cache, name, snapshot.context)


def queue_before(snapshot: Snapshot, job: TrainingJob) -> list[str]:
    """Return the waiting jobs that come before this one, first first."""
    waiting = []
    for raw in snapshot.cache.each("TrainingJob"):
        other = lookup.find_training_job(snapshot.cache, raw["metadata"]["namespace"], raw["metadata"]["name"])
        if other is not None and is_waiting(other) and applicant(other).order < applicant(job).order:
            waiting.append((applicant(other).order, f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"))
    return [name for _, name in sorted(waiting)]
