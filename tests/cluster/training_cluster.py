"""TrainingCluster: a cluster with operator, agents and simulated boards, and what people see of it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from powertrain.api.resources import POWER_NODES, POWER_PROFILES, TRAINING_JOBS
from powertrain.limit_table import DEFAULT_WINDOW_S
from powertrain_agent.simulate.simulated_sysfs import SimulatedSysfs
from powertrain_devcluster.builds import binaries
from powertrain_devcluster.connection import connect
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.fleet import BOARD_PATH, Fleet, FleetSettings
from powertrain_devcluster.testing.waits import wait_for
from powertrain_kube import NotFoundError

Object = dict[str, Any]
NAMESPACE = "team"
OVER = ("Succeeded", "Failed")
# Ends a wait that would never end; a busy machine needs many times what an idle one does.
PATIENCE_S = 240.0
# Longest time between two looks at a board's power: of the board's own for most of it, of this machine's at any time.
GAP_S = 0.5
SAMPLE_S = 0.01  # of this machine's time
# Between two looks at what must never be seen on the way to something.
OFTEN_S = 0.05
ANNOTATIONS = ("powertrain.io/training-job", "powertrain.io/power-budget-watts", "powertrain.io/power-mode")


def manifest(
    name: str,
    board: str = "",
    workload: str = "resnet18",
    steps: int = 100_000,
    template: Object | None = None,
    **spec: Any,
) -> Object:
    """A TrainingJob whose pod trains for so many simulated steps; with a board it runs there and nowhere else."""
    env = [{"name": "POWERTRAIN_SIM_ROOT", "value": "/board"}]
    container = {
        "name": "train",
        "image": "example.org/train:1",
        "command": ["powertrain-simtrain", workload, "--steps", str(steps)],
        "env": env,
        "volumeMounts": [{"name": "board", "mountPath": "/board"}],
    }
    volume = {"name": "board", "hostPath": {"path": f"/{BOARD_PATH}"}}
    simulated = {"spec": {"containers": [container], "volumes": [volume], "terminationGracePeriodSeconds": 1}}
    full: Object = {
        "constraints": {"powerWatts": 30},
        "workload": {
            "name": workload,
            "samplesPerEpoch": 16 * 1000,
            "epochs": max(1, steps // 1000),
            "batchSizes": [16],
            "template": template or simulated,
        },
        "profiling": {"strategy": "transfer", "maxModes": 4},
    }
    if board:
        full["placement"] = {"nodeSelector": {"kubernetes.io/hostname": board}}
    metadata = {"name": name, "namespace": NAMESPACE}
    body = {"apiVersion": "powertrain.io/v1alpha1", "kind": "TrainingJob", "metadata": metadata, "spec": full}
    return merged(body, {"spec": spec})


def merged(body: Object, change: Object) -> Object:
    """A merge patch, by hand."""
    fresh = dict(body)
    for name, value in change.items():
        former = fresh.get(name)
        fresh[name] = merged(former, value) if isinstance(former, dict) and isinstance(value, dict) else value
    return fresh


@dataclass
class Sampler:
    """The true power of a board, taken from outside in board time; a stretch for every time that pods were on it."""

    sysfs: SimulatedSysfs
    stretches: list[list[tuple[float, float]]] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        pods = self.sysfs.root / "sys/fs/cgroup/kubepods"
        present = False
        while not self._stop.wait(SAMPLE_S):
            before, present = present, any(pods.rglob("pod*"))
            if not present:
                continue
            if not before:
                self.stretches.append([])
            instant = self.sysfs.instant()
            self.stretches[-1].append((instant.world.now_s, instant.power_w))

    def keeps(self, limit_w: float, window_s: float = DEFAULT_WINDOW_S) -> None:
        """Nobody saw a mean above the limit, and it was looked closely for long: twice a second of the board's or more.

        How often is a matter of this machine's other work too, so moments without a look are no failure.
        """
        lengths = [t1 - t0 for readings in self.stretches for (t0, _), (t1, _) in pairwise(readings)]
        closely_s = sum(length for length in lengths if length < GAP_S)
        assert closely_s > 10 * window_s, f"only {closely_s:.1f} of {sum(lengths):.1f} s were looked at closely"
        worst_w = max(_worst_mean_w(readings, window_s) for readings in self.stretches)
        assert worst_w <= limit_w, f"{worst_w:.2f} W over {window_s:g} s, limit {limit_w:g} W"

    def end(self) -> None:
        self._stop.set()


def _worst_mean_w(readings: list[tuple[float, float]], window_s: float) -> float:
    """The highest mean over any window of this length."""
    worst, energy_j, begin = 0.0, 0.0, 0
    pieces = [(t1, t1 - t0, (t1 - t0) * (w0 + w1) / 2) for (t0, w0), (t1, w1) in pairwise(readings)]
    span_s = 0.0
    for _, length_s, joules in pieces:
        energy_j, span_s = energy_j + joules, span_s + length_s
        while span_s - pieces[begin][1] >= window_s:
            energy_j, span_s = energy_j - pieces[begin][2], span_s - pieces[begin][1]
            begin += 1
        if span_s >= window_s:
            worst = max(worst, energy_j / span_s)
    return worst


class Job:
    """One TrainingJob as its user sees it."""

    def __init__(self, cluster: TrainingCluster, name: str, namespace: str = NAMESPACE) -> None:
        self._cluster, self.name, self._namespace = cluster, name, namespace
        self.path = TRAINING_JOBS.path(name, namespace)

    def get(self) -> Object:
        return self._cluster.rest.get(self.path)

    def status(self) -> Object:
        return dict(self.get().get("status") or {})

    def condition(self, type_: str) -> tuple[str, str]:
        matches = [c for c in self.status().get("conditions", []) if c["type"] == type_]
        return (matches[0]["status"], matches[0]["reason"]) if matches else ("", "")

    def wait(self, what: str, holds: Callable[[Object], object], deadline_s: float = PATIENCE_S) -> Object:
        return wait_for(f"{self.name}: {what}", self.status, holds, deadline_s)

    def reaches(self, phase: str, deadline_s: float = PATIENCE_S) -> Object:
        return self.wait(phase, lambda status: status.get("phase") == phase, deadline_s)

    def judged(self, type_: str, status: str, reason: str, deadline_s: float = PATIENCE_S) -> str:
        """Wait for a condition; returns its message."""

        def matches(status_object: Object) -> list[Object]:
            expected = (type_, status, reason)
            return [c for c in status_object.get("conditions", []) if (c["type"], c["status"], c["reason"]) == expected]

        return str(matches(self.wait(f"{type_} {status} {reason}", matches, deadline_s))[0]["message"])

    def edit(self, **spec: Any) -> None:
        self._cluster.rest.merge_patch(self.path, {"spec": spec})

    def delete(self) -> None:
        self._cluster.rest.delete(self.path)

    def wait_until_gone(self, deadline_s: float = PATIENCE_S) -> None:
        """Wait until it is deleted."""

        def there() -> bool:
            with contextlib.suppress(NotFoundError):
                self.get()
                return True
            return False

        wait_for(f"{self.name} to be gone", there, lambda is_there: not is_there, deadline_s)

    def released(self, deadline_s: float = PATIENCE_S) -> None:
        """Wait until the job is over and its boards are given back."""
        wait_for(
            f"{self.name} to be given back",
            self.get,
            lambda body: body["status"]["phase"] in OVER and not body["metadata"].get("finalizers"),
            deadline_s,
        )

    def events(self) -> list[Object]:
        all_events = self._cluster.rest.get(f"/apis/events.k8s.io/v1/namespaces/{self._namespace}/events")["items"]
        ours = [
            e for e in all_events if e["regarding"]["kind"] == "TrainingJob" and e["regarding"]["name"] == self.name
        ]
        return sorted(ours, key=lambda event: event["eventTime"])

    def reasons(self) -> list[str]:
        return [event["reason"] for event in self.events()]

    def event_note(self, reason: str) -> str:
        """Wait for an Event, which is written after the status, and return its words."""

        def matches() -> list[Object]:
            return [event for event in self.events() if event["reason"] == reason]

        return str(wait_for(f"{self.name}: an Event {reason}", matches)[0]["note"])

    def jobs(self) -> list[Object]:
        selector = f"powertrain.io/training-job={self.name}"
        return list(
            self._cluster.rest.get(f"/apis/batch/v1/namespaces/{self._namespace}/jobs", {"labelSelector": selector})[
                "items"
            ]
        )

    def pods(self) -> list[Object]:
        selector = f"powertrain.io/training-job={self.name}"
        return list(
            self._cluster.rest.get(f"/api/v1/namespaces/{self._namespace}/pods", {"labelSelector": selector})["items"]
        )


class TrainingCluster:
    """A running fleet; `job` applies, the rest looks."""

    def __init__(self, plane: ControlPlane, fleet: Fleet) -> None:
        self.plane, self.fleet = plane, fleet
        self.rest = connect(plane.kubeconfig)
        self._kubectl = [str(binaries.resolve(["kubectl"])["kubectl"]), "--kubeconfig", str(plane.kubeconfig)]
        self._kubectl += ["--cache-dir", str(plane.root / "kubectl-cache"), "--namespace", NAMESPACE]
        self.rest.create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )

    def kubectl(self, *arguments: str, text: str = "") -> str:
        command = [*self._kubectl, *arguments]
        result = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def job(self, name: str, board: str = "", workload: str = "resnet18", **spec: Any) -> Job:
        self.rest.create(TRAINING_JOBS.path(namespace=NAMESPACE), manifest(name, board, workload, **spec))
        return Job(self, name)

    def power_node(self, board: str) -> Object:
        return self.rest.get(POWER_NODES.path(board))

    def session(self, board: str) -> Object:
        return dict((self.power_node(board).get("status") or {}).get("session") or {})

    def envelope(self, board: str) -> Object:
        return dict((self.power_node(board).get("spec") or {}).get("session") or {})

    def profiles(self, workload: str) -> list[Object]:
        all_profiles = self.rest.get(POWER_PROFILES.path(namespace=NAMESPACE))["items"]
        return [profile for profile in all_profiles if profile["spec"]["workload"] == workload]

    def annotations(self, board: str) -> Object:
        all_annotations = self.rest.get(f"/api/v1/nodes/{board}")["metadata"].get("annotations") or {}
        return {name: value for name, value in all_annotations.items() if name in ANNOTATIONS}

    def sysfs(self, board: str) -> SimulatedSysfs:
        """The board itself, behind everybody's back."""
        return SimulatedSysfs(self.fleet.nodes.node_root(board), time_scale=self.fleet.settings.time_scale)

    def attributes(self, board: str) -> dict[str, str]:
        """Every control attribute of the board, byte for byte; a memory clock that nobody locks goes as it likes."""
        sysfs = self.sysfs(board)
        texts = {path: (sysfs.root / path.lstrip("/")).read_text() for path in sorted(sysfs.rules.attributes)}
        if texts[sysfs.rules.emc_lock].strip() == "0":
            del texts[sysfs.rules.emc_rate]
        return texts

    def mode(self, board: str) -> str:
        """The mode that the board's control attributes ask for."""
        sysfs = self.sysfs(board)
        return str(sysfs.rules.limit_mode(sysfs.state().requests, top=True))

    def steady_w(self, board: str) -> float:
        return float(self.sysfs(board).instant().steady_w)

    def is_free(self, board: str, before: dict[str, str], deadline_s: float = PATIENCE_S) -> None:
        """Wait until nothing of any job is left on a node, and the board is as it was found."""
        left = wait_for(
            f"{board} to be free",
            lambda: (self.envelope(board), self.annotations(board)),
            lambda rest: rest == ({}, {}),
            deadline_s,
        )
        assert left == ({}, {})
        assert self.attributes(board) == before

    @contextlib.contextmanager
    def sampling(self, board: str) -> Iterator[Sampler]:
        sampler = Sampler(self.sysfs(board))
        thread = threading.Thread(target=sampler.run, name=f"sampler-{board}", daemon=True)
        thread.start()
        try:
            yield sampler
        finally:
            sampler.end()
            thread.join()

    def operator_lines(self, event: str = "") -> list[Object]:
        lines = (self.fleet.logs / "operator.log").read_text(encoding="utf-8").splitlines()
        content = [json.loads(line) for line in lines if line.startswith("{")]
        return [line for line in content if event in ("", line["event"])]

    def close(self) -> None:
        self.rest.close()


