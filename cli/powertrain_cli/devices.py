"""`powertrain devices` and `powertrain modes`: what the catalogue knows of a board, and its power modes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from powertrain import devices
from powertrain.devices import SUM_OF_RAILS, Device
from powertrain.devices.draft import draft
from powertrain.modes import PowerMode
from powertrain_cli.errors import CliError
from powertrain_cli.output import JsonFlag, emit_json, stdout, table

if TYPE_CHECKING:
    from powertrain.space import ModeSpace

# What the list of boards leaves out first on a narrow terminal.
NARROW_DROP = ("total power", "memory", "CPU", "GPU", "cores")
CSV_HEADER = "cpu_cores,cpu_khz,gpu_hz,emc_hz"
# Knob of a mode -> what a reader calls it, how many Hz one of the catalogue's units is.
CLOCKS = {"cpu_khz": ("CPU", 1000), "gpu_hz": ("GPU", 1), "emc_hz": ("memory", 1)}


class _ShowsBoards(TyperGroup):
    """Takes the name of a board for `show NAME`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not args[0].startswith("-"):
            devices.get(args[0])  # a mistyped board is told with the names that are right
            args = ["show", *args]
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        board = next(each for each in self.commands["show"].params if each.name == "device")
        return [*super().shell_complete(ctx, incomplete), *board.shell_complete(ctx, incomplete)]


app = typer.Typer(cls=_ShowsBoards, invoke_without_command=True)


def mount(root: typer.Typer) -> None:
    """Add both verbs to the command."""
    root.add_typer(app, name="devices")
    root.command("modes")(list_modes)


def complete_device(incomplete: str) -> list[str]:
    """Return the boards that a half-typed name can become."""
    return [name for name in devices.names() if name.startswith(incomplete)]


DeviceName = Annotated[
    str,
    typer.Argument(autocompletion=complete_device, help="A name that `powertrain devices` lists."),
]


@app.callback()
def list_devices(context: typer.Context, as_json: JsonFlag = False) -> None:
    """List the Jetson boards of the catalogue.

    [bold]Examples[/bold]

    powertrain devices

    powertrain devices show orin-agx
    """
    context.obj = as_json
    if context.invoked_subcommand is not None:
        return
    boards = [devices.get(name) for name in devices.names()]
    if as_json:
        emit_json({"devices": [_summary(board) for board in boards]})
        return
    numbers = ["cores", "CPU", "GPU", "memory", "modes"]
    table("", ["device", *numbers, "total power"], [_row(board) for board in boards], right=numbers, drop=NARROW_DROP)
    stdout().print("CPU, GPU, memory: clock steps. ?: not certain, `devices show` says why.")


@app.command("draft")
def draft_device(
    report: Annotated[Path, typer.Argument(help="A file that `powertrain doctor --report` wrote.")],
    name: Annotated[str, typer.Option(help="The catalogue's name of the board.")] = "my-board",
    tree: Annotated[
        Path | None, typer.Option(help="Also build the board's simulated file tree in this empty folder.")
    ] = None,
) -> None:
    """Turn the report of a board into a file for the catalogue.

    [bold]Examples[/bold]

    powertrain devices draft my-board.json --name my-board > my-board.toml

    powertrain devices draft my-board.json --tree ./tree
    """
    try:
        text = draft(json.loads(report.read_text(encoding="utf-8")), name)
        device = devices.parse(text, f"{name}.toml")
    except OSError as error:
        raise CliError(f"{report} can't be read: {error.strerror}") from None
    except ValueError as error:  # neither JSON, nor a report, nor a whole board
        raise CliError(f"{report}: {error}") from None
    sys.stdout.write(text)
    if tree is not None:
        from powertrain_agent.simulate.kernel_rules import KernelRules
        from powertrain_agent.simulate.layout import Layout
        from powertrain_agent.simulate.tree import build

        layout = Layout(device)
        build(tree, layout, KernelRules(layout).attributes)


@app.command("show")
def show_device(context: typer.Context, device: DeviceName, as_json: JsonFlag = False) -> None:
    """Show one board: clocks and their sources, sensors, NVIDIA's preset modes.

    [bold]Example[/bold]

    powertrain devices show orin-agx --json
    """
    board = devices.get(device)
    if as_json or context.obj:
        emit_json(_details(board))
        return
    _print_facts(board)
    clocks = [
        [title, len(values.values), span_mhz(values.values, unit_hz), yes(values.certain), values.source]
        for (title, unit_hz), (_, values) in zip(CLOCKS.values(), board.tables, strict=True)
    ]
    table("clocks", ["clock", "steps", "MHz", "certain", "source"], clocks, right=["steps"], drop=("certain", "steps"))
    presets = [
        [
            preset.id,
            preset.name,
            watts_label(preset.watts),
            board.preset_mode(preset).human,
            "yes" if preset.default else "",
        ]
        for preset in board.presets
    ]
    if presets:
        table("NVIDIA's presets", ["id", "name", "watts", "at most", "default"], presets, right=["id", "watts"])
    if board.notes:
        stdout().print(" ".join(board.notes.split()), markup=False)


