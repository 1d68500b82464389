"""`powertrain doctor`: what the agent could read, write, verify and restore on this board."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from powertrain_agent.board_report import collect
from powertrain_agent.doctor import DoctorReport, KnobReport, run_doctor
from powertrain_agent.simulate import open_port
from powertrain_cli.errors import CliError, Exit
from powertrain_cli.output import JsonFlag, emit_json, stdout, table

MARKS = {True: "yes", False: "NO", None: "–"}


def mount(root: typer.Typer) -> None:
    """Add the verb to the command."""
    root.command("doctor")(doctor)


def doctor(
    node: Annotated[
        str | None,
        typer.Argument(
            metavar="[NODE]", help="A node of the cluster: show its agent's last self-check.", show_default=False
        ),
    ] = None,
    host_root: Annotated[Path, typer.Option(help="Where the board's /sys and /proc are found; in a pod /host.")] = Path(
        "/"
    ),
    read_only: Annotated[bool, typer.Option("--read-only", help="Write nothing at all.")] = False,
    cores: Annotated[bool, typer.Option("--cores", help="Also take one CPU core offline and back.")] = False,
    state_dir: Annotated[
        Path | None,
        typer.Option(help="Where to keep what was found; default var/lib/powertrain/doctor below the root."),
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
    """Try every knob of this Jetson: read, write, verify, restore. With NODE: what that node's agent found.

    Each knob is moved by one step for a moment and put back. On anything but a Jetson nothing is touched. A node's
    agent checks its board when it starts and after each job, without a write, and tells it in its PowerNode.

    Ends with 0 if PowerTrain can work here, 1 if not, 3 on a machine that is no Jetson.

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
    directory = state_dir or host_root / "var/lib/powertrain/doctor"
    port = open_port(host_root)
    report = run_doctor(port, read_only, directory, cores)
    if report_to is not None and report.is_jetson:
        _write(report_to, collect(port, report))
    if as_json:
        emit_json(report.as_dict())
    else:
        _print(report)
    if not report.is_jetson:
        raise typer.Exit(Exit.ENVIRONMENT)
    if not report.healthy:
        raise typer.Exit(Exit.NO_SOLUTION)


def _write(target: Path, document: dict[str, Any]) -> None:
    try:
        target.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise CliError(f"{target} can't be written: {error.strerror}") from None


def _print(report: DoctorReport) -> None:
    if report.knobs:
        columns = ["knob", "read", "write", "verify", "restore", "shows"]
        table("", columns, [_row(knob) for knob in report.knobs])
        for knob in report.knobs:
            if knob.reason:
                stdout().print(f"{knob.title}: {knob.reason}", markup=False, soft_wrap=True)
            if knob.fix:
                stdout().print(f"    {knob.fix}", markup=False, soft_wrap=True)
        stdout().print(f"mount family for the chart: {report.mount_family}", markup=False)
        for path in report.missing_mounts:
            stdout().print(f"    not on this host: {path}", markup=False, soft_wrap=True)
    for hint in report.hints:
        stdout().print(f"hint: {hint}", markup=False, soft_wrap=True)
    stdout().print(report.verdict, markup=False, soft_wrap=True, style="bold")


def _row(knob: KnobReport) -> list[str]:
    return [knob.title, *(MARKS[step] for step in (knob.read, knob.write, knob.verify, knob.restore)), knob.value]
