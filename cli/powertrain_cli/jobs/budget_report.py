"""Collects the report of a PowerBudget from the cluster, and from Prometheus where it is named."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from powertrain import __version__
from powertrain.api.resources import POWER_BUDGETS, POWER_NODES
from powertrain.api.v1alpha1 import PowerBudget
from powertrain_cli import prometheus
from powertrain_cli.jobs.connection import Connection
from powertrain_cli.report import budgets, summary, timelines
from powertrain_cli.report.document import Report, Timeline
from powertrain_kube import ForbiddenError, NotFoundError, Object

PREFIXES = ("powerbudget/", "powerbudgets/", "pb/")
SINCE = timedelta(hours=24)
NOTE = "Without --prometheus the dashed line is the cap of now, and each board shows its present or last job."
CAP, SHARE = 'powertrain_budget_cap_watts{{budget="{name}"}}', 'powertrain_budget_share_watts{{budget="{name}"}}'


def name_of(target: str) -> str | None:
    """Return the PowerBudget that an argument names, as kubectl writes it; None for a job."""
    return next((target.removeprefix(prefix) for prefix in PREFIXES if target.startswith(prefix)), None)


def collect(cluster: Connection, name: str, url: str | None = None) -> Report:
    """Return the report of a budget as the cluster knows it now."""
    budget = PowerBudget.model_validate(cluster.get(POWER_BUDGETS, name))
    nodes = dict(_power_nodes(cluster, (board.name for board in budget.status.boards)))
    lines = {node: line for node, raw in nodes.items() if (line := timelines.of_board(raw)) is not None}
    caps = None
    if url is not None:
        lines, caps = _from_prometheus(url, name, budget, cluster.api.now())
    status = budget.status
    return Report(
        name=f"PowerBudget {name}",
        phase="",
        objective=budget.spec.goal.value,
        limits=f"{status.cap_watts:g} W ({status.cap_source})" if status.cap_watts is not None else "",
        summary=summary.of_budget(budget),
        note=NOTE if url is None else "",
        made_at=timelines.now_text(cluster.api.now()),
        versions={"powertrain": __version__},
        boards=(),
        fleet=budgets.fleet(budget, lines, caps),
    )


def _power_nodes(cluster: Connection, names: Iterable[str]) -> Iterable[tuple[str, Object]]:
    for name in names:
        try:
            yield name, cluster.api.get(POWER_NODES.path(name))
        except (ForbiddenError, NotFoundError):
            continue


def _from_prometheus(url: str, name: str, budget: PowerBudget, now: datetime) -> tuple[dict[str, Timeline], Timeline]:
    """Return each board's power and share, and the cap, since the budget was made or for a day."""
    created_at = datetime.fromisoformat(str(budget.metadata["creationTimestamp"]).replace("Z", "+00:00"))
    began = max(created_at, now - SINCE)
    step_s = max(1, round((now - began).total_seconds() / timelines.POINTS))
    shares = {
        str(each["metric"].get("node", "")): timelines.values_of([each], began)
        for each in prometheus.over_time(url, SHARE.format(name=name), began, now, step_s)
    }
    lines = {}
    for board in budget.status.boards:
        line = timelines.from_prometheus(url, board.name, began, now)
        share = shares.get(board.name, {})
        lines[board.name] = line.model_copy(update={"limit_w": tuple(share.get(at) for at in line.at_s)})
    caps_w = timelines.values_of(prometheus.over_time(url, CAP.format(name=name), began, now, step_s), began)
    at_s = tuple(sorted(caps_w))
    caps = Timeline(
        source=timelines.PROMETHEUS,
        began_at=began.isoformat(),
        at_s=at_s,
        limit_w=tuple(caps_w[at] for at in at_s),
    )
    return lines, caps
