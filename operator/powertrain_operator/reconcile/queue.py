"""The queue: gives waiting TrainingJobs their nodes in turn, all or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from powertrain.api.v1alpha1 import (
    BatchSizeState,
    ConditionStatus,
    JobNode,
    JobPhase,
    PriorMatch,
    TrainingJob,
    When,
    find,
    moment,
)
from powertrain_operator import claims, floors, lookup, node_view
from powertrain_operator.batch_sizes import Decision, decide, relation_for
from powertrain_operator.budgets.power_check import PowerCheck
from powertrain_operator.cache import ASK_AGAIN_S, Cache
from powertrain_operator.claims import Applicant, Rank, first_of
from powertrain_operator.envelope import expected_seconds
from powertrain_operator.limits import limits_for, power_limit_w
from powertrain_operator.node_view import Needs, NodeView
from powertrain_operator.observation import Key
from powertrain_operator.plan import Action, Announce, ApplyStatus, Context, Plan
from powertrain_operator.profiles.lookup import profile_for, profiled_sizes
from powertrain_operator.profiles.matching import Object, ProfileMatch
from powertrain_operator.reconcile.admission import admitted_status, is_admissible
from powertrain_operator.reconcile.conditions import ADMITTED, Conditions
from powertrain_operator.reconcile.reference import finalizer, reference
from powertrain_operator.reconcile.summary import PREPARING
from powertrain_operator.reconcile.waiting import might_wait
from powertrain_operator.training_pods import session_uid
from powertrain_operator.trouble import Parts
from powertrain_operator.turns import Waiter, in_turn, priority

QUEUE = Key("Queue", "", "queue")
# Claims in one look: the boards that were given away are told before the next ones are.
MOST_CLAIMS = 4
_WAITING = (
    JobPhase.PENDING,
    JobPhase.QUEUED,
    JobPhase.WAITING_FOR_NODE,
    JobPhase.WAITING_FOR_POWER,
    JobPhase.SUSPENDED,
)


def reconcile(cache: Cache, key: Key, context: Context) -> Plan:
    """Return the claims that can be made now; a job that can't be read or placed costs the others nothing."""
    parts = Parts()
    jobs = _candidates(cache, parts, context)
    if not jobs:
        return _plan((), None, parts)
    boards = lookup.node_views(cache, context)
    busy = frozenset(lookup.holders(cache)) | {name for name, board in boards.items() if is_taken(board)}
    claiming = Claiming(cache, boards, jobs, parts, context)
    while claiming.jobs:
        assignment = claiming.assign(busy)
        if assignment is None or not claiming.claim(assignment):
            continue  # somebody's part has failed: the nodes are given out without that job
        return _plan(claiming.actions, 0.0 if len(assignment) == MOST_CLAIMS else None, parts)
    return _plan(claiming.actions, None, parts)


def _plan(actions: Sequence[Action], again_s: float | None, parts: Parts) -> Plan:
    again_s = ASK_AGAIN_S if parts.troubles and again_s is None else again_s
    return Plan(tuple(actions), again_s, troubles=parts.troubles)


@dataclass(frozen=True)
class Candidate:
    """A job that can have nodes, as the order of turns and as the boards see it."""

    job: TrainingJob
    waiter: Waiter
    applicant: Applicant


def _candidates(cache: Cache, parts: Parts, context: Context) -> dict[str, Candidate]:
    """Return the jobs that can have nodes, by their uid, in the order of their turns."""
    classes, candidates = list(cache.each("PriorityClass")), {}
    for raw in filter(might_wait, cache.each("TrainingJob")):
        key = Key("TrainingJob", raw["metadata"]["namespace"], raw["metadata"]["name"])
        with parts.of(key):
            job = lookup.find_training_job(cache, key.namespace, key.name)
            if job is not None and (is_waiting(job) or is_admissible(cache, job, context)):
                waiter = _waiter(job, classes, context)
                candidates[waiter.uid] = Candidate(job, waiter, applicant(job))
    order = _order(cache, [candidate.waiter for candidate in candidates.values()]) if candidates else []
    return {uid: candidates[uid] for uid in order}


