"""A PowerNode's spec: made when its agent has joined, carries the site's policy, the envelope and the release.

This is the only writer of that spec, of PowerProfiles, and of the Node's annotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from powertrain.api.base import API_VERSION
from powertrain.api.power_profile import MAX_SOURCES
from powertrain.api.v1alpha1 import (
    Coupling,
    JobNode,
    Phase,
    PowerNodeSpec,
    PowerProfileSpec,
    PowerProfileStatus,
    PriorMatch,
    Reason,
    SessionResult,
    SessionSpec,
    TrainingJob,
    moment,
)
from powertrain_operator import lookup, names, profiles
from powertrain_operator.attempts import ReplicaView, living, observe, session_pods
from powertrain_operator.envelope import Order, envelope
from powertrain_operator.fleet import Board
from powertrain_operator.limits import NodeLimits, limits_for
from powertrain_operator.plan import (
    ENVELOPE_MANAGER,
    STATUS_MANAGER,
    Action,
    Announce,
    Apply,
    Context,
    EventType,
    Plan,
)
from powertrain_operator.profiles import Found, Object, ProfileKey
from powertrain_operator.reconcile.queue import profile_for, profile_key, profiled_sizes, profiles_of
from powertrain_operator.sighting import Key
from powertrain_operator.table_check import check
from powertrain_operator.world import World

LOOK_AGAIN_S = 30.0
# Of what is known already a session writes down what it has measured anew at most so often, and in the end.
RENEW_S = 60.0
# How long one board of a synchronous job may try modes before it is the next one's turn, once all have chosen.
TURN_S = 120.0
ANNOTATION_MANAGER = "powertrain-operator-node"
_TRIED = (Reason.START, Reason.PROFILING, Reason.CHECK)


def reconcile(world: World, key: Key, context: Context) -> Plan:
    """Return what brings a node's PowerNode, annotations and profile to what they should be."""
    board = lookup.board(world, key.name, context)
    if board.node is None:
        return Plan()  # the PowerNode is owned by the Node and goes with it
    found = lookup.holder(world, board.name)
    if board.power_node is None:
        if board.silent:
            return Plan(() if found else tuple(_annotate(board, {})))
        return Plan((Apply(_power_node(board, PowerNodeSpec(policy=board.policy.node)), manager=ENVELOPE_MANAGER),))
    if found is None:
        actions = [
            *_spec(world, board, _without_job(world, board)),
            *_annotate(board, {}),
            *_answer_request(world, board, None),
        ]
        return Plan(tuple(actions), LOOK_AGAIN_S if board.session_uid else None)
    return _with_job(world, board, *found, context)


def _with_job(world: World, board: Board, job: TrainingJob, node: JobNode, context: Context) -> Plan:
    view = next(view for view in observe(world, job, context) if view.node.name == board.name)
    other = board.session_uid
    if other and other != node.session and not board.restored(other):
        actions: list[Action] = [*_spec(world, board, _without_job(world, board))]
        return Plan(tuple(actions), LOOK_AGAIN_S, job.metadata["uid"])
    limits = limits_for(job.spec, board.labels, board.policy.node)
    # A running session keeps what it began with.
    known = Found() if other == node.session else profile_for(world, job, board, node.batch_size)
    spec = PowerNodeSpec(
        policy=board.policy.node,
        session=_session(world, board, job, view, limits, known, context),
        release=node.session if _is_over(job, view) or view.parked(context.now) else None,
    )
    actions = [*_spec(world, board, spec)]
    if other != node.session and job.spec.profiling.reuse:
        actions += _use(world, job, known, context)
    # At first the mode is only the safe one, in the end they go in one write as soon as nobody holds the node.
    if not board.restored(node.session) and (_has_begun(view) or names.TRAINING_JOB in board.annotations):
        actions += _annotate(board, _annotations(board, job, view, limits))
    actions += _profile(world, board, job, view, context)
    actions += _answer_request(world, board, job)
    return Plan(tuple(actions), LOOK_AGAIN_S, job.metadata["uid"])


