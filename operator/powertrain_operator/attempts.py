"""One attempt of a TrainingJob as it stands: its Jobs, their pods, and what the agents report, replica by replica."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from powertrain.api.v1alpha1 import ConditionStatus, JobNode, JobState, Phase, SessionStatus, Stop, TrainingJob, find
from powertrain_operator import names
from powertrain_operator.cache import Cache
from powertrain_operator.lookup import node_view, owned_by, pods_of
from powertrain_operator.node_view import NodeView, parse_time
from powertrain_operator.plan import Context
from powertrain_operator.training_pods import GATE, job_name, of_session

Object = dict[str, Any]
# A pod that has not started by then gives its board back and keeps its place.
PARK_S = 300.0
# A queue admits what fits within a second or two; a Job that it keeps, or takes back, longer than this may wait for
# hours, and somebody else's job may use the watts meanwhile.
QUEUE_S = 15.0
# A Job makes its pod within a second or two, and that starts; one that does not after this time is worth a word.
POD_S = 20.0
NO_POD = (
    "its Job creates no pod: the Pod Security level of the namespace may forbid the session's hostPath volume, "
    "or a quota is exhausted; see kubectl describe job"
)
# Of one replica, alive and over; an envelope has room for 64.
MOST_PODS = 16
_TERMINAL = ("Succeeded", "Failed")


@dataclass(frozen=True)
class ReplicaView:
    """One replica of the present attempt. `stranger` has the name of its Job and belongs to somebody else."""

    node: JobNode
    board: NodeView
    job: Object | None
    pods: tuple[Object, ...]
    report: SessionStatus | None
    stranger: Object | None = None

    @property
    def alive(self) -> tuple[Object, ...]:
        """Return the pods that are not over, those that are being deleted included."""
        return living(self.pods)

    @property
    def complete(self) -> bool:
        """Say whether the replica's Job has reached its end, also if somebody has tidied it away since."""
        return self.node.job is JobState.COMPLETE or job_condition(self.job, "Complete") is not None

    @property
    def failed(self) -> str:
        """Return why the replica's Job has failed, empty if it has not."""
        condition = job_condition(self.job, "Failed")
        if condition is None:
            return ""
        last = next((text for pod in reversed(self.pods) if (text := termination(pod))), "")
        return f"{condition.get('reason', 'Failed')}: {condition.get('message', '')}" + (f" ({last})" if last else "")

    @property
    def has_job(self) -> bool:
        """Say whether the replica's Job was ever there: another one would be a second training."""
        return self.node.job is not None or self.job is not None or bool(self.pods)

    @property
    def state(self) -> JobState | None:
        """Return what is to be remembered of the replica's Job."""
        return JobState.COMPLETE if self.complete else JobState.MADE if self.has_job else None

    @property
    def restored(self) -> bool:
        """Say whether the board is free of the session: restored, gone, or never asked."""
        has_session = self.board.session_uid == self.node.session
        return self.board.restored(self.node.session) or not has_session

    @property
    def measured(self) -> bool:
        """Say whether the agent has measured any mode in this session."""
        return self.report is not None and self.report.result is not None and self.report.profiling.measured > 0

    @property
    def up_to_date(self) -> bool:
        """Say whether the agent works by what it was asked last: only then its verdicts are about the limits of now."""
        generation = (self.board.spec.get("session") or {}).get("generation")
        return self.report is not None and self.report.observed_generation == generation

    @property
    def unreachable(self) -> str:
        """Return why no mode keeps the limits, as a session that tries none any more says; else empty."""
        if self.report is None or self.report.phase is not Phase.RUNNING:
            return ""
        condition = find(self.report.conditions, "BudgetReachable")
        if condition is None or condition.status is not ConditionStatus.FALSE:
            return ""
        return f"{self.node.name}: {condition.message}" if condition.reason == Stop.BUDGET_UNREACHABLE.value else ""

    @property
    def waits(self) -> bool:
        """Say whether no pod of the replica has come as far as the gate, and one should."""
        if self.job is None or self.complete or self.failed:
            return False
        if any((pod.get("status") or {}).get("phase") == "Succeeded" for pod in self.pods):
            return False  # the Job says so a moment later
        return not any(at_the_gate(pod) for pod in self.alive)

    def parked(self, now: datetime) -> str:
        """Return why the pod waits, once it has waited so long that the board is given back meanwhile; else empty."""
        patience_s = QUEUE_S if self._queued and not self.alive else PARK_S
        return self.waiting(now) if self._waiting_time(now) > timedelta(seconds=patience_s) else ""

    def waiting(self, now: datetime) -> str:
        """Return why no pod of the replica has come as far as the gate, in the cluster's own words; else empty."""
        if not self.waits or self.job is None:
            return ""
        late = self._waiting_time(now) > timedelta(seconds=POD_S)
        if self.alive:
            reason_given = next((reason for pod in self.alive if (reason := pending_reason(pod))), "")
            return reason_given or ("the pod has not started" if late else "")
        if self._queued:
            return "the Job is suspended: its queue has not admitted it yet"
        return NO_POD if late else ""

    @property
    def _queued(self) -> bool:
        return bool(((self.job or {}).get("spec") or {}).get("suspend"))

    def _waiting_time(self, now: datetime) -> timedelta:
        since = self.node.waiting_since
        return timedelta() if since is None else now - parse_time(since)

    def stuck(self) -> str:
        """Return why a container does not start (its image, its configuration, its crashes), gate passed or not."""
        return next((reason for pod in self.alive if (reason := container_problem(pod))), "")


