"""One attempt of a TrainingJob as it stands: its Jobs, their pods, and what the agents report, replica by replica."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from powertrain.api.v1alpha1 import ConditionStatus, JobNode, JobState, Phase, SessionStatus, Stop, TrainingJob, find
from powertrain_operator import names
from powertrain_operator.fleet import Board, parse_time
from powertrain_operator.lookup import board, training_pods
from powertrain_operator.plan import Context
from powertrain_operator.training_pods import GATE, job_name, of_session
from powertrain_operator.world import World

Object = dict[str, Any]
# A pod that has not started by then gives its board back and keeps its place.
PARK_S = 300.0
# A Job makes its pod within a second or two, and that starts; one that does not after this time is worth a word.
POD_S = 20.0
NO_POD = (
    "its Job makes no pod: Pod Security of the namespace may refuse the hostPath volume of the session, "
    "or a quota is used up; kubectl describe job says which"
)
_TERMINAL = ("Succeeded", "Failed")


@dataclass(frozen=True)
class ReplicaView:
    """One replica of the present attempt. `stranger` has the name of its Job and belongs to somebody else."""

    node: JobNode
    board: Board
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
    def made(self) -> bool:
        """Say whether the replica's Job was ever there: another one would be a second training."""
        return self.node.job is not None or self.job is not None or bool(self.pods)

    @property
    def state(self) -> JobState | None:
        """Return what is to be remembered of the replica's Job."""
        return JobState.COMPLETE if self.complete else JobState.MADE if self.made else None

    @property
    def restored(self) -> bool:
        """Say whether the board is free of the session: restored, gone, or never asked."""
        asked = self.board.session_uid == self.node.session
        return self.board.restored(self.node.session) or not asked

    @property
    def measured(self) -> bool:
        """Say whether the agent has measured any mode in this session."""
        return self.report is not None and self.report.result is not None and self.report.profiling.measured > 0

    @property
    def up_to_date(self) -> bool:
        """Say whether the agent works by what it was asked last: only then its verdicts are about the limits of now."""
        asked = (self.board.spec.get("session") or {}).get("generation")
        return self.report is not None and self.report.observed_generation == asked

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
        return self.waiting(now) if self._waited(now) > timedelta(seconds=PARK_S) else ""

    def waiting(self, now: datetime) -> str:
        """Return why no pod of the replica has come as far as the gate, in the cluster's own words; else empty."""
        if not self.waits or self.job is None:
            return ""
        late = self._waited(now) > timedelta(seconds=POD_S)
        if self.alive:
            told = next((reason for pod in self.alive if (reason := pending_reason(pod))), "")
            return told or ("the pod has not started" if late else "")
        if (self.job.get("spec") or {}).get("suspend"):
            return "the Job is suspended: its queue has not admitted it yet"
        return NO_POD if late else ""

    def _waited(self, now: datetime) -> timedelta:
        since = self.node.waiting_since
        return timedelta() if since is None else now - parse_time(since)

    def stuck(self) -> str:
        """Return why a container does not start (its image, its configuration, its crashes), gate passed or not."""
        return next((reason for pod in self.alive if (reason := container_problem(pod))), "")


def observe(world: World, job: TrainingJob, context: Context) -> tuple[ReplicaView, ...]:
    """Return the replicas of the job's present attempt."""
    pods = training_pods(world, job.metadata["uid"])
    return tuple(_replica(world, job, node, pods, context) for node in job.status.nodes)


def _replica(world: World, job: TrainingJob, node: JobNode, pods: Iterable[Object], context: Context) -> ReplicaView:
    attempt, uid = job.status.attempt, job.metadata["uid"]
    seen = board(world, node.name, context)
    # The name alone says little: the Job of an earlier TrainingJob of this name may not be collected yet.
    named = world.brief("Job", job_name(job.metadata["name"], node.replica, attempt), job.metadata["namespace"])
    ours = named is not None and (named["metadata"].get("labels") or {}).get(names.JOB_UID) == uid
    return ReplicaView(
        node,
        seen,
        named if ours else None,
        _those_of(pods, str(node.replica), str(attempt)),
        report(seen, node.session),
        None if ours else named,
    )


def living(pods: Iterable[Object]) -> tuple[Object, ...]:
    """Return the pods that are not over, those that are being deleted included."""
    return tuple(pod for pod in pods if (pod.get("status") or {}).get("phase") not in _TERMINAL)


def session_pods(world: World, session: str) -> tuple[Object, ...]:
    """Return a session's pods, also when its TrainingJob is gone."""
    job_uid, replica, attempt = of_session(session)
    return _those_of(training_pods(world, job_uid), replica, attempt)


def report(seen: Board, session: str) -> SessionStatus | None:
    """Return what the agent reports about a session; what is about another one is nobody's."""
    raw = seen.status.get("session")
    return SessionStatus.model_validate(raw) if raw and raw.get("uid") == session else None


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
    told = any(c["type"] == "DisruptionTarget" and c["status"] == "True" for c in conditions)
    return told or bool(pod["metadata"].get("deletionTimestamp"))


def pending_reason(pod: Object) -> str:
    """Return why a pod does not start: what the kubelet says of its containers, else what the scheduler says."""
    told = container_problem(pod)
    if told:
        return told
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


def _those_of(pods: Iterable[Object], replica: str, attempt: str) -> tuple[Object, ...]:
    wanted = {names.REPLICA: replica, names.ATTEMPT: attempt}
    return tuple(pod for pod in pods if wanted.items() <= (pod["metadata"].get("labels") or {}).items())
