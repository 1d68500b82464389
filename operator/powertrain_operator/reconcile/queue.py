"""The queue: gives waiting TrainingJobs their nodes, first come first served, all or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from powertrain.api.v1alpha1 import (
    BatchSizeState,
    ConditionStatus,
    DeviceInfo,
    JobNode,
    JobPhase,
    PowerProfile,
    PowerProfileSpec,
    PriorMatch,
    TrainingJob,
    TrainingJobStatus,
    When,
    find,
    moment,
)
from powertrain_operator import claims, fleet, lookup, profiles
from powertrain_operator.batch_sizes import Decision, decide, relation_for
from powertrain_operator.claims import Applicant, Rank
from powertrain_operator.envelope import expected_seconds, workload_name
from powertrain_operator.fleet import Board, Needs
from powertrain_operator.limits import limits_for, power_limit_w
from powertrain_operator.plan import Action, Announce, ApplyStatus, Context, Plan
from powertrain_operator.profiles import Found, Object, ProfileKey, Stored
from powertrain_operator.reconcile.admission import ACCEPTED, judge
from powertrain_operator.reconcile.reference import finalizer, reference
from powertrain_operator.reconcile.summary import PREPARING
from powertrain_operator.reconcile.verdicts import ADMITTED, Verdicts
from powertrain_operator.sighting import Key
from powertrain_operator.training_pods import session_uid
from powertrain_operator.world import World

QUEUE = Key("Queue", "", "queue")
# Claims in one look: the boards that were given away are told before the next ones are.
MOST_CLAIMS = 4
_WAITING = (JobPhase.PENDING, JobPhase.QUEUED, JobPhase.WAITING_FOR_NODE, JobPhase.SUSPENDED)


def reconcile(world: World, key: Key, context: Context) -> Plan:
    """Return the claims that can be made now."""
    waiting = [job for raw in world.each("TrainingJob") if might_wait(raw) and (job := _whole(world, raw)) is not None]
    jobs = {job.metadata["uid"]: job for job in waiting if is_waiting(job) or is_welcome(world, job, context)}
    if not jobs:
        return Plan()
    boards = lookup.boards(world, context)
    known: dict[Needs, frozenset[str]] = {}
    ranking = Ranking(world)

    def could_run(asked: Needs) -> frozenset[str]:
        if asked not in known:
            fit = (name for name, board in boards.items() if not fleet.unfit(board, asked))
            known[asked] = frozenset(fit)
        return known[asked]

    taken = frozenset(lookup.holders(world)) | {name for name, board in boards.items() if is_taken(board)}
    actions: list[Action] = []
    again_s: float | None = None
    while jobs:
        given = claims.assign(
            [applicant(job) for job in jobs.values()],
            boards,
            taken,
            could_run,
            lambda uid, board: ranking.rank(jobs[uid], board),
            MOST_CLAIMS,
        )
        decisions, undecided = _decided(world, {uid: (jobs[uid], boards[nodes[0]]) for uid, nodes in given.items()})
        if not undecided:
            for uid, decision in decisions.items():
                known_by = _known_by(world, jobs[uid], [boards[name] for name in given[uid]], decision)
                actions += _claim(jobs[uid], given[uid], decision, known_by, context)
            again_s = 0.0 if len(given) == MOST_CLAIMS else None
            break
        # One job's own trouble must not cost the others their nodes: they are given out without it.
        for uid, words in undecided.items():
            actions.append(Announce(reference(jobs.pop(uid)), "Warning", "BatchSizeUndecided", words))
    return Plan(tuple(actions), again_s)


def _decided(
    world: World, pairs: Mapping[str, tuple[TrainingJob, Board]]
) -> tuple[dict[str, Decision], dict[str, str]]:
    """Return the batch size of each job's next attempt, and why others have none."""
    decisions, undecided = {}, {}
    for uid, (job, board) in pairs.items():
        try:
            decisions[uid] = batch_decision(world, job, board)
        except ValueError as error:
            undecided[uid] = str(error)[:1024]
    return decisions, undecided