class Claiming:
    """Gives nodes to jobs in one look at the cache. A job whose part fails is left out, and the others begin anew."""

    def __init__(
        self,
        cache: Cache,
        boards: Mapping[str, NodeView],
        jobs: dict[str, Candidate],
        parts: Parts,
        context: Context,
    ) -> None:
        self.jobs = jobs
        self.actions: list[Action] = []
        self._cache, self._boards, self._parts, self._context = cache, boards, parts, context
        self._ranking = Ranking(cache)
        self._could_run: dict[Needs, frozenset[str]] = {}
        self._floored = {name for name, board in boards.items() if board.policy.node.min_mode is not None}
        self._power: PowerCheck | None = None

    def assign(self, busy: frozenset[str]) -> dict[str, tuple[str, ...]] | None:
        """Return who gets which nodes, None if that can't be said for one of the jobs, which is then left out."""
        at_work = ""

        def rank(uid: str, board: NodeView) -> Rank:
            nonlocal at_work
            at_work = uid
            return self._ranking.rank(self.jobs[uid].job, board)

        self._power = PowerCheck(self._cache, self._context) if self._cache.keys("PowerBudget") else None
        applicants = [replace(each.applicant, order=place) for place, each in enumerate(self.jobs.values())]
        try:
            return claims.assign(applicants, self._boards, busy, self._fitting, rank, MOST_CLAIMS, self._choose)
        except Exception as error:
            if not at_work:
                raise
            self._parts.note(self._key(at_work), error)
            del self.jobs[at_work]
            return None

    def claim(self, assignment: Mapping[str, tuple[str, ...]]) -> bool:
        """Add what gives the jobs their nodes; False if that failed for some, which are then left out."""
        claimed: dict[str, list[Action]] = {}
        for uid, nodes in assignment.items():
            job, boards = self.jobs[uid].job, [self._boards[name] for name in nodes]
            with self._parts.of(self._key(uid)):
                try:
                    decision = batch_decision(self._cache, job, boards[0])
                except ValueError as error:
                    words = str(error)[:1024]
                    self.actions.append(Announce(reference(job), "Warning", "BatchSizeUndecided", words))
                    continue
                known_by = _known_by(self._cache, job, boards, decision)
                claimed[uid] = _claim(job, nodes, decision, known_by, self._context)
        for uid in set(assignment) - set(claimed):
            del self.jobs[uid]
        if len(claimed) < len(assignment):
            return False
        self.actions += [action for actions in claimed.values() for action in actions]
        return True

    def _choose(self, uid: str, ranked: Sequence[str], replicas: int) -> tuple[str, ...]:
        """Return the best nodes whose PowerBudgets have the watts, else those that need least; none without power."""
        if self._power is None:
            return first_of(uid, ranked, replicas)
        candidate, power = self.jobs[uid], self._power
        job, rank = candidate.job, candidate.waiter.priority

        def orders() -> Iterator[Sequence[str]]:
            yield ranked
            yield sorted(ranked, key=lambda name: power.floor_w(job, self._boards[name], rank))

        for in_order in orders():
            names = in_order[:replicas]
            boards = [self._boards[name] for name in names]
            shortfall = power.shortfall(job, boards, rank)
            if shortfall is None:
                power.grant(job, boards, rank)
                return tuple(names)
        if shortfall is not None:
            power.note_waiting(shortfall, rank)
        return ()

    def _fitting(self, applicant: Applicant) -> frozenset[str]:
        """Return the boards that could run a job, free or not."""
        needs = applicant.needs
        if needs not in self._could_run:
            fit = (name for name, board in self._boards.items() if not node_view.unfit(board, needs))
            self._could_run[needs] = frozenset(fit)
        fitting = self._could_run[needs]
        below = (name for name in fitting & self._floored if self._is_below_floor(applicant.key, name))
        return fitting.difference(below)

    def _is_below_floor(self, uid: str, name: str) -> bool:
        return bool(floors.problem(self._cache, self.jobs[uid].job, self._boards[name]))

    def _key(self, uid: str) -> Key:
        return lookup.key_of(self.jobs[uid].job)


def is_waiting(job: TrainingJob) -> bool:
    """Say whether a job is admitted and has no nodes yet."""
    status = job.status
    admitted = find(status.conditions, ADMITTED)
    return (
        status.phase in _WAITING
        and not job.spec.suspend
        and not job.metadata.get("deletionTimestamp")
        and admitted is not None
        and admitted.status is ConditionStatus.TRUE
        and admitted.observed_generation == job.metadata.get("generation")
        and not any(node.holds for node in status.nodes)
    )


def is_taken(board: NodeView) -> bool:
    """Say whether an earlier session on the board is not over yet, or nobody knows whether its agent still lives."""
    uid = board.session_uid
    return board.unheard or (bool(uid) and not board.restored(uid))


def _order(cache: Cache, waiters: Sequence[Waiter]) -> list[str]:
    """Return the uids of waiting jobs in the order of their turns."""
    held_boards, last_served = Counter[str](), dict[str, str]()
    for raw in cache.each("TrainingJob"):
        namespace, status = raw["metadata"]["namespace"], raw.get("status") or {}
        held_boards[namespace] += sum(bool(node.get("holds")) for node in status.get("nodes") or ())
        last_served[namespace] = max(last_served.get(namespace, ""), status.get("startedAt") or "")
    return in_turn(waiters, held_boards, last_served)


def _waiter(job: TrainingJob, classes: Sequence[Object], context: Context) -> Waiter:
    metadata, since = job.metadata, job.status.queued_at
    came = (since or "9", metadata.get("creationTimestamp", ""), metadata["uid"])
    waited_s = (context.now - node_view.parse_time(since)).total_seconds() if since else 0.0
    rank = priority(job.spec.workload.template, classes)
    return Waiter(metadata["uid"], metadata["namespace"], rank, came, waited_s)


