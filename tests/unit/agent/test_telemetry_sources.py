"""Every power source reads the same watts, says why it can't, and falls back to the board's own sensors."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from powertrain_agent.hardware.sensors import PowerSensors, discover
from powertrain_agent.simulate import Fault, FaultKind, ManualClock, SimulatedBoard
from powertrain_agent.telemetry import (
    OffsetSource,
    Reading,
    Sampler,
    SourceError,
    SourceUnavailableError,
    SysfsSource,
    open_source,
    summarize,
)
from powertrain_agent.telemetry.jtop_source import JtopSource
from powertrain_agent.telemetry.tegrastats_source import TegrastatsSource, parse_rails, total_w

BoardFactory = Callable[..., SimulatedBoard]

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
BOARDS = ("nano", "orin-agx", "orin-agx-11", "orin-nano", "orin-nx-16", "tx2-nx", "xavier-agx", "xavier-nx")

AGX_ORIN = (
    "11-21-2025 08:49:48 RAM 13983/62780MB (lfb 424x4MB) SWAP 126/31390MB (cached 0MB) CPU [90%@2201,100%@2201] "
    "EMC_FREQ 1%@2133 GR3D_FREQ 14%@[407,407] VIC_FREQ 115 NVDLA0_FREQ @1600 APE 174 CV0@73.625C CPU@77.281C "
    "Tboard@62C tj@77.281C VDD_GPU_SOC 3150mW/2971mW VDD_CPU_CV 14312mW/12415mW VIN_SYS_5V0 4968mW/5048mW "
    "VDDQ_VDD2_1V8AO 1091mW/1091mW"
)
THOR = (
    "04-21-2026 15:50:52 RAM 105265/125772MB (lfb 34x4MB) CPU [0%@972] EMC_FREQ 0%@2750 GR3D_FREQ @[314,314,314] "
    "cpu@37.343C gpu@38.875C VDD_GPU 1962mW/1962mW VDD_CPU_SOC_MSS 5887mW/5887mW VIN_SYS_5V0 5635mW/5635mW "
    "VIN 19780mW/19780mW"
)
NANO = (
    "RAM 1000/3964MB (lfb 1x4MB) IRAM 0/252kB(lfb 252kB) CPU [3%@102] "
    "POM_5V_IN 1877/1877 POM_5V_GPU 0/0 POM_5V_CPU 160/160"
)


@pytest.mark.parametrize("name", BOARDS)
def test_the_sensors_total_is_the_boards_power(board: BoardFactory, clock: ManualClock, name: str) -> None:
    simulated = board(name)
    simulated.load("resnet18")
    clock.advance(60.0)
    device = simulated.device
    source = SysfsSource(simulated.sysfs, discover(simulated.sysfs, device.sensors.total), clock=clock, others_every=1)
    reading = source.read()
    assert reading.power_w == pytest.approx(simulated.sysfs.instant().measured_w, rel=0.01)
    assert set(reading.rails_w) == set(device.sensors.rails)
    assert reading.at_s == clock()


def test_the_rails_beside_the_total_are_read_now_and_then_and_may_fail(board: BoardFactory) -> None:
    simulated = board("orin-nano")
    source = SysfsSource(simulated.sysfs, discover(simulated.sysfs, "VDD_IN"), others_every=3)
    rail_sets = [set(source.read().rails_w) for _ in range(3)]
    assert rail_sets == [{"VDD_IN"}, {"VDD_IN"}, set(simulated.device.sensors.rails)]
    simulated.inject(Fault(FaultKind.VANISH, "curr2_input"))
    assert [set(source.read().rails_w) for _ in range(3)] == [{"VDD_IN"}] * 3


def test_a_carrier_boards_offset_is_in_the_total_and_not_in_the_rails(board: BoardFactory, clock: ManualClock) -> None:
    simulated, offset_w = board(), 0.0
    inner = SysfsSource(simulated.sysfs, discover(simulated.sysfs, "sum"), clock)
    source = OffsetSource(inner, lambda: offset_w)
    plain = source.read()
    offset_w = 2.5
    assert source.read().power_w == pytest.approx(plain.power_w + 2.5)
    assert (source.read().rails_w, source.name) == (plain.rails_w, "sysfs")


def test_a_vanished_sensor_is_an_error_that_names_it_and_reading_resumes(board: BoardFactory) -> None:
    simulated = board()
    source = SysfsSource(simulated.sysfs, discover(simulated.sysfs, "sum"))
    simulated.inject(Fault(FaultKind.VANISH, "curr2_input"))
    with pytest.raises(SourceError, match="curr2_input: ENOENT"):
        source.read()
    simulated.clear()
    assert source.read().power_w > 0


def test_a_board_without_a_sensor_has_no_source_and_says_so(board: BoardFactory) -> None:
    chosen = open_source("sysfs", board().sysfs, PowerSensors())
    assert chosen.source is None
    assert "no INA3221 or INA238" in chosen.reason


@pytest.mark.parametrize(
    ("line", "total", "watts"),
    [(AGX_ORIN, "sum", 23.521), (AGX_ORIN, "", 23.521), (THOR, "VIN", 19.78), (NANO, "", 1.877)],
)
def test_tegrastats_lines_give_the_boards_total(line: str, total: str, watts: float) -> None:
    assert total_w(parse_rails(line), total) == pytest.approx(watts)


def test_tegrastats_rails_are_the_present_values_and_nothing_else() -> None:
    assert parse_rails(NANO) == {"POM_5V_IN": 1.877, "POM_5V_GPU": 0.0, "POM_5V_CPU": 0.16}
    assert parse_rails("RAM 1000/3964MB SWAP 0/1982MB EMC_FREQ 0%@204") == {}
    with pytest.raises(SourceError, match=r"no rail VDD_IN; it shows VDD_GPU_SOC"):
        total_w(parse_rails(AGX_ORIN), "VDD_IN")


def test_tegrastats_gives_its_newest_line(clock: ManualClock) -> None:
    source = TegrastatsSource([AGX_ORIN, "a line without rails", THOR], clock=clock)
    source.close()
    assert source.read().power_w == pytest.approx(19.78)
    clock.advance(60.0)
    with pytest.raises(SourceError, match=r"60\.0 s old"):
        source.read()


def test_tegrastats_that_prints_no_rails_is_an_error(clock: ManualClock) -> None:
    source = TegrastatsSource(["nothing here"], clock=clock)
    source.close()
    with pytest.raises(SourceError, match="without a line that has rails"):
        source.read()


def test_a_running_tegrastats_is_read_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tegrastats"
    program.write_text(f"#!/bin/sh\nwhile :; do echo '{THOR}'; read -t 0.05 line < /dev/zero || sleep 0.05; done\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    source = TegrastatsSource.start("VIN")
    try:
        assert source.read().power_w == pytest.approx(19.78)
    finally:
        source.close()


def test_a_source_that_is_not_there_falls_back_to_the_sensors_with_a_reason(
    board: BoardFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    simulated = board()
    chosen = open_source("tegrastats", simulated.sysfs, discover(simulated.sysfs, "sum"))
    assert chosen.source is not None
    assert chosen.source.name == "sysfs"
    assert chosen.reason.startswith("tegrastats: tegrastats is not in the PATH")


def test_a_missing_jtop_package_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jtop", None)
    with pytest.raises(SourceUnavailableError, match=r"jetson-stats is not installed .*extra 'jtop'"):
        JtopSource()


# Importing jtop changes multiprocessing for the whole process, so its tests run in processes of their own.
JTOP_WITHOUT_SERVICE = """
import sys
from pathlib import Path
from powertrain_agent.hardware.sensors import discover
from powertrain_agent.simulate import SimulatedSysfs
from powertrain_agent.telemetry import open_source
sysfs = SimulatedSysfs(Path(sys.argv[1]))
chosen = open_source("jtop", sysfs, discover(sysfs, "sum"))
print(chosen.source.name, "because", chosen.reason)
"""


def test_jtop_without_its_service_falls_back_with_the_way_to_get_it(board: BoardFactory) -> None:
    if importlib.util.find_spec("jtop") is None:
        pytest.skip("jetson-stats (the extra 'jtop') is not installed")
    if Path("/run/jtop.sock").exists():
        pytest.skip("a jtop service runs on this machine")
    command = [sys.executable, "-c", JTOP_WITHOUT_SERVICE, str(board().root)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.startswith("sysfs because jtop: the jtop service does not answer: ")
    assert "jtop --install-service" in ran.stdout


JTOP_CLIENT = """
import json, sys
from powertrain_agent.hardware.sensors import discover
from powertrain_agent.sysfs import Sysfs
from powertrain_agent.telemetry import open_source
sensors = discover(Sysfs("/"), sys.argv[1])
jtop, sysfs = (open_source(name, Sysfs("/"), sensors) for name in ("jtop", "sysfs"))
assert jtop.source.name == "jtop", jtop.reason
readings = [chosen.source.read() for chosen in (jtop, sysfs)]
print(json.dumps([[reading.power_w, dict(reading.rails_w)] for reading in readings]))
jtop.source.close()
"""


@pytest.mark.parametrize("name", ["orin-agx", "orin-nano", "xavier-agx"])
def test_a_real_jtop_service_on_the_same_tree_reads_the_same_watts(
    board: BoardFactory, clock: ManualClock, name: str
) -> None:
    simulated = board(name)
    simulated.load("resnet18")
    clock.advance(60.0)
    simulated.refresh()
    total = simulated.device.sensors.total
    script = [sys.executable, str(BENCHMARKS / "jtop_namespace.py"), str(simulated.root)]
    ran = subprocess.run(
        [*script, sys.executable, "-c", JTOP_CLIENT, total], capture_output=True, text=True, timeout=60, check=False
    )
    if ran.returncode == 77:
        pytest.skip(ran.stderr.strip().splitlines()[-1])
    assert ran.returncode == 0, ran.stderr
    (jtop_w, jtop_rails_w), (sysfs_w, sysfs_rails_w) = json.loads(ran.stdout.strip().splitlines()[-1])
    assert jtop_w == pytest.approx(sysfs_w, abs=0.001 * len(simulated.device.sensors.rails) + 1e-6)
    assert sysfs_w == pytest.approx(simulated.sysfs.instant().measured_w, rel=0.01)
    shared = set(jtop_rails_w) & set(sysfs_rails_w)
    assert shared or total != "sum"
    assert all(jtop_rails_w[rail] == pytest.approx(sysfs_rails_w[rail], abs=0.0011) for rail in shared)


class Scripted:
    """A source that gives what the script says."""

    name = "scripted"

    def __init__(self, script: list[float | SourceError]) -> None:
        self.script: Iterator[float | SourceError] = iter(script)

    def read(self) -> Reading:
        step = next(self.script)
        if isinstance(step, SourceError):
            raise step
        return Reading(0.0, step)

    def close(self) -> None:
        pass


def test_the_sampler_tells_every_failure_and_which_begins_a_stretch() -> None:
    first_error, back = SourceError("gone"), SourceError("gone again")
    waits_s: list[float] = []
    complaints: list[tuple[SourceError, bool]] = []
    sampler = Sampler(
        Scripted([1.0, first_error, first_error, 2.0, back]),
        lambda reading: waits_s.append(reading.power_w),
        lambda error, first: complaints.append((error, first)),
    )
    for _ in range(5):
        sampler.sample_once()
    assert waits_s == [1.0, 2.0]
    assert complaints == [(first_error, True), (first_error, False), (back, True)]


def test_a_slow_reading_skips_ticks_instead_of_shifting_the_grid(clock: ManualClock) -> None:
    sampler = Sampler(Scripted([]), lambda reading: None, lambda error, first: None, period_s=0.1, clock=clock)
    started_s = clock()
    clock.advance(0.03)
    assert sampler.next_wait_s(started_s) == pytest.approx(0.07)
    clock.advance(0.22)
    assert sampler.next_wait_s(started_s) == pytest.approx(0.05)


def test_the_running_sampler_delivers_about_ten_readings_a_second(board: BoardFactory) -> None:
    simulated = board(now=time.time)
    simulated.load("resnet18")
    source = SysfsSource(simulated.sysfs, discover(simulated.sysfs, "sum"))
    readings: list[Reading] = []
    enough = threading.Event()

    def deliver(reading: Reading) -> None:
        readings.append(reading)
        if len(readings) == 6:
            enough.set()

    sampler = Sampler(source, deliver, lambda error, first: None)
    sampler.start()
    assert enough.wait(20.0)
    sampler.stop()
    window = summarize(readings)
    assert window.duration_s >= 0.45
    assert window.energy_j == pytest.approx(window.mean_w * window.duration_s)
