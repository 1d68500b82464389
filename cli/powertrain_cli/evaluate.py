"""`powertrain evaluate`: how well strategies predict and choose on a measured table, with the papers' scores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from powertrain.evaluation import EvaluationError, Settings, evaluate, fronts
from powertrain.profiling import Aim, Caution
from powertrain.reference import ReferenceError
from powertrain.sample_csv import read_csv
from powertrain.samples import SampleTable
from powertrain.strategies import UnknownStrategyError, names
from powertrain.strategies.base import StrategyUnavailableError
from powertrain_cli import completion
from powertrain_cli.errors import CliError, Exit
from powertrain_cli.matrix import DEFAULT_SAMPLES, print_matrix, read_tables, run_matrix
from powertrain_cli.output import JsonFlag, emit_json, progress, stdout, table, warn
from powertrain_cli.tables import load_reference, one_batch_size
from powertrain_cli.unseen import UNSEEN_SAMPLES, score_unseen, show_unseen

LEGEND = (
    "Medians over seeds. time, power: mean error of the predictions in %. penalty: % slower than the best mode within "
    "the budget, over binding budgets (below the fastest mode's power). over: choices above their budget. unsafe: "
    "profiled modes above it. above: windows of true power above the budget, while exploring + after the choice. min: "
    "profiling minutes. ms: CPU time of fit and prediction."
)


def mount(root: typer.Typer) -> None:
    """Add the verb to the command."""
    root.command("evaluate")(run_evaluation)


def run_evaluation(
    tables: Annotated[
        list[Path] | None, typer.Argument(metavar="[TABLE.csv]…", help="The tables of --matrix.", show_default=False)
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--target", help="Measured table (tidy CSV) to predict and choose on.")
    ] = None,
    matrix: Annotated[
        bool, typer.Option("--matrix", help="Every table as the reference of every other: TABLE.csv TABLE.csv …")
    ] = False,
    reference: Annotated[
        str,
        typer.Option("--reference", help="Measured table, or a folder of `powertrain reference train`, or 'shipped'."),
    ] = "shipped",
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            "--strategy",
            autocompletion=completion.strategies,
            help=f"May be given several times: {', '.join(names())}.",
        ),
    ] = None,
    samples: Annotated[
        str | None,
        typer.Option(help="Numbers of profiled modes, or 'all'.", show_default="5,10,20,50,100; with --matrix 50"),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 10,
    validate: Annotated[
        str, typer.Option(help="Score predictions on 'unseen' modes or on 'all', as the papers do.")
    ] = "unseen",
    aim: Annotated[Aim, typer.Option(help="What the profile is for.")] = Aim.FRONT,
    budgets: Annotated[
        str | None,
        typer.Option(help="Watts: 17:50:1 (from:to:step) or 15,30,50. Default: every watt that the table spans."),
    ] = None,
    checks: Annotated[int, typer.Option(min=0, help="In-flight checks allowed per budget.")] = 0,
    noise: Annotated[float, typer.Option(min=0.0, max=0.5, help="Relative noise on what a session is told.")] = 0.0,
    within_budget: Annotated[
        bool, typer.Option("--within-budget", help="Each budget is also the exploration limit.")
    ] = False,
    caution: Annotated[
        Caution,
        typer.Option(
            help="With --within-budget: 'normal' replays readings and lets a ledger over the guard window end visits; "
            "'high' tries only modes that are unlikely to exceed the budget.",
            case_sensitive=False,
        ),
    ] = Caution.NORMAL,
    lag: Annotated[
        str,
        typer.Option(help="With --within-budget: seconds by which power lags behind the clocks, drawn from low:high."),
    ] = "0.3:1.2",
    period: Annotated[
        float, typer.Option(min=0.05, max=0.5, help="With --within-budget: seconds from reading to reading.")
    ] = 0.1,
    device: Annotated[str | None, typer.Option(help="Catalogue name of the target's board (for presets).")] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Which batch size of the target, where it holds several.")
    ] = None,
    reference_batch_size: Annotated[int | None, typer.Option(help="The same for the reference.")] = None,
    risk: Annotated[
        float, typer.Option(min=0.001, max=0.5, help="Accepted probability that a choice breaks its budget.")
    ] = 0.05,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = max(1, (os.cpu_count() or 1)),
    unseen: Annotated[
        bool,
        typer.Option(
            "--unseen-batch-sizes",
            help="Profile the smallest, middle and largest batch size of the target (40 samples together, or as "
            "--samples says), and score the predictions of its other batch sizes.",
        ),
    ] = False,
    with_fronts: Annotated[
        bool,
        typer.Option(
            "--fronts", help="Add to --json: observed, predicted and truly reached front of each strategy (seed 0)."
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Score strategies on a measured table: prediction error, penalty, broken budgets, profiling minutes.

    [bold]Examples[/bold]

    powertrain evaluate --reference resnet.csv --target lstm.csv --aim accuracy --samples 5,10,20,50

    powertrain evaluate --target lstm.csv --samples 20 --checks 2 --budgets 17:50:1 --noise 0.01

    powertrain evaluate --target lstm.csv --strategy transfer --strategy random-pareto --samples 15 --aim budget
    --within-budget

    powertrain evaluate --target several-batch-sizes.csv --unseen-batch-sizes

    powertrain evaluate --matrix resnet.csv mobilenet.csv lstm.csv --samples 10 --aim accuracy
    """
    if with_fronts and (matrix or not as_json):
        raise CliError("--fronts adds to --json and needs one --target: --target a.csv --fronts --json")
    if validate not in ("unseen", "all"):
        raise CliError(f"--validate takes 'unseen' or 'all', not {validate!r}")
    if unseen:
        if target is None:
            raise CliError("--unseen-batch-sizes needs --target TABLE.csv")
        counts = parse_samples(samples) if samples else UNSEEN_SAMPLES
        document = score_unseen(read_csv(target), reference, reference_batch_size, device, counts, seeds, noise)
        show_unseen({"target": str(target), **document}, as_json)
        return
    settings = Settings(
        strategies=tuple(strategy or ("transfer",)),
        samples=parse_samples(samples or (str(DEFAULT_SAMPLES) if matrix else "5,10,20,50,100")),
        seeds=seeds,
        aim=aim,
        budgets_w=parse_budgets(budgets),
        checks=checks,
        noise=noise,
        within_budget=within_budget,
        validate_all=validate == "all",
        device=device,
        risk=risk,
        jobs=jobs,
        caution=caution,
        lag_s=parse_lag(lag),
        period_s=period,
    )
    if matrix:
        _matrix(tables or [], target, batch_size, settings, as_json)
        return
    if target is None or tables:
        raise CliError("give one table with --target, or several with --matrix: --matrix a.csv b.csv")
    table_ = one_batch_size(read_csv(target), batch_size, "--batch-size", target)
    model, source, warnings = load_reference(reference, reference_batch_size, device)
    if model.fitted_to(table_):
        warnings += (f"the reference {source} was fitted to this very table: errors are a self-fit, not predictions",)
    for text in (*table_.warnings, *warnings):
        warn(text)
    with _mistakes():
        results = _evaluate(table_, model, settings)
        fronts = _fronts(table_, model, settings) if with_fronts else {}
    document = {
        "reference": source,
        "target": str(target),
        "settings": _settings(settings),
        "results": results,
        **fronts,
    }
    if as_json:
        emit_json(document)
    else:
        _print(document)


