"""`powertrain batch-study`: how many samples each batch size needs, and how much a proxy data set can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from powertrain.batching import RelationError, Scaling
from powertrain.batching.study import Outcome, Study, StudyRun, StudySpec, mean_needed
from powertrain.evaluation import EvaluationError
from powertrain.evaluation.batch_plans import proxy_matrix
from powertrain_cli.batch_compare import compare
from powertrain_cli.errors import CliError, Exit
from powertrain_cli.output import JsonFlag, emit_json, progress, stdout, table, warn
from powertrain_cli.plots import check_target
from powertrain_cli.study_runner import python_command, read_study, resumed, run_study
from powertrain_cli.study_tables import NO_LIMIT, board_table, limit_name, parse_limits

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Find how many samples each batch size needs until a target accuracy.",
)
app.command("compare")(compare)


@app.command("run", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    command: Annotated[
        list[str],
        typer.Argument(help="The training, after --; it calls powertrain_sdk.reached(accuracy).", metavar="-- COMMAND"),
    ],
    out: Annotated[Path, typer.Option(help="Study file (JSON); an unfinished one is continued.")],
    batch_sizes: Annotated[str, typer.Option(help="Such as 4,8,16,32,64,128.")],
    target_accuracy: Annotated[float, typer.Option(help="When a run has reached its aim.")],
    learning_rate: Annotated[float, typer.Option(help="The learning rate at --at-batch-size.")],
    at_batch_size: Annotated[int | None, typer.Option(help="Default: the largest batch size.")] = None,
    scaling: Annotated[
        Scaling, typer.Option(help="Sqrt for Adam and AdamW, Linear for SGD, None to leave it.")
    ] = Scaling.SQRT,
    seeds: Annotated[int, typer.Option(min=1, help="Runs per batch size.")] = 3,
    max_samples: Annotated[int, typer.Option(min=1, help="A run that needs more does not converge.")] = 1_000_000,
    unit_samples: Annotated[
        int | None, typer.Option("--s", help="Unit of N_acc: from the largest batch to the data set's size.")
    ] = None,
    data_samples: Annotated[int | None, typer.Option(help="Size of the data set, to check --s against.")] = None,
    timeout_s: Annotated[float | None, typer.Option("--timeout", help="Seconds after which a run has failed.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Trainings at a time.")] = 1,
    as_json: JsonFlag = False,
) -> None:
    """Train a proxy data set with every batch size and seed; write N_acc and r into a study file.

    The command finds POWERTRAIN_BATCH_SIZE, POWERTRAIN_LEARNING_RATE (scaled) and POWERTRAIN_SEED in its environment.

    [bold]Examples[/bold]

    powertrain batch-study run --out digits.json --batch-sizes 8,16,32,64 --target-accuracy 0.95 --learning-rate 1e-3
    --seeds 5 -- python train.py --data digits
    """
    sizes = parse_sizes(batch_sizes)
    try:
        spec = StudySpec(
            name=out.stem,
            batch_sizes=sizes,
            seeds=seeds,
            target_accuracy=target_accuracy,
            learning_rate=learning_rate,
            at_batch_size=max(sizes) if at_batch_size is None else at_batch_size,
            scaling=scaling,
            max_samples=max_samples,
            unit_samples=unit_samples,
            data_samples=data_samples,
            command=python_command(command),
        )
    except ValueError as error:
        raise CliError(str(error)) from None
    study = resumed(spec, out)
    with progress() as bar:
        task = bar.add_task("training", total=len(study.pending()) or 1)

        def print_run(ended: StudyRun) -> None:
            bar.advance(task)
            if ended.outcome is not Outcome.REACHED:
                warn(f"batch size {ended.batch_size}, seed {ended.seed}: {ended.reason}")

        study = run_study(study, out, jobs, timeout_s, print_run)
    _print(study, out, as_json)


@app.command("show")
def show(
    study: Annotated[Path, typer.Argument(help="Study file.", metavar="STUDY.json")], as_json: JsonFlag = False
) -> None:
    """Show N_acc and r of each batch size, and which are missing and why."""
    _print(read_study(study), study, as_json)


@app.command("matrix")
def matrix(
    studies: Annotated[list[Path], typer.Argument(help="Study files of one model.", metavar="A.json B.json …")],
    measured: Annotated[
        Path | None, typer.Option("--table", help="Measured table (tidy CSV) with the batch sizes of the studies.")
    ] = None,
    simulate: Annotated[str | None, typer.Option(help="Instead: a simulated board, with --workload.")] = None,
    workload: Annotated[str | None, typer.Option(help="A workload of the simulator.")] = None,
    limits: Annotated[str, typer.Option(help="Limits on peak power in watts, and 'none'.")] = "none",
    plot: Annotated[Path | None, typer.Option(help="Heat map, .svg or .png.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """For each study as the proxy of each other: how many % slower than the fastest configuration its choice is.

    [bold]Examples[/bold]

    powertrain batch-study matrix a.json b.json c.json --simulate nano --workload mobilenet-v2 --limits 4.5,7,none
    --plot matrix.svg
    """
    if plot is not None:
        check_target(plot)
    needed = _samples_needed(studies)
    batch_sizes = sorted({size for of_study in needed.values() for size in of_study})
    truth = board_table(measured, simulate, workload, batch_sizes)
    try:
        cells_by_watts = proxy_matrix(truth, needed, parse_limits(limits))
    except EvaluationError as error:
        raise CliError(str(error)) from None
    cells_by_limit = {limit_name(watts): cells for watts, cells in cells_by_watts.items()}
    if plot is not None:
        from powertrain_cli.heat_map import draw_matrices

        title = "time over the fastest configuration, %: r of the proxy, trained on the target"
        draw_matrices(
            {"no limit" if name == NO_LIMIT else name: cells for name, cells in cells_by_limit.items()}, title, plot
        )
    if as_json:
        emit_json({"limits": {name: _finite(cells) for name, cells in cells_by_limit.items()}})
        return
    for name, cells in cells_by_limit.items():
        rows = [(proxy, *(_percent(cells[proxy][target]) for target in needed)) for proxy in needed]
        table(f"% over the fastest, limit {name}", ["proxy ↓ target →", *needed], rows, right=list(needed))


def parse_sizes(text: str) -> tuple[int, ...]:
    """Read `4,8,16`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() for part in parts):
        raise CliError(f"--batch-sizes takes whole numbers separated by commas, such as 4,8,16; not {text!r}")
    return tuple(sorted(int(part) for part in parts))


