"""Boards over batch sizes as the command line names them: a measured table, or a simulated board."""

from __future__ import annotations

from pathlib import Path

from powertrain.batching import BatchTable
from powertrain.sample_csv import read_csv
from powertrain_cli.errors import CliError
from powertrain_cli.output import warn

NO_LIMIT = "none"


def limit_name(watts: float | None) -> str:
    """Return a limit as it is shown."""
    return NO_LIMIT if watts is None else f"{watts:g} W"


def parse_limits(text: str) -> list[float | None]:
    """Read `4.5,7,none`."""
    try:
        limits = [None if part.strip() == NO_LIMIT else float(part) for part in text.split(",")]
    except ValueError:
        raise CliError(
            f"--limits takes watts and 'none' separated by commas, such as 4.5,7,none; not {text!r}"
        ) from None
    if any(watts is not None and not 0 < watts < float("inf") for watts in limits):
        raise CliError(f"--limits must be above zero, not {text!r}")
    return limits


def board_table(
    measured: Path | None, board: str | None, workload: str | None, sizes: list[int], all_knobs: bool = False
) -> BatchTable:
    """Return the measured table, or a simulated board's at those batch sizes that it can hold.

    Its modes are those of the second paper, which differ in the GPU clock alone, or a part of all.
    """
    if (measured is None) == (board is None):
        raise CliError("give either --table, or --simulate with --workload")
    if measured is not None:
        return BatchTable.of(read_csv(measured))
    if workload is None or board is None:
        raise CliError("--simulate needs --workload")
    from powertrain_agent.simulate import batches, workloads

    modes = batches.thinned_modes(board) if all_knobs else batches.along_gpu(board)
    try:
        convergent = workload in batches.convergent()
        fitting = _fitting_sizes(sizes, workload, batches.largest_batch(workload)) if convergent else sizes
        return BatchTable.of(batches.measured(board, workload, fitting, modes))
    except workloads.UnknownWorkloadError as error:
        raise CliError(str(error)) from None


def any_workload(board: str) -> list[BatchTable]:
    """Return a simulated board's tables along the GPU clocks of all workloads that could be trained on it."""
    from powertrain_agent.simulate import batches

    modes, tables = batches.along_gpu(board), []
    for workload in batches.convergent():
        fitting = [size for size in batches.BATCH_SIZES if size <= batches.largest_batch(workload)]
        tables.append(BatchTable.of(batches.measured(board, workload, fitting, modes)))
    return tables


def _fitting_sizes(sizes: list[int], workload: str, largest: int) -> list[int]:
    """Return the batch sizes that fit into the board's memory; the others are named."""
    fitting = [size for size in sizes if size <= largest]
    if not fitting:
        raise CliError(f"{workload} has room for {largest} samples in a batch; the studies have {sizes}")
    if len(fitting) < len(sizes):
        warn(
            f"left out: batch sizes {sizes[len(fitting) :]} do not fit into the memory ({workload}: {largest} at most)"
        )
    return fitting
