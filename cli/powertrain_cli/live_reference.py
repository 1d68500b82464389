"""The reference that a live `tune` starts from: a folder of `reference train`, or a table that becomes one."""

from __future__ import annotations

from pathlib import Path

from powertrain.reference import ReferenceError, load, train_reference
from powertrain.sample_csv import read_csv
from powertrain_cli.errors import CliError
from powertrain_cli.tables import SHIPPED, one_batch_size


def reference_folder(reference: str, scratch: Path) -> Path | None:
    """Return the folder of the reference, None for the shipped one; a table is fitted (the physics, no networks)."""
    if reference == SHIPPED:
        return None
    path = Path(reference)
    if not path.exists():
        raise CliError(
            f"--reference {reference}: there is no such file or folder; give a table, a folder of "
            f"`powertrain reference train`, or '{SHIPPED}'"
        )
    try:
        if path.is_dir():
            _ = load(path).physics  # reading the arrays is the only proof that they are whole
            return path
        table = one_batch_size(read_csv(path), None, "`powertrain reference train --batch-size`", path)
        folder = scratch / "reference"
        train_reference(table, None, path.stem, with_network=False).save(folder)
    except ReferenceError as error:
        raise CliError(f"--reference {reference}: {error}") from None
    return folder
