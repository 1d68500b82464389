"""The command `powertrain`: lists the verbs and turns known failures into messages and exit codes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import typer

from powertrain_cli.errors import Exit, exit_code
from powertrain_cli.lazy import Verb, add_placeholders, group_of

NAMES = ("powertrain", "kubectl-powertrain")
INTERRUPTED = 130
BOARD, RESEARCH = "One board", "Tables and research"
VERBS = (
    Verb(
        "submit",
        "Start a training: create the TrainingJob of a manifest, with another budget or name if you like.",
        "powertrain_cli.jobs.changes",
    ),
    Verb(
        "list",
        "List the TrainingJobs: phase, nodes, watts against the limit, progress, time left.",
        "powertrain_cli.jobs.commands",
    ),
    Verb(
        "status",
        "Show one TrainingJob: phase, modes tried, watts against the budget, progress, time left.",
        "powertrain_cli.jobs.commands",
    ),
    Verb(
        "explain",
        "Explain why a TrainingJob has its mode: runner-up, front, excluded modes, ranking of the boards.",
        "powertrain_cli.jobs.explain",
    ),
    Verb(
        "front",
        "Show the front of a TrainingJob: predicted and measured modes.",
        "powertrain_cli.jobs.explain",
    ),
    Verb(
        "report",
        "Write one HTML page about a TrainingJob: power, front, modes tried, gain.",
        "powertrain_cli.jobs.report",
    ),
    Verb(
        "budget",
        "Show what the boards of a PowerBudget share, and plan one without changing anything.",
        "powertrain_cli.budget.commands",
        app="app",
    ),
    Verb(
        "energy",
        "Show watt-hours by job, node and namespace.",
        "powertrain_cli.jobs.energy",
    ),
    Verb(
        "nodes",
        "List the boards: model, job, watts, limit and mode.",
        "powertrain_cli.jobs.commands",
    ),
    Verb(
        "restore",
        "Restore a board's original settings; refused while a job uses the board.",
        "powertrain_cli.jobs.changes",
    ),
    Verb(
        "why-pending",
        "Show why a TrainingJob does not run, board by board.",
        "powertrain_cli.jobs.commands",
    ),
    Verb(
        "profiles",
        "List the stored profiles: workload, board, modes, and how often each was reused.",
        "powertrain_cli.jobs.commands",
    ),
    Verb(
        "images",
        "Bring the images of a release into a registry, or onto every node.",
        "powertrain_cli.images.commands",
        app="app",
    ),
    Verb("devices", "List the Jetson boards of the catalogue.", "powertrain_cli.devices", group=RESEARCH),
    Verb(
        "modes",
        "Show the power modes of a board: cores × CPU clock × GPU clock × memory clock.",
        "powertrain_cli.devices",
        group=RESEARCH,
    ),
    Verb(
        "pareto",
        "Show the front of a measured table: the modes that none beats in both.",
        "powertrain_cli.pareto",
        group=RESEARCH,
    ),
    Verb("choose", "Choose the best measured mode that keeps the limits.", "powertrain_cli.choose", group=RESEARCH),
    Verb(
        "evaluate",
        "Score strategies on a measured table: prediction error, penalty, broken budgets, profiling minutes.",
        "powertrain_cli.evaluate",
        group=RESEARCH,
    ),
    Verb(
        "tune",
        "Find the fastest mode within a budget: modes tried, front, uncertainty, the choice and why.",
        "powertrain_cli.tune",
        group=BOARD,
    ),
    Verb(
        "reference",
        "Train and show references: thoroughly measured workloads from which every transfer starts.",
        "powertrain_cli.reference",
        app="app",
        group=RESEARCH,
    ),
    Verb(
        "batch-study",
        "Find how many samples each batch size needs until a target accuracy.",
        "powertrain_cli.batch_study",
        app="app",
        group=RESEARCH,
    ),
    Verb(
        "doctor",
        "Try every knob of this Jetson: read, write, verify, restore. With NODE: show that agent's last self-check.",
        "powertrain_cli.doctor",
        group=BOARD,
    ),
    Verb(
        "cluster",
        "A real Kubernetes on this machine, without Docker and without a registry.",
        "powertrain_devcluster.commands",
        app="cluster_app",
        extra="devcluster",
    ),
)

app = typer.Typer(
    name="powertrain",
    cls=group_of(VERBS),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train on Jetson boards as fast as a power budget allows.",
    epilog="Exit codes: 0 done, 1 no solution, 2 bad input, 3 environment.",
)
add_placeholders(app, VERBS)


def _version(value: bool) -> None:
    if value:
        from powertrain import __version__

        sys.stdout.write(f"powertrain {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and end."
    ),
) -> None:
    """Hold the options of the whole command."""


def run() -> None:
    """Run the command line, the entry point of `powertrain` and `kubectl-powertrain`.

    A user's mistake is one line on stderr; a traceback is a bug of ours.
    """
    program = Path(sys.argv[0]).name
    try:
        # Not standalone: the library would draw a box around a mistake.
        code = app(prog_name=program if program in NAMES else NAMES[0], standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except BrokenPipeError:
        from powertrain_cli.output import drop_stdout

        drop_stdout()
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(INTERRUPTED)
    except Exception as error:
        _end(error)


def _end(error: Exception) -> NoReturn:
    """Tell a mistake that the user can mend, and end with its code; anything else is a bug and is raised."""
    from powertrain_cli import usage
    from powertrain_cli.output import stderr

    if usage.shows_help(error):
        error.show()  # type: ignore[attr-defined]
        sys.exit(int(Exit.BAD_INPUT))
    if usage.is_usage_error(error):
        text, code = usage.words(error), Exit.BAD_INPUT
    else:
        exit_or_none = exit_code(error)
        if exit_or_none is None:
            raise error
        text, code = str(error), exit_or_none
    stderr().print(f"error: {text}", style="red", markup=False, soft_wrap=True)
    sys.exit(int(code))
