"""One measurement: the CRDs, the replayed nodes, a real operator process, and what it costs."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.sampling import cpu_s
from prometheus_client.parser import text_string_to_metric_families

from powertrain.api.resources import POWER_BUDGETS, POWER_NODES
from powertrain_devcluster.connection import connect
from powertrain_devcluster.fleet import install_kinds
from powertrain_devcluster.process import Child, spawn
from powertrain_kube import ConflictError

from .accounts import token_kubeconfig
from .load import SITE, Load, UnfinishedError, power_budget, write_profiles
from .recording import load as recordings
from .replay import READY

Object = dict[str, Any]
RELEASE, NAMESPACE = "powertrain-system", "bench"
ROOT = Path(__file__).resolve().parents[2]
START_S, IDLE_S = 120.0, 10.0


@dataclass(frozen=True)
class Size:
    """One point of the curve."""

    nodes: int
    jobs: int
    per_s: float
    job_s: float = 30.0
    speed: float = 4.0
    site_watts: float | None = None  # of one PowerBudget over all nodes


@dataclass(frozen=True)
class Figures:
    """What one run measured; CPU is of the operator's process unless it is said."""

    size: Size
    p50_s: float
    p99_s: float
    most_s: float
    jobs_with_free_node: int
    unseen_decisions: int
    most_busy_nodes: int
    cpu_s_per_job: float
    idle_cpu_share: float
    peak_mib: float
    writes_per_job: Mapping[str, float]
    reconciles_per_job: Mapping[str, float]
    seconds_per_reconcile: Mapping[str, float]
    errors: float
    power_node_kib: float
    replayed_writes: Mapping[str, int]
    other_cpu_s_per_job: Mapping[str, float]
    cores: int
    load_average: float
    seconds: float
    resharings: int = 0
    share_writes: int = 0

    @property
    def all_writes_per_job(self) -> float:
        """Return the operator's writes per job, all kinds together."""
        return sum(self.writes_per_job.values())

    def wire(self) -> Object:
        """Return them as JSON."""
        return asdict(self)

    @classmethod
    def read(cls, raw: Object) -> Figures:
        """Return the figures of an earlier run."""
        return cls(**{**raw, "size": Size(**raw["size"])})


@dataclass
class Counters:
    """The operator's counters at one moment."""

    cpu_s: float
    series: dict[tuple[str, str], float] = field(default_factory=dict)

    def since(self, before: Counters, name: str) -> dict[str, float]:
        """Return by how much the series of a name grew, by their labels."""
        grown = {labels: v - before.series.get((n, labels), 0.0) for (n, labels), v in self.series.items() if n == name}
        return {labels: value for labels, value in sorted(grown.items()) if value}


