"""`powertrain doctor`: what the agent could read, write, verify and restore on this board."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from powertrain_agent import doctor_command
from powertrain_agent.doctor_text import text
from powertrain_cli import completion
from powertrain_cli.errors import CliError, Exit
from powertrain_cli.output import JsonFlag, emit_json


def mount(root: typer.Typer) -> None:
    """Add the verb to the command."""
    root.command("doctor")(doctor)


def doctor(
    node: Annotated[
        str | None,
        typer.Argument(
            metavar="[NODE]",
            autocompletion=completion.nodes,
            help="A node of the cluster: show its agent's last self-check.",
            show_default=False,
        ),
    ] = None,
    host_root: Annotated[Path, typer.Option(help="Where the board's /sys and /proc are; in a pod /host.")] = Path("/"),
    read_only: Annotated[bool, typer.Option("--read-only", help="Write nothing at all.")] = False,
    cores: Annotated[bool, typer.Option("--cores", help="Also take one CPU core offline and back.")] = False,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            help="Where the original settings are kept meanwhile; default var/lib/powertrain/doctor below the root."
        ),
    ] = None,
    report_to: Annotated[
        Path | None,
        typer.Option(
            "--report", help="Also write a JSON file from which a maintainer can add this board; it names nobody."
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="With NODE: the cluster ($KUBECONFIG, ~/.kube/config).")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Try every knob of this Jetson: read, write, verify, restore. With NODE: show that agent's last self-check.

    Each knob is moved by one step for a moment and put back. On anything but a Jetson nothing is touched. A node's
    agent checks its board when it starts and after each job, without a write, and tells it in its PowerNode.

    Ends with 0 if PowerTrain can work here, 1 if not, 3 on a machine that is not a Jetson.

    [bold]Examples[/bold]

    sudo powertrain doctor

    sudo powertrain doctor --read-only --json

    sudo powertrain doctor --report my-board.json

    kubectl powertrain doctor orin-1
    """
    if node is not None:
        from powertrain_cli.jobs import node_doctor  # loads the API client, which a board without a cluster needs not

        if not node_doctor.show(node, kubeconfig, as_json):
            raise typer.Exit(Exit.NO_SOLUTION)
        return
    try:
        report = doctor_command.examine(host_root, read_only, cores, state_dir, report_to)
    except OSError as error:
        raise CliError(f"{error.filename or report_to} can't be written: {error.strerror}") from None
    if as_json:
        emit_json(report.as_dict())
    else:
        sys.stdout.write(text(report, doctor_command.terminal_width()))
    code = doctor_command.exit_code(report)
    if code:
        raise typer.Exit(code)
