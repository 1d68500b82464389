"""Time lines of a report: from the agent's history of a session, or from a Prometheus server."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from powertrain.api.v1alpha1 import JobNode
from powertrain.modes import PowerMode
from powertrain.session_history import SessionHistory
from powertrain_cli import prometheus
from powertrain_cli.report.document import Mark, MarkKind, Timeline

POINTS = 600
# By name of the column; each is one gauge of the node's agent.
QUERIES = {
    "power_mean_w": 'avg_over_time(powertrain_power_watts{{rail="total",{node}}}[{step}s])',
    "power_min_w": 'min_over_time(powertrain_power_watts{{rail="total",{node}}}[{step}s])',
    "power_max_w": 'max_over_time(powertrain_power_watts{{rail="total",{node}}}[{step}s])',
    "step_s": "powertrain_step_observed_seconds{{{node}}}",
    "limit_w": "powertrain_power_limit_watts{{{node}}}",
}


# Which of the time lines that there may be was used; the page names it.
FROM_JOB = "the history that the job keeps since its session ended"
FROM_BOARD = "the history that the board's agent keeps of this session"
PROMETHEUS = "Prometheus"


def of_session(node: JobNode, power_node: Mapping[str, Any] | None) -> Timeline | None:
    """Return the time line of a job's session: what the job keeps of it, else what its board tells; None without."""
    history = ((power_node or {}).get("status") or {}).get("history") or {}
    live = history.get("data") if node.session and history.get("session") == node.session else None
    for text, source in ((node.history, FROM_JOB), (live, FROM_BOARD)):
        with suppress(ValueError):
            if text:
                return from_history(SessionHistory.from_text(text), source)
    return None


def of_board(power_node: Mapping[str, Any]) -> Timeline | None:
    """Return the time line of the session that a board serves, or served last; None where it tells of none."""
    text = (((power_node.get("status") or {}).get("history")) or {}).get("data")
    with suppress(ValueError):
        if text:
            return from_history(SessionHistory.from_text(text), FROM_BOARD)
    return None


def with_marks(fine: Timeline, coarse: Timeline | None) -> Timeline:
    """Return a fine time line with the marks and modes of a coarse one, which alone knows what was decided."""
    if coarse is None or not fine.began_at or not coarse.began_at:
        return fine
    later_s = (datetime.fromisoformat(coarse.began_at) - datetime.fromisoformat(fine.began_at)).total_seconds()
    marks = tuple(mark.model_copy(update={"at_s": mark.at_s + later_s}) for mark in coarse.marks)
    begins = [at_s + later_s for at_s in coarse.at_s]
    places = (bisect_right(begins, at_s) - 1 for at_s in fine.at_s)
    modes = tuple(coarse.mode[place] if place >= 0 else None for place in places)
    return fine.model_copy(update={"marks": marks, "mode": modes, "source": f"{fine.source}; events: {coarse.source}"})


def from_history(history: SessionHistory, source: str) -> Timeline:
    """Return the time line of a session's history."""
    rows = history.rows
    return Timeline(
        source=source,
        began_at=history.began_at,
        at_s=tuple(row.at_s for row in rows),
        power_min_w=tuple(row.power_min_w for row in rows),
        power_mean_w=tuple(row.power_mean_w for row in rows),
        power_max_w=tuple(row.power_max_w for row in rows),
        step_s=tuple(row.step_s for row in rows),
        limit_w=tuple(row.limit_w for row in rows),
        mode=tuple(PowerMode.parse(row.mode).human if row.mode else None for row in rows),
        marks=tuple(Mark(at_s=mark.at_s, kind=MarkKind(mark.kind.value), text=mark.text) for mark in history.marks),
    )


def from_prometheus(url: str, node: str, began: datetime, ended: datetime) -> Timeline:
    """Return the time line of a node from a Prometheus server that scrapes the agents."""
    seconds = max(1.0, (ended - began).total_seconds())
    step_s = max(1, round(seconds / POINTS))
    columns: dict[str, dict[float, float]] = {}
    for name, query in QUERIES.items():
        expression = query.format(node=f'node="{node}"', step=max(10, step_s))
        columns[name] = values_of(prometheus.over_time(url, expression, began, ended, step_s), began)
    at_s = sorted(columns["power_mean_w"])
    if not at_s:
        return Timeline(source=f"Prometheus has no power of node {node} in that time")
    values: dict[str, Any] = {name: tuple(column.get(at) for at in at_s) for name, column in columns.items()}
    return Timeline(source=PROMETHEUS, began_at=began.isoformat(), at_s=tuple(at_s), mode=(None,) * len(at_s), **values)


def values_of(each_series: Iterable[prometheus.Series], began: datetime) -> dict[float, float]:
    """Return the values of series by the seconds since a moment."""
    values: dict[float, float] = {}
    for series in each_series:
        for at, value in series["values"]:
            values[round(float(at) - began.timestamp(), 1)] = float(value)
    return values


def now_text(now: datetime) -> str:
    """Return a moment as the page's foot shows it."""
    return now.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
