"""The agent on a real arm64 kernel: what it finds, sets, verifies and restores, on four boards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from powertrain import devices
from powertrain.devices.draft import draft
from powertrain_devcluster.kernel.machine import BOARDS, Machine

# A real driver rounds each rail to its steps (8 mV and 8 mA), and a governor may move a clock between two readings.
SENSOR_SHARE = 0.05
# A reading costs threads and parsing beside its system calls.
SAMPLING_FACTOR = 12.0


@pytest.fixture(scope="module", params=BOARDS)
def machine(request: pytest.FixtureRequest, start: Callable[[str], Machine]) -> Machine:
    return start(request.param)


@pytest.fixture(scope="module")
def examined(machine: Machine) -> dict[str, Any]:
    """What the doctor finds on the board, and its report for the catalogue."""
    report: dict[str, Any] = machine.call("knobs:examine")
    return report


def test_a_machine_starts_within_twenty_seconds_of_a_quiet_host(machine: Machine) -> None:
    """Seconds of processor time: how long they take depends on what else this machine does."""
    assert machine.processor_s < 20.0


def test_discovery_finds_the_tables_and_paths_of_the_catalogue(machine: Machine) -> None:
    discovery, device = machine.call("knobs:discovery"), machine.device
    assert discovery["jetson"]
    assert discovery["name"] == device.name
    assert tuple(discovery["cpu_khz"]) == device.tables.cpu_khz.values
    assert tuple(discovery["gpu_hz"]) == device.tables.gpu_hz.values
    assert discovery["gpu"] == f"/sys/{device.tree.gpu_path}/devfreq/{device.tree.gpu_class}"
    assert sorted(discovery["policies"].values()) == sorted(map(list, device.clusters))
    assert tuple(discovery["rails"]) == device.sensors.rails
    assert discovery["total"] == device.sensors.total
    assert tuple(discovery["zones"]) == device.tree.thermal_zones
    assert discovery["over_current"] == ["oc1", "oc2", "oc3"]


def test_the_sensors_show_the_watts_that_the_clocks_take(machine: Machine) -> None:
    model_w = machine.call("power:once", board=machine.device.name)
    assert machine.call("knobs:power")["total"] == pytest.approx(model_w, rel=SENSOR_SHARE, abs=0.1)


def test_doctor_sets_verifies_and_restores_every_knob_that_this_kernel_has(
    machine: Machine, examined: dict[str, Any]
) -> None:
    report = examined["doctor"]
    assert report["healthy"], report["verdict"]
    knobs = {knob["knob"]: knob for knob in report["knobs"]}
    # Neither BPMP nor NVIDIA's caps exist outside of a Jetson; the bandwidth manager of R39 is a devfreq device.
    memory = ("emc",) if machine.device.tree.bwmgr else ()
    for name in ("cores", "cpu", "gpu", "fan", *memory):
        steps = {step: knobs[name][step] for step in ("read", "write", "verify", "restore")}
        assert set(steps.values()) == {True}, (name, knobs[name])
    assert knobs["emc"]["read"] == bool(memory)


def test_a_report_from_the_kernel_becomes_a_file_of_the_catalogue(machine: Machine, examined: dict[str, Any]) -> None:
    device, drafted = machine.device, devices.parse(draft(examined["report"], "drafted"), "drafted.toml")
    assert drafted.tables.cpu_khz.values == device.tables.cpu_khz.values
    assert drafted.tables.gpu_hz.values == device.tables.gpu_hz.values
    assert drafted.clusters == device.clusters
    assert drafted.sensors.rails == device.sensors.rails
    assert drafted.tree.gpu_path == device.tree.gpu_path
    assert drafted.tree.thermal_zones == device.tree.thermal_zones
    assert drafted.tree.qos


def test_a_board_comes_back_after_a_kill_at_any_write(machine: Machine) -> None:
    assert machine.call("knobs:killed", seeds=[1, 2]) == []


def test_restore_sh_restores_under_busybox(machine: Machine) -> None:
    assert machine.call("knobs:restored_by_script", seeds=[3]) == []


def test_a_reading_costs_little_more_than_its_files(machine: Machine) -> None:
    cost = machine.call("knobs:sampling", readings=50)
    assert cost["agent_s"] < SAMPLING_FACTOR * cost["plain_s"]


def test_the_boards_are_in_the_catalogue() -> None:
    assert set(BOARDS) <= set(devices.names())