def _session(
    world: World,
    board: Board,
    job: TrainingJob,
    view: ReplicaView,
    limits: NodeLimits,
    known: Found,
    context: Context,
) -> SessionSpec:
    current = board.spec.get("session")
    pods = _pods(view, current)
    batch_size = view.node.batch_size or job.spec.workload.batch_sizes[0]
    order = Order(
        view.node.session,
        batch_size,
        pods,
        limits,
        _holds_still(world, job, view, context),
        view.node.trial,
        tuple(spec.samples for size, spec in _others(world, job, board).items() if size != batch_size),
    )
    return envelope(job, board, order, known, SessionSpec.model_validate(current) if current else None)


def _pods(view: ReplicaView, current: Object | None) -> tuple[str, ...]:
    """Return the pods that the agent looks for. One that is over is taken out when another one comes.

    The board knows by itself that it is gone, and a changed envelope is a large write that the agent answers with one.
    """
    alive = {pod["metadata"]["uid"] for pod in view.alive}
    told = set(current["podUIDs"]) if current and current["uid"] == view.node.session else set()
    return tuple(sorted(told if alive < told else alive))


def _others(world: World, job: TrainingJob, board: Board) -> dict[int, PowerProfileSpec]:
    """Return what was measured at the job's batch sizes, where it has several."""
    return profiled_sizes(world, job, board) if len(job.spec.workload.batch_sizes) > 1 else {}


def _holds_still(world: World, job: TrainingJob, view: ReplicaView, context: Context) -> bool:
    """Say whether this board waits because another one of a synchronous job may try modes.

    Running ones try modes as well: for a raised limit, a check, a drift. So there is always one that may, and it may
    only once all others have said that they hold still.
    """
    if job.spec.placement.coupling is not Coupling.SYNCHRONOUS:
        return False
    views = [each for each in observe(world, job, context) if not each.complete]
    if not views or _turn(views, context.now) != view.node.replica:
        return True
    asked = view.board.spec.get("session") or {}
    if asked.get("uid") == view.node.session and not asked["plan"].get("hold"):
        return False  # it is at it, and no other was let go since
    return not all(_holds(each) for each in views if each.node.replica != view.node.replica)


