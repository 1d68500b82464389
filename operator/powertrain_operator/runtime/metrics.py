"""Metrics: everything Prometheus can ask of the operator, as one table of names and one class that fills them."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from powertrain import __version__
from powertrain.api.v1alpha1 import PROTOCOL
from powertrain_kube import Object
from powertrain_kube.metrics import Metric
from powertrain_operator.cache import Change
from powertrain_operator.observation import Key

Family = GaugeMetricFamily | CounterMetricFamily
# A good prediction is within a few percent; beyond a factor of 1.5 it is simply wrong.
RATIO_BUCKETS = (0.5, 0.67, 0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0)
# A reconcile without writes takes a millisecond, with writes some tens; the slowest waits for the API server.
RECONCILE_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_OF_BUDGET = ("budget",)
# What a PowerBudget's status says, by the field that it is read from.
BUDGETS: Mapping[str, Metric] = {
    "capWatts": Metric("powertrain_budget_cap_watts", "gauge", "The cap of a PowerBudget in force.", _OF_BUDGET),
    "allocatedWatts": Metric(
        "powertrain_budget_allocated_watts", "gauge", "Reserved for its boards and other devices.", _OF_BUDGET
    ),
    "drawnWatts": Metric("powertrain_budget_drawn_watts", "gauge", "What its boards' sensors say.", _OF_BUDGET),
    "idleWatts": Metric("powertrain_budget_idle_watts", "gauge", "Reserved for boards without a job.", _OF_BUDGET),
    "jobs": Metric("powertrain_budget_jobs", "gauge", "TrainingJobs on its boards.", _OF_BUDGET),
    "waiting": Metric("powertrain_budget_waiting_jobs", "gauge", "TrainingJobs that wait for its power.", _OF_BUDGET),
    "unconfirmed": Metric(
        "powertrain_budget_unconfirmed_shares", "gauge", "Boards that do not keep their share yet.", _OF_BUDGET
    ),
    "exceeded": Metric(
        "powertrain_budget_exceeded", "counter", "How often its boards together drew more than the cap.", _OF_BUDGET
    ),
}
SHARES = Metric("powertrain_budget_share_watts", "gauge", "The share that was written for a board.", ("budget", "node"))
BUDGET_METRICS = (*BUDGETS.values(), SHARES)

METRICS = (
    Metric("powertrain_build_info", "gauge", "Always 1; says which release serves.", ("version", "protocol")),
    Metric("powertrain_jobs", "gauge", "TrainingJobs by phase.", ("phase",)),
    Metric("powertrain_reconcile_duration_seconds", "histogram", "Time of a reconcile with its writes.", ("kind",)),
    Metric(
        "powertrain_observed_to_predicted_ratio",
        "histogram",
        "Observed value of a finished job's mode, divided by the predicted one.",
        ("quantity",),
    ),
    Metric("powertrain_reconcile_errors", "counter", "Reconciles that failed and are retried.", ("kind", "error")),
    Metric("powertrain_queue_keys", "gauge", "Objects that wait for a reconcile, those that are due later included."),
    Metric("powertrain_queue_oldest_seconds", "gauge", "Time that the oldest due reconcile has waited."),
    Metric("powertrain_decisions", "counter", "Decisions by the reason of their Event.", ("kind", "reason")),
    Metric("powertrain_api_writes", "counter", "Writes to the API server.", ("kind", "verb")),
    Metric("powertrain_api_writes_skipped", "counter", "Writes that would have changed nothing.", ("kind",)),
    Metric("powertrain_watch_repairs", "counter", "Changes that a full list found before the watch did.", ("kind",)),
    Metric("powertrain_watch_restarts", "counter", "Restarts of the watches."),
    Metric("powertrain_events_dropped", "counter", "Events that were not written: too many, or refused."),
    Metric(
        "powertrain_agent_silent_seconds",
        "gauge",
        "Time since an agent's Lease expired; absent for agents that renew it.",
        ("node",),
    ),
    Metric(
        "powertrain_object_failing",
        "gauge",
        "1 for an object that the operator repeatedly fails to reconcile; absent for the others.",
        ("kind", "namespace", "name"),
    ),
    Metric("powertrain_lease_held", "gauge", "1 if this process holds the leader Lease."),
    *BUDGET_METRICS,
)
SILENT = "powertrain_agent_silent_seconds"
FAILING = "powertrain_object_failing"
# Each is a series; whoever has so many needs no more names.
MOST_FAILING = 100
JOB_KIND = "TrainingJob"
NO_PHASE = "Pending"
SUCCEEDED = "Succeeded"


class OperatorMetrics:
    """Takes what worker, gateway and recorder tell; gauges that must be true at any moment are asked for."""

    def __init__(
        self,
        lease_held: Callable[[], bool],
        queue_oldest_s: Callable[[], float],
        silent_agents_s: Callable[[], dict[str, float]],
        failing: Callable[[], list[Key]] = list,
        budgets: Callable[[], list[Object]] = list,
    ) -> None:
        # Twice the series for a time that nobody asks.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._gauges: dict[str, Gauge] = {}
        self._counters: dict[str, Counter] = {}
        for field, metric in BUDGETS.items():
            self.registry.register(ScrapedGauge(metric, partial(_of_budgets, budgets, field)))
        self.registry.register(ScrapedGauge(SHARES, partial(_shares, budgets)))
        for metric in METRICS:
            if metric in BUDGET_METRICS:
                continue
            if metric.name == SILENT:
                self.registry.register(ScrapedGauge(metric, lambda: {(n,): s for n, s in silent_agents_s().items()}))
            elif metric.name == FAILING:
                self.registry.register(ScrapedGauge(metric, lambda: dict.fromkeys(failing()[:MOST_FAILING], 1.0)))
            elif metric.kind == "gauge":
                self._gauges[metric.name] = Gauge(metric.name, metric.help, metric.labels, registry=self.registry)
            elif metric.kind == "counter":
                self._counters[metric.name] = Counter(metric.name, metric.help, metric.labels, registry=self.registry)
        durations, compared = (metric for metric in METRICS if metric.kind == "histogram")
        self._durations = Histogram(
            durations.name, durations.help, durations.labels, buckets=RECONCILE_BUCKETS_S, registry=self.registry
        )
        self._ratios = Histogram(
            compared.name, compared.help, compared.labels, buckets=RATIO_BUCKETS, registry=self.registry
        )
        self._phases: Tally[str] = Tally()
        self._gauges["powertrain_build_info"].labels(__version__, str(PROTOCOL)).set(1)
        self._gauges["powertrain_lease_held"].set_function(lambda: float(lease_held()))
        self._gauges["powertrain_queue_oldest_seconds"].set_function(queue_oldest_s)

    def changed(self, change: Change) -> None:
        """Count TrainingJobs by phase, and compare what was predicted of those that have just ended."""
        if change.key.kind != JOB_KIND:
            return
        if change.before is not None and change.after is not None and _phase(change.before) != _phase(change.after):
            self._compare(change.after)
        for body, step in ((change.before, -1), (change.after, 1)):
            if body is not None:
                phase = _phase(body)
                self._phases[phase] += step
                self._gauges["powertrain_jobs"].labels(phase).set(self._phases[phase])

    def _compare(self, job: Object) -> None:
        if _phase(job) != SUCCEEDED:
            return
        for node in job["status"].get("nodes") or []:
            predicted, observed = node.get("predicted") or {}, node.get("observed") or {}
            for quantity, name in (("step_time", "stepSeconds"), ("power", "powerWatts")):
                if predicted.get(name) and observed.get(name):
                    self._ratios.labels(quantity).observe(observed[name] / predicted[name])

    def reconciled(self, kind: str, duration_s: float, error: str = "") -> None:
        """A reconcile ended, well or with an error."""
        self._durations.labels(kind).observe(duration_s)
        if error:
            self.failed(kind, error)

    def failed(self, kind: str, error: str) -> None:
        """Something that a reconcile wanted could not be done."""
        self._counters["powertrain_reconcile_errors"].labels(kind, error).inc()

    def queue(self, keys: int) -> None:
        """The queue holds so many keys."""
        self._gauges["powertrain_queue_keys"].set(keys)

    def count_write(self, kind: str, verb: str) -> None:
        """The API server was written to."""
        self._counters["powertrain_api_writes"].labels(kind, verb).inc()

    def skipped(self, kind: str) -> None:
        """A write was not needed."""
        self._counters["powertrain_api_writes_skipped"].labels(kind).inc()

    def without_figures(self, kind: str, reason: str) -> None:
        """Something was announced."""
        self._counters["powertrain_decisions"].labels(kind, reason).inc()

    def repaired(self, kind: str) -> None:
        """A list knew more than the watch."""
        self._counters["powertrain_watch_repairs"].labels(kind).inc()

    def watches_restarted(self) -> None:
        """The watches had ended by themselves."""
        self._counters["powertrain_watch_restarts"].inc()

    def event_dropped(self) -> None:
        """An Event was not written."""
        self._counters["powertrain_events_dropped"].inc()


class ScrapedGauge:
    """A series for each agent, object or budget that there is at the moment of the question; by label values."""

    def __init__(self, metric: Metric, ask: Callable[[], Mapping[tuple[str, ...], float]]) -> None:
        self._metric, self._ask = metric, ask

    def describe(self) -> list[Family]:
        """Return the name alone, for the registry."""
        return [self._family()]

    def collect(self) -> list[Family]:
        """Return what Prometheus reads."""
        family = self._family()
        for labels, value in sorted(self._ask().items()):
            family.add_metric(labels, value)
        return [family]

    def _family(self) -> Family:
        kind = CounterMetricFamily if self._metric.kind == "counter" else GaugeMetricFamily
        return kind(self._metric.name, self._metric.help, labels=self._metric.labels)


def _of_budgets(budgets: Callable[[], list[Object]], field: str) -> dict[tuple[str, ...], float]:
    """Return a figure of every PowerBudget that has it."""
    statuses = ((budget["metadata"]["name"], budget.get("status") or {}) for budget in budgets())
    return {(name,): float(status[field]) for name, status in statuses if status.get(field) is not None}


def _shares(budgets: Callable[[], list[Object]]) -> dict[tuple[str, ...], float]:
    """Return the shares of all boards of all PowerBudgets."""
    return {
        (budget["metadata"]["name"], board["name"]): float(board["shareWatts"])
        for budget in budgets()
        for board in (budget.get("status") or {}).get("boards") or ()
        if board.get("shareWatts") is not None
    }


def _phase(job: Object) -> str:
    return str((job.get("status") or {}).get("phase") or NO_PHASE)