def list_modes(
    device: DeviceName,
    count: Annotated[bool, typer.Option("--count", help="Only how many there are.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Every mode as one line of CSV.")] = False,
    profiled: Annotated[bool, typer.Option("--profiled", help="Only the part measured for the papers.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show the power modes of a board: cores × CPU clock × GPU clock × memory clock.

    [bold]Examples[/bold]

    powertrain modes orin-agx

    powertrain modes orin-agx --count

    powertrain modes orin-nano --profiled --csv > modes.csv
    """
    if csv and (count or as_json):
        raise CliError(f"--csv and {'--count' if count else '--json'} exclude each other: give one of them")
    board = devices.get(device)
    space = _profiled(board) if profiled else board.space()
    if as_json:
        emit_json(_modes_json(board, space, with_modes=not count))
    elif csv:
        sys.stdout.write(_csv(space))
    elif count:
        sys.stdout.write(f"{len(space)}\n")
    else:
        _print_axes(board, space)


def _profiled(board: Device) -> ModeSpace:
    space = board.profiled_space()
    if space is None:
        have = [name for name in devices.names() if devices.get(name).profiled]
        raise CliError(f"no measured part is known of {board.name!r}; boards with one: {', '.join(have)}")
    return space


def _csv(space: ModeSpace) -> str:
    rows = space.matrix.astype(int).tolist()
    return "\n".join([CSV_HEADER, *(",".join(map(str, row)) for row in rows)]) + "\n"


def _modes_json(board: Device, space: ModeSpace, *, with_modes: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"device": board.name, "count": len(space), "certain": board.certain}
    if with_modes:
        for knob in ("cores", *CLOCKS):
            data[knob] = getattr(space, knob).tolist()
        data["modes"] = [str(mode) for mode in space]
    return data


def _print_axes(board: Device, space: ModeSpace) -> None:
    rows = [["cores", len(space.cores), _several(space.cores.tolist())]]
    for knob, (title, unit_hz) in CLOCKS.items():
        values = getattr(space, knob).tolist()
        rows.append([f"{title}, MHz", len(values), _several([mhz(value, unit_hz) for value in values])])
    table(f"{board.name}: {len(space):,} modes", ["knob", "steps", "values"], rows, right=["steps"])
    slowest, fastest = space[0], space[-1]
    stdout().print(f"slowest {_both(slowest)}\nfastest {_both(fastest)}\nevery mode: --csv or --json", markup=False)
    if not board.certain:
        stdout().print("Not every list was seen in full: powertrain devices show " + board.name, markup=False)


def _both(mode: PowerMode) -> str:
    return f"{mode.human}  ({mode})"


def _several(values: list[Any]) -> str:
    return " ".join(str(value) for value in values)


def _print_facts(board: Device) -> None:
    profiled = board.profiled_space()
    measured = f", of them {len(profiled):,} measured for the papers" if profiled is not None else ""
    clusters = " | ".join(_several(list(cluster)) for cluster in board.clusters)
    facts = {
        "": f"{board.name}: {board.title}",
        "modules": ", ".join(board.modules) + f" ({board.soc})",
        "L4T": board.l4t,
        "cores": f"{board.cores}, clusters {clusters}, online in the order {_several(list(board.core_order))}",
        "modes": marked(board.mode_count, board.certain) + measured,
        "rails": ", ".join(board.sensors.rails),
        "total": f"{total_power(board)} ({board.sensors.source})",
    }
    for title, text in facts.items():
        stdout().print(f"{title}: {text}" if title else text, markup=False, style="bold" if not title else None)


def _row(board: Device) -> list[object]:
    steps = (marked(len(values.values), values.certain) for _, values in board.tables)
    return [board.name, board.cores, *steps, marked(board.mode_count, board.certain), total_power(board)]


def _summary(board: Device) -> dict[str, Any]:
    return {
        "name": board.name,
        "title": board.title,
        "soc": board.soc,
        "modules": list(board.modules),
        "cores": board.cores,
        "cpu_steps": len(board.tables.cpu_khz.values),
        "gpu_steps": len(board.tables.gpu_hz.values),
        "emc_steps": len(board.tables.emc_hz.values),
        "modes": board.mode_count,
        "total_power": board.sensors.total,
        "certain": board.certain,
    }


def _details(board: Device) -> dict[str, Any]:
    data = board.model_dump(mode="json", exclude={"tree", "presets", "profiled"})
    profiled = board.profiled_space()
    return data | {
        "certain": board.certain,
        "modes": board.mode_count,
        "profiled_modes": None if profiled is None else len(profiled),
        "presets": [p.model_dump(mode="json") | {"mode": str(board.preset_mode(p))} for p in board.presets],
    }


def total_power(board: Device) -> str:
    """Say which rail is the module's total, or that it is a sum."""
    rails = board.sensors.rails
    return f"sum of {len(rails)} rails" if board.sensors.total == SUM_OF_RAILS else board.sensors.total


def marked(number: int, certain: bool) -> str:
    """Return a number, with a question mark if it is not certain."""
    return f"{number:,}" if certain else f"{number:,}?"


def mhz(value: int | None, unit_hz: int) -> str:
    """Return a clock in MHz without needless zeros; a dash for none."""
    return "–" if value is None else f"{value * unit_hz / 1e6:.2f}".rstrip("0").rstrip(".")


def span_mhz(values: tuple[int, ...], unit_hz: int) -> str:
    """Return the lowest and highest clock of a table in MHz."""
    return f"{mhz(values[0], unit_hz)} – {mhz(values[-1], unit_hz)}"


def watts_label(watts: float | None) -> str:
    """Return the watts of a preset's label; a dash for none."""
    return "–" if watts is None else f"{watts:g}"


def yes(value: bool) -> str:
    """Return yes or no."""
    return "yes" if value else "no"
