"""Measured tables and references as the command line names them: files, folders, or 'shipped'."""

from __future__ import annotations

from pathlib import Path

from powertrain import devices
from powertrain.reference import SHIPPED, Reference, ReferenceError, load, shipped
from powertrain.sample_csv import read_csv
from powertrain.samples import SampleTable
from powertrain_cli.errors import CliError

__all__ = ["SHIPPED", "load_reference", "one_batch_size"]


def one_batch_size(table: SampleTable, batch_size: int | None, option: str, path: Path) -> SampleTable:
    """Return the rows of one batch size; where a table holds several, the user must say which."""
    if batch_size is not None:
        try:
            return table.at_batch_size(batch_size)
        except ValueError as error:
            raise CliError(f"{path}: {error}") from None
    sizes = table.batch_sizes()
    if len(sizes) > 1:
        raise CliError(
            f"{path}: holds the batch sizes {sizes}; choose one with {option}: each is a workload of its own"
        )
    return table


def load_reference(
    name: str, batch_size: int | None, target_device: str | None
) -> tuple[Reference, str, tuple[str, ...]]:
    """Return a reference, where it came from, and warnings about it."""
    if target_device is not None:
        devices.get(target_device)  # a mistyped name would only look like another board
    try:
        if name == SHIPPED:
            model, source = shipped(), SHIPPED
        elif Path(name).is_dir():
            model, source = load(Path(name)), name
        else:
            path = Path(name)
            table = one_batch_size(read_csv(path), batch_size, "--reference-batch-size", path)
            return Reference.from_table(table, device=None, workload=path.stem), name, table.warnings
    except ReferenceError as error:
        raise CliError(str(error)) from None
    warnings: tuple[str, ...] = ()
    if target_device is not None and model.card.device != target_device:
        warnings = (f"the reference was measured on {model.card.device}, the target is {target_device}: a wide prior",)
    return model, source, warnings
