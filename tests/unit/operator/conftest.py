"""A cluster in memory: plans are carried out on the operator's own cache; tests play agents, kubelets and people."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from powertrain_kube import AwayError
from powertrain_operator import names
from powertrain_operator.cache import Cache, taken_name_key
from powertrain_operator.observation import Key, observation_of
from powertrain_operator.plan import (
    Announce,
    Apply,
    ApplyStatus,
    CheckTemplate,
    Context,
    CountRequests,
    Create,
    Delete,
    Plan,
)
from powertrain_operator.reconcile.failure import failure_actions
from powertrain_operator.reconcile.queue import QUEUE
from powertrain_operator.reconcilers import RECONCILERS
from powertrain_operator.resources import RESOURCE_BY_KIND
from powertrain_operator.settings import Settings
from powertrain_operator.trouble import trouble

Object = dict[str, Any]
NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
MODES = {"slow": "12c_729600_306000000_2133000000", "fast": "12c_2201600_1300500000_3199000000"}
DEVICE = {
    "name": "orin-agx",
    "module": "p3701-0005",
    "l4t": "36.4.3",
    "tables": "abc",
    "corePolicy": "Fixed",
    "totalRail": "sum",
}


class Cluster:
    """Runs reconciles until nothing is left to do; time passes only when a test says so."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.now = NOW
        self.settings = Settings(identity="me")
        self.events: list[Announce] = []
        self.writes: list[str] = []
        self.template_error = ""
        self.environments: dict[str, dict[str, str]] = {}
        self.created_jobs: list[str] = []
        # Jobs of other people: the operator sees their names only when it wants one of them.
        self.foreign_jobs: set[str] = set()
        # What other people's pods request of the nodes, in millicores.
        self.requested: dict[str, int] = {}
        self.collects_late = False
        # Writes of this kind fail, as on an API server that is away.
        self.failing: type | None = None
        # As the worker does: a reconcile that fails is shown where it belongs, and the others go on.
        self.goes_on = False
        self._after_write: Callable[[], None] = lambda: None
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)
        # What is stored; the operator keeps less of it.
        self._stored: dict[Key, Object] = {}

    # What tests look at.

    def get(self, kind: str, name: str, namespace: str = "") -> Object:
        body = self._stored.get(Key(kind, namespace, name))
        assert body is not None, f"there is no {kind} {name}"
        return copy.deepcopy(body)

    def job(self, name: str = "job") -> Object:
        return self.get("TrainingJob", name, "team")

    def status(self, name: str = "job") -> Object:
        return dict(self.job(name).get("status") or {})

    def condition(self, type_: str, name: str = "job") -> tuple[str, str]:
        matching_condition = next((c for c in self.status(name).get("conditions", []) if c["type"] == type_), None)
        return (matching_condition["status"], matching_condition["reason"]) if matching_condition else ("", "")

    def session(self, node: str = "orin-1") -> Object:
        return dict(self.get("PowerNode", node)["spec"].get("session") or {})

    def reasons(self) -> list[str]:
        return [event.reason for event in self.events]

    def event_message(self, reason: str) -> str:
        return next(event.message for event in self.events if event.reason == reason)

    def annotations(self, node: str = "orin-1") -> Object:
        return dict(self.get("Node", node)["metadata"].get("annotations") or {})

    # What happens.

    def put(self, body: Object) -> None:
        kind = RESOURCE_BY_KIND[body["kind"]]
        body = copy.deepcopy(body)
        metadata = body["metadata"]
        metadata.setdefault("uid", f"uid-{next(self._uids)}")
        metadata.setdefault("creationTimestamp", _moment(self.now))
        metadata["resourceVersion"] = str(next(self._versions))
        namespace = metadata.get("namespace", "") if kind.namespaced else ""
        self._stored[Key(kind.name, namespace, metadata["name"])] = copy.deepcopy(body)
        self.cache.put(observation_of(kind, body), self.now.timestamp())

    def change(self, kind: str, name: str, namespace: str = "", **parts: Any) -> None:
        self.put(merged(self.get(kind, name, namespace), parts))

    def settle(self, rounds: int = 30) -> None:
        """Reconcile everything until nothing changes any more."""
        for _ in range(rounds):
            before = len(self.writes)
            for kind in RECONCILERS:
                for key in self._keys(kind):
                    self.reconcile(key)
            if len(self.writes) == before:
                return
        raise AssertionError(f"it never comes to rest; last writes: {self.writes[-6:]}")

    def _keys(self, kind: str) -> list[Key]:
        if kind == "Queue":
            return [QUEUE]
        if kind == "PowerNode":
            return [Key("PowerNode", "", key.name) for key in self.cache.keys("Node")]
        return self.cache.keys(kind)

    def reconcile(self, key: Key) -> None:
        context = Context(self.now, self.now.timestamp(), self.settings)
        own: dict[Key, str] = {}
        try:
            plan = RECONCILERS[key.kind](self.cache, key, context)
        except Exception as error:
            if not self.goes_on:
                raise
            own = {key: trouble(key, error).words}
            plan = Plan(tuple(failure_actions(self.cache, key, own[key], context)))
        for action in plan.actions:
            self._do(action)
        if self.cache.blame(key, {each.key: each.words for each in plan.troubles} | own):
            self.writes.append("trouble")

    def wait(self, seconds: float) -> None:
        """Let time pass; agents go on renewing their Leases."""
        self.now += timedelta(seconds=seconds)
        for lease in list(self.cache.each("Lease")):
            if not lease["metadata"].get("annotations", {}).get("dead"):
                self._renew(lease["metadata"]["name"])
        self.settle()

    def _do(self, action: object) -> None:
        if self.failing is not None and isinstance(action, self.failing):
            raise AwayError(f"no {self.failing.__name__} now")
        match action:
            case Announce():
                self.events.append(action)
                return
            case CheckTemplate():
                self.cache.note_answer(action.key, self.template_error, self.now.timestamp())
            case CountRequests():
                self.cache.note_answer(action.key, str(self.requested.get(action.node, 0)), self.now.timestamp())
            case Apply():
                self._apply(action)
            case Create():
                metadata = action.body["metadata"]
                if metadata["name"] in self.foreign_jobs:
                    key = Key("Job", metadata["namespace"], metadata["name"])
                    self.cache.note_answer(taken_name_key(key), "it is somebody else's", self.now.timestamp())
                elif self.cache.get(action.body["kind"], metadata["name"], metadata["namespace"]) is None:
                    env = (action.body["spec"]["template"]["spec"].get("containers") or [{"env": []}])[0]["env"]
                    self.environments[metadata["name"]] = {each["name"]: each.get("value", "") for each in env}
                    self.created_jobs.append(f"{metadata['ownerReferences'][0]['uid']} {metadata['name']}")
                    self.put(action.body)
            case ApplyStatus():
                metadata = action.body["metadata"]
                body = self.get(action.body["kind"], metadata["name"], metadata.get("namespace", ""))
                self.put({**body, "status": action.body["status"]})
            case Delete():
                self._delete(action)
            case _:
                raise AssertionError(f"unknown action {action}")
        self.writes.append(f"{type(action).__name__} {getattr(action, 'body', {}).get('kind', '')}")
        self._after_write()

    def watch_writes(self, look: Callable[[], None]) -> None:
        """Have somebody look after every single write."""
        self._after_write = look

    def _apply(self, action: Apply) -> None:
        body, metadata = action.body, action.body["metadata"]
        if body["kind"] not in self.cache:
            return
        stored_body = self._stored.get(Key(body["kind"], metadata.get("namespace", ""), metadata["name"]))
        assert stored_body is not None or not action.uid, f"apply to {metadata['name']}, which is gone"
        fresh = copy.deepcopy(stored_body or {})
        if body["kind"] == "Node":
            former = {
                k: v
                for k, v in (fresh["metadata"].get("annotations") or {}).items()
                if k in (names.AVAILABLE_WATTS, names.AVAILABLE_WATTS_AT, names.IGNORE)
            }
            fresh["metadata"]["annotations"] = {**former, **metadata["annotations"]}
            self.put(fresh)
            return
        for name, value in body.items():
            fresh[name] = {**fresh.get(name, {}), **value} if name == "metadata" else value
        if body["kind"] == "TrainingJob":
            fresh["spec"] = (stored_body or {})["spec"]
        self.put(fresh)
        is_gone = fresh["metadata"].get("deletionTimestamp") and not fresh["metadata"].get("finalizers")
        if is_gone:
            self._collect(body["kind"], metadata["name"], metadata.get("namespace", ""))

    def _delete(self, action: Delete) -> None:
        self._collect(action.key.kind, action.key.name, action.key.namespace)

    def _collect(self, kind: str, name: str, namespace: str) -> None:
        """An object goes, and what it owns with it; a pod that is stuck only gets a time stamp."""
        self.remove(kind, name, namespace)
        if not self.collects_late:
            self.collect_garbage()

    def collect_garbage(self) -> None:
        """What has lost its owner goes."""
        for kind, owners in (("Job", ("TrainingJob", "BatchStudy")), ("Pod", ("Job",))):
            for body in list(self.cache.each(kind)):
                metadata = body["metadata"]
                named = [each["uid"] for each in metadata.get("ownerReferences") or ()]
                if not named or any(self.cache.by_uid(owner, uid) for owner in owners for uid in named):
                    continue
                if not metadata.get("annotations", {}).get("stuck"):
                    self.remove(kind, metadata["name"], metadata["namespace"])
                elif not metadata.get("deletionTimestamp"):
                    deletion = {"deletionTimestamp": _moment(self.now)}
                    self.change(kind, metadata["name"], metadata["namespace"], metadata=deletion)

    def remove(self, kind: str, name: str, namespace: str = "") -> None:
        self._stored.pop(Key(kind, namespace, name), None)
        self.cache.remove(Key(kind, namespace, name), next(self._versions))

    # People.

    def board(self, name: str = "orin-1", labels: Object | None = None, **device: Any) -> None:
        """A Node with an agent that has joined and reported."""
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": _moment(self.now)}
        metadata = {"name": name, "labels": labels or {}}
        self.put({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"conditions": [ready]}})
        self._renew(name)
        self.settle()
        self.join(name, **device)

    def join(self, name: str, **device: Any) -> None:
        """The agent of a node reports what the board is."""
        status = {
            "agent": {"version": "0.1.0", "protocol": 1},
            "device": {**DEVICE, **device},
            "capabilities": {"modes": 1508, "strategies": ["transfer"]},
        }
        self.change("PowerNode", name, status=status)
        self.settle()

    def _renew(self, name: str) -> None:
        cached_object = self.cache.brief("Lease", name, "powertrain-system")
        body = copy.deepcopy(cached_object) or {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": "powertrain-system"},
        }
        body["spec"] = {"renewTime": _moment(self.now)}
        self.put(body)

    def ready(self, name: str, ready: bool) -> None:
        """The cluster finds a node ready, or loses it."""
        condition = {"type": "Ready", "status": "True" if ready else "Unknown", "lastTransitionTime": _moment(self.now)}
        self.change("Node", name, status={"conditions": [condition]})
        self.settle()

    def silence(self, name: str = "orin-1") -> None:
        """An agent that says nothing any more."""
        self.change("Lease", name, "powertrain-system", metadata={"annotations": {"dead": "yes"}})

    def submit(self, name: str = "job", **spec: Any) -> None:
        """A user applies a TrainingJob."""
        workload = {
            "batchSizes": [16],
            "samplesPerEpoch": 1600,
            "epochs": 10,
            "template": {"spec": {"containers": [{"name": "train", "image": "example.org/train:1"}]}},
        }
        full = merged({"constraints": {"powerWatts": 30}, "workload": workload}, spec)
        metadata = {"name": name, "namespace": "team", "generation": 1}
        self.put({"apiVersion": "powertrain.io/v1alpha1", "kind": "TrainingJob", "metadata": metadata, "spec": full})
        self.settle()

    def edit(self, name: str = "job", **spec: Any) -> None:
        """A user edits it."""
        body = self.job(name)
        body["metadata"]["generation"] += 1
        self.put(merged(body, {"spec": spec}))
        self.settle()

    def delete(self, name: str = "job") -> None:
        """A user deletes it: with a finalizer it only gets a time stamp."""
        body = self.job(name)
        if body["metadata"].get("finalizers"):
            generation = body["metadata"]["generation"] + 1
            self.put(merged(body, {"metadata": {"deletionTimestamp": _moment(self.now), "generation": generation}}))
        else:
            self._collect("TrainingJob", name, "team")
        self.settle()

    # Agents and kubelets.

    def report(self, node: str = "orin-1", **session: Any) -> None:
        """The agent of a node reports about the session that it was asked for."""
        envelope = self.session(node)
        fields = {"uid": envelope["uid"], "observedGeneration": envelope["generation"], "protocol": 1}
        body = self.get("PowerNode", node)
        self.put({**body, "status": {**body["status"], "session": {**fields, **session}}})
        self.settle()

    def amends(self, node: str = "orin-1") -> None:
        """The agent has read what it was asked last, and goes on as it was."""
        reported = (self.get("PowerNode", node).get("status") or {}).get("session") or {}
        self.report(node, **{**reported, "observedGeneration": self.session(node)["generation"]})

    def opens(self, node: str = "orin-1") -> None:
        self.report(node, phase="Starting", gateOpen=True, verified=True, mode=MODES["slow"], reason="Start")

    def chooses(self, node: str = "orin-1", **more: Any) -> None:
        self.report(
            node,
            **{
                "phase": "Running",
                "gateOpen": True,
                "verified": True,
                "mode": MODES["fast"],
                "reason": "Chosen",
                "message": "the fastest measured mode within 30 W",
                "predicted": {"stepSeconds": 0.1, "powerWatts": 28.0},
                "observed": {"stepSeconds": 0.1, "powerWatts": 28.5},
                "profiling": {"measured": 2, "seconds": 12.0},
                "training": {"steps": 250, "samples": 4000},
                "energyJoules": 700.0,
                "conditions": [_condition("BudgetReachable", "True", "Kept", "28 W expected", self.now)],
                "result": {"strategy": "transfer", "samples": SAMPLES, "front": {}},
                **more,
            },
        )

    def condition_of(self, type_: str, status: str, reason: str) -> Object:
        return _condition(type_, status, reason, "in words", self.now)

    def restores(self, node: str = "orin-1") -> None:
        """The agent gives the board back; its last report still holds what the session was."""
        last = (self.get("PowerNode", node).get("status") or {}).get("session") or {}
        reported = last if last.get("uid") == self.session(node)["uid"] else {}
        self.report(node, **{**reported, "phase": "Ended", "restored": True, "reason": "Hold", "message": "released"})

    def pod_name(self, job: str, number: int = 1) -> str:
        """Return the name of a Job's pod; those of an earlier Job of the same name, if any are left, are others."""
        name = f"{job}-pod" if number == 1 else f"{job}-pod-{number}"
        uid = self.get("Job", job, "team")["metadata"]["uid"]
        cached_object = self.cache.brief("Pod", name, "team")
        ours = cached_object is None or cached_object["metadata"]["ownerReferences"][0]["uid"] == uid
        return name if ours else f"{name}-{uid}"

    def pod(self, job: str, phase: str = "Running", gate: bool = True, number: int = 1, **status: Any) -> None:
        """A Job's pod as a kubelet shows it; the second is the one that is tried after the first has failed."""
        owner = self.get("Job", job, "team")
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": owner["metadata"]["uid"]}
        metadata = {
            "name": self.pod_name(job, number),
            "namespace": "team",
            "labels": owner["metadata"]["labels"],
            "ownerReferences": [reference],
        }
        gates = [{"name": "powertrain-gate", "state": {"running": {}}}] if gate else []
        state = {"phase": phase, "initContainerStatuses": gates, **status}
        cached_object = self.cache.brief("Pod", metadata["name"], "team")
        if cached_object is not None:
            self.change("Pod", metadata["name"], "team", status=state)
        else:
            self.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": state})
        self.settle()

    def ends(self, job: str, kind: str = "Complete", message: str = "") -> None:
        """A Job reaches its end, and its pod with it."""
        self.pod(job, "Succeeded" if kind == "Complete" else "Failed")
        ended = {"type": kind, "status": "True", "reason": kind, "message": message}
        self.change("Job", job, "team", status={"conditions": [ended]})
        self.settle()

    def running(self, job: str = "job-0-1", node: str = "orin-1") -> None:
        """From a claimed node to a chosen mode."""
        self.opens(node)
        self.pod(job)
        self.report(node, phase="Profiling", gateOpen=True, verified=True, mode=MODES["slow"], reason="Profiling")
        self.chooses(node)


SAMPLES = {
    "axes": {
        "cores": [12],
        "cpuKHz": [729600, 2201600],
        "gpuHz": [306000000, 1300500000],
        "emcHz": [2133000000, 3199000000],
    },
    "cores": [0, 0],
    "cpu": [0, 1],
    "gpu": [0, 1],
    "emc": [0, 1],
    "batchSize": 16,
    "stepSeconds": [0.4, 0.1],
    "powerWatts": [14.0, 28.0],
}


def _condition(type_: str, status: str, reason: str, message: str, at: datetime) -> Object:
    moment = _moment(at)
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": moment}


def merged(body: Object, parts: Object) -> Object:
    fresh = dict(body)
    for name, value in parts.items():
        former = fresh.get(name)
        fresh[name] = merged(former, value) if isinstance(former, dict) and isinstance(value, dict) else value
    return fresh


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def one_board(cluster: Cluster) -> Cluster:
    cluster.board()
    return cluster
