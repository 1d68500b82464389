"""When an attempt ends, and what is done until its boards are as they were found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from powertrain.api.conditions import find
from powertrain.api.v1alpha1 import ConditionStatus, JobState, Phase, Stop, TrainingJob
from powertrain_operator.attempts import ReplicaView, evicted
from powertrain_operator.node_view import parse_time
from powertrain_operator.observation import Key
from powertrain_operator.plan import Action, Delete

# How long a Node may be lost before its job may go elsewhere; as long as Kubernetes itself waits for a lost pod.
LOST_S = 300.0
# A load of somebody else's passes, and the agent needs 60 s of quiet to say so; a budget below what the board takes at
# its lowest does not pass.
UNREACHABLE_S = 180.0
# After that the finalizer goes, an Event names the node, and the release request stays pending.
RESTORE_S = 120.0
FINAL = (Stop.COMPLETED, Stop.FAILED, Stop.BUDGET_UNREACHABLE)


@dataclass(frozen=True)
class Reason:
    """Why an attempt must end."""

    stop: Stop
    message: str


def why_stop(job: TrainingJob, views: Sequence[ReplicaView], now: datetime, saved: bool) -> Reason | None:
    """Return why the running attempt must end, None if it goes on; `saved`: its result is in a PowerProfile."""
    for view in views:  # a pod that was taken off its node has failed through no fault of its own
        if view.failed and (reason := _node_problem(job, view, now)) is not None:
            return reason
    if views[0].node.trial:
        trial = _trial(views[0], saved)
        if trial is not None:
            return trial
    elif all(view.complete for view in views):
        return Reason(Stop.COMPLETED, f"{len(views)} of {len(views)} replicas completed")
    for view in views:
        if view.failed:
            return Reason(Stop.FAILED, f"replica {view.node.replica} on {view.node.name} failed: {view.failed}")
    if job.spec.suspend:
        return Reason(Stop.SUSPENDED, "spec.suspend is true")
    for view in views:
        reason = _node_problem(job, view, now) or _job_gone(view) or _unreachable(job, view, now)
        if reason is not None:
            return reason
    return None


def _trial(view: ReplicaView, saved: bool) -> Reason | None:
    """A trial ends when its batch size is profiled, or can't be."""
    size = view.node.batch_size
    if saved and (view.complete or (view.report is not None and view.report.phase is Phase.RUNNING)):
        return Reason(Stop.TRIAL_DONE, f"batch size {size} is profiled")
    if view.failed:
        return Reason(Stop.TRIAL_FAILED, f"batch size {size} can't run: {view.failed}")
    if view.complete:
        if view.measured:
            return None  # what was measured before the training ended counts, once it is saved
        return Reason(Stop.TRIAL_FAILED, f"batch size {size}: the training ended before a mode was measured")
    signal = find(view.report.conditions, "StepSignal") if view.report is not None else None
    if signal is not None and signal.status is ConditionStatus.FALSE:
        # Without steps there is no time to measure, and a trial has no other end.
        return Reason(Stop.TRIAL_FAILED, f"batch size {size}: no steps were seen ({signal.message})")
    return None


def _node_problem(job: TrainingJob, view: ReplicaView, now: datetime) -> Reason | None:
    name, board = view.node.name, view.board
    if board.node is None:
        return Reason(Stop.NODE_LOST, f"node {name} was deleted")
    if view.complete:
        return None
    if board.cordoned and _is_drained(view, now):
        return Reason(Stop.NODE_DRAINED, f"node {name} was drained")
    if board.unpowered:
        return Reason(Stop.UNPOWERED, f"{name}: {board.unpowered}; the job resumes by itself when there is power")
    if job.spec.placement.allow_move and board.not_ready() and _lost_for(view, now) >= LOST_S:
        return Reason(Stop.NODE_LOST, f"node {name} has been NotReady for {LOST_S:.0f} s")
    return None


def _job_gone(view: ReplicaView) -> Reason | None:
    """A Job that was deleted is not made again: its pod may live on beside the new one's."""
    if view.node.job is not JobState.MADE or view.job is not None:
        return None
    return Reason(Stop.JOB_DELETED, f"the Job of replica {view.node.replica} on {view.node.name} was deleted")


def _is_drained(view: ReplicaView, now: datetime) -> bool:
    """Say whether a cordoned node has no pod of the replica any more, and gets none."""
    if any((pod.get("status") or {}).get("phase") == "Running" for pod in view.alive):
        return False
    if view.alive and "Unschedulable" in view.waiting(now):
        return True
    # Of a pod that came to its own end its Job will speak next.
    ended = [pod for pod in view.pods if pod not in view.alive and not evicted(pod)]
    staying = [pod for pod in view.alive if not pod["metadata"].get("deletionTimestamp")]
    return view.job is not None and not ended and not staying


def _lost_for(view: ReplicaView, now: datetime) -> float:
    conditions = (view.board.node or {}).get("status", {}).get("conditions") or []
    ready = next((c for c in conditions if c["type"] == "Ready"), None)
    if ready is None or not ready.get("lastTransitionTime"):
        return 0.0
    return (now - parse_time(ready["lastTransitionTime"])).total_seconds()


def _unreachable(job: TrainingJob, view: ReplicaView, now: datetime) -> Reason | None:
    """Judge by our own clock, and not by a verdict about limits that were changed since."""
    since, edited = view.node.unreachable_since, job.status.observed_generation != job.metadata.get("generation")
    if since is None or edited or not view.up_to_date or not view.unreachable:
        return None
    if now - parse_time(since) < timedelta(seconds=UNREACHABLE_S):
        return None
    return Reason(Stop.BUDGET_UNREACHABLE, view.unreachable)


def deletions(views: Sequence[ReplicaView], stop: Stop) -> list[Action]:
    """Return the Jobs that have to go. What is over stays: its pods hold the logs that somebody will ask for."""
    return [
        Delete(Key("Job", view.job["metadata"]["namespace"], view.job["metadata"]["name"]), view.job["metadata"]["uid"])
        for view in views
        if view.job is not None
        and not view.job["metadata"].get("deletionTimestamp")
        and not (stop in FINAL and (view.complete or view.failed))
    ]


def pending_words(view: ReplicaView) -> str:
    """Say what a board is left with that is not restored in time."""
    words = (
        "its pods still run; it is released when they have ended" if view.alive else "its release request stays pending"
    )
    return f"{view.node.name} is not restored after {RESTORE_S:.0f} s; {words}"


def overdue(since: str | None, now: datetime) -> bool:
    """Say whether the boards should have been restored by now."""
    return since is not None and now - parse_time(since) > timedelta(seconds=RESTORE_S)