def might_wait(raw: Object) -> bool:
    """Say, without reading the whole object, whether a job could be waiting."""
    status = raw.get("status") or {}
    over = status.get("phase") in (JobPhase.SUCCEEDED, JobPhase.FAILED)
    return not over and not any(node.get("holds") for node in status.get("nodes") or [])


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


def is_welcome(world: World, job: TrainingJob, context: Context) -> bool:
    """Say whether a job is new and nothing speaks against it: it can have its nodes with the write that admits it."""
    if find(job.status.conditions, ADMITTED) is not None or job.spec.suspend or job.metadata.get("deletionTimestamp"):
        return False
    return judge(world, job, context).admitted is True


def is_taken(board: Board) -> bool:
    """Say whether an earlier session on the board is not over yet, or nobody knows whether its agent still lives."""
    uid = board.session_uid
    return board.unheard or (bool(uid) and not board.restored(uid))


def applicant(job: TrainingJob) -> Applicant:
    """Return a job as the queue sees it."""
    metadata, placement = job.metadata, job.spec.placement
    asked = fleet.needs(metadata["namespace"], placement.node_selector, job.spec.workload.template)
    order = (job.status.queued_at or "9", metadata.get("creationTimestamp", ""), metadata["uid"])
    # Batch sizes are compared on one board; otherwise allowMove counts, also when it is set while the job waits.
    stays = not placement.allow_move or any(node.trial for node in job.status.nodes)
    only = frozenset(job.status.return_to) if stays else frozenset[str]()
    return Applicant(metadata["uid"], order, asked, placement.replicas, only)


class Ranking:
    """How good boards are for jobs, in one look at the world: of one kind and limit all are as good as each other."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[tuple[object, ...], tuple[bool, float]] = {}

    def rank(self, job: TrainingJob, board: Board) -> Rank:
        """Return a board's rank: a reusable profile, then the least predicted time of an epoch."""
        limit_w = power_limit_w(job.spec, board.labels, board.policy.node)
        kind = (job.metadata["uid"], limit_w, *(board.status.get("device") or {}).items())
        if kind not in self._known:
            self._known[kind] = self._expect(job, board, limit_w)
        return Rank(*self._known[kind], -_strength(board), board.name)

    def _expect(self, job: TrainingJob, board: Board, limit_w: float | None) -> tuple[bool, float]:
        found = profile_for(self._world, job, board) if job.spec.profiling.reuse else Found()
        expected_s = expected_seconds(job, limit_w, job.spec.workload.batch_sizes[0], found)
        return found.prior is None, float("inf") if expected_s is None else expected_s


def profile_for(world: World, job: TrainingJob, board: Board, batch_size: int | None = None) -> Found:
    """Return what is stored about the job's workload on a board, at its first batch size unless another is named."""
    size = batch_size or job.spec.workload.batch_sizes[0]
    return profiles.find(profiles_of(world, job), profile_key(job, board, size))


def profiled_sizes(world: World, job: TrainingJob, board: Board) -> dict[int, PowerProfileSpec]:
    """Return what was measured of the very same job on the very same kind of board, by batch size."""
    found = {size: profile_for(world, job, board, size) for size in job.spec.workload.batch_sizes}
    return {
        size: each.spec
        for size, each in found.items()
        if each.spec is not None and each.prior is not None and each.prior.match is PriorMatch.EXACT
    }


def batch_decision(world: World, job: TrainingJob, board: Board) -> Decision:
    """Return the batch size of the job's next attempt on a board."""
    sizes = job.spec.workload.batch_sizes
    if len(sizes) == 1:
        return Decision(sizes[0], trial=_profiles_first(world, job, board))
    limits = limits_for(job.spec, board.labels, board.policy.node)
    known = profiled_sizes(world, job, board)
    problems = {size: profile_for(world, job, board, size).problem for size in sizes if size not in known}
    return decide(job, relation_for(job, lookup.study_of(world, job)), known, limits, problems)


