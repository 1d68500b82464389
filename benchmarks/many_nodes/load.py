"""The load: TrainingJobs at a steady pace, and when each was given its node."""

from __future__ import annotations

import contextlib
import functools
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import urllib3

from powertrain.api.base import API_VERSION
from powertrain.api.power_profile import KIND as PROFILE
from powertrain.api.resources import POWER_BUDGETS, POWER_NODES, POWER_PROFILES, TRAINING_JOBS
from powertrain.api.v1alpha1 import DeviceInfo, SessionResult
from powertrain_devcluster.connection import follow
from powertrain_kube import ApiError, AwayError, ConflictError, KubeApi
from powertrain_kube.backoff import Backoff
from powertrain_operator.profiles import matching
from powertrain_operator.profiles.matching import ProfileKey

from .recording import BOARDS, Recording

Object = dict[str, Any]
WORKLOADS, BATCH_SIZE = 5, 16
SITE = "site"
LONGEST_S = 180.0
_POLL_S = 5.0  # a list of 500 jobs is work for the server that is measured
_PAGE = "100"
_BUSY_S = 30.0
# The server is busy or was not heard; what was asked may have been done all the same.
TRANSIENT = (AwayError, urllib3.exceptions.HTTPError, OSError)


class UnfinishedError(Exception):
    """A size could not be measured: the jobs did not all succeed in time, or a process of it failed."""


def workload(number: int) -> str:
    """Return the name of a job's workload: a few workloads come again and again."""
    return f"workload-{number % WORKLOADS}"


def template(number: int) -> Object:
    """Return a job's pod template."""
    command = ["python3", "train.py", "--dataset", workload(number)]
    return {"spec": {"containers": [{"name": "train", "image": "example.org/train:1", "command": command}]}}


def training_job(namespace: str, number: int) -> Object:
    """Return a TrainingJob that may run on any board, each with its own budget."""
    (_first, watts), *others = BOARDS.items()
    overrides = [
        {"nodeSelector": {"powertrain.io/device": device}, "constraints": {"powerWatts": w}} for device, w in others
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": TRAINING_JOBS.kind,
        "metadata": {"name": f"job-{number:04d}", "namespace": namespace},
        "spec": {
            "constraints": {"powerWatts": watts},
            "workload": {
                "name": workload(number),
                "batchSizes": [BATCH_SIZE],
                "samplesPerEpoch": 1600,
                "epochs": 3,
                "template": template(number),
            },
            "placement": {"overrides": overrides},
        },
    }


def power_budget(watts: float) -> Object:
    """Return a PowerBudget over all nodes."""
    spec = {"nodeSelector": {"kubernetes.io/os": "linux"}, "watts": watts}
    return {"apiVersion": API_VERSION, "kind": POWER_BUDGETS.kind, "metadata": {"name": SITE}, "spec": spec}


def write_profiles(rest: KubeApi, namespace: str, recordings: dict[str, Recording]) -> None:
    """Store what an earlier job of every workload would have left for every kind of board."""
    for number in range(WORKLOADS):
        for recording in recordings.values():
            key = ProfileKey(
                namespace,
                workload(number),
                BATCH_SIZE,
                matching.template_hash(template(number)),
                DeviceInfo.model_validate(recording.status["device"]),
            )
            result = SessionResult.model_validate(recording.profile)
            body = matching.body(key, result, "an-earlier-node", datetime.now(UTC))
            assert body["kind"] == PROFILE
            rest.create(POWER_PROFILES.path(namespace=namespace), body)


@dataclass
class Decisions:
    """When each job was made and when its envelope was seen, by this process's clock; which nodes have a session."""

    nodes: int
    created_s: dict[str, float] = field(default_factory=dict)
    seen_s: dict[str, float] = field(default_factory=dict)
    without_free_node: set[str] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)
    most_busy: int = 0
    share_revisions: dict[str, int] = field(default_factory=dict)
    share_writes: int = 0
    reshared_at: set[str] = field(default_factory=set)

    def created(self, name: str, at_s: float) -> None:
        """A job was accepted by the API server."""
        undecided = len(self.created_s) - len(self.seen_s)
        self.created_s[name] = at_s
        if len(self.busy) + undecided >= self.nodes:
            self.without_free_node.add(name)

    def power_node(self, body: Object) -> None:
        """A PowerNode was seen."""
        self._count_shares(body)
        name, session = body["metadata"]["name"], (body.get("spec") or {}).get("session")
        reported = (body.get("status") or {}).get("session") or {}
        if session is None:
            self.busy.discard(name)
            return
        self.seen_s.setdefault(session["job"]["name"], time.monotonic())
        over = reported.get("uid") == session["uid"] and reported.get("restored")
        (self.busy.discard if over else self.busy.add)(name)
        self.most_busy = max(self.most_busy, len(self.busy))

    def _count_shares(self, body: Object) -> None:
        name, spec = body["metadata"]["name"], body.get("spec") or {}
        revision = sum(share["revision"] for share in spec.get("shares", ()))
        self.share_writes += max(0, revision - self.share_revisions.setdefault(name, revision))
        self.share_revisions[name] = revision

    def power_budget(self, body: Object) -> None:
        """A PowerBudget was seen."""
        self.reshared_at |= {(body.get("status") or {}).get("resharedAt", "")} - {""}

    @property
    def resharings(self) -> int:
        """Return how often the watts were shared out anew, beside what was found at the start."""
        return max(0, len(self.reshared_at) - 1)

    def latencies_s(self) -> list[float]:
        """Return the times of the jobs for which there was a free node, as far as their envelopes were seen."""
        return sorted(self.seen_s[name] - self.created_s[name] for name in self._wanted() if name in self.seen_s)

    def unseen(self) -> list[str]:
        """Return the jobs for which there was a free node and whose envelopes were never seen."""
        return sorted(name for name in self._wanted() if name not in self.seen_s)

    def _wanted(self) -> set[str]:
        return self.created_s.keys() - self.without_free_node


