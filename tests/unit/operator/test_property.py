"""Whatever users, nodes, agents and pods do, in whatever order: the operator comes to rest and keeps its promises."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from .conftest import MODES, Cluster

BOARDS = ("orin-1", "orin-2", "orin-3")
JOBS = ("a", "b", "c")
boards = st.sampled_from(BOARDS)
ANNOTATIONS = {"powertrain.io/training-job", "powertrain.io/power-budget-watts", "powertrain.io/power-mode"}


def has_jobs(life: OperatorStateMachine) -> bool:
    return bool(life.c.cache.keys("TrainingJob"))


def has_replicas(life: OperatorStateMachine) -> bool:
    return bool(life.replicas())


class OperatorStateMachine(RuleBasedStateMachine):
    """Every rule is one thing that happens; the cluster then settles, which fails where it never comes to rest."""

    def __init__(self) -> None:
        super().__init__()
        self.c = Cluster()
        self.c.watch_writes(self._check_write)
        self._releases: dict[str, str | None] = {}

    @initialize()
    def join(self) -> None:
        for board in BOARDS:
            self.c.board(board)

    def _check_write(self) -> None:
        """After every single write, as an operator that is killed there would leave it."""
        self._one_holder()
        self._one_tries_modes()
        for power_node in self.c.cache.each("PowerNode"):
            name, release = power_node["metadata"]["name"], (power_node.get("spec") or {}).get("release")
            if release != self._releases.get(name):
                self._releases[name] = release
                self._no_release_under_a_pod(release)

    # Users

    @rule(replicas=st.integers(1, 2), move=st.booleans(), synchronous=st.booleans())
    @precondition(lambda self: len(self.c.cache.keys("TrainingJob")) < len(JOBS))
    def submit(self, replicas: int, move: bool, synchronous: bool) -> None:
        name = next(name for name in JOBS if self.job(name) is None)
        self.apply(name, replicas, move, synchronous)

    def apply(self, name: str, replicas: int, move: bool = False, synchronous: bool = False) -> None:
        coupling = "Synchronous" if synchronous else "Independent"
        self.c.submit(name, placement={"replicas": replicas, "allowMove": move, "coupling": coupling})

    @rule(data=st.data(), move=st.booleans())
    @precondition(has_jobs)
    def allow_move(self, data: st.DataObject, move: bool) -> None:
        self.c.edit(self.any_job(data), placement={"allowMove": move})

    @rule(data=st.data())
    @precondition(has_jobs)
    def user_deletes(self, data: st.DataObject) -> None:
        self.delete(self.any_job(data))

    def delete(self, name: str) -> None:
        job = self.job(name)
        if job is not None and not job["metadata"].get("deletionTimestamp"):
            self.c.delete(name)

    @rule(data=st.data())
    @precondition(has_replicas)
    def all_goes_well(self, data: st.DataObject) -> None:
        """The boards of a job choose their modes, one after the other, with a pod each."""
        self.train(self.any_replica(data)[0])

    def train(self, name: str) -> None:
        for _, job, board in [each for each in self.replicas() if each[0] == name]:
            if self.envelope(board) and not self.is_released(board):
                self.c.opens(board)
                if self.c.cache.get("Job", job, "team") is not None and not self.over(job):
                    self.c.pod(job, number=self.tries(job))
                self.c.chooses(board)
        for _, _, board in self.replicas():
            self.amends(board)

    @rule(data=st.data(), late=st.booleans())
    @precondition(has_replicas)
    def runs_to_its_end_and_is_applied_again(self, data: st.DataObject, late: bool) -> None:
        """One of its name follows, before or after what it left is collected."""
        name = self.any_replica(data)[0]
        self.train(name)
        ran = [each for each in self.replicas() if each[0] == name]
        for _, job, _ in ran:
            if self.c.cache.get("Job", job, "team") is not None and not self.over(job):
                self.c.ends(job)
        for _, _, board in ran:
            if self.is_released(board):
                self.c.restores(board)
        self.c.collects_late = late
        self.delete(name)
        if self.job(name) is None:
            self.apply(name, len(ran))

    @rule(data=st.data(), suspend=st.booleans())
    @precondition(has_jobs)
    def suspend(self, data: st.DataObject, suspend: bool) -> None:
        self.c.edit(self.any_job(data), suspend=suspend)

    @rule(data=st.data(), watts=st.sampled_from([10, 20, 50]))
    @precondition(has_jobs)
    def budget(self, data: st.DataObject, watts: float) -> None:
        self.c.edit(self.any_job(data), constraints={"powerWatts": watts})

    @rule(watts=st.sampled_from([None, 15, 40]), disabled=st.booleans())
    def policy(self, watts: float | None, disabled: bool) -> None:
        spec = {"disabled": disabled, **({} if watts is None else {"maxWatts": watts})}
        body = {"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerPolicy", "metadata": {"name": "site"}}
        self.c.put({**body, "spec": spec})
        self.c.settle()

    # Nodes

    @rule(board=boards, cordoned=st.booleans())
    def cordon(self, board: str, cordoned: bool) -> None:
        if self.c.cache.get("Node", board) is not None:
            self.c.change("Node", board, spec={"unschedulable": cordoned})
            self.c.settle()

    @rule(board=boards, ready=st.booleans())
    def lose(self, board: str, ready: bool) -> None:
        if self.c.cache.get("Node", board) is not None:
            self.c.ready(board, ready)

    @rule(board=boards)
    def remove_node(self, board: str) -> None:
        """A Node is deleted; its PowerNode goes with it, and its pods are collected."""
        if self.c.cache.get("Node", board) is None:
            return
        for pod in self.pods_on(board):
            self.c.remove("Pod", pod["metadata"]["name"], "team")
        self.c.remove("Node", board)
        self.c.remove("PowerNode", board)
        self.c.settle()

    @rule(board=boards)
    def remove_power_node(self, board: str) -> None:
        if self.c.cache.get("Node", board) is not None and self.c.cache.get("PowerNode", board) is not None:
            self.c.remove("PowerNode", board)
            self.c.settle()
            if self.c.cache.get("PowerNode", board) is not None:  # a silent agent's is not made again
                self.c.join(board)

    @rule(board=boards)
    def join_again(self, board: str) -> None:
        if self.c.cache.get("Node", board) is None:
            self.c.board(board)

    # Agents

    @rule(data=st.data(), what=st.sampled_from(["opens", "chooses", "profiles", "refuses", "unreachable"]))
    @precondition(has_replicas)
    def report(self, data: st.DataObject, what: str) -> None:
        board = self.any_replica(data)[2]
        if self.envelope(board) and not self.is_released(board):
            if what == "opens":
                self.c.opens(board)
            elif what == "chooses":
                self.c.chooses(board)
            elif what == "profiles":
                self.c.report(board, phase="Profiling", gateOpen=True, verified=True, mode=MODES["slow"])
            elif what == "refuses":
                self.c.report(board, phase="Refused", message="VersionSkew", restored=True)
            else:
                self.c.chooses(board, conditions=[self.c.condition_of("BudgetReachable", "False", "BudgetUnreachable")])

    @rule(data=st.data())
    @precondition(has_replicas)
    def amend(self, data: st.DataObject) -> None:
        self.amends(self.any_replica(data)[2])

    def amends(self, board: str) -> None:
        if self.envelope(board) and not self.is_released(board):
            self.c.amends(board)

    @rule(data=st.data())
    @precondition(lambda self: any(self.is_released(board) for board in BOARDS))
    def restore(self, data: st.DataObject) -> None:
        self.c.restores(data.draw(st.sampled_from([board for board in BOARDS if self.is_released(board)])))

    @rule(board=boards)
    def fall_silent(self, board: str) -> None:
        if self.c.cache.get("Lease", board, "powertrain-system") is not None:
            self.c.silence(board)
            self.c.settle()

    # Pods

    @rule(data=st.data(), gate=st.booleans(), stuck=st.booleans())
    @precondition(lambda self: self.c.cache.keys("Job"))
    def pod_appears(self, data: st.DataObject, gate: bool, stuck: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.c.cache.keys("Job"))))
        if not self.over(key.name):
            number = self.tries(key.name)
            self.c.pod(key.name, "Running" if gate else "Pending", gate=gate, number=number)
            if stuck:
                name = self.c.pod_name(key.name, number)
                self.c.change("Pod", name, "team", metadata={"annotations": {"stuck": "yes"}})

    @rule(data=st.data(), evicted=st.booleans())
    @precondition(lambda self: self.c.cache.keys("Pod"))
    def pod_fails(self, data: st.DataObject, evicted: bool) -> None:
        """A pod fails and stays to be looked at; the next one of its Job is another."""
        key = data.draw(st.sampled_from(sorted(self.c.cache.keys("Pod"))))
        conditions = [{"type": "DisruptionTarget", "status": "True"}] if evicted else []
        self.c.change("Pod", key.name, "team", status={"phase": "Failed", "conditions": conditions})
        self.c.settle()

    @rule(data=st.data())
    @precondition(lambda self: self.c.cache.keys("Job"))
    def job_is_deleted(self, data: st.DataObject) -> None:
        """A user deletes the batch/v1 Job behind the operator's back."""
        key = data.draw(st.sampled_from(sorted(self.c.cache.keys("Job"))))
        self.c.remove("Job", key.name, key.namespace)
        if not self.c.collects_late:
            self.c.collect_garbage()
        self.c.settle()

    @rule(late=st.booleans())
    def garbage_is_collected(self, late: bool) -> None:
        """What has lost its owner goes; from then on at once, or only when this comes again."""
        self.c.collects_late = late
        self.c.collect_garbage()
        self.c.settle()

    @rule(data=st.data(), kind=st.sampled_from(["Complete", "Failed"]))
    @precondition(lambda self: self.c.cache.keys("Job"))
    def job_ends(self, data: st.DataObject, kind: str) -> None:
        key = data.draw(st.sampled_from(sorted(self.c.cache.keys("Job"))))
        if not self.over(key.name):
            self.c.ends(key.name, kind)

    @rule(data=st.data())
    @precondition(lambda self: self.c.cache.keys("Pod"))
    def pod_goes(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.c.cache.keys("Pod"))))
        self.c.remove("Pod", key.name, "team")
        self.c.settle()

    # Time

    @rule(seconds=st.sampled_from([5, 61, 130, 310]))
    def time_passes(self, seconds: float) -> None:
        self.c.wait(seconds)

    # What is promised

    @invariant()
    def promises_hold(self) -> None:
        self._one_holder()
        for power_node in self.c.cache.each("PowerNode"):
            self._no_release_under_a_pod((power_node.get("spec") or {}).get("release"))
        self._one_job_per_replica_and_attempt()
        self._finalizer_while_held()
        self._nothing_for_nothing()

    def _nothing_for_nothing(self) -> None:
        """A job that is over came to its end by Jobs of its own."""
        for raw in self.c.cache.each("TrainingJob"):
            if (raw.get("status") or {}).get("phase") == "Succeeded":
                ended = {f"{raw['metadata']['uid']} {node['name']}" for node in raw["status"]["nodes"]}
                job_names = [name for name in self.c.created_jobs if name.startswith(f"{raw['metadata']['uid']} ")]
                assert len(job_names) >= len(ended), f"{raw['metadata']['name']} succeeded without training"

    def _one_tries_modes(self) -> None:
        """Of the boards of a synchronous job one at most is not held."""
        for raw in self.c.cache.each("TrainingJob"):
            if raw["spec"]["placement"]["coupling"] != "Synchronous":
                continue
            free = [
                node["name"]
                for node in (raw.get("status") or {}).get("nodes") or []
                if node["holds"] and node.get("job") != "Complete"
                if (session := self.envelope(node["name"])).get("uid") == node["session"]
                and not session["plan"].get("hold")
            ]
            assert len(free) <= 1, f"{free} may try modes at once"

    def _one_holder(self) -> None:
        holders = Counter(
            node["name"]
            for raw in self.c.cache.each("TrainingJob")
            for node in (raw.get("status") or {}).get("nodes") or []
            if node.get("holds")
        )
        assert not [name for name, count in holders.items() if count > 1], f"held twice: {holders}"

    def _no_release_under_a_pod(self, release: str | None) -> None:
        """A pod that has not come as far as the gate holds nothing: the gate waits for the session to be opened."""
        alive = [pod for pod in self.pods_of(release) if pod["status"]["phase"] not in ("Succeeded", "Failed")]
        at_gate = [pod["metadata"]["name"] for pod in alive if pod["status"].get("initContainerStatuses")]
        assert not at_gate, f"{release} is released under {at_gate}"

    def _one_job_per_replica_and_attempt(self) -> None:
        creations = Counter(self.c.created_jobs)
        assert not [name for name, count in creations.items() if count > 1], f"made twice: {creations}"

    def _finalizer_while_held(self) -> None:
        for raw in self.c.cache.each("TrainingJob"):
            holds = any(node.get("holds") for node in (raw.get("status") or {}).get("nodes") or [])
            assert not holds or raw["metadata"].get("finalizers"), (
                f"{raw['metadata']['name']} holds without a finalizer"
            )

    def teardown(self) -> None:
        """All jobs are deleted, all pods end, all agents answer: nothing is left."""
        self.garbage_is_collected(late=False)
        for name in JOBS:
            self.delete(name)
        for _ in range(4):
            for key in self.c.cache.keys("Pod"):
                self.c.remove("Pod", key.name, "team")
            self.c.settle()
            for board in BOARDS:
                if self.is_released(board):
                    self.c.restores(board)
        assert self.c.cache.keys("TrainingJob") == []
        assert self.c.cache.keys("Job") == []
        for board in BOARDS:
            assert self.envelope(board) == {}, f"{board} still has a session"
            node = self.c.cache.get("Node", board)
            left = ANNOTATIONS & set((node or {"metadata": {}})["metadata"].get("annotations") or {})
            assert not left, f"{board} still has {left}"

    # Looks

    def any_job(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(key.name for key in self.c.cache.keys("TrainingJob"))))

    def replicas(self) -> list[tuple[str, str, str]]:
        """Of every replica that has a board: its TrainingJob, its Job and the board."""
        return sorted(
            (name, f"{name}-{node['replica']}-{raw['status']['attempt']}", node["name"])
            for raw in self.c.cache.each("TrainingJob")
            for name in [raw["metadata"]["name"]]
            for node in (raw.get("status") or {}).get("nodes") or []
            if node["holds"]
        )

    def any_replica(self, data: st.DataObject) -> tuple[str, str, str]:
        return data.draw(st.sampled_from(self.replicas()))

    def job(self, name: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.c.cache.get("TrainingJob", name, "team"))

    def envelope(self, board: str) -> dict[str, Any]:
        cached_object = self.c.cache.get("PowerNode", board)
        return dict(((cached_object or {}).get("spec") or {}).get("session") or {})

    def is_released(self, board: str) -> bool:
        cached_object = self.c.cache.get("PowerNode", board)
        spec = (cached_object or {}).get("spec") or {}
        return bool(spec.get("release")) and spec["release"] == (spec.get("session") or {}).get("uid")

    def over(self, job: str) -> bool:
        return bool((self.c.get("Job", job, "team").get("status") or {}).get("conditions"))

    def tries(self, job: str) -> int:
        """Which pod of a Job is the present one: those before it have failed."""
        uid = self.c.get("Job", job, "team")["metadata"]["uid"]
        return 1 + sum(pod["status"]["phase"] == "Failed" for pod in self.c.cache.owned("Pod", uid))

    def pods_of(self, session: str | None) -> list[dict[str, Any]]:
        if not session:
            return []
        uid, replica, attempt = session.rsplit("-", 2)
        all_labels = {"training-job-uid": uid, "replica": replica, "attempt": attempt}
        labels = {f"powertrain.io/{name}": value for name, value in all_labels.items()}
        pods = self.c.cache.each("Pod")
        return [pod for pod in pods if labels.items() <= pod["metadata"]["labels"].items()]

    def pods_on(self, board: str) -> list[dict[str, Any]]:
        nodes = [
            node["session"]
            for raw in self.c.cache.each("TrainingJob")
            for node in (raw.get("status") or {}).get("nodes") or []
            if node["name"] == board
        ]
        return [pod for session in nodes for pod in self.pods_of(session)]


TestLife = OperatorStateMachine.TestCase
TestLife.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
