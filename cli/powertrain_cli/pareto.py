"""`powertrain pareto`: the front of a measured table, as a list and as a plot."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from powertrain.pareto import pareto_front
from powertrain.samples import SampleTable
from powertrain_cli.errors import CliError
from powertrain_cli.measured import BatchSizeOption, DataFile, DeviceOption, MeasuredTable, PowerOption, figures, load
from powertrain_cli.output import JsonFlag, emit_json, stdout, table, working

COLUMNS = ["mode", "step ms", "power W", "J a step", "slower"]


def mount(root: typer.Typer) -> None:
    """Add the verb to the command."""
    root.command("pareto")(pareto)


def pareto(
    data: DataFile,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Write the chart to this file (.svg or .png).", show_default=False)
    ] = None,
    terminal: Annotated[bool, typer.Option("--terminal", help="Draw the chart as text.")] = False,
    device: DeviceOption = None,
    power: PowerOption = None,
    batch_size: BatchSizeOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the front of a measured table: the modes that none beats in both.

    A mode is on the front if no other is at least as fast and as frugal, and
    better in one. A table with several batch sizes has a front for each.

    [bold]Examples[/bold]

    powertrain pareto resnet.csv

    powertrain pareto resnet.csv --power 30 --terminal

    powertrain pareto resnet.csv --device orin-agx --power 30 --plot front.svg
    """
    if terminal and as_json:
        raise CliError("--terminal and --json exclude each other: give one of them")
    if plot is not None:
        from powertrain_cli.plots import check_target

        check_target(plot)
    measured = load(data, device)
    if plot or terminal:
        measured.of_one_batch_size(batch_size, "a plot shows one")
    fronts = measured.by_batch_size(batch_size)
    if plot is not None:
        _plot(measured, fronts[0], power, plot)
    if as_json:
        emit_json(_json(measured, fronts, power, plot))
        return
    for size, samples in fronts:
        _print(measured, size, samples, power)
    if terminal:
        _draw_as_text(measured, fronts[0], power)
    if plot is not None:
        stdout().print(f"drawn: {plot}", markup=False, soft_wrap=True)


def _print(measured: MeasuredTable, size: int, samples: SampleTable, power: float | None) -> None:
    front = pareto_front(samples.step_s, samples.power_w)
    rows = []
    for row in front:
        within = power is not None and samples.power_w[row] <= power
        rows.append([*_cells(samples, int(row), int(front[0])), "yes" if within else ""])
    title = f"{measured.path.name}, batch size {size}: {len(front)} of {len(samples):,} modes are on the front"
    budget = [f"≤ {power:g} W"] if power is not None else []
    width = len(COLUMNS) + len(budget)
    table(title, [*COLUMNS, *budget], [row[:width] for row in rows], right=COLUMNS[1:])
    _print_presets(measured, samples, int(front[0]))
    if power is not None:
        _print_best(samples, front.tolist(), power)


def _print_presets(measured: MeasuredTable, samples: SampleTable, fastest: int) -> None:
    points = measured.presets(samples)
    if points:
        rows = [
            [point.name if point.exact else f"≈ {point.name}", *_cells(samples, point.row, fastest)] for point in points
        ]
        table("NVIDIA's presets (≈: the nearest measured mode)", ["preset", *COLUMNS], rows, right=COLUMNS[1:])


def _print_best(samples: SampleTable, front: list[int], power: float) -> None:
    best = next((row for row in front if samples.power_w[row] <= power), None)
    if best is None:
        least = front[-1]
        text = f"no mode within {power:g} W; the least is {samples.power_w[least]:.2f} W: {samples.mode(least).human}"
    else:
        mode = samples.mode(best)
        text = f"fastest within {power:g} W: {mode.human} ({mode})"
    stdout().print(text, markup=False, soft_wrap=True)


def _cells(samples: SampleTable, row: int, fastest: int) -> list[str]:
    step_s, power_w = float(samples.step_s[row]), float(samples.power_w[row])
    slower = step_s / float(samples.step_s[fastest])
    return [
        samples.mode(row).human,
        f"{step_s * 1e3:.2f}",
        f"{power_w:.2f}",
        f"{step_s * power_w:#.3g}",
        f"{slower:.2f}×",
    ]


def _json(
    measured: MeasuredTable, fronts: list[tuple[int, SampleTable]], power: float | None, plot: Path | None
) -> dict[str, Any]:
    return {
        "file": str(measured.path),
        "device": measured.device.name if measured.device else None,
        "power_budget_w": power,
        "fronts": [_front_json(measured, size, samples, power) for size, samples in fronts],
        "plot": None if plot is None else str(plot),
        "warnings": list(measured.table.warnings),
    }


def _front_json(measured: MeasuredTable, size: int, samples: SampleTable, power: float | None) -> dict[str, Any]:
    front = [int(row) for row in pareto_front(samples.step_s, samples.power_w)]
    best = next((row for row in front if power is not None and samples.power_w[row] <= power), None)
    return {
        "batch_size": size,
        "modes": len(samples),
        "front": [figures(samples, row) for row in front],
        "best": None if best is None else figures(samples, best),
        "presets": [
            {"name": p.name, "mode": str(p.mode), "exact": p.exact, "measured": figures(samples, p.row)}
            for p in measured.presets(samples)
        ],
    }


def _plot(measured: MeasuredTable, front: tuple[int, SampleTable], power: float | None, path: Path) -> None:
    from powertrain_cli.plots import draw

    with working(f"drawing {path}"):
        draw(_scatter(measured, front, power), path)


def _draw_as_text(measured: MeasuredTable, front: tuple[int, SampleTable], power: float | None) -> None:
    from powertrain_cli.canvas import text_plot

    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    drawing = text_plot(_scatter(measured, front, power), width=min(stdout().width, 110), unicode=unicode)
    stdout().print(drawing, markup=False, soft_wrap=True)


def _scatter(measured: MeasuredTable, front: tuple[int, SampleTable], power: float | None) -> Any:
    from powertrain_cli.scatter import scatter_of

    size, samples = front
    board = f" on {measured.device.name}" if measured.device else ""
    title = f"{measured.path.name}{board}, batch size {size}"
    return scatter_of(title, samples, measured.presets(samples), power)
