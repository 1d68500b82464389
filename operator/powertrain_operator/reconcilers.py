"""The table of reconcilers, one line per kind, and which objects to look at again when something changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic.alias_generators import to_camel

from powertrain.api.base import FIGURE, defaults_of
from powertrain.api.session import SessionStatus
from powertrain.api.v1alpha1 import JobPhase
from powertrain_kube import Object
from powertrain_operator import lookup, names
from powertrain_operator.attempts import job_condition
from powertrain_operator.budgets.accounting import NOISE_FACTOR
from powertrain_operator.cache import Cache, Change
from powertrain_operator.observation import Key
from powertrain_operator.plan import Rank, Reconcile
from powertrain_operator.profiles import retention
from powertrain_operator.reconcile import batch_study, power_budget, power_node, power_policy, queue, training_job
from powertrain_operator.reconcile.queue import QUEUE
from powertrain_operator.reconcile.waiting import might_wait
from powertrain_operator.resources import JOB_UID_LABEL

RECONCILERS: Mapping[str, Reconcile] = {
    "Queue": queue.reconcile,
    "TrainingJob": training_job.reconcile,
    "PowerNode": power_node.reconcile,
    "PowerPolicy": power_policy.reconcile,
    "PowerProfile": retention.reconcile,
    "BatchStudy": batch_study.reconcile,
    "PowerBudget": power_budget.reconcile,
}

# A PowerBudget looks at all of its boards, so what changes there within this time is one look.
PAUSES_S: Mapping[str, float] = {"PowerBudget": 0.25}
# Kinds that PowerBudgets look at.
_OF_BUDGETS = ("PowerNode", "Node", "Lease", "TrainingJob", "PowerProfile")
_FIGURES = frozenset(to_camel(name) for name in defaults_of(SessionStatus, FIGURE))
# What a board's reconcile reads of its job's entry for it.
_OF_A_NODE = ("name", "holds", "session", "batchSize", "trial", "job", "waitingSince")
# Conditions of pods that say nothing as long as they hold.
_AS_A_RULE = ("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


def affected_keys(cache: Cache, change: Change) -> Iterator[Key]:
    """Return the objects that a change may matter to; too many costs little, too few waits for the next resync."""
    kind = change.key.kind
    if kind == "Lease" and change.before is not None and change.after is not None and not _first_sign(cache, change):
        return  # an agent that goes on living is no news; one that stops is noticed by the clock
    bodies = [body for body in (change.before, change.after) if body is not None]
    if kind == "TrainingJob":
        if _input_of_boards(change.before) != _input_of_boards(change.after):
            yield from _nodes(*bodies)  # first: the board of a new claim can begin while the rest is written
        if any(map(might_wait, bodies[-1:])) or _held_nodes(change.before) != _held_nodes(change.after):
            yield QUEUE  # before the job itself: with a node that is free, nothing is left to say about waiting
    quiet = kind == "PowerProfile" or (kind == "PowerNode" and _only_figures(change)) or _only_reported(change)
    if kind in RECONCILERS and not quiet:
        yield change.key
    if kind in _OF_BUDGETS and cache.keys("PowerBudget"):
        yield from _budgets(cache, change)
    match kind:
        case "PowerNode":
            yield from _of_session(cache, *bodies, alone=_only_figures(change))
            if _availability(change.before) != _availability(change.after):
                yield QUEUE
        case "Node" | "Lease":
            yield Key("PowerNode", "", change.key.name)
            if kind == "Node" and _beside_ours(change.before) == _beside_ours(change.after):
                return  # what the Node says of its job is for people
            yield QUEUE
            yield from _holder(cache, change.key.name)
            yield from cache.keys("PowerPolicy") if kind == "Node" else ()
        case "Pod" | "Job":
            if _relevant_part(change.before) != _relevant_part(change.after):
                yield from _of_label(cache, *bodies)
        case "PowerProfile":
            yield from _trials(cache, change.key.namespace)
            if change.before is None:
                yield from _siblings(cache, change.key)
        case "PowerBudget":
            yield from _of_budget(cache, *bodies)
        case "BatchStudy":
            yield from _jobs_of_study(cache, change.key)
        case "PriorityClass":
            yield QUEUE
        case "PowerPolicy":
            yield from cache.keys("PowerNode")
            yield QUEUE


def _budgets(cache: Cache, change: Change) -> Iterator[Key]:
    """The PowerBudgets, where a change may matter to one: they are few, and each looks at all of its boards."""
    kind, before, after = change.key.kind, change.before, change.after
    if kind == "PowerNode" and _only_figures(change) and not _draws_too_much(after):
        return
    if kind == "TrainingJob" and _input_of_budgets(before) == _input_of_budgets(after):
        return
    if kind == "Node" and _beside_ours(before) == _beside_ours(after):
        return
    yield from cache.keys("PowerBudget")


def _draws_too_much(power_node: Object | None) -> bool:
    """Say whether a board was seen to draw more than its share."""
    status = (power_node or {}).get("status") or {}
    figures, share_w = status.get("figures") or {}, status.get("shareWatts")
    drawn_w = max(figures.get("watts") or 0.0, figures.get("idleWatts") or 0.0 if not status.get("session") else 0.0)
    return share_w is not None and drawn_w > NOISE_FACTOR * share_w


def _input_of_budgets(job: Object | None) -> object:
    return _input_of_boards(job), ((job or {}).get("status") or {}).get("phase")


def _only_reported(change: Change) -> bool:
    """Say whether nothing of a PowerBudget changed but its status, which its own reconcile has written."""
    if change.key.kind != "PowerBudget" or change.before is None or change.after is None:
        return False
    bookkeeping = ("resourceVersion", "managedFields")
    before, after = (
        ({n: v for n, v in body["metadata"].items() if n not in bookkeeping}, body.get("spec"))
        for body in (change.before, change.after)
    )
    return before == after


def _of_budget(cache: Cache, *budgets: Object) -> Iterator[Key]:
    """The queue, which may find watts now, and the jobs that a budget starves or lets wait."""
    yield QUEUE
    for budget in budgets[-1:]:
        for board in (budget.get("status") or {}).get("boards") or ():
            namespace, _, name = str(board.get("job") or "").partition("/")
            if name and board.get("starved"):
                yield Key("TrainingJob", namespace, name)
        for job in (budget.get("status") or {}).get("waitingJobs") or ():
            yield Key("TrainingJob", job["namespace"], job["name"])


def rank_of(cache: Cache, key: Key) -> Rank:
    """Say how soon a key is to come: what jobs start with first, then what they go on and end with."""
    observation = cache.observation(key) if key.kind in cache else None
    if observation is not None and observation.excess is not None:
        return Rank.REST  # it can't start, and each write to a large object takes the API server a second or more
    if key.kind == "TrainingJob":
        return _rank_of_job(cache, cache.brief(key.kind, key.name, key.namespace))
    if key.kind == "PowerNode":
        spec = (cache.brief(key.kind, key.name) or {}).get("spec") or {}
        current_uid = (spec.get("session") or {}).get("uid")
        claims = [(job["status"], node) for job in cache.holding("TrainingJob", key.name) for node in _entries(job)]
        stops = {node["session"]: status.get("stopping") for status, node in claims if node["name"] == key.name}
        if set(stops) - {current_uid}:
            return Rank.START
        return Rank.END if any(stops.values()) or (current_uid and not stops) else Rank.REST
    # A claimed board gets its envelope only when it has its share.
    return Rank.START if key == QUEUE or key.kind == "PowerBudget" else Rank.REST


def _rank_of_job(cache: Cache, job: Object | None) -> Rank:
    status = (job or {}).get("status") or {}
    if job is None or not status.get("phase"):
        return Rank.REST if job is None else Rank.START
    if status["phase"] == JobPhase.PENDING or status.get("stopping"):
        return Rank.END
    jobs = cache.labelled("Job", JOB_UID_LABEL, job["metadata"]["uid"]) if _held_nodes(job) else ()
    over = any(job_condition(each, "Complete") or job_condition(each, "Failed") for each in jobs)
    return Rank.END if over else Rank.REST


def _entries(job: Object) -> list[Object]:
    """The entries of a TrainingJob's status, one for each of its nodes."""
    return (job.get("status") or {}).get("nodes") or []


