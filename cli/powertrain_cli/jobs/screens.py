"""How the verbs look in a terminal: tables, bars and the live picture of one job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from powertrain_cli.fitting import FittingTable
from powertrain_cli.jobs.documents import OVER, Document
from powertrain_cli.output import show
from powertrain_cli.units import duration, plus_minus

__all__ = ["front", "grid", "job", "jobs", "nodes", "power_bar", "profiles", "ranking", "show", "watts"]

NODES_DROP = ("site W", "mode", "phase", "limit W", "job", "device")
PROFILES_DROP = ("strategy", "front", "batch", "age", "device", "modes", "workload")
BAR, TRIED_ROWS, FRONT_ROWS = 24, 8, 8
STYLES = {"Succeeded": "green", "Running": "green", "Failed": "red", "Profiling": "cyan", "Suspended": "yellow"}


def grid(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    title: str = "",
    right: Sequence[str] = (),
    words: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> FittingTable:
    """Return a table without lines; `words` wrap, and `drop` says what a narrow terminal leaves out first."""
    return FittingTable(columns, rows, title, right, words, drop)


def watts(value: float | None) -> str:
    """Return watts for people."""
    return "–" if value is None else f"{value:.1f}"


def phase(text: str) -> Text:
    """Return a phase in its colour."""
    return Text(text, style=STYLES.get(text, ""))


def jobs(lines: Sequence[Document], with_namespace: bool) -> FittingTable:
    """Return the table of `list`."""
    columns = ["namespace"] * with_namespace + ["name", "phase", "nodes", "W", "limit W", "done", "left", "age"]
    rows = [
        [
            *([line["namespace"]] if with_namespace else []),
            line["name"],
            phase(line["phase"]),
            ",".join(line["nodes"]) or "–",
            watts(line["power_w"]),
            watts(line["limit_w"]),
            _percent(line["percent"]),
            line["remaining"] or "–",
            duration(line["age_s"]),
        ]
        for line in lines
    ]
    return grid(columns, rows, right=("W", "limit W", "done"), drop=("age", "nodes", "limit W", "left", "done"))


def job(document: Document) -> Group:
    """Return the picture of `status`."""
    head = Text(f"{document['namespace']}/{document['name']}  ", style="bold") + phase(document["phase"])
    parts: list[RenderableType] = [head]
    if document["message"] and not _boards_say(document):
        parts.append(Text(document["message"], style="dim"))
    if document["percent"] is not None:
        time_left = f", {document['remaining']} left" if document["remaining"] else ""
        epoch = f", epoch {document['epoch']}" if document["epoch"] is not None else ""
        parts.append(Text(f"{bar(document['percent'], 100.0)} {document['percent']:.1f} % trained{epoch}{time_left}"))
    parts.append(Text(f"{document['energy_j'] / 3600:.2f} Wh so far, attempt {document['attempt']}"))
    if document["batch"] is not None:
        parts += ["", Text(document["batch"]["reason"]), _batch_sizes(document["batch"]["sizes"])]
    for board in document["boards"]:
        parts += ["", *_board(board, over=document["phase"] in OVER)]
    trouble = [each for each in document["conditions"] if _is_trouble(each)]
    parts += [Text(f"{each['type']}: {each['reason']} {each['message']}", style="yellow") for each in trouble]
    return Group(*parts)


def _boards_say(document: Document) -> bool:
    """Say whether the job's message is that of a board, which is shown with it."""
    return any(board["message"] and board["message"] in document["message"] for board in document["boards"])


def _batch_sizes(sizes: Sequence[Document]) -> FittingTable:
    rows = [
        [
            each["batch_size"],
            each["state"],
            "–" if each["relative_time"] is None else f"{each['relative_time']:.2f} ×",
            each["reason"],
        ]
        for each in sizes
    ]
    return grid(
        ["batch size", "state", "time to accuracy", ""], rows, right=("batch size", "time to accuracy"), words=("",)
    )


def _board(board: Document, over: bool) -> list[RenderableType]:
    name = f"{board['node']} ({board['device']})" if board["device"] else board["node"]
    modes_tried = f"{board['modes_tried']} modes tried in {duration(board['profiling_s'])}"
    head = Text(f"{name}  ", style="bold") + Text(f"{board['phase']}  {board['human']}  {modes_tried}")
    parts: list[RenderableType] = [head]
    if board["power_w"] is not None and not over:
        parts.append(power_bar(board["power_w"], board["limit_w"]))
    parts += [Text(line) for line in _figures(board)]
    if board.get("gained"):
        parts.append(Text(f"gained: {board['gained']}"))
    if board.get("reference"):
        parts.append(Text(f"reference: {board['reference']}", style="dim"))
    if board["violations"]:
        parts.append(Text(f"{board['violations']} readings or windows above a limit", style="red"))
    if board["message"]:
        parts.append(Text(board["message"], style="dim"))
    if board["tried"] and board["phase"] == "Profiling":
        parts.append(tried_table(board["tried"]))
    return parts


