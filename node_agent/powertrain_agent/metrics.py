"""Metrics: everything Prometheus can ask of an agent, as one table of names and one class that fills them."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from math import ceil
from threading import Lock

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.core import HistogramMetricFamily

from powertrain import PowerMode, __version__
from powertrain.api.v1alpha1 import PROTOCOL
from powertrain.expected_gain import ExpectedGain
from powertrain_agent.governing.budget_guard import GuardAction
from powertrain_agent.governing.commands import Command, Forget, GuardLowered, LimitsBroken, Publish, WindowEnded
from powertrain_agent.governing.events import ModeApplied, Restored, Resumed, SensorFailed, SessionEvent
from powertrain_agent.governing.ports import Health
from powertrain_agent.governing.session import Session
from powertrain_agent.planning.front import Point, non_dominated
from powertrain_agent.steps import Dropped, StepsSeen
from powertrain_agent.telemetry import Reading
from powertrain_kube.metrics import Metric

TOTAL = "total"
# Readings this far apart are not joined: nobody knows what the board took in between.
LONGEST_GAP_S = 5.0
# So many failures in a row, two seconds, are what the loop takes for a lost sensor: what it said last is history then.
LOST_AFTER = 20
# From small networks on a big board to large ones on a small board.
STEP_BUCKETS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
# Jobs come and go on a board that runs for years; the series of the oldest go.
MAX_JOBS = 8

METRICS = (
    Metric("powertrain_build_info", "gauge", "Always 1; says which release serves.", ("version", "protocol")),
    Metric(
        "powertrain_power_watts", "gauge", "Power by rail, absent without a sensor; `total` is the module.", ("rail",)
    ),
    Metric("powertrain_supply_volts", "gauge", "Voltage of the input; absent where no rail shows it."),
    Metric("powertrain_supply_amperes", "gauge", "Current from the supply; absent where no rail shows a voltage."),
    Metric("powertrain_energy_joules", "counter", "Energy of the module since the agent started."),
    Metric("powertrain_power_reading_failures", "counter", "Power readings that could not be taken."),
    Metric(
        "powertrain_expected_speedup_ratio",
        "gauge",
        "Observing agents: how much faster the load could be at its power, by the shipped reference; absent when idle.",
    ),
    Metric(
        "powertrain_expected_power_saving_ratio",
        "gauge",
        "Observing agents: power it could save at its speed, by the shipped reference; absent when idle.",
    ),
    Metric("powertrain_session_info", "gauge", "1 for the job that the board serves; absent without one.", ("job",)),
    Metric("powertrain_power_limit_watts", "gauge", "Power limit in force; absent without one."),
    Metric("powertrain_cpu_cores", "gauge", "CPU cores by state: desired, applied.", ("state",)),
    Metric("powertrain_cpu_frequency_hertz", "gauge", "CPU clock by state: desired, applied.", ("state",)),
    Metric("powertrain_gpu_frequency_hertz", "gauge", "GPU clock by state: desired, applied.", ("state",)),
    Metric("powertrain_memory_frequency_hertz", "gauge", "Memory clock by state: desired, applied.", ("state",)),
    Metric("powertrain_temperature_celsius", "gauge", "Hottest thermal zone."),
    Metric("powertrain_throttle_events", "counter", "Times the board began to throttle, by cause.", ("cause",)),
    Metric("powertrain_step_duration_seconds", "histogram", "Time of a training step.", ("job",)),
    Metric("powertrain_samples", "counter", "Samples trained.", ("job",)),
    Metric("powertrain_step_predicted_seconds", "gauge", "Predicted time of a step at the applied mode."),
    Metric("powertrain_step_observed_seconds", "gauge", "Observed time of a step at the applied mode."),
    Metric("powertrain_power_predicted_watts", "gauge", "Predicted power at the applied mode."),
    Metric("powertrain_power_observed_watts", "gauge", "Observed power at the applied mode."),
    Metric(
        "powertrain_front_step_seconds", "gauge", "The front: time of a step within the watts of the label.", ("watts",)
    ),
    Metric("powertrain_profiling_modes", "gauge", "Modes of this session by state: measured, planned.", ("state",)),
    Metric("powertrain_profiling_seconds", "gauge", "Time this session has spent on profiling."),
    Metric("powertrain_windows", "counter", "Measuring windows by result.", ("verdict",)),
    Metric("powertrain_window_seconds", "counter", "Time spent in measuring windows, by result.", ("verdict",)),
    Metric("powertrain_guard_actions", "counter", "Changes of mode by the budget guard.", ("action",)),
    Metric("powertrain_violations", "counter", "Guard windows or single readings above a limit.", ("kind",)),
    Metric("powertrain_applies", "counter", "Modes set, by result: ok, failed.", ("result",)),
    Metric("powertrain_restores", "counter", "Restores of the original settings, by result: ok, failed.", ("result",)),
    Metric("powertrain_datagrams_dropped", "counter", "Step messages that the agent dropped, by reason.", ("reason",)),
    Metric("powertrain_clock_ahead_seconds", "gauge", "The board's clock minus the API server's; absent without one."),
    Metric(
        "powertrain_loop_failures",
        "counter",
        "Exceptions in a part of the agent's loop; the loop continues.",
        ("part",),
    ),
    Metric("powertrain_api_up", "gauge", "Whether the API server answers; absent without a cluster."),
)


VIOLATIONS = ("window", "reading")  # of a limit: a mean over the guard window, or a single reading


class AgentMetrics:
    """Takes what the loop and the link tell; what is not known is not exposed."""

    def __init__(self) -> None:
        # Twice the series for a time that nobody asks.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._gauges: dict[str, Gauge] = {}
        self._counters: dict[str, Counter] = {}
        for metric in METRICS:
            if metric.kind == "gauge":
                # A gauge without labels would show 0 before anybody knows better: it is made when it is first set.
                registry = self.registry if metric.labels else None
                self._gauges[metric.name] = Gauge(metric.name, metric.help, metric.labels, registry=registry)
            elif metric.kind == "counter":
                self._counters[metric.name] = Counter(metric.name, metric.help, metric.labels, registry=self.registry)
        self._registered: set[str] = set()
        self._lock = Lock()  # the threads of the link show the clock and the API server, at any moment
        self._front_watts: set[str] = set()
        self._steps = StepHistogram()
        self.registry.register(self._steps)
        self._last: Reading | None = None
        self._failures_in_a_row = 0
        self._health = Health()
        self._dropped = Dropped()
        self._rails: dict[str, Gauge] = {}
        self._gauges["powertrain_build_info"].labels(__version__, str(PROTOCOL)).set(1)
        # Prometheus' increase() does not see the first event of a counter that was not there before.
        self.guard(GuardAction.LOWER.value, count=0)
        for kind in VIOLATIONS:
            self.violation(kind, 0)

    def observe(self, event: SessionEvent | SensorFailed, session: Session | None, commands: Sequence[Command]) -> None:
        """Count what happens to the session that is served, and what it decides."""
        match event:
            case Reading():
                self.power(event)
            case SensorFailed():
                self.sensor_failed()
            case StepsSeen() if session is not None:
                spec = session.record.spec
                self.steps(str(spec.job), event, spec.workload.batch_size)
            case ModeApplied(mode, ok):
                self.mode(mode, ok)
            case Resumed() if session is not None:
                self.mode(session.record.mode, session.record.verified)
            case Restored() if event.was_changed:
                self.restored(not event.problems)
        for command in commands:
            if session is not None:
                self._count(session, command)
        if any(isinstance(command, Forget) for command in commands):
            self._clear()

    def expected_gain(self, gain: ExpectedGain | None) -> None:
        """Show what another mode would bring to the load that an agent observes."""
        self._set("powertrain_expected_speedup_ratio", None if gain is None else gain.speedup)
        self._set("powertrain_expected_power_saving_ratio", None if gain is None else gain.power_saving)

    def _clear(self) -> None:
        """Show nothing of a session that has ended: an alert would compare with it."""
        self.session(None)
        self.budget(None)
        self.mode(None, False)
        self.expectation(None, None, None)
        self.front(())

    def _count(self, session: Session, command: Command) -> None:
        record = session.record
        match command:
            case Publish(status):
                observed = status.observed
                self.session(str(record.spec.job))
                self.budget(session.budget.power_w)
                self.front(record.points)
                self.expectation(
                    record.chosen,
                    observed.step_seconds if observed else None,
                    observed.power_watts if observed else None,
                )
            case WindowEnded(verdict, seconds):
                self.window(verdict.value, seconds)
                self.profiling(record.measured, record.planned, record.profiling_s)
            case GuardLowered():
                self.guard(GuardAction.LOWER.value)
            case LimitsBroken(windows, readings):
                for kind, count in zip(VIOLATIONS, (windows, readings), strict=True):
                    self.violation(kind, count)

    def power(self, reading: Reading) -> None:
        """Take a reading: rails, total, energy."""
        self._failures_in_a_row = 0
        self._rail(TOTAL).set(reading.power_w)
        for rail, power_w in reading.rails_w.items():
            self._rail(rail).set(power_w)
        self._set("powertrain_supply_volts", reading.supply_v)
        self._set("powertrain_supply_amperes", reading.supply_a)
        before, self._last = self._last, reading
        if before is not None and 0 < reading.at_s - before.at_s <= LONGEST_GAP_S:
            energy_j = 0.5 * (before.power_w + reading.power_w) * (reading.at_s - before.at_s)
            self._counters["powertrain_energy_joules"].inc(max(0.0, energy_j))

    def _rail(self, name: str) -> Gauge:
        """Return a rail's gauge; looking it up by its label takes longer than setting it, ten times a second."""
        gauge = self._rails.get(name)
        if gauge is None:
            gauge = self._rails[name] = self._gauges["powertrain_power_watts"].labels(name)
        return gauge

    def sensor_failed(self) -> None:
        """A reading could not be taken; the power is not known any more after a stretch of them."""
        self._counters["powertrain_power_reading_failures"].inc()
        self._failures_in_a_row += 1
        if self._failures_in_a_row == LOST_AFTER:
            self._gauges["powertrain_power_watts"].clear()
            self._rails.clear()
            for name in ("powertrain_power_observed_watts", "powertrain_supply_volts", "powertrain_supply_amperes"):
                self._set(name, None)

    def session(self, job: str | None) -> None:
        """The board serves this job now, or none."""
        gauge = self._gauges["powertrain_session_info"]
        gauge.clear()
        if job is not None:
            gauge.labels(job).set(1)

    def steps(self, job: str, new_steps: StepsSeen, batch_size: int) -> None:
        """Steps of a job ended."""
        for forgotten_job in self._steps.take(job, new_steps):
            self._counters["powertrain_samples"].remove(forgotten_job)
        self._counters["powertrain_samples"].labels(job).inc(new_steps.count * batch_size)

    def mode(self, desired: PowerMode | None, applied: bool) -> None:
        """Another mode is asked for; `applied` says whether the board was seen to have it."""
        self._mode("desired", desired)
        self._mode("applied", desired if applied else None)
        if desired is not None:
            self._counters["powertrain_applies"].labels(_result(applied)).inc()

    def budget(self, limit_w: float | None) -> None:
        """Another power limit is in force."""
        self._set("powertrain_power_limit_watts", limit_w)

    def expectation(self, predicted: Point | None, step_s: float | None, power_w: float | None) -> None:
        """What is expected of the mode, and what is observed."""
        self._set("powertrain_step_predicted_seconds", predicted.step_s if predicted else None)
        self._set("powertrain_power_predicted_watts", predicted.power_w if predicted else None)
        self._set("powertrain_step_observed_seconds", step_s)
        self._set("powertrain_power_observed_watts", power_w if self._failures_in_a_row < LOST_AFTER else None)

    def front(self, points: Sequence[Point]) -> None:
        """The front as it is known now, a series for each whole watt that makes a step faster."""
        gauge = self._gauges["powertrain_front_step_seconds"]
        # From slow to fast, so that of points within the same watt the fastest stays.
        step_s_by_watts = {str(ceil(point.power_w)): point.step_s for point in reversed(non_dominated(points))}
        for watts in self._front_watts - step_s_by_watts.keys():
            gauge.remove(watts)
        for watts, step_s in step_s_by_watts.items():
            gauge.labels(watts).set(step_s)
        self._front_watts = set(step_s_by_watts)

    def profiling(self, measured: int, planned: int | None, seconds: float) -> None:
        """Profiling progressed."""
        gauge = self._gauges["powertrain_profiling_modes"]
        gauge.labels("measured").set(measured)
        _set_or_remove(gauge, "planned", planned)
        self._set("powertrain_profiling_seconds", seconds)

    def window(self, verdict: str, seconds: float) -> None:
        """A measuring window ended."""
        self._counters["powertrain_windows"].labels(verdict).inc()
        self._counters["powertrain_window_seconds"].labels(verdict).inc(max(0.0, seconds))

    def guard(self, action: str, count: int = 1) -> None:
        """The guard acted."""
        self._counters["powertrain_guard_actions"].labels(action).inc(count)

    def violation(self, kind: str, count: int) -> None:
        """So many guard windows or readings were above their limit since the last call."""
        self._counters["powertrain_violations"].labels(kind).inc(count)

    def health(self, health: Health) -> None:
        """Heat, throttling, over-current."""
        before, self._health = self._health, health
        self._set("powertrain_temperature_celsius", health.temperature_c)
        counter = self._counters["powertrain_throttle_events"]
        for alert in set(health.throttling) - set(before.throttling):
            counter.labels(alert).inc()
        for name, count in health.over_current.items():
            # The counters run since boot: only what is new since the first look counts.
            if (new := count - before.over_current.get(name, count)) > 0:
                counter.labels(name).inc(new)

    def restored(self, ok: bool) -> None:
        """What was found is back, or not all of it."""
        self._counters["powertrain_restores"].labels(_result(ok)).inc()

    def dropped(self, dropped: Dropped) -> None:
        """Datagrams that did not count, as running totals of the session; a new session begins at zero."""
        before, self._dropped = self._dropped, Dropped(dropped.lost, dropped.malformed, dropped.foreign)
        for reason in ("lost", "malformed", "foreign"):
            now, then = getattr(dropped, reason), getattr(before, reason)
            self._counters["powertrain_datagrams_dropped"].labels(reason).inc(now - then if now >= then else now)

    def clock_ahead(self, seconds: float) -> None:
        """Take by how much the board's clock is ahead of the API server's."""
        self._set("powertrain_clock_ahead_seconds", seconds)

    def loop_failed(self, part: str) -> None:
        """A part of the loop raised an exception."""
        self._counters["powertrain_loop_failures"].labels(part).inc()

    def api_up(self, answers: bool) -> None:
        """Say whether the API server answers."""
        self._set("powertrain_api_up", float(answers))

    def _mode(self, state: str, mode: PowerMode | None) -> None:
        values = (mode.cores, mode.cpu_khz * 1000, mode.gpu_hz, mode.emc_hz) if mode else (None,) * 4
        names = ("cpu_cores", "cpu_frequency_hertz", "gpu_frequency_hertz", "memory_frequency_hertz")
        for name, value in zip(names, values, strict=True):
            _set_or_remove(self._gauges[f"powertrain_{name}"], state, value)

    def _set(self, name: str, value: float | None) -> None:
        """Set a gauge without labels, or take it out of sight."""
        gauge = self._gauges[name]
        with self._lock:
            if value is not None:
                gauge.set(value)
            if value is not None and name not in self._registered:
                self.registry.register(gauge)
                self._registered.add(name)
            elif value is None and name in self._registered:
                self.registry.unregister(gauge)
                self._registered.discard(name)


