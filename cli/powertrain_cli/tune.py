"""`powertrain tune`: a whole profiling session, replayed on a measured table or around a training that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from powertrain.evaluation.board import Board
from powertrain.evaluation.scores import budget_score
from powertrain.modes import PowerMode
from powertrain.objectives import Limits
from powertrain.pareto import pareto_front
from powertrain.profiling import Aim, Caution, Problem
from powertrain.sample_csv import read_csv
from powertrain.session import Ask, Done, ProfilingSession
from powertrain.strategies import UnknownStrategyError, names
from powertrain.strategies.base import StrategyUnavailableError
from powertrain_cli import completion
from powertrain_cli.errors import CliError, Exit
from powertrain_cli.output import JsonFlag, emit_json, stdout, warn
from powertrain_cli.tables import SHIPPED, load_reference, one_batch_size
from powertrain_cli.terminal_picture import TerminalPicture
from powertrain_cli.tune_tables import FrontRow, TriedRow, front_table, rows_for, tried_table
from powertrain_cli.units import watts

CHECKS, SPARE_LINES = 2, 1


def mount(root: typer.Typer) -> None:
    """Add the verb to the command."""
    root.command("tune")(tune)


def tune(
    power: Annotated[float, typer.Option(parser=watts, metavar="WATTS", help="Power budget in watts.")],
    command: Annotated[list[str] | None, typer.Argument(help="The training, after --.", show_default=False)] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Measured table (tidy CSV) that stands for the board.")
    ] = None,
    strategy: Annotated[
        str, typer.Option(autocompletion=completion.strategies, help=f"One of {', '.join(names())}.")
    ] = "transfer",
    reference: Annotated[
        str, typer.Option(help="A table, a folder of `powertrain reference train`, or 'shipped'.")
    ] = SHIPPED,
    modes: Annotated[int | None, typer.Option(min=1, help="Most modes to try; default: the strategy's own.")] = None,
    checks: Annotated[int, typer.Option(min=0, help="In-flight checks after the choice.")] = CHECKS,
    within_budget: Annotated[
        bool, typer.Option("--within-budget", help="Never try a mode that may exceed the budget.")
    ] = False,
    caution: Annotated[
        Caution,
        typer.Option(
            help="How a running training keeps the budget while modes are tried: by the mean of each window, or so "
            "that no single reading exceeds it."
        ),
    ] = Caution.NORMAL,
    noise: Annotated[float, typer.Option(min=0.0, max=0.5, help="Relative noise on the measurements.")] = 0.0,
    device: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.targets,
            help="'local' or 'sim:NAME' for a training that runs; with --csv the board's catalogue name.",
        ),
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Which batch size, where the table holds several.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same session.")] = 0,
    time_scale: Annotated[float, typer.Option(min=0.1, help="How much faster a simulated board runs.")] = 1.0,
    state_dir: Annotated[
        Path | None,
        typer.Option(help="Where the original settings, the agent's log and the training's output are kept."),
    ] = None,
    until_chosen: Annotated[
        bool, typer.Option("--until-chosen", help="End the training once a mode is chosen and checked.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write an HTML page about the run.", show_default=False)
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Find the fastest mode within a budget: modes tried, front, uncertainty, the choice and why.

    Around a training that runs (profiles, chooses, guards, restores), or as a replay on a measured table.

    [bold]Examples[/bold]

    powertrain tune --csv lstm.csv --power 30

    powertrain tune --csv lstm.csv --power 25 --within-budget --noise 0.01

    powertrain tune --device local --power 30 -- python train.py

    powertrain tune --device sim:orin-agx --power 30 --time-scale 10 -- powertrain-simtrain mobilenet-v3
    """
    if csv is None:
        from powertrain_cli.live import LiveRequest, tune_live

        if not command or device is None:
            raise CliError("give a measured table (--csv), or --device local|sim:NAME and the training after --")
        _refuse_replay_options(
            {
                "--checks": checks != CHECKS,
                "--within-budget": within_budget,
                "--noise": noise != 0.0,
                "--seed": seed != 0,
            }
        )
        options = (
            strategy,
            modes,
            batch_size,
            time_scale,
            state_dir,
            until_chosen,
            as_json,
            report,
            reference,
            caution,
        )
        tune_live(LiveRequest(device, power, tuple(command), *options))
        return
    if caution is not Caution.NORMAL:
        raise CliError("--caution is for a training that runs: a replay of --csv has no readings, only modes")
    if report is not None:
        raise CliError("--report is for a training that runs: a replay of --csv has no time line")
    if command:
        raise CliError("a replay of --csv runs no training: leave the command out, or --csv")
    table_ = one_batch_size(read_csv(csv), batch_size, "--batch-size", csv)
    model, _, warnings = load_reference(reference, None, device)
    for text in (*table_.warnings, *warnings):
        warn(text)
    board = Board.of(table_, noise)
    problem = Problem(
        board.space,
        aim=Aim.BUDGET,
        limits=Limits(power_w=power),
        max_modes=modes,
        noise=noise,
        device=device,
        seed=seed,
        explore_limit_w=power if within_budget else None,
    )
    try:
        record = _replay(ProfilingSession(problem, strategy, model), board, seed, checks, quiet=as_json)
    except UnknownStrategyError as error:
        raise CliError(str(error)) from None
    except StrategyUnavailableError as error:
        raise CliError(str(error), Exit.ENVIRONMENT) from None
    if as_json:
        emit_json(record)
    if record["choice"] is None:
        raise CliError(record["reason"], Exit.NO_SOLUTION)


