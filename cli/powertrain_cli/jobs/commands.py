"""The verbs that look at jobs, boards and profiles: list, status, nodes, profiles, why-pending."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.live import Live

from powertrain.api.resources import POWER_NODES, POWER_PROFILES, TRAINING_JOBS
from powertrain_cli import completion
from powertrain_cli.jobs import documents, screens
from powertrain_cli.jobs.connection import Connection, KubeconfigOption, NamespaceOption, connected
from powertrain_cli.jobs.gained import Gains
from powertrain_cli.output import JsonFlag, emit_json, stdout, warn
from powertrain_kube import AwayError, ForbiddenError, NotFoundError, Object

POLL_S = 1.0
JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", autocompletion=completion.jobs, help="Name of a TrainingJob.")
]
EveryNamespace = Annotated[bool, typer.Option("--all-namespaces", "-A", help="In every namespace.")]


def mount(root: typer.Typer) -> None:
    """Add the verbs to the command."""
    root.command("list")(list_jobs)
    root.command("status")(status)
    root.command("nodes")(nodes)
    root.command("profiles")(profiles)
    root.command("why-pending")(why_pending)


def list_jobs(
    everywhere: EveryNamespace = False,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List the TrainingJobs: phase, nodes, watts against the limit, progress, time left.

    [bold]Examples[/bold]

    powertrain list

    powertrain list -A --json
    """
    with connected(kubeconfig, namespace) as cluster:
        jobs = cluster.list(TRAINING_JOBS, "" if everywhere else cluster.namespace)
        lines = [documents.job_line(raw, cluster.api.now()) for raw in jobs]
        if as_json:
            emit_json({"jobs": lines})
        elif lines:
            screens.show(screens.jobs(lines, everywhere))
        else:
            stdout().print("no TrainingJob" + ("" if everywhere else f" in namespace {cluster.namespace}"))


def read_job_and_nodes(cluster: Connection, name: str) -> tuple[Object, dict[str, Object]]:
    """Return a job and the PowerNodes of its nodes; what these credentials may not see is left out."""
    raw = cluster.get(TRAINING_JOBS, name, cluster.namespace)
    power_nodes = {}
    for node in (raw.get("status") or {}).get("nodes") or []:
        try:
            power_nodes[node["name"]] = cluster.api.get(POWER_NODES.path(node["name"]))
        except (ForbiddenError, NotFoundError):
            continue
    return raw, power_nodes


