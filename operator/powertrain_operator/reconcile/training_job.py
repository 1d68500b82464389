"""The life of a TrainingJob: admitted, queued, profiled, running, and given back; one step at a time."""

from __future__ import annotations

from powertrain.api.v1alpha1 import JobPhase, Stop, TrainingJob, TrainingJobStatus, find, moment
from powertrain_operator import lookup, names
from powertrain_operator.attempts import ReplicaView, observe
from powertrain_operator.batch_sizes import excluded
from powertrain_operator.cache import ASK_AGAIN_S, Cache, taken_name_key
from powertrain_operator.history import kept_history
from powertrain_operator.limits import limits_for
from powertrain_operator.observation import Key
from powertrain_operator.plan import Action, Announce, Apply, ApplyStatus, Context, Create, Plan
from powertrain_operator.profiles import matching
from powertrain_operator.profiles.lookup import profile_key
from powertrain_operator.reconcile import stopping
from powertrain_operator.reconcile.admission import ACCEPTED, validate
from powertrain_operator.reconcile.conditions import (
    ADMITTED,
    BUDGET_MET,
    COMPLETE,
    DEGRADED,
    LIMITED,
    POWERED,
    Conditions,
    evaluate_sessions,
)
from powertrain_operator.reconcile.expiry import expire
from powertrain_operator.reconcile.health import replica_problem, running_phase
from powertrain_operator.reconcile.power import evaluate_power, lowest_share_w, starvation
from powertrain_operator.reconcile.queue import applicant
from powertrain_operator.reconcile.reference import finalizer, reference
from powertrain_operator.reconcile.summary import (
    PREPARING,
    agent_messages,
    with_figures,
    with_pods_waiting,
    without_details,
    without_figures,
)
from powertrain_operator.reconcile.waiting import look_again_s, why_waits
from powertrain_operator.training_pods import Replica, build_job, job_name, peers_service
from powertrain_operator.trouble import RECONCILE_FAILED

OVER = (JobPhase.SUCCEEDED, JobPhase.FAILED)
REQUEUE_S = 15.0
# As agents do: figures alone are written at most so often.
FIGURES_S = 10.0
# Conditions are written at once. Which mode is tried and why can wait for what follows it: several come in a row.
DETAILS_S = 5.0
_EXPECTED = (Stop.SUSPENDED, Stop.DELETED, Stop.TRIAL_DONE)
# Of these the training is not to blame: it goes on where it was, unless it may move.
_COMES_BACK = (Stop.NODE_LOST, Stop.NODE_DRAINED, Stop.UNPOWERED, Stop.WAITING_FOR_POWER)
_PHASE_AFTER = {
    Stop.SUSPENDED: JobPhase.SUSPENDED,
    Stop.WAITING_FOR_POWER: JobPhase.WAITING_FOR_POWER,
    Stop.TRIAL_DONE: JobPhase.PROFILING,
    Stop.TRIAL_FAILED: JobPhase.PROFILING,
}


def reconcile(cache: Cache, key: Key, context: Context) -> Plan:
    """Return what brings a TrainingJob one step further."""
    job = lookup.find_training_job(cache, key.namespace, key.name)
    if job is None:
        return Plan()
    return TrainingJobReconciler(cache, job, context).plan()