def _profiles_first(world: World, job: TrainingJob, board: Board) -> bool:
    """Say whether a run of its own has to come before the training: asked for, and neither done nor failed yet."""
    tried = job.status.batch is not None and any(s.state is BatchSizeState.EXCLUDED for s in job.status.batch.sizes)
    return job.spec.profiling.when is When.OFFLINE and not tried and not profiled_sizes(world, job, board)


def profile_key(job: TrainingJob, board: Board, batch_size: int) -> ProfileKey:
    """Return what a profile of the job on a board is found by: of a running job, by the template it began with."""
    return ProfileKey(
        job.metadata["namespace"],
        workload_name(job),
        batch_size,
        job.status.template_hash or profiles.template_hash(job.spec.workload.template),
        DeviceInfo.model_validate(board.status.get("device") or {}),
    )


def profiles_of(world: World, job: TrainingJob) -> list[Stored]:
    """Return the profiles of the job's workload in its namespace."""
    namespace, name = job.metadata["namespace"], workload_name(job)
    return [
        _stored(world, raw["metadata"])
        for raw in world.each("PowerProfile")
        if raw["metadata"]["namespace"] == namespace and (raw.get("spec") or {}).get("workload") == name
    ]


def _stored(world: World, metadata: Object) -> Stored:
    name, uid = str(metadata["name"]), str(metadata["uid"])
    try:
        found = world.read(PowerProfile, "PowerProfile", name, metadata["namespace"])
    except ValidationError as error:
        return Stored(name, uid, None, error.errors()[0]["msg"])
    return Stored(name, uid, found.spec if found else None)


def _strength(board: Board) -> float:
    """Return how fast a board is without any measurement: its number of modes grows with its clocks and cores."""
    return float((board.status.get("capabilities") or {}).get("modes", 0))


def _whole(world: World, raw: Object) -> TrainingJob | None:
    return lookup.training_job(world, raw["metadata"]["namespace"], raw["metadata"]["name"])


def _claim(
    job: TrainingJob, nodes: tuple[str, ...], decision: Decision, known_by: str, context: Context
) -> list[Action]:
    """Return what gives a job its nodes: one write, so that it has all of them or none, and one Event."""
    verdicts = Verdicts(job.status, job.metadata.get("generation", 1), context.now)
    before = _admitted(job, verdicts, context)
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


def _admitted(job: TrainingJob, verdicts: Verdicts, context: Context) -> TrainingJobStatus:
    """Return the status of an admitted job: as it is, or with what its admission would have written."""
    if find(job.status.conditions, ADMITTED) is not None:
        return job.status
    verdicts.set(ADMITTED, True, *ACCEPTED)
    return job.status.model_copy(
        update={
            "conditions": verdicts.conditions,
            "observed_generation": job.metadata.get("generation"),
            "template_hash": profiles.template_hash(job.spec.workload.template),
            "queued_at": moment(context.now),
        }
    )


def _known_by(world: World, job: TrainingJob, boards: Sequence[Board], decision: Decision) -> str:
    """Say in words which profiles the boards begin with; one that is only a start is told of by its own Event."""
    if not job.spec.profiling.reuse:
        return ""
    found = [profile_for(world, job, board, decision.batch_size) for board in boards]
    names = sorted({each.name for each in found if each.prior is not None and each.prior.match is PriorMatch.EXACT})
    return f"; PowerProfile {', '.join(names)} is reused after a check" if names else ""


def _which(decision: Decision) -> str:
    """Say in words which of several batch sizes an attempt is for."""
    if decision.trial:
        return f": batch size {decision.batch_size} is profiled"
    return f": {decision.status.reason}" if decision.status is not None else ""