def _refuse_replay_options(options: dict[str, bool]) -> None:
    """Refuse options that a live run would silently ignore."""
    names = [name for name, used in options.items() if used]
    if names:
        verb = "is" if len(names) == 1 else "are"
        raise CliError(f"{', '.join(names)} {verb} for a replay of --csv only; leave out what a live run can't use")


def _replay(session: ProfilingSession, board: Board, seed: int, checks: int, quiet: bool) -> dict[str, Any]:
    """Run the session to its end, showing each step, and return its record."""
    view = _View(session, live=not quiet and stdout().is_terminal, quiet=quiet)
    with view:
        while isinstance(answer := session.ask(), Ask):
            _measure(session, board, seed, answer, view)
        view.note(f"profiling ends: {answer.reason}")
        for _ in range(checks):
            if isinstance(check := session.ask_check(session.problem.limits), Done):
                view.note(f"no check: {check.reason}")
                break
            _measure(session, board, seed, check, view)
    choice = session.choose()
    record: dict[str, Any] = {"tried": view.trials, "choice": None, "runner_up": None, "reason": choice.reason}
    if choice.row is not None:
        record |= _outcome(session, board, choice.row, choice.runner_up)
    if not quiet:
        _print_outcome(record)
    return record


def _measure(session: ProfilingSession, board: Board, seed: int, ask: Ask, view: _View) -> None:
    sample = board.measure(ask.mode, seed)
    session.tell(sample)
    view.tell(ask, sample.step_s, sample.power_w)


def _outcome(session: ProfilingSession, board: Board, row: int, runner_up: int | None) -> dict[str, Any]:
    budget = session.problem.limits.power_w or float("inf")
    truth = board.truth
    outcome: dict[str, Any] = {
        "choice": str(board.space[row]),
        "runner_up": None if runner_up is None else str(board.space[runner_up]),
        "true": {"time_ms": float(truth.step_s[row] * 1e3), "power_w": float(truth.power_w[row])},
    }
    if (truth.power_w <= budget).any():
        score = budget_score(truth, row, budget)
        outcome["true"] |= {"penalty_pct": score.penalty_pct, "excess_w": score.excess_w}
    return outcome


def _print_outcome(record: dict[str, Any]) -> None:
    if record["choice"] is None:
        return
    true = record["true"]
    console = stdout()
    console.print(
        f"\nchoice     {record['choice']}  ({true['time_ms']:.1f} ms a step, {true['power_w']:.2f} W)", style="bold"
    )
    console.print(f"why        {record['reason']}")
    if record["runner_up"]:
        console.print(f"runner-up  {record['runner_up']}")
    if "penalty_pct" in true:
        console.print(
            f"truth      {true['penalty_pct']:.2f} % slower than the best mode of the whole table within the budget"
        )


class _View(TerminalPicture):
    """The running picture: what was tried, and the front as it is believed now."""

    def __init__(self, session: ProfilingSession, live: bool, quiet: bool) -> None:
        self.session = session
        self.trials: list[dict[str, Any]] = []
        self._quiet = quiet
        super().__init__(stdout(), is_drawn=live)

    def tell(self, ask: Ask, step_s: float, power_w: float) -> None:
        """Show one more measured mode."""
        self.trials.append({"mode": str(ask.mode), "time_ms": step_s * 1e3, "power_w": power_w, "reason": ask.reason})
        if self._live:
            self._live.update(self._picture(), refresh=True)
        elif not self._quiet:
            budget = self.session.problem.limits.power_w or float("inf")
            mark = "over" if power_w > budget else "    "
            stdout().print(
                f"{len(self.trials):3} {ask.mode.human:24} {step_s * 1e3:9.2f} ms {power_w:7.2f} W {mark} {ask.reason}",
                soft_wrap=True,
            )

    def note(self, text: str) -> None:
        """Say something that is not a measurement."""
        if not self._quiet:
            (self._live.console if self._live else stdout()).print(f"    {text}", style="dim", soft_wrap=True)

    def _picture(self) -> Group:
        budget_w = self.session.problem.limits.power_w or float("inf")
        choice = self.session.choose()
        words = (
            "nothing within the budget yet"
            if choice.row is None
            else f"{self.session.problem.space[choice.row].human}: {choice.reason}"
        )
        best = Text(f"best so far  {words}", style="bold")
        trials = [
            TriedRow(PowerMode.parse(row["mode"]).human, row["time_ms"], row["power_w"], row["reason"])
            for row in self.trials
        ]
        front = self._front()
        width, height = stdout().size
        free = height - SPARE_LINES - 1 - len(best.wrap(stdout(), width))
        last, most = rows_for(free, len(trials), len(front))
        parts: list[RenderableType] = [
            best,
            tried_table(trials, last, budget_w, f"tried (budget {budget_w:g} W)", width),
        ]
        if most:
            parts.append(front_table(front, most, budget_w, width))
        return Group(*parts)

    def _front(self) -> list[FrontRow]:
        prediction = self.session.predict()
        if prediction is None:
            return []
        return [
            FrontRow(
                self.session.problem.space[int(row)].human,
                float(prediction.time_s[row] * 1e3),
                float(2 * prediction.time_std_s[row] * 1e3),
                float(prediction.power_w[row]),
                float(2 * prediction.power_std_w[row]),
            )
            for row in pareto_front(prediction.time_s, prediction.power_w)
        ]