def _result(ok: bool) -> str:
    return "ok" if ok else "failed"


def _set_or_remove(gauge: Gauge, label: str, value: float | None) -> None:
    # Only a label that is there can be removed.
    gauge.labels(label).set(0 if value is None else value)
    if value is None:
        gauge.remove(label)


class StepHistogram:
    """Step times by job; a message stands for many steps, which the library's own histogram takes one by one only."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, tuple[list[int], float]] = OrderedDict()

    def take(self, job: str, new_steps: StepsSeen) -> list[str]:
        """Count steps of a job, at their mean; return the jobs that went for it."""
        counts, total_s = self._jobs.pop(job, ([0] * (len(STEP_BUCKETS_S) + 1), 0.0))
        if new_steps.duration_s is not None:
            counts = list(counts)
            counts[bisect_left(STEP_BUCKETS_S, new_steps.duration_s / new_steps.count)] += new_steps.count
            total_s += new_steps.duration_s
        self._jobs[job] = (counts, total_s)
        return [self._jobs.popitem(last=False)[0] for _ in range(len(self._jobs) - MAX_JOBS)]

    def describe(self) -> list[HistogramMetricFamily]:
        """Return the name alone, for the registry."""
        metric = next(metric for metric in METRICS if metric.kind == "histogram")
        return [HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)]

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Return the histogram as it is now."""
        (family,) = self.describe()
        for job, (counts, total_s) in list(self._jobs.items()):
            bounds = [f"{bound:g}" for bound in STEP_BUCKETS_S] + ["+Inf"]
            running = [sum(counts[: place + 1]) for place in range(len(counts))]
            family.add_metric([job], list(zip(bounds, running, strict=True)), sum_value=total_s)
        yield family
