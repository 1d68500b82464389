"""Tables on narrow terminals: columns go, words stay whole, and what is missing is said."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from powertrain_cli.fitting import FittingTable

COLUMNS = ("node", "device", "state", "W")
ROWS = [["orin-1", "orin-agx", "the agent has been silent for a minute", "28.1"]]


def drawn(table: FittingTable, width: int) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_a_wide_terminal_shows_every_column() -> None:
    out = drawn(FittingTable(COLUMNS, ROWS, right=("W",), words=("state",)), 100)
    assert out.split("\n")[0].split() == list(COLUMNS)
    assert "not shown" not in out


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("width", [30, 40, 60])
def test_a_narrow_one_drops_columns_and_breaks_no_word(width: int, lines: bool) -> None:
    table = FittingTable(COLUMNS, ROWS, right=("W",), words=("state",), drop=("device", "W"), lines=lines)
    out = drawn(table, width)
    assert max(map(len, out.splitlines())) <= width
    for word in ("orin-1", "silent", "minute"):
        assert word in out
    names_the_column = "not shown here (narrow terminal): device" in " ".join(out.split())
    assert names_the_column != ("orin-agx" in out)


def test_without_an_order_columns_go_from_the_right_but_never_the_first() -> None:
    table = FittingTable(("a", "b", "c"), [["x" * 10, "y" * 10, "z" * 10]])
    assert table.fitting(34) == [0, 1, 2]
    assert table.fitting(25) == [0, 1]
    assert table.fitting(5) == [0]


@pytest.mark.parametrize("verb", [("devices",), ("devices", "orin-agx"), ("modes", "orin-nano")])
def test_the_verbs_fit_sixty_columns(powertrain: Any, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = powertrain(*verb).out.splitlines()
    assert max(map(len, lines)) <= 60


def test_a_pipe_gets_every_column(powertrain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    out = powertrain("devices").out
    assert "total power" in out
    assert "sum of 4 rails" in out
