"""The verbs that tell why: explain and front."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from powertrain.api.resources import POWER_PROFILES
from powertrain.api.v1alpha1 import Front, Samples, TrainingJob
from powertrain_cli import completion
from powertrain_cli.budget.shares import read_budgets, shares_of
from powertrain_cli.errors import CliError, Exit
from powertrain_cli.jobs import documents, screens, snapshot
from powertrain_cli.jobs.commands import JobArgument, read_job_and_nodes, tell_hidden
from powertrain_cli.jobs.connection import Connection, KubeconfigOption, NamespaceOption, connected
from powertrain_cli.jobs.documents import Document
from powertrain_cli.jobs.gained import sentence
from powertrain_cli.output import JsonFlag, emit_json, stdout
from powertrain_kube import ForbiddenError, NotFoundError, Object
from powertrain_operator.node_view import NodeView
from powertrain_operator.policies import SitePolicy
from powertrain_operator.profiles.lookup import profile_key


def mount(root: typer.Typer) -> None:
    """Add the verbs to the command."""
    root.command("explain")(explain)
    root.command("front")(front)


def explain(
    job: JobArgument,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Explain why a TrainingJob has its mode: runner-up, front, excluded modes, ranking of the boards.

    [bold]Examples[/bold]

    powertrain explain mobilenet-v3

    powertrain explain mobilenet-v3 --json
    """
    with connected(kubeconfig, namespace) as cluster:
        raw, power_nodes = read_job_and_nodes(cluster, job)
        view = snapshot.take(cluster, raw)
        training_job = TrainingJob.model_validate(raw)
        status_document = documents.job_status(raw, power_nodes, view.now)
        budgets = read_budgets(cluster)
        boards = []
        for board in status_document["boards"]:
            power_node, seen_board = power_nodes.get(board["node"]), snapshot.board(view, board["node"])
            result = result_of(cluster, training_job, board, power_node, seen_board)
            samples = Samples.model_validate(result.get("samples") or {})
            predicted = Front.model_validate(result.get("front") or {})
            measured = {**board, "tried": documents.trials(samples)}
            choice = documents.choice(measured, documents.front_points(predicted), training_job)
            gained, shares = sentence(choice, samples), shares_of(budgets, board["node"])
            boards.append({**choice, "gained": gained, "reference": result.get("reference"), "shares": shares})
        document = {
            **{key: status_document[key] for key in ("namespace", "name", "phase", "objective", "message")},
            "limits": raw["spec"].get("constraints") or {},
            "boards": boards,
            "ranking": [candidate_document(each) for each in snapshot.candidates(view, training_job)],
            "hidden": list(view.hidden_kinds),
        }
    tell_hidden(view.hidden_kinds)
    if as_json:
        emit_json(document)
    else:
        _print(document)


def candidate_document(each: snapshot.Candidate) -> Document:
    """Return a board of the ranking."""
    expected_s = each.rank.epoch_s
    return {
        "node": each.name,
        "device": each.device,
        "excluded": each.excluded,
        "held_by": each.held_by,
        "profile": each.profile,
        "expected_s": expected_s if math.isfinite(expected_s) else None,
    }


def samples_and_front(
    cluster: Connection, job: TrainingJob, board: Document, power_node: Object | None, view: NodeView
) -> tuple[Samples, Front]:
    """Return what was measured for a job on a board: from its session while that lasts, else from the profile."""
    result = result_of(cluster, job, board, power_node, view)
    return Samples.model_validate(result.get("samples") or {}), Front.model_validate(result.get("front") or {})


def result_of(
    cluster: Connection, job: TrainingJob, board: Document, power_node: Object | None, view: NodeView
) -> Object:
    """Return the result of a job on a board as the API has it: its session's, else the profile's; {} without both."""
    session = ((power_node or {}).get("status") or {}).get("session") or {}
    entry = next((node for node in job.status.nodes if node.name == board["node"]), None)
    result = session.get("result") or {}
    if entry is not None and session.get("uid") == entry.session and result.get("samples"):
        return dict(result)
    name = board["profile"]
    if not name and view.status.get("device"):
        name = profile_key(job, view, board["batch_size"] or job.spec.workload.batch_sizes[0]).name
    if not name:
        return {}
    try:
        return dict(cluster.api.get(POWER_PROFILES.path(name, cluster.namespace))["spec"])
    except (ForbiddenError, NotFoundError):
        return {}


def _print(document: Document) -> None:
    say = stdout()
    limits = documents.limits(document["limits"])
    head = f"{document['name']}: {document['phase']}, {document['objective']} with {limits}"
    say.print(head, style="bold", markup=False, soft_wrap=True)
    if not document["boards"]:
        say.print(f"no board yet: {document['message']}", markup=False, soft_wrap=True)
    for board in document["boards"]:
        _print_board(board)
    if not document["ranking"]:
        return
    say.print("\nboards, best for this job first", style="bold")
    screens.show(screens.ranking(document["ranking"]))