@contextlib.contextmanager
def open_training_cluster(
    programs: dict[str, Path],
    root: Path,
    logs: Path,
    boards: dict[str, str],
    time_scale: float,
    operator_options: Sequence[str] = (),
) -> Iterator[TrainingCluster]:
    """A cluster and a fleet of their own, so that nothing has to be tidied up."""
    logs.mkdir(parents=True, exist_ok=True)
    settings = FleetSettings(boards, time_scale=time_scale, operator_options=operator_options)
    with (
        ControlPlane(programs, root / "plane", logs=logs) as plane,
        Fleet(plane.kubeconfig, settings, root / "nodes", logs=logs, env=plane.environment()) as fleet,
        contextlib.closing(TrainingCluster(plane, fleet)) as cluster,
    ):
        yield cluster


def at_once(*parts: Callable[[], None]) -> None:
    """Play scenarios on different boards at the same time; every failure is told."""
    with ThreadPoolExecutor(len(parts)) as pool:
        futures = [pool.submit(part) for part in parts]
    failures = [error for future in futures if isinstance(error := future.exception(), Exception)]
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup("scenarios failed", failures)


def gate_stays_closed(cluster: TrainingCluster, job: Job, board: str) -> None:
    """Until the agent has verified a safe mode no container but the gate has been started."""

    def trains() -> bool:
        states = [s for pod in job.pods() for s in (pod["status"].get("containerStatuses") or [])]
        return any("running" in s["state"] or "terminated" in s["state"] for s in states)

    lines = []

    def read() -> tuple[bool, bool]:
        # In this order: a training that is seen to run must have an open gate behind it.
        started = trains()
        is_open = bool(cluster.session(board).get("gateOpen"))
        lines.append((started, is_open))
        return started, is_open

    wait_for("the training to start", read, lambda state: state[0], PATIENCE_S, every_s=OFTEN_S)
    assert (True, False) not in lines
    assert (False, False) in lines
    session = cluster.session(board)
    assert session["verified"]
