"""Measured tables as the verbs take them: the file, its board and its batch size, with warnings on stderr."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from powertrain.devices import Device
from powertrain.modes import PowerMode
from powertrain.sample_csv import read_csv
from powertrain.samples import SampleTable
from powertrain.space import ModeSpace
from powertrain_cli.errors import CliError
from powertrain_cli.output import warn, working
from powertrain_cli.units import watts

# On the published tables only rows that stand out from all of their neighbours are above this ratio.
SUSPICIOUS = 1.25


def _complete_device(incomplete: str) -> list[str]:
    from powertrain import devices

    return [name for name in devices.names() if name.startswith(incomplete)]


def positive(value: float | None) -> float | None:
    """Refuse an option's value that is not a number above zero (a typer callback)."""
    if value is not None and not 0 < value < float("inf"):
        raise typer.BadParameter(f"{value:g} is not a number above zero")
    return value


DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA.csv",
        show_default=False,
        help="Measurements, one line a mode: cpu_cores,cpu_khz,gpu_hz,emc_hz,batch_size,time_ms,power_w"
        " and, if known, power_peak_w.",
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        autocompletion=_complete_device,
        help="The board that was measured: checks its frequencies, marks NVIDIA's presets.",
    ),
]
BatchSizeOption = Annotated[
    int | None, typer.Option("--batch-size", min=1, help="Only the lines with this batch size.")
]
PowerOption = Annotated[
    float | None, typer.Option("--power", parser=watts, metavar="WATTS", help="The power budget in watts.")
]


@dataclass(frozen=True, slots=True)
class PresetPoint:
    """One of NVIDIA's presets and the row of the table that is nearest to it."""

    name: str
    mode: PowerMode
    row: int
    exact: bool


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """A table with the board it is from, if that was said."""

    path: Path
    table: SampleTable
    device: Device | None

    def by_batch_size(self, batch_size: int | None) -> list[tuple[int, SampleTable]]:
        """Return the table of the wanted batch size, or of each."""
        present = self.table.batch_sizes()
        if batch_size is not None and batch_size not in present:
            raise CliError(f"{self.path}: no rows with batch size {batch_size}; present: {_listed(present)}")
        return [(size, self.table.at_batch_size(size)) for size in ([batch_size] if batch_size else present)]

    def of_one_batch_size(self, batch_size: int | None, why: str) -> tuple[int, SampleTable]:
        """Return the table of the wanted or only batch size; where there are several, ask for one."""
        tables = self.by_batch_size(batch_size)
        if len(tables) > 1:
            sizes = _listed([size for size, _ in tables])
            raise CliError(f"{self.path} has the batch sizes {sizes}: {why}; say which with --batch-size")
        return tables[0]

    def presets(self, table: SampleTable) -> list[PresetPoint]:
        """Return NVIDIA's presets of the board with the nearest measured modes; none without a board."""
        if self.device is None:
            return []
        space = ModeSpace.covering(table.matrix)
        row_of = {table.mode(row): row for row in range(len(table))}
        points = []
        for preset in self.device.presets:
            mode = self.device.preset_mode(preset)
            nearest = space.nearest(mode)
            points.append(PresetPoint(preset.name, mode, row_of[nearest], nearest == mode))
        return points


def load(path: Path, device: str | None) -> MeasuredTable:
    """Read a table; warnings go to stderr."""
    from powertrain import devices

    board = devices.get(device) if device else None
    with working(f"reading {path}"):
        table = read_csv(path, space=board.space() if board else None)
    for text in table.warnings:
        warn(text)
    return MeasuredTable(path, table, board)


def doubt(table: SampleTable, row: int) -> str | None:
    """Say so if a mode takes far less power than one with a lower clock or fewer cores: likely a bad measurement."""
    mode = table.mode(row)
    row_of = {table.mode(other): other for other in range(len(table))}
    lower = [row_of[other] for other in ModeSpace.covering(table.matrix).neighbours(mode) if other < mode]
    hungriest = max(lower, key=lambda other: float(table.power_w[other]), default=row)
    if table.power_w[hungriest] <= SUSPICIOUS * table.power_w[row]:
        return None
    below, watts = table.mode(hungriest).human, table.power_w[hungriest]
    return (
        f"{mode.human} is recorded with {table.power_w[row]:.1f} W, but {below}, one step lower, with {watts:.1f} W:"
        " perhaps its clocks were not applied; measure it again before you use it"
    )


def figures(table: SampleTable, row: int) -> dict[str, Any]:
    """Return one row as JSON."""
    step_s, power_w = float(table.step_s[row]), float(table.power_w[row])
    mode, peak_w = table.mode(row), table.sample(row).power_peak_w
    return {
        "mode": str(mode),
        "human": mode.human,
        "step_s": _rounded(step_s),
        "power_w": _rounded(power_w),
        "power_peak_w": None if peak_w is None else _rounded(peak_w),
        "step_j": _rounded(step_s * power_w),
    }


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes))
