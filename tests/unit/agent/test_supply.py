"""The supply as limits: amperes at the measured voltage, and what an over-current alarm leaves."""

from __future__ import annotations

import pytest

from powertrain_agent.hardware.board import discover
from powertrain_agent.simulate import SimulatedBoard
from powertrain_agent.telemetry import Reading, SysfsSource
from powertrain_agent.telemetry.supply import ALARM_HOLD_S, ALARM_SHARE, LOWEST_V, REMEMBER_S, Supply


def supply_after(*volts: float, power_w: float = 20.0) -> Supply:
    supply = Supply()
    for second, volt in enumerate(volts):
        supply.note(Reading(float(second), power_w, supply_v=volt))
    return supply


def test_amperes_become_watts_at_the_measured_voltage() -> None:
    assert supply_after(12.0, 12.04).hard_limit_w((), (2.0,)) == pytest.approx(24.0)


def test_a_voltage_that_nobody_measures_counts_as_the_lowest_of_any_board() -> None:
    assert Supply().hard_limit_w((None,), (2.0, None)) == pytest.approx(2.0 * LOWEST_V)


def test_a_sagging_supply_lowers_the_limit_at_once_and_noise_does_not_raise_it() -> None:
    supply = supply_after(12.0, 11.37)
    assert supply.hard_limit_w((), (1.0,)) == pytest.approx(11.3)
    supply.note(Reading(2.0 + REMEMBER_S, 20.0, supply_v=11.45))
    assert supply.hard_limit_w((), (1.0,)) == pytest.approx(11.3)
    supply.note(Reading(4.0 + 2 * REMEMBER_S, 20.0, supply_v=12.0))
    assert supply.hard_limit_w((), (1.0,)) == pytest.approx(12.0)


def test_the_lowest_of_all_limits_counts() -> None:
    assert supply_after(12.0).hard_limit_w((30.0, None, 22.0), (2.0,)) == 22.0
    assert Supply().hard_limit_w((None,), (None,)) is None


def test_an_alarm_leaves_a_limit_below_what_was_drawn_for_a_while() -> None:
    supply = supply_after(12.0, power_w=25.0)
    assert supply.count({"oc2": 7, "oc3": 4}, 1.0) == ()
    assert supply.count({"oc2": 7, "oc3": 5}, 2.0) == ("oc3",)
    assert supply.hard_limit_w((), ()) == pytest.approx(ALARM_SHARE * 25.0)
    supply.count({"oc2": 7, "oc3": 5}, 3.0 + ALARM_HOLD_S)
    assert supply.hard_limit_w((), ()) is None


def test_counters_of_before_the_agent_are_no_alarm() -> None:
    assert supply_after(12.0).count({"oc1": 9}, 0.0) == ()


@pytest.mark.parametrize(
    ("board", "volts"), [("orin-nano", 5.0), ("orin-agx", 12.0), ("xavier-agx", 12.0), ("thor", 12.0)]
)
def test_a_reading_holds_the_voltage_and_the_current_of_the_input(tmp_path, board: str, volts: float) -> None:
    simulated = SimulatedBoard.create(tmp_path, board)
    reading = SysfsSource(simulated.sysfs, discover(simulated.sysfs).sensors).read()
    assert reading.supply_v == pytest.approx(volts)
    assert reading.supply_a == pytest.approx(reading.power_w / volts)
