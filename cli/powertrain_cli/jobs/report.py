"""The verb `report`: one HTML page about a TrainingJob."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from powertrain import __version__
from powertrain.api.v1alpha1 import Front, JobNode, Samples, TrainingJob
from powertrain_cli.errors import CliError
from powertrain_cli.jobs import budget_report, documents
from powertrain_cli.jobs.commands import JobArgument, read_job_and_nodes
from powertrain_cli.jobs.connection import Connection, KubeconfigOption, NamespaceOption, connected
from powertrain_cli.jobs.explain import result_of
from powertrain_cli.output import JsonFlag, emit_json, stdout, warn
from powertrain_cli.report import builder, output, summary, timelines
from powertrain_cli.report.document import Board, Report, Timeline
from powertrain_kube import Object
from powertrain_operator.node_view import NodeView
from powertrain_operator.policies import SitePolicy

NO_HISTORY = "the cluster keeps none of this session yet; name a Prometheus server with --prometheus"


def mount(root: typer.Typer) -> None:
    """Add the verb to the command."""
    root.command("report")(report)


def report(
    job: JobArgument,
    target: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write (JOB.html).", show_default=False)
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    prometheus: Annotated[
        str | None, typer.Option("--prometheus", help="Address of a Prometheus server, for power over time.")
    ] = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Write one HTML page about a TrainingJob: power, front, modes tried, gain.

    Of a PowerBudget (powerbudget/NAME): power and shares of its boards, and the makespan of other sharings.

    The page needs no network and can be attached to a bug report.

    [bold]Examples[/bold]

    powertrain report mobilenet-v3 --open

    powertrain report mobilenet-v3 -o job.html --prometheus http://localhost:9090

    powertrain report powerbudget/site --open
    """
    budget = budget_report.name_of(job)
    with connected(kubeconfig, namespace) as cluster:
        if budget is None:
            document = collect(cluster, job, prometheus)
        else:
            document = budget_report.collect(cluster, budget, prometheus)
    if as_json:
        emit_json(document.model_dump(mode="json"))
        return
    path = target or Path(f"{budget or job}.html")
    output.write(document, path)
    stdout().print(f"written: {path}", markup=False, soft_wrap=True)
    if show and not output.show(path):
        warn("no browser was found; open the file yourself")


def collect(cluster: Connection, job: str, prometheus: str | None = None) -> Report:
    """Return the report of a job as the cluster knows it now."""
    raw, power_nodes = read_job_and_nodes(cluster, job)
    training_job, now = TrainingJob.model_validate(raw), cluster.api.now()
    document = documents.job_status(raw, power_nodes, now)
    boards = tuple(
        _board(cluster, training_job, each, power_nodes.get(each["node"]), now, prometheus)
        for each in document["boards"]
    )
    return Report(
        name=job,
        namespace=cluster.namespace,
        workload=training_job.spec.workload.name or job,
        phase=document["phase"],
        objective=document["objective"],
        limits=documents.limits(raw["spec"].get("constraints") or {}),
        summary=summary.of_boards(boards),
        made_at=timelines.now_text(now),
        versions={"powertrain": __version__},
        boards=boards,
        fleet=builder.fleet(job, boards),
    )


def _timeline(job: TrainingJob, node: JobNode, power_node: Object | None, now: datetime, url: str | None) -> Timeline:
    """Return a board over time: from Prometheus where it answers, else from what the cluster keeps."""
    timeline = timelines.of_session(node, power_node)
    if url is None:
        return timeline or Timeline(source=NO_HISTORY)
    status = job.status
    began = _moment(status.started_at or job.metadata["creationTimestamp"])
    try:
        fine = timelines.from_prometheus(
            url, node.name, began, _moment(status.completed_at) if status.completed_at else now
        )
    except CliError as error:
        if timeline is None:
            raise
        warn(f"{error}; the page shows {timeline.source} instead")
        return timeline
    if fine.at_s:
        return timelines.with_marks(fine, timeline)
    if timeline is not None:
        warn(f"{fine.source}; the page shows {timeline.source} instead")
    return timeline or fine


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _board(
    cluster: Connection,
    job: TrainingJob,
    board: documents.Document,
    power_node: Object | None,
    now: datetime,
    prometheus: str | None,
) -> Board:
    entry = next(node for node in job.status.nodes if node.name == board["node"])
    status = (power_node or {}).get("status") or {}
    view = NodeView(board["node"], None, power_node, False, SitePolicy())
    result = result_of(cluster, job, board, power_node, view)
    return builder.board(
        builder.Source(
            node=board["node"],
            timeline=_timeline(job, entry, power_node, now, prometheus),
            samples=Samples.model_validate(result.get("samples") or {}),
            front=Front.model_validate(result.get("front") or {}),
            facts=builder.facts(status),
            mode=entry.mode,
            runner_up=entry.runner_up,
            predicted=entry.predicted,
            observed=entry.observed,
            limit_w=board["limit_w"],
            phase=board["phase"],
            message=board["message"],
            strategy=result.get("strategy", ""),
            reference=builder.reference(result.get("reference"), result.get("referenceVersion")),
            profiling_s=board["profiling_s"],
            energy_j=board["energy_j"],
            violations=board["violations"],
        )
    )