def applicant(job: TrainingJob, order: int = 0) -> Applicant:
    """Return a job as the queue sees it, at its place."""
    metadata, placement = job.metadata, job.spec.placement
    needs = node_view.needs(metadata["namespace"], placement.node_selector, job.spec.workload.template)
    # Batch sizes are compared on one board; otherwise allowMove counts, also when it is set while the job waits.
    stays = not placement.allow_move or any(node.trial for node in job.status.nodes)
    only = frozenset(job.status.return_to) if stays else frozenset[str]()
    return Applicant(metadata["uid"], order, needs, placement.replicas, only)


class Ranking:
    """How good boards are for jobs, in one look at the cache: of one kind and limit all are as good as each other."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._expected_seconds: dict[tuple[object, ...], tuple[bool, float]] = {}

    def rank(self, job: TrainingJob, board: NodeView) -> Rank:
        """Return a board's rank: a reusable profile, then the least predicted time of an epoch."""
        limit_w = power_limit_w(job.spec, board.labels, board.policy.node)
        kind = (job.metadata["uid"], limit_w, *(board.status.get("device") or {}).items())
        if kind not in self._expected_seconds:
            self._expected_seconds[kind] = self._expect(job, board, limit_w)
        return Rank(*self._expected_seconds[kind], -_strength(board), board.name)

    def _expect(self, job: TrainingJob, board: NodeView, limit_w: float | None) -> tuple[bool, float]:
        match = profile_for(self._cache, job, board) if job.spec.profiling.reuse else ProfileMatch()
        expected_s = expected_seconds(job, limit_w, job.spec.workload.batch_sizes[0], match)
        return match.prior is None, float("inf") if expected_s is None else expected_s


def batch_decision(cache: Cache, job: TrainingJob, board: NodeView) -> Decision:
    """Return the batch size of the job's next attempt on a board."""
    sizes = job.spec.workload.batch_sizes
    if len(sizes) == 1:
        return Decision(sizes[0], trial=_profiles_first(cache, job, board))
    limits = limits_for(job.spec, board.labels, board.policy.node)
    matches = profiled_sizes(cache, job, board)
    problems = {size: profile_for(cache, job, board, size).problem for size in sizes if size not in matches}
    return decide(job, relation_for(job, lookup.study_of(cache, job)), matches, limits, problems)


def _profiles_first(cache: Cache, job: TrainingJob, board: NodeView) -> bool:
    """Say whether a run of its own has to come before the training: asked for, and neither done nor failed yet."""
    has_excluded = job.status.batch is not None and any(
        s.state is BatchSizeState.EXCLUDED for s in job.status.batch.sizes
    )
    return job.spec.profiling.when is When.OFFLINE and not has_excluded and not profiled_sizes(cache, job, board)


def _strength(board: NodeView) -> float:
    """Return how fast a board is without any measurement: its number of modes grows with its clocks and cores."""
    return float((board.status.get("capabilities") or {}).get("modes", 0))


def _claim(
    job: TrainingJob, nodes: tuple[str, ...], decision: Decision, known_by: str, context: Context
) -> list[Action]:
    """Return what gives a job its nodes: one write, so that it has all of them or none, and one Event."""
    conditions = Conditions(job.status, job.metadata.get("generation", 1), context.now)
    before = admitted_status(job, conditions, context)
    attempt, uid = before.attempt + 1, job.metadata["uid"]
    status = before.model_copy(
        update={
            "phase": JobPhase.PENDING,
            "message": PREPARING,
            "attempt": attempt,
            "started_at": before.started_at or moment(context.now),
            "return_to": (),
            "batch": decision.status or before.batch,
            "where": ",".join(nodes)[:1024],
            "nodes": tuple(
                JobNode(
                    replica=number,
                    name=name,
                    session=session_uid(uid, number, attempt),
                    batch_size=decision.batch_size,
                    trial=decision.trial,
                )
                for number, name in enumerate(nodes)
            ),
        }
    )
    about = reference(job)
    return [
        *finalizer(job, True),
        ApplyStatus({**about, "status": status.wire()}, uid=uid),
        Announce(
            about, "Normal", "NodesClaimed", f"attempt {attempt} on {', '.join(nodes)}{_which(decision)}{known_by}"
        ),
    ]


def _known_by(cache: Cache, job: TrainingJob, boards: Sequence[NodeView], decision: Decision) -> str:
    """Say in words which profiles the boards begin with; one that is only a start is told of by its own Event."""
    if not job.spec.profiling.reuse:
        return ""
    matches = [profile_for(cache, job, board, decision.batch_size) for board in boards]
    names = sorted({each.name for each in matches if each.prior is not None and each.prior.match is PriorMatch.EXACT})
    return f"; PowerProfile {', '.join(names)} is reused after a check" if names else ""


def _which(decision: Decision) -> str:
    """Say in words which of several batch sizes an attempt is for."""
    if decision.trial:
        return f": batch size {decision.batch_size} is profiled"
    return f": {decision.status.reason}" if decision.status is not None else ""
