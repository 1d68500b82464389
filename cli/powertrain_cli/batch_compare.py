"""`powertrain batch-study compare`: plans for several batch sizes on one board, by time and energy to accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from powertrain.batching.plans import PLANS, worst_case_column
from powertrain.batching.study import mean_needed
from powertrain.evaluation.batch_plans import PlanScore, Target, score_plans
from powertrain.modes import PowerMode
from powertrain.objectives import Objective
from powertrain.reference import shipped
from powertrain_cli.errors import CliError, Exit
from powertrain_cli.output import JsonFlag, emit_json, stdout, table
from powertrain_cli.study_runner import read_study
from powertrain_cli.study_tables import any_workload, board_table, limit_name, parse_limits

LEGEND = (
    "s, J: time and energy until the target accuracy, by the target's own samples. over: % slower than the fastest "
    "configuration. pairs: batch sizes and modes measured, of them above the limit. min: what that takes. Limits are "
    "on peak power."
)


def compare(
    proxy: Annotated[Path, typer.Argument(help="Study of the proxy data set: its r decides.", metavar="PROXY.json")],
    target: Annotated[Path, typer.Argument(help="Study of the target: its samples score.", metavar="TARGET.json")],
    measured: Annotated[
        Path | None, typer.Option("--table", help="Measured table (tidy CSV) with the batch sizes of the studies.")
    ] = None,
    simulate: Annotated[str | None, typer.Option(help="Instead: a simulated board, with --workload.")] = None,
    workload: Annotated[str | None, typer.Option(help="A workload of the simulator.")] = None,
    limits: Annotated[str, typer.Option(help="Limits on peak power in watts, and 'none'.")] = "none",
    plan: Annotated[list[str] | None, typer.Option(help=f"May be given several times: {', '.join(PLANS)}.")] = None,
    objective: Annotated[Objective, typer.Option(help="MinTime or MinEnergy.")] = Objective.MIN_TIME,
    as_json: JsonFlag = False,
) -> None:
    """Compare plans under limits: batch size and mode taken, time and energy to accuracy, what profiling took.

    [bold]Examples[/bold]

    powertrain batch-study compare blobs.json digits.json --simulate nano --workload mobilenet-v2 --limits 4.5,7,none
    """
    relation, needed = read_study(proxy).relation(), mean_needed(read_study(target))
    usable = sorted(set(relation.r) & set(needed))
    if not usable:
        raise CliError(f"{proxy} and {target} have no batch size in common that reached its target", Exit.NO_SOLUTION)
    scores: list[PlanScore] = []
    try:
        truth = board_table(measured, simulate, workload, usable, all_knobs=True)
        truth = truth.only([size for size in usable if simulate is None or size in truth.batch_sizes])
        # Clocks that are safe for any workload: of a measured board only this one is known.
        unknown = [truth] if simulate is None else [truth, *any_workload(simulate)]
        for watts in parse_limits(limits):
            safe = worst_case_column(unknown, watts)
            scores += score_plans(
                truth, Target(needed, relation), watts, safe, tuple(plan or PLANS), shipped(), objective
            )
    except ValueError as error:
        raise CliError(str(error)) from None
    if as_json:
        emit_json({"results": [score.to_dict() for score in scores]})
        return
    columns = ["limit", "plan", "batch", "mode", "s", "J", "peak W", "over %", "pairs", "min"]
    table(f"{proxy.stem} → {target.stem}", columns, [_cells(score) for score in scores], right=columns[4:])
    stdout().print(LEGEND)


def _cells(score: PlanScore) -> tuple[str, ...]:
    def figure(value: float | None, digits: int) -> str:
        return "–" if value is None else f"{value:.{digits}f}"

    return (
        limit_name(score.limit_w),
        score.plan,
        "–" if score.batch_size is None else str(score.batch_size),
        PowerMode.parse(score.mode).human if score.mode else "–",
        figure(score.time_s, 1),
        figure(score.energy_j, 0),
        figure(score.peak_w, 2),
        figure(score.over_fastest_pct, 1),
        f"{score.measured}, {score.profiled_over_limit}",
        figure(score.profiling_minutes, 1),
    )
