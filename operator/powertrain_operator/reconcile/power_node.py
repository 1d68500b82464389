"""A PowerNode's spec: made when its agent has joined, carries the site's policy, the envelope and the release.

This is the only writer of that spec and of the Node's annotations; PowerProfiles are written by the profiles package
with the same plan.
"""

from __future__ import annotations

from dataclasses import replace

from powertrain.api.v1alpha1 import (
    JobNode,
    Phase,
    PowerNodeSpec,
    PowerProfileSpec,
    Reason,
    SessionSpec,
    TrainingJob,
)
from powertrain_operator import lookup, names
from powertrain_operator.attempts import ReplicaView, is_over, living, observe, session_pods
from powertrain_operator.cache import Cache
from powertrain_operator.core_requests import answer_key
from powertrain_operator.coupling import holds_still
from powertrain_operator.envelope import Order, envelope
from powertrain_operator.limits import NodeLimits, limits_for
from powertrain_operator.node_spec import power_node_body, spec_write
from powertrain_operator.node_view import NodeView
from powertrain_operator.observation import Key
from powertrain_operator.plan import (
    ENVELOPE_MANAGER,
    Action,
    Announce,
    Apply,
    Context,
    CountRequests,
    Plan,
)
from powertrain_operator.profiles.lookup import profile_for, profiled_sizes
from powertrain_operator.profiles.matching import Object, ProfileMatch
from powertrain_operator.profiles.writing import count_use, save_result
from powertrain_operator.reconcile.node_policy import policy_for
from powertrain_operator.reconcile.power import share_missing
from powertrain_operator.reconcile.reference import reference
from powertrain_operator.trouble import Parts

REQUEUE_S = 30.0
# A board whose share is about to be raised for its job.
SHARE_S = 5.0
ANNOTATION_MANAGER = "powertrain-operator-node"
_TRIAL_REASONS = (Reason.START, Reason.PROFILING, Reason.CHECK)


def reconcile(cache: Cache, key: Key, context: Context) -> Plan:
    """Return what brings a node's PowerNode, annotations and profile to what they should be."""
    board = lookup.node_view(cache, key.name, context)
    if board.node is None:
        return Plan()  # the PowerNode is owned by the Node and goes with it
    plan = _plan(cache, board, context)
    if board.power_node is None or board.supply is None or board.supply.problem is None:
        return plan
    words = f"{board.supply.problem}. Until then it counts as 0 W"
    return replace(plan, actions=(*plan.actions, Announce(board.node, "Warning", "AvailableWattsUnreadable", words)))


def _plan(cache: Cache, board: NodeView, context: Context) -> Plan:
    parts = Parts()
    problem = None
    holder = lookup.holder_key(cache, board.name)
    if holder is not None:
        with parts.of(holder):
            problem = lookup.holder(cache, board.name)
    if parts.troubles:
        return Plan((), REQUEUE_S, troubles=parts.troubles)
    if board.power_node is None:
        if board.silent:
            return Plan(() if problem else tuple(_annotate(board, {})))
        return Plan((Apply(power_node_body(board, PowerNodeSpec(policy=board.policy.node)), manager=ENVELOPE_MANAGER),))
    if problem is None:
        actions = [
            *_spec(cache, board, _without_job(cache, board)),
            *_annotate(board, {}),
            *_answer_request(cache, board, None),
        ]
        return Plan(tuple(actions), REQUEUE_S if board.session_uid else None)
    plan = Plan()
    with parts.of(lookup.key_of(problem[0])):
        plan = _with_job(cache, board, *problem, context)
    return (
        plan if not parts.troubles else replace(_keep_session(cache, board, *problem, context), troubles=parts.troubles)
    )


def _keep_session(cache: Cache, board: NodeView, job: TrainingJob, node: JobNode, context: Context) -> Plan:
    """Return what is done for a job whose envelope can't be made: it keeps what it has until it is over."""
    current = board.spec.get("session")
    view = next(view for view in observe(cache, job, context) if view.node.name == board.name)
    actions: list[Action] = []
    if current and current.get("uid") == node.session and is_over(job, view):
        session = SessionSpec.model_validate(current)
        spec = PowerNodeSpec(policy=board.policy.node, session=session, release=node.session)
        actions = _spec(cache, board, spec)
    return Plan(tuple(actions), REQUEUE_S, job.metadata["uid"])


def _with_job(cache: Cache, board: NodeView, job: TrainingJob, node: JobNode, context: Context) -> Plan:
    view = next(view for view in observe(cache, job, context) if view.node.name == board.name)
    other = board.session_uid
    if other and other != node.session and not board.restored(other):
        actions: list[Action] = [*_spec(cache, board, _without_job(cache, board))]
        return Plan(tuple(actions), REQUEUE_S, job.metadata["uid"])
    policy = policy_for(cache, board, job, node, context)
    if policy is None:
        key = answer_key(board.name)
        return Plan((CountRequests(key, board.name),), REQUEUE_S, job.metadata["uid"])
    if other != node.session and (words := share_missing(cache, job, node, board)):
        actions = [Announce(reference(job), "Normal", "SharePending", words)]
        return Plan((*_spec(cache, board, PowerNodeSpec(policy=policy)), *actions), SHARE_S, job.metadata["uid"])
    limits = limits_for(job.spec, board.labels, board.policy.node)
    # A running session keeps what it began with.
    match = ProfileMatch() if other == node.session else profile_for(cache, job, board, node.batch_size)
    spec = PowerNodeSpec(
        policy=policy,
        session=_session(cache, board, job, view, limits, match, context),
        release=node.session if is_over(job, view) or view.parked(context.now) else None,
    )
    actions = [*_spec(cache, board, spec)]
    if other != node.session and job.spec.profiling.reuse:
        actions += count_use(cache, job, match, context)
    # At first the mode is only the safe one, in the end they go in one write as soon as nobody holds the node.
    if not board.restored(node.session) and (_has_begun(view) or names.TRAINING_JOB in board.annotations):
        actions += _annotate(board, _annotations(board, job, view, limits))
    actions += save_result(cache, board, job, view, context)
    actions += _answer_request(cache, board, job)
    return Plan(tuple(actions), REQUEUE_S, job.metadata["uid"])


