"""`powertrain evaluate --matrix`: every table as the reference of every other, and which reference the rule picks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from powertrain import devices
from powertrain.evaluation import Settings, evaluate_matrix, workloads_of
from powertrain.sample_csv import read_csv
from powertrain.samples import SampleTable
from powertrain_cli.errors import CliError
from powertrain_cli.output import progress, stdout, table, warn
from powertrain_cli.tables import one_batch_size

DEFAULT_SAMPLES = 50
LEGEND = (
    "Mean error of time / power in %, medians over seeds. Rows: the reference; columns: the target. Marked *: the "
    "reference on the table that it was fitted to. picked: the reference that the rule takes after 10 random modes; "
    "loss: its error (time + power) over that of the best one in the column."
)


def read_tables(paths: Sequence[Path], batch_size: int | None) -> dict[str, SampleTable]:
    """Read the tables of a matrix; each is named after its file."""
    tables: dict[str, SampleTable] = {}
    for path in paths:
        if path.stem in tables:
            raise CliError(f"two tables are called {path.stem}; a matrix needs different file names")
        rows = one_batch_size(read_csv(path), batch_size, "--batch-size", path)
        for text in rows.warnings:
            warn(text)
        tables[path.stem] = rows
    return tables


def run_matrix(tables: dict[str, SampleTable], device: str | None, settings: Settings) -> dict[str, Any]:
    """Evaluate the matrix with a progress bar."""
    if device is not None:
        devices.get(device)  # a mistyped name would only look like another board
    with progress() as bar:
        task = bar.add_task("evaluating", total=1.0)
        return evaluate_matrix(workloads_of(tables, device), settings, lambda share: bar.update(task, completed=share))


def print_matrix(document: dict[str, Any]) -> None:
    """Print the matrix as a table of references × targets with the picks below."""
    names = document["names"]
    cells = {(cell["reference"], cell["target"]): cell for cell in document["cells"]}
    rows = [[source, *(_cell(cells[source, target]) for target in names)] for source in names]
    rows.append(["picked", *(" ".join(pick["picked"]) for pick in document["picks"])])
    rows.append(["loss", *(f"{pick['loss']:.2f}" for pick in document["picks"])])
    title = f"{document['strategy']}, {document['samples']} modes, {document['seeds']} seeds"
    table(title, ["reference \\ target", *names], rows, right=names)
    stdout().print(LEGEND)


def _cell(cell: dict[str, Any]) -> str:
    mark = "*" if cell["self_fit"] else ""
    return f"{cell['mape_time_pct']['median']:.2f}/{cell['mape_power_pct']['median']:.2f}{mark}"