def _print_board(board: Document) -> None:
    say = stdout()
    say.print(f"\n{board['node']} ({board['device']})", style="bold", markup=False)
    say.print(board["message"] or "no decision yet", markup=False, soft_wrap=True)
    rows = []
    for word, key, mode in (("chosen", "chosen", board["mode"]), ("runner-up", "second", board["runner_up"])):
        point = board[key]
        if mode:
            rows.append(
                [
                    word,
                    documents.human(mode),
                    f"{point['step_s'] * 1e3:.1f}" if point else "–",
                    f"{point['power_w']:.1f}" if point else "–",
                ]
            )
    if board["observed"] and board["observed"]["step_s"] is not None:
        observed = board["observed"]
        rows.append(["observed", "", f"{observed['step_s'] * 1e3:.1f}", screens.watts(observed["power_w"])])
    if rows:
        screens.show(screens.grid(["", "mode", "ms a step", "W"], rows, right=("ms a step", "W")))
    if difference := _runner_up_difference(board):
        say.print(difference, markup=False, soft_wrap=True)
    for each in board["shares"]:
        say.print(each["sentence"], markup=False, soft_wrap=True)
    if board["gained"]:
        say.print(f"gained: {board['gained']}", markup=False, soft_wrap=True)
    if board["reference"]:
        say.print(f"reference: {board['reference']}", markup=False, soft_wrap=True)
    if board["front"]:
        say.print(f"front, as predicted ({len(board['front'])} modes, ± 2σ)")
        screens.show(screens.front(board["front"], board["limit_w"]))
    _print_excluded(board)


def _runner_up_difference(board: Document) -> str:
    """Say what the runner-up would cost, unless the board's message does: while a mode is checked it does not."""
    chosen, second = board["chosen"], board["second"]
    if not chosen or not second or chosen["mode"] == second["mode"] or "the runner-up takes" in board["message"]:
        return ""
    slower = second["step_s"] / chosen["step_s"] - 1
    return f"the runner-up takes {slower:+.1%} time and {second['power_w'] - chosen['power_w']:+.2f} W"


def _print_excluded(board: Document) -> None:
    say = stdout()
    if board["excluded_above_limit"]:
        many = f"{board['excluded_above_limit']} of {len(board['front'])} modes of the front"
        say.print(f"excluded: {many} are expected above {board['limit_w']:g} W", markup=False, soft_wrap=True)
    for each in board["excluded_unsafe"]:
        words = f"excluded: {each['human']} was tried and left at {each['power_w']:.1f} W, above the limit"
        say.print(words, markup=False, soft_wrap=True)


def front(
    job: JobArgument,
    node: Annotated[
        str | None,
        typer.Option("--node", autocompletion=completion.nodes, help="Which board, where a job has several."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Write the chart to this file (.svg or .png).", show_default=False)
    ] = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the front of a TrainingJob: predicted and measured modes.

    [bold]Examples[/bold]

    powertrain front mobilenet-v3

    powertrain front mobilenet-v3 --plot front.svg
    """
    if plot is not None:
        from powertrain_cli.plots import check_target

        check_target(plot)
    with connected(kubeconfig, namespace) as cluster:
        raw, power_nodes = read_job_and_nodes(cluster, job)
        front_of_node = fronts(cluster, raw, power_nodes, node)
    document = {"name": job, "fronts": front_of_node, "plot": None if plot is None else str(plot)}
    if plot is not None:
        from powertrain_cli.jobs.front_plot import draw_fronts

        draw_fronts(f"{job}: predicted front and measured modes", front_of_node, plot)
    if as_json:
        emit_json(document)
        return
    for each in front_of_node:
        _print_front(each)
    if plot is not None:
        stdout().print(f"drawn: {plot}", markup=False, soft_wrap=True)


def fronts(cluster: Connection, raw: Object, power_nodes: dict[str, Object], node: str | None = None) -> list[Document]:
    """Return the predicted front and the measured modes of each board of a job, or of one."""
    job = TrainingJob.model_validate(raw)
    document = documents.job_status(raw, power_nodes, cluster.api.now())
    boards = [board for board in document["boards"] if node is None or board["node"] == node]
    if not boards:
        names = ", ".join(board["node"] for board in document["boards"])
        if node is not None and names:
            raise CliError(f"{job.metadata['name']} is not on {node!r}; its boards are: {names}")
        raise CliError(f"{job.metadata['name']} has no board yet: {document['message']}", Exit.NO_SOLUTION)
    result = []
    for board in boards:
        power_node = power_nodes.get(board["node"])
        view = NodeView(board["node"], None, power_node, False, SitePolicy())
        samples, predicted = samples_and_front(cluster, job, board, power_node, view)
        result.append(
            {
                **{key: board[key] for key in ("node", "device", "limit_w", "mode", "human", "observed")},
                "predicted": documents.front_points(predicted),
                "measured": documents.trials(samples),
            }
        )
    if not any(each["measured"] for each in result):
        raise CliError(f"nothing is measured yet for {job.metadata['name']}: {document['message']}", Exit.NO_SOLUTION)
    return result


def _print_front(each: dict[str, Any]) -> None:
    say = stdout()
    title = (
        f"{each['node']} ({each['device']}): {len(each['measured'])} measured, {len(each['predicted'])} on the front"
    )
    say.print(title, style="bold", markup=False)
    screens.show(screens.front(each["predicted"], each["limit_w"], rows=20))
    if each["human"]:
        say.print(f"chosen: {each['human']}", markup=False)