def _samples_needed(paths: list[Path]) -> dict[str, dict[int, float]]:
    by_study = {}
    for path in paths:
        study = read_study(path)
        samples = mean_needed(study)
        if not samples:
            raise CliError(f"{path}: no batch size has reached the target", Exit.NO_SOLUTION)
        if study.spec.name in by_study:
            raise CliError(f"two studies are named {study.spec.name!r}")
        by_study[study.spec.name] = samples
    return by_study


def _print(study: Study, path: Path, as_json: bool) -> None:
    document = study.to_dict()
    if as_json:
        emit_json(document)
    else:
        _print_table(study, document, path)
    if not study.needed():
        raise CliError(
            f"{path}: no batch size has reached the target of {study.spec.target_accuracy:g}", Exit.NO_SOLUTION
        )


def _print_table(study: Study, document: dict[str, Any], path: Path) -> None:
    rows = []
    for size in sorted(study.spec.batch_sizes):
        samples, key = document["n_acc"].get(str(size)), str(size)
        if samples is None:
            rows.append((key, f"{study.spec.rate(size):.3g}", "–", "–", "–", study.missing()[size]))
            continue
        several = samples["runs"] > 1  # one run has no spread
        r = f"{document['r'][key]:.3f}" + (f" ± {document['spread'][key]:.3f}" if several else "")
        n_acc = f"{samples['mean']:.2f}" + (f" ± {samples['spread']:.2f}" if several else "")
        failed = study.spec.seeds - samples["runs"]
        note = f"{failed} of {study.spec.seeds} runs missing or failed" if failed else ""
        rows.append((key, f"{study.spec.rate(size):.3g}", n_acc, r, str(samples["runs"]), note))
    columns = ["batch size", "learning rate", f"N_acc (s = {study.spec.unit})", "r", "seeds", "note"]
    table(f"{path}: samples until accuracy {study.spec.target_accuracy:g}", columns, rows, right=columns[:5])
    try:
        if not study.relation().is_monotone:
            stdout().print("r neither only rises nor only falls with the batch size.")
    except RelationError:
        return


def _finite(cells: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float | None]]:
    return {
        proxy: {target: float(value) if np.isfinite(value) else None for target, value in row.items()}
        for proxy, row in cells.items()
    }


def _percent(value: float) -> str:
    return "–" if np.isnan(value) else "∞" if np.isinf(value) else f"{value:.1f}"
