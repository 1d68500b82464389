"""The verb `energy`: watt-hours by job, node and namespace, from Prometheus or from the jobs' own records."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from powertrain.api.resources import TRAINING_JOBS
from powertrain_cli import prometheus
from powertrain_cli.errors import CliError
from powertrain_cli.jobs.commands import EveryNamespace
from powertrain_cli.jobs.connection import KubeconfigOption, NamespaceOption, connected
from powertrain_cli.output import JsonFlag, emit_json, stdout, table
from powertrain_kube import Object

JOULES_PER_WH = 3600.0
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
EARLIER = "(earlier attempts)"
# Joules of each minute while a job has the board; docs/how-to/energy.md explains it.
OF_JOBS = "rate(powertrain_energy_joules_total[2m]) * on (node) group_left (job) powertrain_session_info"
QUERIES = {
    "job": f"sum by (job) (sum_over_time(({OF_JOBS})[{{since}}:1m])) / 60",
    "node": "sum by (node) (increase(powertrain_energy_joules_total[{since}])) / 3600",
}
NOTES = {
    "prometheus": "Prometheus: nodes with all that they took, also without a job; jobs by the minute.",
    "records": "Job records: jobs that ran in that time, with all of their energy; boards without a job are not in it.",
}
Totals = dict[str, float]


def mount(root: typer.Typer) -> None:
    """Add the verb to the command."""
    root.command("energy")(energy)


def energy(
    since: Annotated[str, typer.Option("--since", help="How far back: 30m, 12h, 7d, 4w.")] = "7d",
    url: Annotated[
        str | None,
        typer.Option(
            "--prometheus", help="Address of a Prometheus server that scrapes the agents.", show_default=False
        ),
    ] = None,
    everywhere: EveryNamespace = False,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show watt-hours by job, node and namespace.

    Without --prometheus the jobs' own records are added up; a job that was deleted is not among them.

    [bold]Examples[/bold]

    powertrain energy -A --since 30d

    powertrain energy --prometheus http://localhost:9090 --json
    """
    seconds = duration_s(since)
    if url is not None:
        document = from_prometheus(url, since)
    else:
        with connected(kubeconfig, namespace) as cluster:
            jobs = cluster.list(TRAINING_JOBS, "" if everywhere else cluster.namespace)
            document = from_records(jobs, cluster.api.now() - timedelta(seconds=seconds))
    document["since"] = since
    if as_json:
        emit_json(document)
    else:
        _print(document)


def duration_s(text: str) -> float:
    """Return the seconds of a duration such as 7d; what is none is the user's mistake."""
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhdw])", text)
    if match is None:
        raise CliError(f"--since {text}: write a number and a unit, such as 30m, 12h, 7d or 4w")
    return float(match[1]) * UNITS_S[match[2]]


def from_prometheus(url: str, since: str) -> dict[str, Any]:
    """Return the energy of a stretch of time as a Prometheus server has it."""
    by_job, by_node = (
        {str(each["metric"].get(label, "")): float(each["value"][1]) for each in prometheus.instant(url, query)}
        for label, query in ((label, text.format(since=since)) for label, text in QUERIES.items())
    )
    by_namespace: Totals = defaultdict(float)
    for job, wh in by_job.items():
        by_namespace[job.partition("/")[0]] += wh
    return _document("prometheus", by_job, by_node, by_namespace)


def from_records(jobs: Iterable[Object], began: datetime) -> dict[str, Any]:
    """Return the energy of the jobs that ran since then, as their own records tell it."""
    by_job: Totals = {}
    by_node: Totals = defaultdict(float)
    by_namespace: Totals = defaultdict(float)
    for raw in jobs:
        status, metadata = raw.get("status") or {}, raw["metadata"]
        if not _ran_since(status, began):
            continue
        total_wh = float(status.get("energyJoules") or 0.0) / JOULES_PER_WH
        by_job[f"{metadata['namespace']}/{metadata['name']}"] = total_wh
        by_namespace[metadata["namespace"]] += total_wh
        left_wh = total_wh
        for node in status.get("nodes") or []:
            wh = float(node.get("energyJoules") or 0.0) / JOULES_PER_WH
            by_node[node["name"]] += wh
            left_wh -= wh
        # Earlier attempts may have had other nodes, which the record does not name any more.
        if left_wh > 1e-3 * max(1.0, total_wh):
            by_node[EARLIER] += left_wh
    return _document("records", by_job, by_node, by_namespace)


def _ran_since(status: Mapping[str, Any], began: datetime) -> bool:
    if not status.get("startedAt"):
        return False
    ended = status.get("completedAt")
    return ended is None or datetime.fromisoformat(str(ended).replace("Z", "+00:00")) >= began


def _document(source: str, by_job: Totals, by_node: Totals, by_namespace: Totals) -> dict[str, Any]:
    def ranked(totals: Totals) -> list[dict[str, Any]]:
        order = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
        return [{"name": name, "wh": round(wh, 4)} for name, wh in order]

    jobs_wh = round(sum(by_job.values()), 4)
    return {
        "source": source,
        "jobs_wh": jobs_wh,
        "jobs": ranked(by_job),
        "nodes": ranked(by_node),
        "namespaces": ranked(by_namespace),
    }


def _print(document: Mapping[str, Any]) -> None:
    if not document["jobs"] and not document["nodes"]:
        stdout().print(f"no energy of the last {document['since']} is known", markup=False)
    for title in ("jobs", "nodes", "namespaces"):
        if document[title]:
            rows = [[each["name"], _short_text(each["wh"])] for each in document[title]]
            table("", [title.removesuffix("s"), "Wh"], rows, right=["Wh"])
    stdout().print(f"last {document['since']}. {NOTES[document['source']]}", markup=False, soft_wrap=True)


def _short_text(wh: float) -> str:
    return f"{wh:.1f}" if wh >= 100 else f"{wh:.3g}"