def _trials(cache: Cache, namespace: str) -> Iterator[Key]:
    """The TrainingJobs that profile a batch size: they go on once its profile is there."""
    for job in cache.each("TrainingJob"):
        if job["metadata"]["namespace"] == namespace and any(node.get("trial") for node in _entries(job)):
            yield Key("TrainingJob", namespace, job["metadata"]["name"])


def _siblings(cache: Cache, profile: Key) -> Iterator[Key]:
    """The profiles of the same workload, of which a new one may be one too many."""
    new = cache.brief("PowerProfile", profile.name, profile.namespace) or {}
    workload = (new.get("spec") or {}).get("workload")
    for each in cache.each("PowerProfile"):
        metadata = each["metadata"]
        if metadata["namespace"] == profile.namespace and (each.get("spec") or {}).get("workload") == workload:
            yield Key("PowerProfile", profile.namespace, metadata["name"])


def _jobs_of_study(cache: Cache, study: Key) -> Iterator[Key]:
    """The TrainingJobs that take their batch sizes' relation from a study."""
    for job in cache.each("TrainingJob"):
        workload = (job.get("spec") or {}).get("workload") or {}
        study_name = (workload.get("batchEfficiency") or {}).get("study")
        if study_name == study.name and job["metadata"]["namespace"] == study.namespace:
            yield Key("TrainingJob", study.namespace, job["metadata"]["name"])


