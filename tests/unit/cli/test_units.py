"""Watts as people type them."""

from typing import Any

import pytest
import typer

from powertrain_cli.units import watts


@pytest.mark.parametrize("text", ["30", "30W", "30 W", "30.0w", " 30 "])
def test_a_budget_may_name_its_unit(text: str) -> None:
    assert watts(text) == 30.0


@pytest.mark.parametrize("text", ["thirty", "0", "-3", "nan", "inf", "30kW", ""])
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="write watts, such as 30 or 30W"):
        watts(text)


def test_a_board_named_after_devices_is_shown(powertrain: Any) -> None:
    assert powertrain("devices", "orin-agx").out == powertrain("devices", "show", "orin-agx").out


def test_help_lists_the_verbs_in_groups(powertrain: Any) -> None:
    out = powertrain("--help").out
    assert out.index("Cluster") < out.index("One board") < out.index(" tune ")
    assert "Tables and research" in out
