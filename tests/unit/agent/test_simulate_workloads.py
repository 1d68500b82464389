"""The simulated workloads take the time and power that the papers and the open tables give, and behave physically."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import pytest

from powertrain import PowerMode, devices
from powertrain_agent.simulate import ManualClock, SimulatedBoard, workloads

MAXN = PowerMode(12, 2201600, 1300500000, 3199000000)
XAVIER_MAXN = PowerMode(8, 2265600, 1377000000, 2133000000)
NAMED = {
    "resnet18",
    "mobilenet-v3",
    "yolov8n",
    "bert",
    "lstm",
    "mobilenet-v2",
    "efficientvit-m1",
    "char-transformer",
    "resnet18-cifar",
}

BoardFactory = Callable[..., SimulatedBoard]


def epoch_min(board: str, workload: str, mode: PowerMode) -> float:
    work = workloads.get(workload)
    point = workloads.evaluate(board, workload, work.batch_size, mode)
    return point.step_s * work.samples_per_epoch / work.batch_size / 60


@pytest.mark.parametrize(
    ("workload", "minutes"),
    [("mobilenet-v3", 2.3), ("resnet18", 3.05), ("yolov8n", 4.9), ("bert", 68.6), ("lstm", 0.4)],
)
def test_an_epoch_at_full_clocks_takes_as_long_as_in_the_paper(workload: str, minutes: float) -> None:
    assert epoch_min("orin-agx", workload, MAXN) == pytest.approx(minutes, rel=0.05)


def test_power_meets_the_papers_figures() -> None:
    assert workloads.evaluate("orin-agx", "resnet18", 16, MAXN).power_w == pytest.approx(51.1, rel=0.02)
    assert workloads.evaluate("orin-agx", "bert", 16, MAXN).power_w == pytest.approx(57.0, rel=0.03)
    assert workloads.evaluate("xavier-agx", "resnet18", 16, XAVIER_MAXN).power_w == pytest.approx(36.4, rel=0.03)
    assert epoch_min("xavier-agx", "resnet18", XAVIER_MAXN) == pytest.approx(8.47, rel=0.03)


def test_the_lowest_mode_is_dozens_of_times_slower_and_takes_a_quarter_of_the_power() -> None:
    low = PowerMode(2, 268800, 114750000, 204000000)
    assert epoch_min("orin-agx", "resnet18", low) == pytest.approx(112, rel=0.1)
    assert workloads.evaluate("orin-agx", "resnet18", 16, low).power_w == pytest.approx(11.8, rel=0.1)


@pytest.mark.parametrize("workload", ["resnet18-cifar", "mobilenet-v2", "efficientvit-m1", "char-transformer"])
def test_the_nanos_limits_bind_where_the_second_paper_puts_its_safe_clocks(workload: str) -> None:
    cpu_khz, emc_hz = 1479000, devices.get("nano").tables.emc_hz.values[-1]
    watts = [
        workloads.evaluate("nano", workload, 128, PowerMode(4, cpu_khz, mhz * 1000000, emc_hz)).power_w
        for mhz in (307, 614, 921)
    ]
    assert watts[0] < 4.5 < watts[1] < 7 < watts[2] < 12


def test_larger_batches_cost_less_time_a_sample_and_more_power() -> None:
    mode = PowerMode(4, 1479000, 921600000, 1600000000)
    points = {size: workloads.evaluate("nano", "mobilenet-v2", size, mode) for size in (4, 16, 64)}
    assert points[4].step_s / 4 > points[16].step_s / 16 > points[64].step_s / 64
    assert points[4].power_w < points[16].power_w < points[64].power_w


@pytest.mark.parametrize("board", devices.names())
@pytest.mark.parametrize("workload", sorted(NAMED))
def test_every_workload_runs_on_every_board_faster_and_hotter_at_full_clocks(board: str, workload: str) -> None:
    space = devices.get(board).space()
    low, full = (workloads.evaluate(board, workload, 16, space[row]) for row in (0, len(space) - 1))
    assert 0 < full.step_s < low.step_s < 3600
    assert 0 < low.power_w < full.power_w < 150
    assert workloads.idle(board, space[0]).power_w < low.power_w


def test_an_unknown_workload_is_named_with_those_that_exist() -> None:
    assert set(workloads.names()) >= NAMED
    with pytest.raises(workloads.UnknownWorkloadError, match=r"unknown workload 'vgg'; known: .*resnet18"):
        workloads.get("vgg")


@pytest.mark.parametrize(
    ("workload", "table", "time_percent", "power_percent"),
    [
        ("resnet18", "orin-agx.train.resnet.csv", 3.5, 2.6),
        ("lstm", "orin-agx.train.lstm.csv", 2.5, 2.0),
        ("resnet18-inference", "orin-agx.infer.resnet.csv", 6.5, 5.7),
        ("lstm-inference", "orin-agx.infer.lstm.csv", 4.7, 3.4),
    ],
)
def test_the_published_error_against_the_open_tables_holds(
    workload: str, table: str, time_percent: float, power_percent: float
) -> None:
    beside = Path(__file__).resolve().parents[4] / "shared" / "data"
    path = Path(os.environ.get("POWERTRAIN_DATA", beside)) / table
    if not path.exists():
        pytest.skip(f"the open table {path} is not here; set POWERTRAIN_DATA to the directory that holds it")
    time_errors, power_errors = [], []
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            mode = PowerMode(*(int(row[knob]) for knob in ("cpu_cores", "cpu_khz", "gpu_hz", "emc_hz")))
            point = workloads.evaluate("orin-agx", workload, int(row["batch_size"]), mode)
            time_errors.append(abs(1e3 * point.step_s / float(row["time_ms"]) - 1))
            power_errors.append(abs(point.power_w / float(row["power_w"]) - 1))
    assert 100 * fmean(time_errors) < time_percent
    assert 100 * fmean(power_errors) < power_percent


def test_power_settles_within_three_seconds_of_a_change(board: BoardFactory, clock: ManualClock) -> None:
    simulated = board()
    clock.advance(60.0)
    simulated.load("resnet18")
    idle_w = simulated.power_w()
    clock.advance(60.0)
    full_w = simulated.power_w()
    simulated.sysfs.write(f"{simulated.sysfs.layout.devfreq}/max_freq", "114750000")
    assert simulated.power_w() == pytest.approx(full_w)
    clock.advance(1.0)
    half_way_w = simulated.power_w()
    clock.advance(2.0)
    low_w = simulated.power_w()
    clock.advance(60.0)
    assert idle_w < simulated.power_w() < half_way_w < full_w
    assert low_w == pytest.approx(simulated.power_w(), rel=0.05)
    assert half_way_w > 1.2 * low_w


def test_power_falls_back_to_idle_when_the_training_ends(board: BoardFactory, clock: ManualClock) -> None:
    simulated = board()
    simulated.load("resnet18")
    clock.advance(60.0)
    full_w = simulated.power_w()
    simulated.unload()
    assert simulated.power_w() == pytest.approx(full_w, rel=0.01)
    clock.advance(10.0)
    assert simulated.power_w() < 0.3 * full_w


def test_time_scale_makes_the_board_settle_faster(board: BoardFactory, clock: ManualClock) -> None:
    simulated = board(time_scale=10.0)
    simulated.load("resnet18")
    clock.advance(0.3)
    soon_w = simulated.power_w()
    clock.advance(60.0)
    assert soon_w == pytest.approx(simulated.power_w(), rel=0.05)


def test_readings_of_a_quiet_load_scatter_by_about_one_percent_and_repeat_with_the_seed(
    board: BoardFactory, clock: ManualClock
) -> None:
    first, second = board(), board()
    for simulated in (first, second):
        simulated.behave("quiet")
        simulated.load("resnet18")
    clock.advance(60.0)
    readings = []
    for _ in range(400):
        clock.advance(0.1)
        readings.append(first.sysfs.instant().measured_w)
        assert second.sysfs.instant().measured_w == readings[-1]
    mean_w = fmean(readings)
    spread = fmean([(watts / mean_w - 1) ** 2 for watts in readings]) ** 0.5
    assert 0.008 < spread < 0.012


def test_the_first_step_is_slower(board: BoardFactory) -> None:
    simulated = board()
    simulated.load("resnet18", batch_size=16)
    assert simulated.step_s(0) > 2 * simulated.step_s(5)


def test_a_training_whose_process_is_gone_no_longer_loads_the_board(board: BoardFactory) -> None:
    simulated = board()
    simulated.load("resnet18", pid=2**22 + 1)
    assert not simulated.sysfs.instant().busy


def test_a_training_in_another_container_counts_as_long_as_it_renews_its_announcement(
    board: BoardFactory, clock: ManualClock
) -> None:
    simulated = board()
    for _ in range(3):
        simulated.load("resnet18", lasts_s=5.0)
        clock.advance(4.0)
        assert simulated.sysfs.instant().busy
    assert simulated.power_w() == pytest.approx(simulated.sysfs.instant().steady_w, rel=0.01)
    clock.advance(2.0)
    assert not simulated.sysfs.instant().busy


def test_an_idle_gpu_shows_a_low_clock_though_it_is_pinned(board: BoardFactory) -> None:
    simulated = board()
    gpu = simulated.sysfs.layout.devfreq
    simulated.sysfs.write(f"{gpu}/min_freq", "1300500000")
    assert simulated.sysfs.read(f"{gpu}/cur_freq") == "114750000"
    simulated.load("resnet18")
    assert simulated.sysfs.read(f"{gpu}/cur_freq") == "1300500000"