def _figures(board: Document) -> list[str]:
    lines = []
    for word in ("predicted", "observed"):
        figures = board[word]
        if figures is None or figures["step_s"] is None or figures["power_w"] is None:
            continue
        step_pm = (
            "" if figures["step_pm_s"] is None else f" ± {plus_minus(figures['step_s'], figures['step_pm_s'], 1e3)}"
        )
        power_pm = (
            "" if figures["power_pm_w"] is None else f" ± {plus_minus(figures['power_w'], figures['power_pm_w'])}"
        )
        lines.append(
            f"{word:>9}: {figures['step_s'] * 1e3:.1f}{step_pm} ms a step, {figures['power_w']:.1f}{power_pm} W"
        )
    return lines


def tried_table(trials: Sequence[Document], rows: int = TRIED_ROWS) -> FittingTable:
    """Return the last modes that were tried."""
    numbered = list(enumerate(trials, start=1))[-rows:]
    cells = [
        [
            number,
            each["human"],
            f"{each['step_s'] * 1e3:.1f}",
            f"{each['power_w']:.1f}",
            "left: above the limit" if each["unsafe"] else "",
        ]
        for number, each in numbered
    ]
    return grid(["#", "mode", "ms a step", "W", ""], cells, right=("#", "ms a step", "W"), words=("",))


def power_bar(power_w: float, limit_w: float | None) -> Text:
    """Return watts against their limit."""
    if limit_w is None:
        return Text(f"{power_w:.1f} W, no limit")
    style = "red" if power_w > limit_w else "green"
    return Text(f"{bar(power_w, 1.25 * limit_w)} {power_w:.1f} of {limit_w:g} W", style=style)


def bar(value: float, full: float) -> str:
    """Return a bar of text."""
    filled = max(0, min(BAR, round(BAR * value / full)))
    return "█" * filled + "·" * (BAR - filled)


def nodes(lines: Sequence[Document]) -> FittingTable:
    """Return the table of `nodes`."""
    rows = [
        [
            line["node"],
            line["device"] or "–",
            Text("ready", style="green") if line["usable"] else Text(line["problem"], style="yellow"),
            line["job"] or "–",
            line["phase"] or "–",
            watts(line["power_w"]),
            watts(line["limit_w"]),
            watts(line["policy_w"]),
            line["human"] or "–",
        ]
        for line in lines
    ]
    columns = ["node", "device", "state", "job", "phase", "W", "limit W", "site W", "mode"]
    return grid(columns, rows, right=("W", "limit W", "site W"), words=("state",), drop=NODES_DROP)


def profiles(lines: Sequence[Document]) -> FittingTable:
    """Return the table of `profiles`."""
    rows = [
        [
            line["name"],
            line["workload"],
            line["batch_size"],
            line["device"],
            line["strategy"],
            line["modes"],
            line["front"],
            line["state"],
            line["uses"],
            duration(line["age_s"]),
        ]
        for line in lines
    ]
    columns = ["name", "workload", "batch", "device", "strategy", "modes", "front", "state", "uses", "age"]
    return grid(columns, rows, right=("batch", "modes", "front", "uses"), drop=PROFILES_DROP)


def front(points: Sequence[Document], limit_w: float | None, rows: int = FRONT_ROWS) -> FittingTable:
    """Return some points of a front, those around the limit among them."""
    stride = max(1, len(points) // rows)
    rows_shown = set(range(0, len(points), stride))
    if limit_w is not None:
        first_within = next((i for i, p in enumerate(points) if p["power_w"] <= limit_w), None)
        rows_shown |= {i for i in (first_within, (first_within or 0) - 1) if i is not None and 0 <= i < len(points)}
    cells = [
        [
            points[i]["human"],
            f"{points[i]['step_s'] * 1e3:.1f}",
            plus_minus(points[i]["step_s"], points[i]["step_pm_s"], 1e3),
            f"{points[i]['power_w']:.1f}",
            plus_minus(points[i]["power_w"], points[i]["power_pm_w"]),
            "" if limit_w is None or points[i]["power_w"] <= limit_w else "above the limit",
        ]
        for i in sorted(rows_shown)
    ]
    return grid(["mode", "ms a step", "±", "W", "± ", ""], cells, right=("ms a step", "±", "W", "± "), drop=("± ", "±"))


def ranking(candidates: Sequence[Document]) -> FittingTable:
    """Return the boards, best first, with what excludes the others."""
    rows = []
    for place, each in enumerate(candidates, start=1):
        profile = each["profile"] or ("–" if each["excluded"] else "none: it would be profiled")
        expected = duration(each["expected_s"]) if each["expected_s"] is not None else "–"
        out = Text(each["excluded"], style="yellow") if each["excluded"] else Text(each["held_by"] and "busy")
        rows.append(["" if each["excluded"] else place, each["node"], each["device"], profile, expected, out])
    return grid(
        ["#", "node", "device", "profile", "takes", "excluded"],
        rows,
        right=("#", "takes"),
        words=("excluded",),
        drop=("profile", "device"),
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f} %"


def _is_trouble(condition: Document) -> bool:
    bad_if = "True" if condition["type"] in ("Degraded", "LimitedByPolicy") else "False"
    under_way = condition["reason"] in ("NotVerified", "Profiling", "")
    return bool(condition["status"] == bad_if and not under_way)