def parse_samples(text: str) -> tuple[int | str, ...]:
    """Read `5,10,all`."""
    values: list[int | str] = []
    for part in (piece.strip() for piece in text.split(",")):
        if part != "all" and not part.isdigit():
            raise CliError(
                f"--samples takes whole numbers and 'all', separated by commas, such as 5,10,20,all; not {part!r}"
            )
        values.append(part if part == "all" else int(part))
    return tuple(values)


def parse_lag(text: str) -> tuple[float, float]:
    """Read `0.3:1.2`."""
    try:
        low, high = (float(part) for part in text.split(":"))
        if not 0 < low <= high < 60:
            raise ValueError
    except ValueError:
        raise CliError(f"--lag takes two numbers of seconds as low:high, such as 0.3:1.2; not {text!r}") from None
    return low, high


def parse_budgets(text: str | None) -> tuple[float, ...] | None:
    """Read `17:50:1` or `15,30,50`."""
    if text is None:
        return None
    try:
        if ":" in text:
            low, high, step = (float(part) for part in text.split(":"))
            if step <= 0 or high < low:
                raise ValueError
            return tuple(low + k * step for k in range(int((high - low) / step + 1e-9) + 1))
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise CliError(
            f"--budgets takes watts as from:to:step (17:50:1) or as a list (15,30,50), not {text!r}"
        ) from None
    if any(value <= 0 for value in values):
        raise CliError(f"--budgets must be above zero, not {text!r}")
    return values


