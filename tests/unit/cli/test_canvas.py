"""The plot of text."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from powertrain_cli.canvas import text_plot
from powertrain_cli.scatter import Labelled, Scatter


def scatter(times: list[float], powers: list[float], budget_w: float | None = None) -> Scatter:
    step_ms, power_w = np.array(times, dtype=float), np.array(powers, dtype=float)
    return Scatter("title", step_ms, power_w, step_ms[:1], power_w[:1], budget_w=budget_w)


def test_the_fastest_is_left_and_the_hungriest_on_top() -> None:
    lines = text_plot(scatter([10, 20, 40], [40, 20, 10]), width=48, height=12).splitlines()
    marks = [(y, x) for y, line in enumerate(lines[1:13]) for x, mark in enumerate(line) if mark in "●·"]
    assert len(marks) == 3
    assert [x for _, x in marks] == sorted(x for _, x in marks)
    assert marks[0][1] == 8


def test_only_ascii_is_used_where_the_terminal_knows_no_more() -> None:
    plot = text_plot(scatter([10, 20], [40, 20], budget_w=30), unicode=False)
    assert plot.isascii()
    assert "- budget 30 W" in plot


def test_presets_are_numbered_and_named() -> None:
    points = (Labelled("MAXN", 10, 40), Labelled("MODE_15W", 20, 20, exact=False))
    base = scatter([10, 15, 20], [40, 30, 20])
    plot = text_plot(Scatter("t", base.step_ms, base.power_w, base.front_ms, base.front_w, presets=points))
    assert "1 MAXN, 10 ms, 40.0 W" in plot
    assert "2 MODE_15W (nearest measured mode), 20 ms, 20.0 W" in plot


@example([(1.0, 101.5), (2.0, 101.75)], None, 1, 1)  # labels with many digits
@given(
    st.lists(st.tuples(st.floats(1e-3, 1e6), st.floats(1e-2, 1e3)), min_size=1, max_size=20),
    st.none() | st.floats(1e-2, 1e3),
    st.integers(1, 200),
    st.integers(1, 60),
)
def test_any_table_fits_into_any_terminal(
    points: list[tuple[float, float]], budget_w: float | None, width: int, height: int
) -> None:
    plot = text_plot(scatter([t for t, _ in points], [p for _, p in points], budget_w), width, height)
    lines = plot.splitlines()
    assert any("●" in line for line in lines[1:-1])
    assert max(len(line) for line in lines[1 : max(height, 8) + 2]) <= max(width, 32)


@pytest.mark.parametrize("value", [0.5, 30.0])
def test_a_single_point_has_its_axes(value: float) -> None:
    plot = text_plot(scatter([value], [value]))
    assert "└" in plot
    assert f"{value:g}" in plot