def _first_sign(cache: Cache, change: Change) -> bool:
    """Say whether an agent, of which only the Lease was found, is heard for the first time."""
    return cache.versions_seen(*change.key) == 2


def _holder(cache: Cache, node: str) -> Iterator[Key]:
    """The TrainingJob that holds a node."""
    holder = lookup.holders(cache).get(node)
    if holder is not None:
        yield Key("TrainingJob", *holder.split("/", 1))


def _held_nodes(job: Object | None) -> list[str]:
    """The nodes that a TrainingJob keeps from others."""
    return [node["name"] for node in _entries(job or {}) if node.get("holds")]


def _beside_ours(node: Object | None) -> object:
    """Return a Node without what the operator itself writes into it."""
    if node is None:
        return None
    metadata = {
        name: value for name, value in node["metadata"].items() if name not in ("resourceVersion", "annotations")
    }
    annotations = (node["metadata"].get("annotations") or {}).items()
    others = {name: value for name, value in annotations if name not in names.ON_NODES}
    return {**node, "metadata": {**metadata, "annotations": others}}


def _nodes(*jobs: Object) -> Iterator[Key]:
    """The PowerNodes that a TrainingJob has or had."""
    for job in jobs:
        for node in _entries(job):
            yield Key("PowerNode", "", node["name"])


def _of_session(cache: Cache, *power_nodes: Object, alone: bool) -> Iterator[Key]:
    """The TrainingJob whose session a PowerNode has, and unless it is alone the boards that train with it."""
    for body in power_nodes:
        whose = ((body.get("spec") or {}).get("session") or {}).get("job")
        if whose:
            key = Key("TrainingJob", whose["namespace"], whose["name"])
            yield from (key,) if alone else _job_and_nodes(cache, key)


def _only_figures(change: Change) -> bool:
    """Say whether a board reports nothing but how far it is: that is for the status of its job alone."""
    return change.before is not None and _reported(change.before) == _reported(change.after)


