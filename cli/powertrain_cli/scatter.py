"""What a plot of a measured table shows, apart from how it is drawn."""

from __future__ import annotations

from dataclasses import dataclass

from powertrain.pareto import pareto_front
from powertrain.samples import SampleTable
from powertrain.space import FloatArray
from powertrain_cli.measured import PresetPoint


@dataclass(frozen=True, slots=True)
class Labelled:
    """A named point; not exact: the nearest measured mode stands for it."""

    name: str
    step_ms: float
    power_w: float
    exact: bool = True


@dataclass(frozen=True, eq=False)
class Scatter:
    """All measured modes, the front among them (fastest first), NVIDIA's presets and the budget."""

    title: str
    step_ms: FloatArray
    power_w: FloatArray
    front_ms: FloatArray
    front_w: FloatArray
    presets: tuple[Labelled, ...] = ()
    budget_w: float | None = None
    best: Labelled | None = None


def scatter_of(
    title: str, table: SampleTable, presets: list[PresetPoint] | None = None, budget_w: float | None = None
) -> Scatter:
    """Return what to draw for one batch size; `best` is the fastest mode within the budget."""
    step_ms, power_w = table.step_s * 1e3, table.power_w
    front = pareto_front(step_ms, power_w)
    best = next((row for row in front if budget_w is not None and power_w[row] <= budget_w), None)
    return Scatter(
        title=title,
        step_ms=step_ms,
        power_w=power_w,
        front_ms=step_ms[front],
        front_w=power_w[front],
        presets=tuple(
            Labelled(point.name, float(step_ms[point.row]), float(power_w[point.row]), point.exact)
            for point in presets or []
        ),
        budget_w=budget_w,
        best=None
        if best is None
        else Labelled(table.mode(int(best)).human, float(step_ms[best]), float(power_w[best])),
    )