class TrainingJobReconciler:
    """One look at one job. Nothing outlives it but the status that it writes."""

    def __init__(self, cache: Cache, job: TrainingJob, context: Context) -> None:
        self._cache, self._job, self._context = cache, job, context
        self._views: tuple[ReplicaView, ...] = observe(cache, job, context)
        self._conditions = Conditions(job.status, job.metadata.get("generation", 1), context.now)
        # What a board reports after it was given back is nobody's; the last figures stay.
        self._status = with_figures(job, self._views, context.now) if self._held_views else job.status
        self._actions: list[Action] = []
        self._events: list[Announce] = []
        self._again_s: float | None = None

    # What it is about

    @property
    def _deleting(self) -> bool:
        return bool(self._job.metadata.get("deletionTimestamp"))

    @property
    def _news(self) -> list[Announce]:
        """Verdicts that are Events; they are written down at once, or the next look would find them new again."""
        return self._conditions.announcements(reference(self._job))

    @property
    def _held_views(self) -> list[ReplicaView]:
        return [view for view in self._views if view.node.holds]

    def plan(self) -> Plan:
        """Return the step."""
        if self._held_views:
            self._attempt()
        elif self._deleting:
            self._finalizer(False)
            return self._finished(write=False)
        elif self._job.status.phase in OVER:
            self._finalizer(False)
            self._expire()
        elif not self._wait():
            return self._finished(write=False)
        return self._finished()

    def _expire(self) -> None:
        metadata, status = self._job.metadata, self._job.status
        key = Key("TrainingJob", metadata["namespace"], metadata["name"])
        ttl_s = self._job.spec.ttl_seconds_after_finished
        plan = expire(key, metadata["uid"], ttl_s, status.completed_at, self._context.now)
        self._actions += plan.actions
        self._again_s = plan.requeue_s

    # Without nodes

    def _wait(self) -> bool:
        """Say in the status what the job waits for; False while that is not known: the server is asked first."""
        job, status = self._job, self._status
        admission = validate(self._cache, job, self._context)
        if admission.ask is not None:
            self._actions.append(admission.ask)
            return False
        self._conditions.set(ADMITTED, admission.admitted, admission.reason, admission.message)
        if admission.admitted:
            self._finalizer(True)  # a job that is refused has nothing to give back
            self._change_status(template_hash=matching.template_hash(job.spec.workload.template))
        if job.spec.suspend:
            self._change_status(phase=JobPhase.SUSPENDED, message="spec.suspend is true", queued_at=None)
        elif not admission.admitted:
            self._change_status(phase=JobPhase.PENDING, message=admission.message)
            self._again_s = ASK_AGAIN_S
        else:
            self._change_status(queued_at=status.queued_at or moment(self._context.now))
            self._say_what_for()
        return True

    def _say_what_for(self) -> None:
        """Put into words what keeps the job from starting; the queue itself gives it its nodes."""
        waits = why_waits(self._cache, self._job, applicant(self._job), self._context)
        if waits.event is not None:
            self._say(waits.event, waits.phase.value, waits.words)
        if waits.phase is JobPhase.WAITING_FOR_POWER:
            self._conditions.set(POWERED, False, waits.phase.value, waits.words)
        self._change_status(phase=waits.phase, message=waits.words)
        self._again_s = look_again_s(self._cache, REQUEUE_S)

    # With nodes

    def _attempt(self) -> None:
        status = self._status
        if status.stopping is None:
            reason = (
                stopping.Reason(Stop.DELETED, "deleted")
                if self._deleting
                else stopping.why_stop(self._job, self._views, self._context.now, self._saved())
            )
            reason = reason or starvation(self._cache, self._job)
            if reason is None:
                self._train()
                return
            self._begin_to_stop(reason)
        elif self._deleting and status.stopping is not Stop.DELETED:
            self._change_status(stopping=Stop.DELETED, stopping_since=moment(self._context.now))
        elif self._deleting and status.observed_generation != self._job.metadata.get("generation"):
            self._say("Warning", "EditIgnored", "the job is being deleted: a change of its spec has no effect")
        self._stop()

    def _saved(self) -> bool:
        """Say whether what the first replica has measured is kept already."""
        view = self._views[0]
        key = profile_key(self._job, view.board, view.node.batch_size or self._job.spec.workload.batch_sizes[0])
        profile = self._cache.brief("PowerProfile", key.name, key.namespace) or {}
        sources = (profile.get("status") or {}).get("sources") or []
        return any(source.rpartition("/")[0] == view.node.session for source in sources)

    def _train(self) -> None:
        self._finalizer(True)
        self._make_jobs()
        self._note_jobs()
        self._change_status(phase=running_phase(self._job, self._views, self._context.now), message=self._message())
        self._evaluate_template()
        evaluate_sessions(self._conditions, self._views)
        evaluate_power(self._cache, self._conditions, self._views)
        self._evaluate_policy()
        self._evaluate_health()
        self._again_s = REQUEUE_S

    def _make_jobs(self) -> None:
        """A Job is made once its node was told about the session; one that was ever there is never made again."""
        job, status = self._job, self._job.status
        replicas = job.spec.placement.replicas
        ready = [view for view in self._views if view.board.session_uid == view.node.session]
        missing = [view for view in ready if not view.has_job and not self._name_holder(view)]
        if missing and replicas > 1 and not any(view.has_job for view in self._views):
            self._actions.append(Apply(peers_service(job)))
        for node in (view.node for view in missing):
            batch_size = node.batch_size or job.spec.workload.batch_sizes[0]
            replica = Replica(node.replica, replicas, status.attempt, node.name, node.session, batch_size, node.trial)
            self._actions.append(Create(build_job(job, replica, self._context.settings.pods)))

    def _name_holder(self, view: ReplicaView) -> str:
        """Return who has the name of the replica's Job, empty if nobody has."""
        if view.has_job:
            return ""
        metadata = self._job.metadata
        name = job_name(metadata["name"], view.node.replica, self._job.status.attempt)
        if view.stranger is None:
            key = Key("Job", metadata["namespace"], name)
            return self._cache.answer(taken_name_key(key), self._context.monotonic_s) or ""
        if (view.stranger["metadata"].get("labels") or {}).get(names.JOB_NAME) == metadata["name"]:
            return f"waits until Job {name} of an earlier TrainingJob with this name is deleted"
        return f"there is a Job {name} already that belongs to somebody else: rename or delete it"

    def _note_jobs(self) -> None:
        """Keep in mind which Jobs were there, as anybody may delete them, and since when no pod is at the gate."""
        now, nodes = moment(self._context.now), []
        for view, node in zip(self._views, self._status.nodes, strict=True):
            since = (node.waiting_since or now) if view.waits else None
            uid = view.job["metadata"]["uid"] if view.job is not None else node.job_uid
            nodes.append(node.model_copy(update={"job": view.state, "job_uid": uid, "waiting_since": since}))
        self._change_status(nodes=tuple(nodes))

    def _message(self) -> str:
        for view in self._views:
            waiting = self._name_holder(view) or view.waiting(self._context.now) or view.stuck()
            if waiting:
                return f"{view.node.name}: {waiting}"[:1024]
        return agent_messages(self._status.nodes) or PREPARING

    def _evaluate_template(self) -> None:
        """CEL can't compare templates, so an edit of a running job's is not refused: it holds when pods start anew."""
        began_with = self._status.template_hash
        if began_with in ("", matching.template_hash(self._job.spec.workload.template)):
            self._conditions.set(ADMITTED, True, *ACCEPTED)
        else:
            words = (
                "workload.template was changed; to apply the change before the next attempt, suspend and resume the job"
            )
            self._conditions.set(ADMITTED, True, "HoldsFromNextAttempt", words)

    def _evaluate_policy(self) -> None:
        lowered, nodes = [], []
        for view, node in zip(self._views, self._status.nodes, strict=True):
            limits = limits_for(self._job.spec, view.board.labels, view.board.policy.node)
            lowered += [f"{view.node.name}: {words}" for words in limits.lowered]
            key = profile_key(self._job, view.board, node.batch_size or self._job.spec.workload.batch_sizes[0])
            has_profile = self._cache.brief("PowerProfile", key.name, key.namespace) is not None
            changes = {"limit_watts": limits.limits.power_watts, "profile": key.name if has_profile else None}
            changes["share_watts"] = lowest_share_w(view.board)
            changes["unreachable_since"] = self._unreachable_since(view, limits.limits.power_watts)
            nodes.append(node.model_copy(update=changes))
        self._change_status(nodes=tuple(nodes))
        if lowered:
            self._conditions.set(LIMITED, True, "PolicyIsLower", "; ".join(lowered))
        else:
            self._conditions.set(LIMITED, False, "WithinPolicy", "")

    def _unreachable_since(self, view: ReplicaView, limit_w: float | None) -> str | None:
        """Count from when the agent first said so about the limits of now; new limits are judged anew."""
        status, before = self._job.status, view.node.unreachable_since
        edited = status.observed_generation != self._job.metadata.get("generation")
        if edited or limit_w != view.node.limit_watts:
            return None
        if not view.up_to_date:
            return before
        return (before or moment(self._context.now)) if view.unreachable else None

    def _evaluate_health(self) -> None:
        problems = [
            problem
            for view in self._views
            if (problem := replica_problem(view, self._name_holder(view), self._context.now)) is not None
        ]
        if problems:
            self._conditions.set(DEGRADED, True, problems[0][0], "; ".join(words for _, words in problems))
        else:
            self._conditions.set(DEGRADED, False, "Healthy", "")

    # The end

    def _begin_to_stop(self, reason: stopping.Reason) -> None:
        now = moment(self._context.now)
        self._change_status(stopping=reason.stop, stopping_since=now, message=reason.message[:1024])
        if reason.stop is Stop.COMPLETED:
            self._change_status(phase=JobPhase.SUCCEEDED, completed_at=now, eta=None, remaining="")
            self._conditions.set(COMPLETE, True, "Completed", reason.message)
        elif reason.stop in stopping.FINAL:
            self._change_status(phase=JobPhase.FAILED, completed_at=now, eta=None, remaining="")
            word = "BackoffLimitExceeded" if reason.stop is Stop.FAILED else reason.stop.value
            self._conditions.set(COMPLETE, False, word, reason.message)
            if reason.stop is Stop.BUDGET_UNREACHABLE:
                self._conditions.set(BUDGET_MET, False, reason.stop.value, reason.message)
        else:
            self._change_status(phase=_PHASE_AFTER.get(reason.stop, JobPhase.WAITING_FOR_NODE))
            kind = "Normal" if reason.stop in _EXPECTED else "Warning"
            self._say(kind, reason.stop.value, reason.message)

    def _stop(self) -> None:
        stop, since = self._status.stopping, self._status.stopping_since
        assert stop is not None
        self._actions += stopping.deletions(self._views, stop)
        late = stopping.overdue(since, self._context.now)
        nodes, pending = [], False
        for view, node in zip(self._views, self._status.nodes, strict=True):
            is_over = not view.alive or view.board.node is None
            free = view.restored and is_over
            moves_on = stop is Stop.NODE_LOST and self._job.spec.placement.allow_move
            if node.holds and not free and late and (stop is Stop.DELETED or moves_on):
                self._say("Warning", "RestorePending", stopping.pending_words(view))
                free = pending = True
            history = kept_history(self._cache, node, len(self._views)) if node.holds and free else node.history
            nodes.append(node.model_copy(update={"holds": node.holds and not free, "history": history}))
        self._change_status(nodes=tuple(nodes), where=",".join(node.name for node in nodes if node.holds)[:1024])
        if any(node.holds for node in nodes):
            self._evaluate_restore(late)
            self._again_s = 2.0 if late else REQUEUE_S
            return
        if not pending:
            self._say("Normal", "Restored", "every board has its original settings again")
        self._finish_stop(stop)

    def _evaluate_restore(self, late: bool) -> None:
        if late:
            waiting = ", ".join(node.name for node in self._status.nodes if node.holds)
            self._conditions.set(DEGRADED, True, "RestorePending", f"not restored yet: {waiting}")

    def _finish_stop(self, stop: Stop) -> None:
        status = self._status
        self._conditions.set(DEGRADED, False, "Healthy")
        self._change_status(stopping=None, stopping_since=None, earlier_joules=status.energy_joules, power_watts=None)
        if stop in _COMES_BACK and not self._job.spec.placement.allow_move:
            self._change_status(return_to=tuple(sorted(node.name for node in status.nodes)))
        if stop in (Stop.TRIAL_DONE, Stop.TRIAL_FAILED):
            self._after_trial(stop)
        if stop is Stop.DELETED or stop in stopping.FINAL:
            self._finalizer(False)

    def _after_trial(self, stop: Stop) -> None:
        """Go on with the next batch size on the same board: sizes are compared there."""
        status, node = self._status, self._status.nodes[0]
        self._change_status(return_to=(node.name,), phase=JobPhase.PENDING)
        if stop is Stop.TRIAL_FAILED and node.batch_size is not None:
            sizes = self._job.spec.workload.batch_sizes
            self._change_status(batch=excluded(status.batch, sizes, node.batch_size, status.message))

    # Writing

    def _change_status(self, **changes: object) -> None:
        self._status = self._status.model_copy(update=changes)

    def _say(self, kind: str, reason: str, message: str) -> None:
        self._events.append(
            Announce(reference(self._job), "Warning" if kind == "Warning" else "Normal", reason, message)
        )

    def _finalizer(self, present: bool) -> None:
        self._actions += finalizer(self._job, present)

    def _can_wait(self, status: TrainingJobStatus) -> bool:
        """Say whether no verdict changed, and not long after the last write; then looks again when the rest is due."""
        before = self._job.status
        if self._news or without_details(with_pods_waiting(status, before)) != without_details(before):
            return False
        namespace, name = self._job.metadata["namespace"], self._job.metadata["name"]
        since_s = self._context.monotonic_s - (self._cache.changed_s("TrainingJob", namespace, name) or 0.0)
        pace_s = FIGURES_S if without_figures(status) == without_figures(before) else DETAILS_S
        if status.stopping is not None:
            return True  # the last figures come with the end, which is a verdict
        if since_s >= pace_s:
            return False
        self._again_s = min(pace_s - since_s, self._again_s or pace_s)
        return True

    def _evaluate_trouble(self) -> None:
        """Say what fails in the reconciles of this job and in those that it shares with others, or that it is over."""
        words = self._cache.trouble(lookup.key_of(self._job))
        degraded = find(self._conditions.conditions, DEGRADED)
        if words:
            self._conditions.set(DEGRADED, True, RECONCILE_FAILED, words)
        elif degraded is not None and degraded.reason == RECONCILE_FAILED:
            self._conditions.set(DEGRADED, False, "Healthy", "")

    def _finished(self, write: bool = True) -> Plan:
        job = self._job
        self._evaluate_trouble()
        status = self._status.model_copy(
            update={"observed_generation": job.metadata.get("generation"), "conditions": self._conditions.conditions}
        )
        # The status first: a Job or a deletion follows from what is written down, never the other way round. Then what
        # is new in it: if an action fails, the next look finds nothing new any more.
        actions: list[Action] = [*self._news, *self._events, *self._actions]
        if write and status != job.status and not self._can_wait(status):
            body = {**reference(self._job), "status": status.wire()}
            actions.insert(0, ApplyStatus(body, uid=job.metadata["uid"]))
        return Plan(tuple(actions), self._again_s, job.metadata["uid"])