def _reported(power_node: Object | None) -> object:
    """Return a PowerNode without figures; the packed parts of a result come with the count of what was measured."""
    body = power_node or {}
    metadata = {name: value for name, value in body["metadata"].items() if name != "resourceVersion"} if body else {}
    status = {name: value for name, value in (body.get("status") or {}).items() if name != "figures"}
    session = status.pop("session", None) or {}
    session_report = {name: value for name, value in session.items() if name not in _FIGURES}
    return metadata, body.get("spec"), status, session_report


def _input_of_boards(job: Object | None) -> object:
    """Return what the boards of a TrainingJob are asked by; the rest of its status is for people."""
    if job is None:
        return None
    metadata, status = job["metadata"], job.get("status") or {}
    nodes = [tuple(node.get(name) for name in _OF_A_NODE) for node in _entries(job)]
    return metadata.get("generation"), metadata.get("deletionTimestamp"), status.get("stopping"), nodes


def _relevant_part(body: Object | None) -> object:
    """Return what the reconcilers read of a pod or a Job; each changes a few times more often than this."""
    if body is None:
        return None
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    conditions = [(c["type"], c["status"], c.get("reason")) for c in status.get("conditions") or () if _tells(c)]
    return (
        (metadata.get("uid"), metadata.get("deletionTimestamp"), metadata.get("labels"), spec.get("suspend")),
        (status.get("phase"), status.get("message"), conditions),
        (status.get("initContainerStatuses"), status.get("containerStatuses")),
        (status.get("completedIndexes"), status.get("failedIndexes")),
    )


def _tells(condition: Object) -> bool:
    """Say whether a condition of a pod or Job is one that somebody looks for; pods are ready as a rule."""
    return condition["type"] not in _AS_A_RULE or condition["status"] == "False"


def _of_label(cache: Cache, *bodies: Object) -> Iterator[Key]:
    """The TrainingJob that pods and Jobs belong to, and its boards, which are told which pods there are."""
    for body in bodies:
        uid = (body["metadata"].get("labels") or {}).get(JOB_UID_LABEL)
        job = cache.by_uid("TrainingJob", uid) if uid else None
        if job is not None and job["metadata"]["namespace"] == body["metadata"]["namespace"]:
            yield from _job_and_nodes(cache, Key("TrainingJob", job["metadata"]["namespace"], job["metadata"]["name"]))
        elif body["kind"] == "Job":  # a TrainingJob of the same name may wait for the collection of an earlier one's
            yield from _of_name(cache, body)
        elif uid and (body.get("spec") or {}).get("nodeName"):  # the board of a pod that outlives its job waits for it
            yield Key("PowerNode", "", body["spec"]["nodeName"])
        study = cache.by_uid("BatchStudy", uid) if uid else None
        if study is not None:
            yield Key("BatchStudy", study["metadata"]["namespace"], study["metadata"]["name"])


def _of_name(cache: Cache, job: Object) -> Iterator[Key]:
    metadata = job["metadata"]
    name = (metadata.get("labels") or {}).get(names.JOB_NAME, "")
    if cache.brief("TrainingJob", name, metadata["namespace"]) is not None:
        yield Key("TrainingJob", metadata["namespace"], name)


def _job_and_nodes(cache: Cache, key: Key) -> Iterator[Key]:
    yield key
    job = cache.brief("TrainingJob", key.name, key.namespace)
    if job is not None:
        yield from _nodes(job)


def _availability(power_node: Object | None) -> object:
    """What decides whether the queue may give a node away."""
    if power_node is None:
        return None
    spec, status = power_node.get("spec") or {}, power_node.get("status") or {}
    session = status.get("session") or {}
    return (
        (spec.get("session") or {}).get("uid"),
        (session.get("uid"), session.get("restored")),
        status.get("agent"),
        (status.get("capabilities") or {}).get("modes"),
    )