def _session(
    cache: Cache,
    board: NodeView,
    job: TrainingJob,
    view: ReplicaView,
    limits: NodeLimits,
    match: ProfileMatch,
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
        holds_still(cache, job, view, context),
        view.node.trial,
        tuple(spec.samples for size, spec in _others(cache, job, board).items() if size != batch_size),
    )
    return envelope(job, board, order, match, SessionSpec.model_validate(current) if current else None)


def _pods(view: ReplicaView, current: Object | None) -> tuple[str, ...]:
    """Return the pods that the agent looks for. One that is over is taken out when another one comes.

    The board knows by itself that it is gone, and a changed envelope is a large write that the agent answers with one.
    """
    alive = {pod["metadata"]["uid"] for pod in view.alive}
    announced = set(current["podUIDs"]) if current and current["uid"] == view.node.session else set()
    return tuple(sorted(announced if alive < announced else alive))


def _others(cache: Cache, job: TrainingJob, board: NodeView) -> dict[int, PowerProfileSpec]:
    """Return what was measured at the job's batch sizes, where it has several."""
    return profiled_sizes(cache, job, board) if len(job.spec.workload.batch_sizes) > 1 else {}


def _without_job(cache: Cache, board: NodeView) -> PowerNodeSpec:
    """Return the spec of a node that nobody holds: an old session is released once its pods are over, then forgotten.

    A job that could not be given back in time leaves such pods behind; until they are over its mode stays.
    """
    uid, policy = board.session_uid, board.policy.node
    if not uid:
        return PowerNodeSpec(policy=policy, release=_requested(cache, board))
    if board.restored(uid):
        return PowerNodeSpec(policy=policy)
    may_release = board.spec.get("release") == uid or not living(session_pods(cache, board, uid))
    session = SessionSpec.model_validate(board.spec["session"])
    return PowerNodeSpec(policy=policy, session=session, release=uid if may_release else None)


def _spec(cache: Cache, board: NodeView, spec: PowerNodeSpec) -> list[Action]:
    """Return the write of the spec, if it is another one; the board's shares of PowerBudgets stay as they are."""
    shares = PowerNodeSpec.model_validate({"shares": board.spec.get("shares") or ()}).shares
    return [*spec_write(cache, board, spec.model_copy(update={"shares": shares}))]


def _annotations(board: NodeView, job: TrainingJob, view: ReplicaView, limits: NodeLimits) -> dict[str, str]:
    """Return what the Node says while a job has it; a mode that is only tried is not worth a write to a Node."""
    annotations = {names.TRAINING_JOB: f"{job.metadata['namespace']}/{job.metadata['name']}"}
    limit_w = limits.limits.power_watts if limits.limits.power_watts is not None else limits.limits.hard_limit_watts
    if limit_w is not None:
        annotations[names.POWER_BUDGET] = f"{limit_w:g}"
    report, before = view.report, board.annotations.get(names.POWER_MODE)
    if report is not None and report.mode and report.verified:
        mode = before if report.reason in _TRIAL_REASONS else report.mode
        annotations |= {names.POWER_MODE: mode} if mode else {}
    return annotations


def _has_begun(view: ReplicaView) -> bool:
    """Say whether the board is past its start: modes are tried, or one is chosen."""
    return view.report is not None and view.report.phase is not Phase.STARTING


def _annotate(board: NodeView, annotations: dict[str, str]) -> list[Action]:
    present = {name: board.annotations[name] for name in names.ON_NODES if name in board.annotations}
    if present == annotations:
        return []
    metadata = {"name": board.name, "annotations": annotations}
    body: Object = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    return [Apply(body, uid=(board.node or {})["metadata"]["uid"], manager=ANNOTATION_MANAGER, background=True)]


def _is_requested(board: NodeView) -> bool:
    """Say whether somebody asks for a restore: `powertrain restore`, the chart's hook."""
    return names.RELEASE_REQUESTED in ((board.power_node or {}).get("metadata", {}).get("annotations") or {})


def _requested(cache: Cache, board: NodeView) -> str | None:
    """Return the session that the agent still has, though nobody asks for it any more, where a restore is requested."""
    session_uid = str((board.status.get("session") or {}).get("uid", ""))
    if (
        not _is_requested(board)
        or not session_uid
        or board.restored(session_uid)
        or living(session_pods(cache, board, session_uid))
    ):
        return None
    return session_uid


def _answer_request(cache: Cache, board: NodeView, job: TrainingJob | None) -> list[Action]:
    """Refuse a request to restore while a job has the board, or pods of one run on; else it is released."""
    if not _is_requested(board):
        return []
    session = board.session_uid or str((board.status.get("session") or {}).get("uid", ""))
    pods = living(session_pods(cache, board, session)) if session else ()
    if job is not None:
        holder = f"{job.metadata['namespace']}/{job.metadata['name']}"
        words = f"the node is held by TrainingJob {holder}: suspend or delete it, then the board is restored"
    elif pods:
        listed = ", ".join(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods)
        words = f"pods of an ended job still run on the node: {listed}; when they are gone the board is restored"
    else:
        return []
    return [Announce(board.power_node or {}, "Warning", "RestoreRefused", words)]