class Operator:
    """The operator's process."""

    def __init__(self, kubeconfig: Path, logs: Path, env: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "powertrain_operator.main", "--kubeconfig", str(kubeconfig)]
        command += ["--namespace", RELEASE, "--metrics-port", "0"]
        self.child: Child = spawn("operator", command, logs / "operator.log", env=env)

    def counters(self) -> Counters:
        """Return what it has cost so far."""
        found = Counters(cpu_s(self.child.popen.pid))
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port()}/metrics", timeout=10) as answer:
            for family in text_string_to_metric_families(answer.read().decode()):
                for sample in family.samples:
                    labels = " ".join(value for key, value in sample.labels.items() if key != "le")
                    found.series[sample.name, labels] = sample.value
        return found

    def peak_mib(self) -> float:
        """Return the most memory that was resident at once."""
        status = Path(f"/proc/{self.child.popen.pid}/status").read_text(encoding="utf-8")
        (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024

    def _port(self) -> int:
        lines = (line for line in self.child.log.read_text(encoding="utf-8").splitlines() if line.startswith("{"))
        return next(int(said["port"]) for said in map(json.loads, lines) if said["event"] == "serving")


class Measurement:
    """A context manager beside a control plane; inside it the nodes have joined and the operator serves."""

    def __init__(self, kubeconfig: Path, size: Size, logs: Path, env: Mapping[str, str] | None = None) -> None:
        self._kubeconfig, self._size, self._logs = kubeconfig, size, logs
        self._env = {**(os.environ if env is None else env), "PYTHONPATH": str(ROOT)}
        self.rest = connect(kubeconfig)
        self.operator: Operator
        self._replay: Child

    def __enter__(self) -> Measurement:
        with contextlib.ExitStack() as stack:
            stack.callback(self.rest.close)
            install_kinds(self.rest, START_S)
            for name in (RELEASE, NAMESPACE):
                with contextlib.suppress(ConflictError):
                    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                    self.rest.create("/api/v1/namespaces", body)
            self._kubeconfig = token_kubeconfig(self.rest, RELEASE, self._kubeconfig, self._logs / "token-kubeconfig")
            self._replay = self._start_replay()
            stack.callback(self._replay.kill)
            self._wait("the nodes", lambda: READY in self._replay.tail(), self._replay)
            self.operator = Operator(self._kubeconfig, self._logs, self._env)
            stack.callback(self.operator.child.kill)
            self._wait("the agents", self._joined, self.operator.child, self._replay)
            write_profiles(self.rest, NAMESPACE, recordings())
            if self._size.site_watts is not None:
                self.rest.create(POWER_BUDGETS.path(), power_budget(self._size.site_watts))
                self._wait("every board's first share", self._shared_out, self.operator.child, self._replay)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def measure(self, servers: Mapping[str, int], idle_s: float = IDLE_S) -> Figures:
        """Measure the idle operator, then the load; `servers` are processes of the control plane to show beside it."""
        others = {**servers, "agents and kubelets": self._replay.popen.pid, "load and its measurement": os.getpid()}
        before = self.operator.counters()
        time.sleep(idle_s)
        begin, began_s = self.operator.counters(), time.monotonic()
        other_s = {name: cpu_s(pid) for name, pid in others.items()}
        load = Load(self.rest, NAMESPACE, self._size.nodes)
        try:
            load.run(self._size.jobs, self._size.per_s)
        except UnfinishedError as error:
            raise UnfinishedError("; ".join([str(error), *self._ended(self._replay, self.operator.child)])) from error
        seconds = time.monotonic() - began_s
        end = self.operator.counters()
        grown = {name: cpu_s(pid) - other_s[name] for name, pid in others.items()}
        idle = (begin.cpu_s - before.cpu_s) / max(idle_s, 1e-9)
        return self._figures(begin, end, load, idle, grown, seconds)

    def _figures(
        self, begin: Counters, end: Counters, load: Load, idle: float, grown: Mapping[str, float], seconds: float
    ) -> Figures:
        jobs, seen = self._size.jobs, load.decisions
        latencies_s = seen.latencies_s()
        if not latencies_s:
            raise UnfinishedError(f"of {jobs} jobs not one decision was seen for which a node was free")
        reconciles = end.since(begin, "powertrain_reconcile_duration_seconds_count")
        durations_s = end.since(begin, "powertrain_reconcile_duration_seconds_sum")
        return Figures(
            self._size,
            percentile(latencies_s, 0.50),
            percentile(latencies_s, 0.99),
            latencies_s[-1],
            len(latencies_s),
            len(seen.unseen()),
            seen.most_busy,
            (end.cpu_s - begin.cpu_s) / jobs,
            idle,
            self.operator.peak_mib(),
            _per(end.since(begin, "powertrain_api_writes_total"), jobs),
            _per(reconciles, jobs),
            {kind: durations_s.get(kind, 0.0) / count for kind, count in reconciles.items()},
            sum(end.since(begin, "powertrain_reconcile_errors_total").values()),
            load.power_node_kib,
            self._stop_replay(),
            _per(grown, jobs),
            os.cpu_count() or 1,
            os.getloadavg()[0],
            seconds,
            seen.resharings,
            seen.share_writes,
        )

    def _start_replay(self) -> Child:
        size = self._size
        command = [sys.executable, "-m", "benchmarks.many_nodes.replay", "--kubeconfig", str(self._kubeconfig)]
        command += ["--nodes", str(size.nodes), "--namespace", RELEASE]
        command += ["--speed", str(size.speed), "--job-seconds", str(size.job_s)]
        return spawn("replay", command, self._logs / "replay.log", env=self._env, cwd=ROOT)

    def _stop_replay(self) -> dict[str, int]:
        """End the replay and return how much it wrote."""
        self._replay.popen.terminate()
        if self._replay.popen.wait(30):
            raise UnfinishedError(f"the replay failed: {self._replay.tail()[-500:]}")
        writes: dict[str, int] = json.loads(self._replay.tail().splitlines()[-1])
        return writes

    def _joined(self) -> bool:
        """Say whether every agent has reported and every node takes pods."""
        found = self.rest.get(POWER_NODES.path())["items"]
        reported = sum(bool((each.get("status") or {}).get("device")) for each in found)
        nodes = self.rest.get("/api/v1/nodes")["items"]
        return reported == self._size.nodes and not any(each["spec"].get("taints") for each in nodes)

    def _shared_out(self) -> bool:
        """Say whether every board keeps the share that was written for it."""
        status = self.rest.get(POWER_BUDGETS.path(SITE)).get("status") or {}
        counts = [each.get("confirmed", True) for each in status.get("boards", ())]
        return len(counts) == self._size.nodes and all(counts)

    def _ended(self, *children: Child) -> list[str]:
        """Return which of the processes have ended, with their last words."""
        return [f"{child.name} ended: {child.tail()[-500:]}" for child in children if not child.alive]

    def _wait(self, what: str, holds: Callable[[], bool], *children: Child) -> None:
        end_s = time.monotonic() + START_S
        while not holds():
            for words in self._ended(*children):
                raise UnfinishedError(words)
            if time.monotonic() > end_s:
                raise UnfinishedError(f"waited {START_S:g} s for {what} (logs: {self._logs})")
            time.sleep(0.2)


def percentile(ordered: list[float], share: float) -> float:
    """Return the value that this share of the values does not exceed."""
    return ordered[max(0, min(len(ordered) - 1, round(share * len(ordered)) - 1))]


def _per(counts: Mapping[str, float], jobs: int) -> dict[str, float]:
    return {name: count / jobs for name, count in counts.items()}


def processes(children: list[Child]) -> Iterator[tuple[str, int]]:
    """Return the names and ids of a control plane's processes."""
    return ((child.name, child.popen.pid) for child in children)
