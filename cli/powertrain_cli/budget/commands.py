"""`powertrain budget`: show what the boards of a PowerBudget share, and plan one without changing anything."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from powertrain.api.resources import POWER_BUDGETS, POWER_NODES
from powertrain.api.v1alpha1 import PowerBudget
from powertrain_cli.budget import screens
from powertrain_cli.budget.documents import budget_document
from powertrain_cli.jobs.connection import Connection, KubeconfigOption, NamespaceOption, connected
from powertrain_cli.jobs.documents import Document
from powertrain_cli.jobs.screens import show as show_picture
from powertrain_cli.output import JsonFlag, emit_json, stdout
from powertrain_kube import AwayError

POLL_S = 2.0
app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Show what the boards of a PowerBudget share, and plan one without changing anything.",
)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a PowerBudget.")],
    once: Annotated[bool, typer.Option("--once", help="Print it once, also on a terminal.")] = False,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show one PowerBudget: share, draw, speed and end of each board, and the makespan with other shares.

    On a terminal the picture is renewed until Ctrl-C.

    [bold]Examples[/bold]

    powertrain budget show shed-3

    powertrain budget show shed-3 --once --json
    """
    with connected(kubeconfig, None) as cluster:
        document = _read(cluster, name)
        if as_json:
            emit_json(document)
        elif once or not stdout().is_terminal:
            show_picture(screens.budget(document))
        else:
            _follow(cluster, name, document)


@app.command()
def plan(
    file: Annotated[
        Path,
        typer.Option(
            "--file", "-f", help="A manifest with one PowerBudget, and TrainingJobs if you like.", exists=True
        ),
    ],
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Tell what a PowerBudget would give to each board, from profiles and running sessions; changes nothing.

    Jobs that run, jobs that wait and TrainingJobs of the file are placed on the boards that the budget selects.

    [bold]Examples[/bold]

    powertrain budget plan -f examples/solar-shed.yaml

    powertrain budget plan -f site.yaml --json
    """
    from powertrain_cli.budget.planning import plan as planned
    from powertrain_cli.budget.planning import read_file
    from powertrain_cli.jobs import snapshot
    from powertrain_cli.jobs.commands import tell_hidden

    with connected(kubeconfig, namespace) as cluster:
        plan_file = read_file(file, cluster.namespace)
        view = snapshot.take(cluster, required=POWER_NODES.kind)
        document = planned(view, plan_file)
        tell_hidden(view.hidden_kinds)
    if as_json:
        emit_json(document)
    else:
        show_picture(screens.planned(document))


def _read(cluster: Connection, name: str) -> Document:
    raw = cluster.get(POWER_BUDGETS, name)
    return budget_document(PowerBudget.model_validate(raw), cluster.api.now())


def _follow(cluster: Connection, name: str, document: Document) -> None:
    """Repaint until the user leaves; a server that is away for a moment is waited for."""
    try:
        with Live(screens.budget(document), console=stdout(), auto_refresh=False) as live:
            while True:
                time.sleep(POLL_S)
                try:
                    document = _read(cluster, name)
                except AwayError:
                    continue
                live.update(screens.budget(document), refresh=True)
    except KeyboardInterrupt:
        return