def observe(cache: Cache, job: TrainingJob, context: Context) -> tuple[ReplicaView, ...]:
    """Return the replicas of the job's present attempt."""
    return tuple(_replica(cache, job, node, context) for node in job.status.nodes)


def _replica(cache: Cache, job: TrainingJob, node: JobNode, context: Context) -> ReplicaView:
    namespace, board = job.metadata["namespace"], node_view(cache, node.name, context)
    # Name and labels say little: anybody may have written them, and the Job of an earlier TrainingJob of this name may
    # not be collected yet.
    candidate = cache.brief("Job", job_name(job.metadata["name"], node.replica, job.status.attempt), namespace)
    ours = owned_by(candidate, job.metadata["uid"])
    job_uid = candidate["metadata"]["uid"] if candidate is not None and ours else ""
    return ReplicaView(
        node,
        board,
        candidate if ours else None,
        _relevant_pods(pods_of(cache, namespace, {job_uid, node.job_uid}, _announced_pods(board, node.session))),
        report(board, node.session),
        None if ours else candidate,
    )


def living(pods: Iterable[Object]) -> tuple[Object, ...]:
    """Return the pods that are not over, those that are being deleted included."""
    return tuple(pod for pod in pods if (pod.get("status") or {}).get("phase") not in _TERMINAL)


def session_pods(cache: Cache, board: NodeView, session: str) -> tuple[Object, ...]:
    """Return a session's pods, also when its TrainingJob is gone: its Job's, and those that the agent was told."""
    job_uid, replica, attempt = of_session(session)
    labels = {names.REPLICA: replica, names.ATTEMPT: attempt}
    jobs = [
        job["metadata"]
        for job in cache.owned("Job", job_uid)
        if labels.items() <= (job["metadata"].get("labels") or {}).items()
    ]
    announced = [
        pod["metadata"] for uid in _announced_pods(board, session) if (pod := cache.by_uid("Pod", uid)) is not None
    ]
    pods = [
        pod
        for namespace in {metadata["namespace"] for metadata in (*jobs, *announced)}
        for pod in pods_of(cache, namespace, [job["uid"] for job in jobs], [pod["uid"] for pod in announced])
    ]
    return _relevant_pods(pods)


def _announced_pods(board: NodeView, session: str) -> tuple[str, ...]:
    """Return the pods that a board's agent was told to look for in a session: they were counted before."""
    session_spec = board.spec.get("session") or {}
    return tuple(session_spec.get("podUIDs") or ()) if session_spec.get("uid") == session else ()


def _relevant_pods(pods: Sequence[Object]) -> tuple[Object, ...]:
    """Return the pods that are looked at: a Job has one at a time, and the last of those that are over tell why."""
    ended = [pod for pod in pods if pod not in living(pods)]
    return (*ended[-MOST_PODS:], *living(pods)[:MOST_PODS])


def report(board: NodeView, session: str) -> SessionStatus | None:
    """Return what the agent reports about a session; what is about another one is nobody's.

    A report that can't be read is none: the life of a job must not depend on it.
    """
    raw = board.status.get("session")
    if not raw or raw.get("uid") != session:
        return None
    try:
        return SessionStatus.model_validate(raw)
    except ValidationError:
        return None


def report_problem(view: ReplicaView) -> str:
    """Return why the agent's report about the session can't be read, empty if it can or there is none."""
    raw = view.board.status.get("session")
    if view.report is not None or not raw or raw.get("uid") != view.node.session:
        return ""
    try:
        SessionStatus.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ""


def is_over(job: TrainingJob, view: ReplicaView) -> bool:
    """Say whether the session can be released: the attempt ends, and none of its pods is left."""
    return job.status.stopping is not None and not view.alive


def job_condition(job: Object | None, kind: str) -> Object | None:
    """Return a condition of a batch/v1 Job that is true."""
    conditions: Iterable[Object] = ((job or {}).get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == kind and c["status"] == "True"), None)


def at_the_gate(pod: Object) -> bool:
    """Say whether a pod's gate has been started, in this or an earlier try."""
    states = (pod.get("status") or {}).get("initContainerStatuses") or []
    gate: Object = next((state for state in states if state["name"] == GATE), {})
    now = gate.get("state") or {}
    return "running" in now or "terminated" in now


def evicted(pod: Object) -> bool:
    """Say whether somebody took a pod off its node: a drain, a preemption, a deletion."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    disrupted = any(c["type"] == "DisruptionTarget" and c["status"] == "True" for c in conditions)
    return disrupted or bool(pod["metadata"].get("deletionTimestamp"))


def pending_reason(pod: Object) -> str:
    """Return why a pod does not start: what the kubelet says of its containers, else what the scheduler says."""
    problem = container_problem(pod)
    if problem:
        return problem
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{condition.get('reason', 'Unschedulable')}: {condition.get('message', '')}".rstrip(": ")
    return ""


def container_problem(pod: Object) -> str:
    """Return what the kubelet says of a container that waits for more than its turn."""
    status = pod.get("status") or {}
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "PodInitializing", "ContainerCreating"):
            return f"{waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    return ""


def termination(pod: Object) -> str:
    """Return how a pod's first failed container ended, in words."""
    status = pod.get("status") or {}
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            words = f"{container['name']} exited with {ended['exitCode']}"
            return f"{words}: {ended['message'].strip()}" if ended.get("message") else words
    return str(status.get("message", ""))