def status(
    job: JobArgument,
    once: Annotated[bool, typer.Option("--once", help="Print it once, also on a terminal.")] = False,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show one TrainingJob: phase, modes tried, watts against the budget, progress, time left.

    On a terminal the picture follows the job until it ends; Ctrl-C leaves it alone.

    [bold]Examples[/bold]

    powertrain status mobilenet-v3

    powertrain status mobilenet-v3 --once --json
    """
    with connected(kubeconfig, namespace) as cluster:
        gains = Gains(cluster)
        document = _status_document(cluster, job, gains)
        console = stdout()
        if as_json:
            emit_json(document)
        elif once or not console.is_terminal or document["phase"] in documents.OVER:
            screens.show(screens.job(document))
        else:
            _follow(cluster, job, document, gains)


def _status_document(cluster: Connection, job: str, gains: Gains) -> dict[str, Any]:
    raw, power_nodes = read_job_and_nodes(cluster, job)
    return gains.with_gains(documents.job_status(raw, power_nodes, cluster.api.now()), raw, power_nodes)


def _follow(cluster: Connection, job: str, document: dict[str, Any], gains: Gains) -> None:
    """Repaint until the job is over; a server that is away for a moment is waited for."""
    try:
        with Live(screens.job(document), console=stdout(), auto_refresh=False) as live:
            while document["phase"] not in documents.OVER:
                time.sleep(POLL_S)
                try:
                    document = _status_document(cluster, job, gains)
                except AwayError:
                    continue
                live.update(screens.job(document), refresh=True)
    except KeyboardInterrupt:
        return


def nodes(kubeconfig: KubeconfigOption = None, as_json: JsonFlag = False) -> None:
    """List the boards: model, job, watts, limit and mode.

    [bold]Examples[/bold]

    powertrain nodes

    powertrain nodes --json
    """
    from powertrain_cli.jobs import snapshot
    from powertrain_operator import lookup, node_view

    with connected(kubeconfig, None) as cluster:
        view = snapshot.take(cluster, required=POWER_NODES.kind)
        holders, anything = lookup.holders(view.cache), node_view.needs("", {}, {})
        lines = []
        for name, board in sorted(lookup.node_views(view.cache, view.context).items()):
            problem = board.policy.disabled_by and f"disabled by policy {board.policy.disabled_by}"
            problem = problem or _without_namespace(snapshot.unfit(view, board, anything))
            lines.append(documents.node_line(board.power_node or {}, board.node, holders.get(name, ""), problem))
        tell_hidden(view.hidden_kinds)
        if as_json:
            emit_json({"nodes": lines, "hidden": list(view.hidden_kinds)})
        elif lines:
            screens.show(screens.nodes(lines))
        else:
            stdout().print("no Jetson has joined: is the agent's DaemonSet running?")


def _without_namespace(problem: str) -> str:
    """A policy that is for some namespaces only does not make a board unusable."""
    return "" if problem.startswith("policy allows only namespaces") else problem


def profiles(
    everywhere: EveryNamespace = False,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List the stored profiles: workload, board, modes, and how often each was reused.

    [bold]Examples[/bold]

    powertrain profiles
    """
    with connected(kubeconfig, namespace) as cluster:
        raw_profiles = cluster.list(POWER_PROFILES, "" if everywhere else cluster.namespace)
        lines = [documents.profile_line(raw, cluster.api.now()) for raw in raw_profiles]
        if as_json:
            emit_json({"profiles": lines})
        elif lines:
            screens.show(screens.profiles(lines))
        else:
            stdout().print("no PowerProfile" + ("" if everywhere else f" in namespace {cluster.namespace}"))


def why_pending(
    job: JobArgument,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show why a TrainingJob does not run, board by board.

    [bold]Examples[/bold]

    powertrain why-pending mobilenet-v3
    """
    from powertrain.api.v1alpha1 import TrainingJob
    from powertrain_cli.jobs import snapshot
    from powertrain_cli.jobs.explain import candidate_document

    with connected(kubeconfig, namespace) as cluster:
        raw = cluster.get(TRAINING_JOBS, job, cluster.namespace)
        view = snapshot.take(cluster, raw)
        training_job = TrainingJob.model_validate(raw)
        line = documents.job_line(raw, view.now)
        document = {
            "name": job,
            "phase": line["phase"],
            "pending": line["phase"] in ("Pending", "Queued", "WaitingForNode", "Suspended"),
            "message": line["message"],
            "before": snapshot.queue_before(view, training_job),
            "nodes": [candidate_document(each) for each in snapshot.candidates(view, training_job)],
            "hidden": list(view.hidden_kinds),
        }
    tell_hidden(view.hidden_kinds)
    if as_json:
        emit_json(document)
        return
    _print_pending(document, line)


def _print_pending(document: dict[str, Any], line: dict[str, Any]) -> None:
    say = stdout()
    if not document["pending"]:
        where = f" on {', '.join(line['nodes'])}" if line["nodes"] else ""
        say.print(f"{document['name']} is not pending: {document['phase']}{where}", markup=False, soft_wrap=True)
        return
    words = document["message"] or "the operator has not reconciled the job yet; check that the operator's pod runs"
    say.print(f"{document['phase']}: {words}", markup=False, soft_wrap=True)
    if document["before"]:
        say.print(f"before it in the queue: {', '.join(document['before'])}", markup=False, soft_wrap=True)
    rows = [
        [
            each["node"],
            each["device"] or "–",
            each["excluded"] or (f"held by {each['held_by']}" if each["held_by"] else "free"),
        ]
        for each in document["nodes"]
    ]
    if rows:
        screens.show(screens.grid(["node", "device", "state"], rows, words=("state",)))


def tell_hidden(kinds: Sequence[str]) -> None:
    """Warn of what these credentials may not see."""
    if kinds:
        warn(f"these credentials may not list {', '.join(kinds)}: what follows from them is missing")