def _turn(views: Sequence[ReplicaView], now: datetime) -> int:
    """Return which replica may try modes: the one that does, else the first that has none yet, else one by one."""
    phases = {view.node.replica: view.report.phase if view.report is not None else None for view in views}
    trying = [replica for replica, phase in phases.items() if phase is Phase.PROFILING]
    unfinished = [replica for replica, phase in phases.items() if phase in (None, Phase.STARTING)]
    if trying or unfinished:
        return min(trying or unfinished)
    return sorted(phases)[int(now.timestamp() // TURN_S) % len(phases)]


def _holds(view: ReplicaView) -> bool:
    """Say whether a board is known to try no modes: it was told so and has answered, or was told nothing else ever."""
    asked = view.board.spec.get("session") or {}
    if asked.get("uid") != view.node.session:
        return True
    never_else = view.report is None and asked["generation"] == 1
    return bool(asked["plan"].get("hold")) and (view.up_to_date or never_else)


def _is_over(job: TrainingJob, view: ReplicaView) -> bool:
    """Say whether the session can be released: the attempt ends, and none of its pods is left."""
    return job.status.stopping is not None and not view.alive


def _without_job(world: World, board: Board) -> PowerNodeSpec:
    """Return the spec of a node that nobody holds: an old session is released once its pods are over, then forgotten.

    A job that could not be given back in time leaves such pods behind; until they are over its mode stays.
    """
    uid, policy = board.session_uid, board.policy.node
    if not uid:
        return PowerNodeSpec(policy=policy, release=_requested(world, board))
    if board.restored(uid):
        return PowerNodeSpec(policy=policy)
    asked = board.spec.get("release") == uid or not living(session_pods(world, uid))
    session = SessionSpec.model_validate(board.spec["session"])
    return PowerNodeSpec(policy=policy, session=session, release=uid if asked else None)


def _spec(world: World, board: Board, spec: PowerNodeSpec) -> list[Action]:
    """Return the write of the spec, if it is another one. A session's prior, which is packed away, stays as it is."""
    present = PowerNodeSpec.model_validate(board.spec)
    if spec == present:
        return []
    if spec.session is not None and present.session is not None and spec.session.uid == present.session.uid:
        whole = world.get("PowerNode", board.name) or {}
        prior = SessionSpec.model_validate(whole["spec"]["session"]).prior
        spec = spec.model_copy(update={"session": spec.session.model_copy(update={"prior": prior})})
    uid = (board.power_node or {}).get("metadata", {}).get("uid", "")
    return [Apply(_power_node(board, spec), uid=uid, manager=ENVELOPE_MANAGER)]


def _power_node(board: Board, spec: PowerNodeSpec) -> Object:
    node = (board.node or {})["metadata"]
    reference = {"apiVersion": "v1", "kind": "Node", "name": board.name, "uid": node["uid"]}
    return {
        "apiVersion": API_VERSION,
        "kind": "PowerNode",
        "metadata": {"name": board.name, "ownerReferences": [reference]},
        "spec": spec.wire(),
    }


def _annotations(board: Board, job: TrainingJob, view: ReplicaView, limits: NodeLimits) -> dict[str, str]:
    """Return what the Node says while a job has it; a mode that is only tried is not worth a write to a Node."""
    wanted = {names.TRAINING_JOB: f"{job.metadata['namespace']}/{job.metadata['name']}"}
    limit_w = limits.limits.power_watts if limits.limits.power_watts is not None else limits.limits.hard_limit_watts
    if limit_w is not None:
        wanted[names.POWER_BUDGET] = f"{limit_w:g}"
    report, before = view.report, board.annotations.get(names.POWER_MODE)
    if report is not None and report.mode and report.verified:
        shown = before if report.reason in _TRIED else report.mode
        wanted |= {names.POWER_MODE: shown} if shown else {}
    return wanted


def _has_begun(view: ReplicaView) -> bool:
    """Say whether the board is past its start: modes are tried, or one is chosen."""
    return view.report is not None and view.report.phase is not Phase.STARTING


def _annotate(board: Board, wanted: dict[str, str]) -> list[Action]:
    present = {name: board.annotations[name] for name in names.ON_NODES if name in board.annotations}
    if present == wanted:
        return []
    metadata = {"name": board.name, "annotations": wanted}
    body: Object = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    return [Apply(body, uid=(board.node or {})["metadata"]["uid"], manager=ANNOTATION_MANAGER, beside=True)]


def _profile(world: World, board: Board, job: TrainingJob, view: ReplicaView, context: Context) -> list[Action]:
    """Keep what a session has learnt, once it has chosen and whenever it has measured more.

    A trial whose training came to its end before that counts with what it has.
    """
    report = view.report
    if report is None or not view.measured:
        return []
    if report.phase not in (Phase.RUNNING, Phase.ENDED, Phase.RESTORING) and not (view.node.trial and view.complete):
        return []
    key = profile_key(job, board, view.node.batch_size or job.spec.workload.batch_sizes[0])
    stored = world.brief("PowerProfile", key.name, key.namespace)
    before = _profile_status(stored)
    corrections = f"+{report.profiling.corrections}" if report.profiling.corrections else ""
    source = f"{view.node.session}/{report.profiling.measured}{corrections}"
    if source in before.sources:
        return []
    if stored is not None and not _is_due(world, job, view, key, context):
        return []
    whole = world.get("PowerNode", board.name) or {}
    result = SessionResult.model_validate(whole["status"]["session"]["result"])
    others = tuple(each for each in before.sources if each.rpartition("/")[0] != view.node.session)
    if len(others) == len(before.sources):  # its first: this session is counted as a use with what it has learnt
        before = _used(before, job, whole)
    status = before.model_copy(update={"sources": (*others, source)[-MAX_SOURCES:]})
    body = profiles.body(key, result, board.name, context.now, status)
    # The others come first: an operator that dies in between finds the same difference again.
    checked = [] if view.node.trial else _check_others(world, job, key, body, bool(corrections), context)
    return [*checked, Apply(body, beside=True)]


def _is_due(world: World, job: TrainingJob, view: ReplicaView, key: ProfileKey, context: Context) -> bool:
    """Say whether what is known already is to be renewed: after a minute, and when the session ends.

    At once where others wait for it: a trial ends with it, and other batch sizes are corrected by it.
    """
    if view.node.trial or len(job.spec.workload.batch_sizes) > 1:
        return True
    if _is_over(job, view) or (view.report is not None and view.report.phase is not Phase.RUNNING):
        return True
    written_s = world.changed_s("PowerProfile", key.namespace, key.name) or 0.0
    return context.monotonic_s - written_s >= RENEW_S


def _used(before: PowerProfileStatus, job: TrainingJob, power_node: Object) -> PowerProfileStatus:
    """Return the status with one more use, if the session began with this very profile."""
    prior = ((power_node.get("spec") or {}).get("session") or {}).get("prior") or {}
    if prior.get("match") != PriorMatch.EXACT.value:
        return before
    return before.model_copy(update={"uses": before.uses + 1, "last_used_at": job.status.started_at})


def _check_others(
    world: World, job: TrainingJob, key: ProfileKey, body: Object, revisited: bool, context: Context
) -> list[Action]:
    """Correct the profiles of other batch sizes by what was found at this one. A trial only fills in its own."""
    known = {name: (uid, spec) for name, uid, spec in profiles.same_kind(profiles_of(world, job), key)}
    if key.name not in known:
        return []
    _, before = known.pop(key.name)
    if not known:
        return []
    now = PowerProfileSpec.model_validate(body["spec"])
    checked = check(before, now, {name: spec for name, (_, spec) in known.items()}, context.now, revisited)
    if not checked.profiles:
        return []
    reason = "OtherBatchSizesStale" if checked.stale else "OtherBatchSizesCorrected"
    applied = [
        Apply(
            profiles.whole(
                name, key.namespace, spec, _profile_status(world.brief("PowerProfile", name, key.namespace))
            ),
            uid=known[name][0],
            beside=True,
        )
        for name, spec in checked.profiles.items()
    ]
    return [_announce(job, "Normal", reason, checked.message), *applied]


def _use(world: World, job: TrainingJob, known: Found, context: Context) -> list[Action]:
    """Say which profile is only a start for a new session, and count it; one that is reused is counted when renewed."""
    if known.prior is None:
        return [] if not known.problem else [_announce(job, "Warning", "ProfileDamaged", known.problem)]
    if known.prior.match is PriorMatch.EXACT:
        return []
    namespace = job.metadata["namespace"]
    stored = world.brief("PowerProfile", known.name, namespace) or {}
    before = _profile_status(stored)
    status = before.model_copy(update={"uses": before.uses + 1, "last_used_at": moment(context.now)})
    uid = (stored.get("metadata") or {}).get("uid", "")
    return [
        _announce(job, "Normal", "ProfileWarm", f"PowerProfile {known.name} is only a start: {known.problem}"),
        Apply(profiles.used(known.name, namespace, status), uid=uid, manager=STATUS_MANAGER, beside=True),
    ]


def _profile_status(stored: Object | None) -> PowerProfileStatus:
    return PowerProfileStatus.model_validate((stored or {}).get("status") or {})


def _announce(job: TrainingJob, kind: EventType, reason: str, message: str) -> Announce:
    return Announce({"apiVersion": job.api_version, "kind": job.kind, "metadata": job.metadata}, kind, reason, message)


def _is_requested(board: Board) -> bool:
    """Say whether somebody asks for a restore: `powertrain restore`, the chart's hook."""
    return names.RELEASE_REQUESTED in ((board.power_node or {}).get("metadata", {}).get("annotations") or {})


def _requested(world: World, board: Board) -> str | None:
    """Return the session that the agent still has, though nobody asks for it any more, where a restore is requested."""
    told = str((board.status.get("session") or {}).get("uid", ""))
    if not _is_requested(board) or not told or board.restored(told) or living(session_pods(world, told)):
        return None
    return told


def _answer_request(world: World, board: Board, job: TrainingJob | None) -> list[Action]:
    """Refuse a request to restore while a job has the board, or pods of one run on; else it is released."""
    if not _is_requested(board):
        return []
    session = board.session_uid or str((board.status.get("session") or {}).get("uid", ""))
    pods = living(session_pods(world, session)) if session else ()
    if job is not None:
        holder = f"{job.metadata['namespace']}/{job.metadata['name']}"
        words = f"the node is held by TrainingJob {holder}: suspend or delete it, then the board is restored"
    elif pods:
        listed = ", ".join(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods)
        words = f"pods of an ended job still run on the node: {listed}; when they are gone the board is restored"
    else:
        return []
    return [Announce(board.power_node or {}, "Warning", "RestoreRefused", words)]
