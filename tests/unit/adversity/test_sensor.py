"""Power sensors that lie: stuck, zero, negative, half scale; and honest ones that must never be called liars."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.agent.scenarios.conftest import WORKLOAD, Scenario, envelope

from powertrain import PowerMode, devices
from powertrain_agent.governing.plausibility import Plausibility
from powertrain_agent.simulate import Fault, FaultKind, workloads
from powertrain_agent.telemetry import Reading
from powertrain_agent.telemetry.plausibility import implausible, most_w

LIMIT_W = 30.0
LOWEST_W = 14.0


def is_lost(scenario: Scenario) -> bool:
    return scenario.condition("PowerSensor") == ("False", "SensorLost")


def why(scenario: Scenario) -> str:
    return str(next(c.message for c in scenario.status.conditions if c.type == "PowerSensor"))


IMPOSSIBLE = [(0.0, "reads 0 W"), (-3.0, "reads -2.9"), (400.0, "can't take more than 125 W")]


@pytest.mark.parametrize(("watts", "words"), IMPOSSIBLE)
def test_a_sensor_that_reads_what_no_board_takes_is_lost_while_running(
    running: Scenario, watts: float, words: str
) -> None:
    running.board.inject(Fault(FaultKind.POWER_STUCK, value=watts))
    running.run(6, lambda: is_lost(running))
    assert words in why(running)
    assert running.true_w() < LOWEST_W
    published = len(running.simulation.statuses)
    running.run(3)
    assert len(running.simulation.statuses) > published, "the status is published all the same"
    running.board.clear()
    running.run(30, running.is_running)


def test_a_sensor_that_gets_stuck_while_running_is_lost_until_its_value_changes(running: Scenario) -> None:
    running.run(20)
    running.board.inject(Fault(FaultKind.POWER_STUCK, value=running.board.sysfs.instant().measured_w))
    running.run(20, lambda: is_lost(running))
    assert "the sensor repeats" in why(running)
    assert running.true_w() < LOWEST_W
    running.run(200)
    assert is_lost(running)
    assert running.true_w() < LOWEST_W
    running.board.clear()
    running.run(30, running.is_running)
    assert running.true_w() <= LIMIT_W


def test_a_sensor_that_reads_half_while_running_is_lost_until_it_reads_right(running: Scenario) -> None:
    running.board.inject(Fault(FaultKind.POWER_SCALE, value=0.5))
    running.run(20, lambda: is_lost(running))
    assert "at the same pace" in why(running)
    running.run(10)
    assert running.true_w() < LOWEST_W
    running.board.clear()
    running.run(60, running.is_running)
    assert running.true_w() <= LIMIT_W


def faulty_profiling(scenario: Scenario, fault: Fault) -> list[float]:
    """Train beside a sensor that was wrong from the start; return what the board settled at, second by second."""
    seen_w: list[float] = []
    scenario.simulation.on_second = lambda: seen_w.append(scenario.true_w())
    scenario.board.inject(fault)
    scenario.simulation.envelope(envelope())
    scenario.run(2)
    scenario.simulation.train(WORKLOAD)
    return seen_w


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(FaultKind.POWER_STUCK, value=12.0), "does not follow the mode"),
        (Fault(FaultKind.POWER_STUCK, value=0.0), "reads 0 W"),
        (Fault(FaultKind.POWER_STUCK, value=-3.0), "reads -2.9"),
        (Fault(FaultKind.POWER_SCALE, value=0.5), "in its mode of least power"),
    ],
    ids=["stuck", "zero", "negative", "half"],
)
def test_a_sensor_that_is_wrong_from_the_start_ends_profiling_at_the_mode_of_least_power(
    new_scenario: Callable[..., Scenario], fault: Fault, words: str
) -> None:
    scenario = new_scenario()
    seen_w = faulty_profiling(scenario, fault)
    scenario.run(60, lambda: is_lost(scenario))
    assert words in why(scenario)
    scenario.run(60)
    assert is_lost(scenario)
    assert scenario.true_w() < LOWEST_W
    assert max(seen_w) <= 1.05 * LIMIT_W
    assert sum(watts > LOWEST_W for watts in seen_w) <= 12, "seconds above the mode of least power"


def test_a_sensor_that_gets_stuck_while_profiling_is_lost_and_profiling_goes_on_when_it_is_back(
    new_scenario: Callable[..., Scenario],
) -> None:
    scenario = new_scenario()
    scenario.simulation.envelope(envelope())
    scenario.run(2)
    scenario.simulation.train(WORKLOAD)
    scenario.run(60, lambda: scenario.session.record.measured >= 2)
    scenario.board.inject(Fault(FaultKind.POWER_STUCK, value=15.0))
    scenario.run(60, lambda: is_lost(scenario))
    assert scenario.true_w() < LOWEST_W
    scenario.board.clear()
    scenario.run(200, scenario.is_running)
    scenario.run(20)
    assert scenario.true_w() <= LIMIT_W


def test_a_restarted_agent_does_not_trust_a_stuck_sensor_for_long(running: Scenario) -> None:
    running.run(20)
    running.board.inject(Fault(FaultKind.POWER_STUCK, value=20.0))
    running.run(30, lambda: is_lost(running))
    running.restart_agent()
    seen_w: list[float] = []
    running.simulation.on_second = lambda: seen_w.append(running.true_w())
    running.run(60)
    assert is_lost(running)
    assert sum(watts > LOWEST_W for watts in seen_w) <= 8


def test_without_steps_a_stuck_sensor_shows_by_its_modes(new_scenario: Callable[..., Scenario]) -> None:
    scenario = new_scenario()
    scenario.simulation.counts_steps = False
    workload = {"name": WORKLOAD, "batchSize": 16, "instrumentation": "None"}
    scenario.board.inject(Fault(FaultKind.POWER_STUCK, value=12.0))
    scenario.simulation.envelope(envelope(workload=workload))
    scenario.run(2)
    scenario.simulation.train(WORKLOAD)
    scenario.run(60, lambda: is_lost(scenario))
    assert "different modes" in why(scenario)
    assert scenario.true_w() < LOWEST_W


def test_a_load_of_others_that_arrives_with_a_lower_mode_is_no_fault_of_the_sensor(running: Scenario) -> None:
    running.run(20)
    running.board.inject(Fault(FaultKind.POWER_OFFSET, value=40.0))
    running.run(60)
    assert not is_lost(running)
    assert running.condition("BudgetReachable")[0] == "False"


def test_the_offset_of_a_site_hides_no_dead_sensor() -> None:
    assert implausible(Reading(0.0, 8.0, offset_w=8.0), 125.0)
    assert not implausible(Reading(0.0, 130.0, offset_w=8.0), 125.0)
    assert implausible(Reading(0.0, float("nan")), 125.0)


@pytest.mark.parametrize("name", devices.names())
def test_no_board_takes_more_than_is_believed(name: str) -> None:
    device = devices.get(name)
    tables = device.tables
    top = PowerMode(device.cores, *(t.values[-1] for t in (tables.cpu_khz, tables.gpu_hz, tables.emc_hz)))
    most = max(workloads.evaluate(name, work, 256, top).power_w for work in workloads.names())
    assert 1.2 * most < most_w(preset.watts for preset in device.presets)


@settings(max_examples=40, deadline=None)
@given(
    board=st.sampled_from(devices.names()),
    workload=st.sampled_from(workloads.names()),
    noise=st.sampled_from([0.0, 0.0005, 0.002, 0.01, 0.03]),
    quantum_w=st.sampled_from([0.0, 0.001, 0.04, 0.1, 0.2]),
    repeats=st.integers(1, 5),
    counts_steps=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_an_honest_sensor_is_never_doubted(
    board: str, workload: str, noise: float, quantum_w: float, repeats: int, counts_steps: bool, seed: int
) -> None:
    """A constant load, in modes that change as profiling changes them and then stay; steps of the sensor and noise."""
    draw, machine, device = random.Random(seed), Plausibility(), devices.get(board)
    axes = [t.values for t in (device.tables.cpu_khz, device.tables.gpu_hz, device.tables.emc_hz)]
    mode = PowerMode(device.cores, *(axis[0] for axis in axes))
    now_s = power_w = 0.0
    for stay_s in (6.0, 6.0, 3.0, 6.0, 30.0, 6.0, 15.0):
        point = workloads.evaluate(board, workload, workloads.get(workload).batch_size, mode)
        machine.mode_changed(now_s, mode)
        power_w = power_w or point.power_w
        step_at_s = now_s + point.step_s
        for count in range(round(10 * stay_s)):
            now_s += 0.1
            power_w += (point.power_w - power_w) * 0.12
            while counts_steps and step_at_s <= now_s:
                machine.step(step_at_s, point.step_s * draw.gauss(1.0, 0.01))
                step_at_s += max(point.step_s, 0.02)
            if count % repeats == 0:
                read_w = power_w * draw.gauss(1.0, noise)
                read_w = max(quantum_w, round(read_w / quantum_w) * quantum_w) if quantum_w else read_w
            machine.power(Reading(now_s, read_w))
            assert machine.doubt == "", (str(mode), now_s)
        mode = PowerMode(device.cores, *(draw.choice(axis) for axis in axes))
