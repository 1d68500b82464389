"""`powertrain reference`: train a reference from a measured table, and show what one was trained on."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from powertrain import devices
from powertrain.networks import TorchMissingError
from powertrain.reference import Reference, ReferenceError, load, shipped, train_reference
from powertrain.sample_csv import read_csv
from powertrain_cli.devices import complete_device
from powertrain_cli.errors import CliError, Exit
from powertrain_cli.output import JsonFlag, emit_json, progress, stdout, table, warn
from powertrain_cli.tables import SHIPPED, one_batch_size

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Train and show references: thoroughly measured workloads from which every transfer starts.",
)


@app.command("train")
def train(
    data: Annotated[Path, typer.Argument(help="Measured table (tidy CSV), one row per mode.", metavar="DATA.csv")],
    device: Annotated[
        str, typer.Option(autocompletion=complete_device, help="The board, as `powertrain devices` lists it.")
    ],
    workload: Annotated[str, typer.Option(help="What was trained there, for example resnet18.")],
    out: Annotated[Path, typer.Option(help="Folder to write the reference into.")],
    seed: Annotated[int, typer.Option(min=0, help="Same data, same seed, same result.")] = 0,
    no_network: Annotated[
        bool, typer.Option("--no-network", help="Only the physics: seconds, no torch; enough for `transfer`.")
    ] = False,
    batch_size: Annotated[int | None, typer.Option(help="Which batch size, where the table holds several.")] = None,
    notes: Annotated[str, typer.Option(help="A line for the card.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Train a reference from a measured table and write it into a folder.

    [bold]Examples[/bold]

    powertrain reference train resnet.csv --device orin-agx --workload resnet18 --out ./resnet18

    powertrain reference train yolo.csv --device xavier-agx --workload yolo --out ./yolo --no-network
    """
    board = devices.get(device)
    if out.exists() and not out.is_dir():
        raise CliError(f"--out {out}: is a file, not a folder")
    rows = one_batch_size(read_csv(data, board.space()), batch_size, "--batch-size", data)
    for text in rows.warnings:
        warn(text)
    parts = ("physics",) if no_network else ("physics", "time", "power")
    try:
        with progress() as bar:
            tasks = {part: bar.add_task(part, total=1.0) for part in parts}
            reference = train_reference(
                rows,
                board.name,
                workload,
                seed,
                with_network=not no_network,
                notes=notes,
                report=lambda part, share: bar.update(tasks[part], completed=share),
            )
        reference.save(out)
    except TorchMissingError as error:
        raise CliError(f"{error}, or give --no-network", Exit.ENVIRONMENT) from None
    except ReferenceError as error:
        raise CliError(f"{data}: {error}") from None
    _show(reference, str(out), as_json)


@app.command("show")
def show(
    reference: Annotated[str, typer.Argument(help="A folder of `reference train`, or 'shipped'.", metavar="DIR")],
    as_json: JsonFlag = False,
) -> None:
    """Show what a reference was trained on, by what, and its error.

    [bold]Examples[/bold]

    powertrain reference show shipped

    powertrain reference show ./resnet18 --json
    """
    try:
        model = shipped() if reference == SHIPPED else load(Path(reference))
        # Reading the arrays is the only proof that they are whole.
        physics_rows = model.physics.rows
        if model.has_network and find_spec("safetensors"):
            model.network()
    except ReferenceError as error:
        raise CliError(str(error)) from None
    if physics_rows != model.card.rows:
        raise CliError(
            f"{reference}: the card is of {model.card.rows} rows, the physics of {physics_rows}: not one set"
        )
    _show(model, reference, as_json)


def _show(reference: Reference, source: str, as_json: bool) -> None:
    card = reference.card
    if as_json:
        emit_json({"source": source} | json.loads(card.model_dump_json()))
        return
    facts: dict[str, Any] = {
        "device": card.device or "unknown",
        "workload": f"{card.workload}, batch size {card.batch_size}",
        "trained on": f"{card.rows:,} modes (sha256 {card.data_sha256[:16]}…), seed {card.seed}",
        "made with": ", ".join(f"{name} {version}" for name, version in card.created_with.items()),
        "from": source,
    }
    stdout().print(card.name, style="bold", markup=False)
    for title, text in facts.items():
        stdout().print(f"{title}: {text}", markup=False, soft_wrap=True)
    if card.notes:
        stdout().print(f"notes: {card.notes}", markup=False, soft_wrap=True)
    extents = [[knob, extent.steps, extent.lowest, extent.highest] for knob, extent in card.space.items()]
    table("measured", ["knob", "steps", "lowest", "highest"], extents, right=["steps", "lowest", "highest"])
    errors = [
        [part, f"{figures.time_mape_pct:.2f}", f"{figures.power_mape_pct:.2f}", figures.over]
        if figures
        else [part, "–", "–", "no"]
        for part, figures in (("physics", card.physics), ("networks", card.network))
    ]
    table("error (MAPE %)", ["part", "time", "power", "over"], errors, right=["time", "power"])