class Load:
    """Makes jobs and waits for their ends."""

    def __init__(self, rest: KubeApi, namespace: str, nodes: int) -> None:
        self._rest, self._namespace = rest, namespace
        self.decisions = Decisions(nodes)
        self._stop = threading.Event()
        self.power_node_kib = 0.0

    def run(self, jobs: int, per_s: float) -> None:
        """Make the jobs at a steady pace and wait until all have succeeded."""
        with self.watching():
            self.make(jobs, per_s)
            self.power_node_kib = self._size_kib()
            self._wait(jobs)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Note decisions meanwhile."""
        watched = {POWER_NODES.path(): self.decisions.power_node, POWER_BUDGETS.path(): self.decisions.power_budget}
        listening = [threading.Event() for _ in watched]
        watchers = [
            threading.Thread(target=self._watch, args=(path, seen, event), daemon=True)
            for (path, seen), event in zip(watched.items(), listening, strict=True)
        ]
        for watcher, event in zip(watchers, listening, strict=True):
            watcher.start()
            event.wait()
        try:
            yield
        finally:
            self._stop.set()
            for watcher in watchers:
                while watcher.is_alive():  # a watch may be opened after the first interruption
                    self._rest.interrupt()
                    watcher.join(0.1)

    def make(self, jobs: int, per_s: float) -> None:
        """Make jobs at a steady pace."""
        began_s = time.monotonic()
        for number in range(jobs):
            time.sleep(max(0.0, began_s + number / per_s - time.monotonic()))
            body = training_job(self._namespace, number)
            self.decisions.created(body["metadata"]["name"], self._create(body))

    def _create(self, body: Object) -> float:
        """Create a job and return when the server had it: when it answered, or when it was first asked if it did not.

        A job whose creation was not answered may have been made, so its decision is counted from the first try on.
        """
        asked_s = time.monotonic()
        try:
            self._rest.create(TRAINING_JOBS.path(namespace=self._namespace), body)
            return time.monotonic()
        except TRANSIENT:
            with contextlib.suppress(ConflictError):  # it was made
                persist(lambda: self._rest.create(TRAINING_JOBS.path(namespace=self._namespace), body))
            return asked_s

    def _size_kib(self) -> float:
        """Return the mean size of the PowerNodes that have a session."""
        found = persist(lambda: self._rest.get(POWER_NODES.path(), {"limit": _PAGE}))["items"]
        sizes = [len(json.dumps(each)) / 1024 for each in found if (each.get("spec") or {}).get("session")]
        return sum(sizes) / max(1, len(sizes))

    def _wait(self, jobs: int) -> None:
        end_s = time.monotonic() + LONGEST_S
        while True:
            found = self._jobs()
            phases = [(each.get("status") or {}).get("phase") for each in found]
            held = [node for each in found for node in (each.get("status") or {}).get("nodes", ()) if node["holds"]]
            if phases.count("Succeeded") == jobs and not held:
                return
            if "Failed" in phases or time.monotonic() > end_s:
                counted = {str(phase): phases.count(phase) for phase in set(phases)}
                raise UnfinishedError(
                    f"{jobs} jobs should have succeeded; they are {counted}, {len(held)} nodes are held"
                )
            time.sleep(_POLL_S)

    def _jobs(self) -> list[Object]:
        """Return all jobs, in pages: one list of 500 would make others wait."""
        path, found, token = TRAINING_JOBS.path(namespace=self._namespace), [], ""
        while True:
            query = {"limit": _PAGE, **({"continue": token} if token else {})}
            page = persist(functools.partial(self._rest.get, path, query))
            found += page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return found

    def _watch(self, path: str, seen: Callable[[Object], None], listening: threading.Event) -> None:
        backoff = Backoff(0.1, 2.0)
        while not self._stop.is_set():
            try:
                self._follow(path, seen, listening, backoff)
            except (ApiError, urllib3.exceptions.HTTPError, OSError):
                self._stop.wait(backoff.next_s())  # then from a list again: a watch that is cut must not end the run

    def _follow(self, path: str, seen: Callable[[Object], None], listening: threading.Event, backoff: Backoff) -> None:
        listed = self._rest.get(path)
        for body in listed["items"]:
            seen(body)
        version = listed["metadata"]["resourceVersion"]
        listening.set()
        backoff.reset()
        while not self._stop.is_set():
            for event in follow(self._rest, path, version):
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    seen(event["object"])


def persist(ask: Callable[[], Object]) -> Object:
    """Ask the server until it answers; one that is busy for half a minute ends the measurement."""
    backoff, end_s = Backoff(0.2, 2.0), time.monotonic() + _BUSY_S
    while True:
        try:
            return ask()
        except TRANSIENT as error:
            if time.monotonic() > end_s:
                raise UnfinishedError(f"the API server was busy for {_BUSY_S:g} s: {error}") from error
            time.sleep(backoff.next_s())
