"""How a PowerBudget looks in a terminal: the sum against the cap, and a bar per board."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from powertrain_cli.jobs.documents import Document
from powertrain_cli.jobs.screens import grid, watts
from powertrain_cli.units import duration

BAR = 30


def budget(document: Document) -> Group:
    """Return the picture of `budget show`."""
    head = Text(f"{document['name']}  ", style="bold") + Text(f"{document['goal']}, {document['jobs']} jobs")
    parts: list[RenderableType] = [head]
    if document["cap_source"]:
        parts.append(Text(document["cap_source"], style="dim"))
    parts.append(_sum(document))
    if document["boards"]:
        parts += ["", _boards(document["boards"])]
    if document["waiting"]:
        parts += ["", _waiting(document["waiting"])]
    if words := makespan_sentence(document["makespan"]):
        parts += ["", Text(words)]
    if document["exceeded"]:
        times = f"{document['exceeded']} times the boards together drew more than the cap"
        parts.append(Text(times, style="red"))
    parts += [Text(f"{each['type']}: {each['reason']} {each['message']}", style="yellow") for each in _bad(document)]
    return Group(*parts)


def _bad(document: Document) -> list[Document]:
    return [each for each in document["conditions"] if each["status"] == "False"]


def _sum(document: Document) -> Text:
    """Return what is drawn and what is reserved against the cap."""
    cap_w, drawn_w, allocated_w = document["cap_w"], document["drawn_w"], document["allocated_w"]
    if cap_w is None:
        return Text("the operator has not shared it out yet", style="yellow")
    over = drawn_w is not None and drawn_w > cap_w
    picture = share_bar(drawn_w or 0.0, allocated_w or 0.0, max(cap_w, drawn_w or 0.0, 1.0))
    words = f" {watts(drawn_w)} W drawn, {watts(allocated_w)} W reserved of {cap_w:g} W"
    return picture + Text(words, style="red" if over else "")


def share_bar(drawn_w: float, share_w: float, full_w: float, width: int = BAR) -> Text:
    """Return a bar: full blocks are drawn, light ones are reserved beyond that, dots are left; red above the share."""
    cells = [max(0, min(width, round(width * value / full_w))) for value in (drawn_w, share_w)]
    drawn_cells, share = cells[0], max(cells)
    style = "red" if share_w > 0 and drawn_w > 1.02 * share_w else "green"
    return Text.assemble(("█" * drawn_cells, style), ("▒" * (share - drawn_cells), "cyan"), "·" * (width - share))


def _boards(boards: Sequence[Document]) -> RenderableType:
    full_w = max((board["reserved_w"] or 0.0 for board in boards), default=1.0) or 1.0
    rows = []
    for board in boards:
        share_w = board["share_w"] if board["share_w"] is not None else board["reserved_w"]
        state = board["job"] or board["state"].lower()
        unconfirmed = "" if board["confirmed"] else " unconfirmed"
        rows.append(
            [
                board["node"],
                state,
                share_bar(board["drawn_w"] or 0.0, share_w or 0.0, full_w),
                watts(board["drawn_w"]),
                watts(share_w) + unconfirmed,
                "–" if board["speed"] is None else f"{board['speed']:.0%}",
                duration(board["ends_s"]),
                board["reason"],
            ]
        )
    columns = ["board", "job", "", "W", "share W", "speed", "ends in", " "]
    return grid(columns, rows, right=("W", "share W", "speed", "ends in"))


def planned(document: Document) -> Group:
    """Return the picture of `budget plan`."""
    head = Text(f"{document['name']}  ", style="bold") + Text(f"{document['goal']}, as it would be now")
    cap = f"{document['allocated_w']:g} W reserved of {document['cap_w']:g} W ({document['cap_source']})"
    parts: list[RenderableType] = [head, Text(cap), "", _plan_table(document["boards"])]
    parts += [Text(f"{each['job']} waits: {each['reason']}", style="yellow") for each in document["waiting"]]
    if words := makespan_sentence(document["makespan"]):
        parts += ["", Text(words)]
    return Group(*parts)


def _plan_table(boards: Sequence[Document]) -> RenderableType:
    full_w = max((board["share_w"] for board in boards), default=1.0) or 1.0
    rows = [
        [
            board["node"],
            board["job"] or board["state"].lower(),
            share_bar(0.0, board["share_w"], full_w),
            watts(board["share_w"]),
            "–" if board["speed"] is None else f"{board['speed']:.0%}",
            duration(board["ends_s"]),
            board["reason"],
        ]
        for board in boards
    ]
    return grid(["board", "job", "", "share W", "speed", "ends in", " "], rows, right=("share W", "speed", "ends in"))


def _waiting(jobs: Sequence[Document]) -> RenderableType:
    rows = [[each["job"], watts(each["missing_w"]), each["free_at"] or "when a job ends"] for each in jobs]
    return grid(["waits for power", "W missing", "free at"], rows, right=("W missing",))


def makespan_sentence(makespan: Document) -> str:
    """Say when the last job ends, and how much longer simpler shares would take."""
    seconds = makespan["seconds"]
    if seconds is None:
        return ""
    words = f"the last job ends in {duration(seconds)}"
    others = [("equal", makespan["equal_seconds"]), ("proportional", makespan["proportional_seconds"])]
    compared = [
        f"{name} shares: {duration(other)} ({other / seconds:.2f} ×)" for name, other in others if other and seconds > 0
    ]
    return f"{words}; {', '.join(compared)}" if compared else words