def _matrix(paths: list[Path], target: Path | None, batch_size: int | None, settings: Settings, as_json: bool) -> None:
    if target is not None or len(paths) < 2:
        raise CliError("--matrix takes two tables or more and no --target: --matrix a.csv b.csv")
    tables = read_tables(paths, batch_size)
    with _mistakes():
        document = run_matrix(tables, settings.device, settings) | {"settings": _settings(settings)}
    if as_json:
        emit_json(document)
    else:
        print_matrix(document)


def _evaluate(target: SampleTable, reference: Any, settings: Settings) -> list[dict[str, Any]]:
    with progress() as bar:
        task = bar.add_task("evaluating", total=1.0)
        return evaluate(target, reference, settings, lambda share: bar.update(task, completed=share))


def _fronts(target: SampleTable, reference: Any, settings: Settings) -> dict[str, Any]:
    """Return the fronts of each strategy that measures, at the largest number of modes asked for."""
    count = max(len(target) if value == "all" else int(value) for value in settings.samples)
    results = [fronts(target, reference, name, count, settings) for name in settings.strategies]
    return {"fronts": [entry for entry in results if entry is not None]}


@contextmanager
def _mistakes() -> Iterator[None]:
    """Turn what is wrong with the input or missing here into one line for the user."""
    try:
        yield
    except (EvaluationError, ReferenceError, UnknownStrategyError) as error:
        raise CliError(str(error)) from None
    except StrategyUnavailableError as error:
        raise CliError(str(error), Exit.ENVIRONMENT) from None


def _settings(settings: Settings) -> dict[str, Any]:
    return {
        "aim": settings.aim.value,
        "checks": settings.checks,
        "noise": settings.noise,
        "within_budget": settings.within_budget,
        "validate": "all" if settings.validate_all else "unseen",
        "caution": settings.caution.value,
        "lag_s": list(settings.lag_s),
        "risk": settings.risk,
        "budgets_w": None if settings.budgets_w is None else list(settings.budgets_w),
    }


def _print(document: dict[str, Any]) -> None:
    columns: dict[str, list[str]] = {}
    for result in document["results"]:
        binding = result["penalty_binding_pct"]
        cells = {
            "strategy": result["strategy"],
            "n": str(result["samples"]),
            "time": _cell(result["mape_time_pct"], "median"),
            "power": _cell(result["mape_power_pct"], "median"),
            "penalty": _cell(binding, "median"),
            "p90": _cell(binding, "p90"),
            "over": _figure(result["over_budget_pct"]),
            ">1W": _figure(result["over_budget_1w_pct"]),
            "unsafe": _figure(result["unsafe_profiled_pct"]),
            "above": _windows(result["windows_above"]),
            "min": _figure(result["profiling_minutes"], 1),
            "ms": _figure(result["fit_predict_ms"], 0),
        }
        for name, cell in cells.items():
            columns.setdefault(name, []).append(cell)
    filled = {name: cells for name, cells in columns.items() if set(cells) != {"–"}}
    title = f"{document['reference']} → {document['target']}"
    table(title, list(filled), list(zip(*filled.values(), strict=True)), right=list(filled)[1:])
    stdout().print(LEGEND)


def _windows(windows: dict[str, float] | None) -> str:
    return "–" if windows is None else f"{windows['exploring']}+{windows['after']}"


def _cell(summary: dict[str, float] | None, key: str) -> str:
    return _figure(summary.get(key) if summary else None)


def _figure(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
