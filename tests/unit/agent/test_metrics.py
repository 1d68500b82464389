"""Metrics as Prometheus reads them, and a health endpoint that turns red when a part is silent."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from powertrain import PowerMode
from powertrain.expected_gain import ExpectedGain
from powertrain_agent.governing.ports import Health
from powertrain_agent.health import STALE_AFTER_S, BeatingSource
from powertrain_agent.metrics import LOST_AFTER, MAX_JOBS, METRICS, STEP_BUCKETS_S, AgentMetrics
from powertrain_agent.planning.front import Point
from powertrain_agent.simulate import ManualClock
from powertrain_agent.steps import Dropped, StepsSeen
from powertrain_agent.telemetry import Reading, SourceError
from powertrain_kube.health import HealthServer, Pulse

ROOT = Path(__file__).resolve().parents[3]
MODE = PowerMode(12, 2201600, 1300500000, 3199000000)


@pytest.fixture
def metrics() -> AgentMetrics:
    return AgentMetrics()


def value(metrics: AgentMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def exercise(metrics: AgentMetrics) -> None:
    """Tell one of everything."""
    metrics.power(Reading(1.0, 20.0, {"VDD_GPU_SOC": 8.0}))
    metrics.power(Reading(1.5, 30.0, supply_v=12.0))
    metrics.sensor_failed()
    metrics.session("team/lstm")
    metrics.steps("team/lstm", StepsSeen(10, 1.0, 2.0), 16)
    metrics.mode(MODE, applied=True)
    metrics.budget(30.0)
    metrics.expectation(Point(MODE, 0.2, 29.0), 0.21, 28.5)
    metrics.front([Point(MODE, 0.2, 29.0)])
    metrics.profiling(3, 20, 60.0)
    metrics.window("Measured", 5.5)
    metrics.guard("lower")
    metrics.violation("window", 2)
    metrics.health(Health(51.0, ("cpu-throttle-alert",), {"oc1": 7}))
    metrics.restored(ok=True)
    metrics.dropped(Dropped(1, 2, 3))
    metrics.loop_failed("fan")
    metrics.expected_gain(ExpectedGain(0.1, MODE, 0.2, MODE))


def test_every_metric_of_the_table_is_exposed_under_its_name_and_nothing_else(metrics: AgentMetrics) -> None:
    exercise(metrics)
    metrics.clock_ahead(2.0)
    metrics.api_up(True)
    exposed = {family.name: family for family in metrics.registry.collect()}
    assert set(exposed) == {metric.name for metric in METRICS}
    assert all(exposed[metric.name].type == metric.kind for metric in METRICS)
    samples = {sample.name for family in exposed.values() for sample in family.samples}
    endings = ("_bucket", "_count", "_sum")
    assert {name for name in samples if not name.endswith(endings)} == {
        m.exposed_name for m in METRICS if m.kind != "histogram"
    }


def test_names_carry_units_and_labels_are_few() -> None:
    units = (
        "_watts",
        "_joules",
        "_seconds",
        "_hertz",
        "_celsius",
        "_info",
        "_up",
        "_cores",
        "_modes",
        "_volts",
        "_amperes",
        "_ratio",
    )
    plain = [metric.name for metric in METRICS if metric.kind != "counter" and not metric.name.endswith(units)]
    assert plain == []
    assert {label for metric in METRICS for label in metric.labels} <= {
        "rail", "state", "cause", "job", "verdict", "action", "kind", "result", "reason", "version", "protocol",
        "watts", "part",
    }  # fmt: skip


def test_every_metric_is_in_the_docs() -> None:
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    assert [
        metric.exposed_name for metric in METRICS if f"| `{metric.exposed_name}` | {metric.kind} |" not in page
    ] == []


def test_energy_is_the_area_below_the_readings_without_gaps(metrics: AgentMetrics) -> None:
    metrics.power(Reading(1.0, 20.0))
    metrics.power(Reading(2.0, 30.0))
    metrics.power(Reading(60.0, 30.0))
    assert value(metrics, "powertrain_energy_joules_total") == 25.0
    assert value(metrics, "powertrain_power_watts", rail="total") == 30.0


def test_a_lost_sensor_counts_every_failure_and_takes_its_last_word_back(metrics: AgentMetrics) -> None:
    metrics.power(Reading(1.0, 20.0, {"VDD_GPU_SOC": 8.0}))
    metrics.expectation(Point(MODE, 0.2, 29.0), 0.21, 20.0)
    for _ in range(LOST_AFTER - 1):
        metrics.sensor_failed()
    assert value(metrics, "powertrain_power_watts", rail="total") == 20.0
    metrics.sensor_failed()
    metrics.sensor_failed()
    assert value(metrics, "powertrain_power_reading_failures_total") == LOST_AFTER + 1
    assert [value(metrics, "powertrain_power_watts", rail=rail) for rail in ("total", "VDD_GPU_SOC")] == [None, None]
    metrics.expectation(Point(MODE, 0.2, 29.0), 0.21, 20.0)
    assert value(metrics, "powertrain_power_observed_watts") is None
    assert value(metrics, "powertrain_step_observed_seconds") == 0.21
    metrics.power(Reading(9.0, 21.0))
    metrics.expectation(Point(MODE, 0.2, 29.0), 0.21, 21.0)
    assert value(metrics, "powertrain_power_watts", rail="total") == 21.0
    assert value(metrics, "powertrain_power_observed_watts") == 21.0


def test_steps_count_at_their_mean_in_their_bucket(metrics: AgentMetrics) -> None:
    metrics.steps("team/lstm", StepsSeen(1, 0.0, None), 16)
    metrics.steps("team/lstm", StepsSeen(10, 2.0, 1.5), 16)
    name = "powertrain_step_duration_seconds"
    assert value(metrics, f"{name}_bucket", job="team/lstm", le="0.1") == 0
    assert value(metrics, f"{name}_bucket", job="team/lstm", le="0.2") == 10
    assert value(metrics, f"{name}_count", job="team/lstm") == 10
    assert value(metrics, f"{name}_sum", job="team/lstm") == 1.5
    assert value(metrics, "powertrain_samples_total", job="team/lstm") == 11 * 16


def test_a_step_longer_than_every_bucket_still_counts(metrics: AgentMetrics) -> None:
    metrics.steps("j", StepsSeen(1, 0.0, 2 * STEP_BUCKETS_S[-1]), 1)
    assert value(metrics, "powertrain_step_duration_seconds_bucket", job="j", le="60") == 0
    assert value(metrics, "powertrain_step_duration_seconds_bucket", job="j", le="+Inf") == 1


def test_a_message_of_a_million_steps_costs_no_more_than_one(metrics: AgentMetrics) -> None:
    metrics.steps("j", StepsSeen(1_000_000, 0.0, 1_000.0), 1)
    assert value(metrics, "powertrain_step_duration_seconds_count", job="j") == 1_000_000


def test_only_the_job_that_is_served_is_named(metrics: AgentMetrics) -> None:
    for job in ("a/first", "a/second"):
        metrics.session(job)
        metrics.steps(job, StepsSeen(1, 0.0, 0.1), 1)
    served = [value(metrics, "powertrain_session_info", job=job) for job in ("a/first", "a/second")]
    assert served == [None, 1]
    metrics.session(None)
    assert value(metrics, "powertrain_session_info", job="a/second") is None
    assert value(metrics, "powertrain_samples_total", job="a/second") == 1


def test_series_of_old_jobs_go(metrics: AgentMetrics) -> None:
    for number in range(MAX_JOBS + 3):
        metrics.steps(f"job-{number}", StepsSeen(1, 0.0, 0.1), 1)
    for name in ("powertrain_step_duration_seconds_count", "powertrain_samples_total"):
        assert value(metrics, name, job="job-2") is None
        assert value(metrics, name, job="job-3") == 1


def test_a_mode_that_is_not_applied_shows_what_was_wanted_only(metrics: AgentMetrics) -> None:
    metrics.mode(MODE, applied=True)
    metrics.mode(MODE, applied=False)
    assert value(metrics, "powertrain_gpu_frequency_hertz", state="desired") == 1300500000
    assert value(metrics, "powertrain_cpu_frequency_hertz", state="desired") == 2201600000
    assert value(metrics, "powertrain_gpu_frequency_hertz", state="applied") is None
    assert value(metrics, "powertrain_applies_total", result="failed") == 1
    metrics.mode(None, applied=False)
    assert value(metrics, "powertrain_cpu_cores", state="desired") is None
    assert value(metrics, "powertrain_applies_total", result="failed") == 1


def test_what_is_not_known_is_absent(metrics: AgentMetrics) -> None:
    assert value(metrics, "powertrain_power_limit_watts") is None
    metrics.budget(30.0)
    assert value(metrics, "powertrain_power_limit_watts") == 30.0
    metrics.budget(None)
    assert value(metrics, "powertrain_power_limit_watts") is None


def test_the_front_has_a_series_for_each_watt_that_makes_steps_faster_and_goes_with_its_session(
    metrics: AgentMetrics,
) -> None:
    name = "powertrain_front_step_seconds"
    metrics.front([Point(MODE, 0.2, 29.4), Point(MODE, 0.19, 29.9), Point(MODE, 0.3, 20.0), Point(MODE, 0.4, 25.0)])
    assert [value(metrics, name, watts=watts) for watts in ("20", "25", "30")] == [0.3, None, 0.19]
    metrics.front([Point(MODE, 0.25, 20.0)])
    assert [value(metrics, name, watts=watts) for watts in ("20", "30")] == [0.25, None]
    metrics.front(())
    assert value(metrics, name, watts="20") is None


def test_throttling_counts_when_it_begins_and_over_current_by_its_growth(metrics: AgentMetrics) -> None:
    for alerts, count in ((("cpu",), 7), (("cpu",), 7), ((), 9), (("cpu",), 9)):
        metrics.health(Health(50.0, alerts, {"oc1": count}))
    assert value(metrics, "powertrain_throttle_events_total", cause="cpu") == 2
    assert value(metrics, "powertrain_throttle_events_total", cause="oc1") == 2


def test_dropped_datagrams_add_up_over_sessions(metrics: AgentMetrics) -> None:
    for lost in (3, 5, 1):
        metrics.dropped(Dropped(lost=lost))
    assert value(metrics, "powertrain_datagrams_dropped_total", reason="lost") == 6


# Health.


def test_a_part_that_is_silent_for_too_long_is_named() -> None:
    clock = ManualClock(0.0)
    pulse = Pulse(clock, {"loop": 30.0, "sampler": 10.0})
    assert pulse.problem() == ""
    pulse.beat("loop")
    pulse.beat("sampler")
    clock.advance(20.0)
    assert pulse.problem() == "sampler silent for 20 s"
    pulse.beat("sampler")
    assert pulse.problem() == ""


def test_only_known_parts_beat() -> None:
    with pytest.raises(ValueError, match="no part 'lop' is watched; watched are loop, sampler"):
        Pulse(ManualClock(0.0), STALE_AFTER_S).beat("lop")


class BrokenSource:
    name = "broken"

    def read(self) -> Reading:
        raise SourceError("EIO")

    def close(self) -> None:
        """Nothing is open."""


def test_a_lost_sensor_is_no_hanging_sampler() -> None:
    beats: list[int] = []
    readings: list[Reading | None] = []
    source = BeatingSource(BrokenSource(), lambda: beats.append(1), readings.append)
    with pytest.raises(SourceError):
        source.read()
    assert (source.name, beats, readings) == ("broken", [1], [None])


@pytest.fixture
def served(metrics: AgentMetrics) -> Iterator[tuple[str, list[str]]]:
    """The server's address, and a list whose last entry is what is wrong."""
    wrong = [""]
    server = HealthServer(metrics.registry, lambda: wrong[-1], port=0, address="127.0.0.1")
    server.start()
    yield f"http://127.0.0.1:{server.port}", wrong
    server.stop()


def fetch(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_prometheus_can_read_what_is_served(metrics: AgentMetrics, served: tuple[str, list[str]]) -> None:
    exercise(metrics)
    status, text = fetch(f"{served[0]}/metrics")
    assert status == 200
    families = {family.name for family in text_string_to_metric_families(text)}
    assert {"powertrain_build_info", "powertrain_step_duration_seconds"} <= families


def test_healthz_is_green_until_something_is_wrong_and_says_what(served: tuple[str, list[str]]) -> None:
    url, wrong = served
    assert fetch(f"{url}/healthz") == (200, "ok\n")
    wrong.append("loop silent for 31 s")
    assert fetch(f"{url}/healthz") == (503, "loop silent for 31 s\n")
    assert fetch(f"{url}/else")[0] == 404


def test_two_threads_may_show_the_same_gauge_for_the_first_time(metrics: AgentMetrics) -> None:
    """Each thread of the link tells what the API server's clock says with every answer that it gets."""
    meeting, register = Barrier(2, timeout=0.2), metrics.registry.register

    def late_register(gauge: Collector) -> None:
        with suppress(BrokenBarrierError):  # only one comes
            meeting.wait()
        register(gauge)

    metrics.registry.register = late_register  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as threads:
        for future in [threads.submit(metrics.clock_ahead, 1.5) for _ in range(2)]:
            future.result()
    assert metrics.registry.get_sample_value("powertrain_clock_ahead_seconds") == 1.5
