"""Leaves out points of a report that would be too large for one page, and says so in it."""

from __future__ import annotations

from powertrain_cli.report.document import Basis, Board, Fleet, Point, Report, Timeline

FEWEST_ROWS, FEWEST_POINTS = 20, 8
NOTE = "; every few points are left out to keep the page small"


def thinned(report: Report) -> Report:
    """Return the report with half of the points of its time lines and fronts, or with fewer boards if few are left."""
    boards, fleet = tuple(map(_board, report.boards)), _fleet(report.fleet)
    if boards != report.boards or fleet != report.fleet:
        return report.model_copy(update={"boards": boards, "fleet": fleet})
    fewer = report.boards[: max(1, len(boards) * 3 // 4)]
    note = f"Only the first {len(fewer)} boards are shown, to keep the page small; --json prints all."
    return report if len(fewer) == len(boards) else report.model_copy(update={"boards": fewer, "note": note})


def _board(board: Board) -> Board:
    return board.model_copy(update={"timeline": _timeline(board.timeline), "front": _front(board.front)})


def _fleet(fleet: Fleet | None) -> Fleet | None:
    if fleet is None or len(fleet.at_s) <= FEWEST_ROWS:
        return fleet
    boards = tuple(
        board.model_copy(update={"power_w": board.power_w[::2], "share_w": board.share_w[::2]})
        for board in fleet.boards
    )
    return fleet.model_copy(update={"at_s": fleet.at_s[::2], "cap_w": fleet.cap_w[::2], "boards": boards})


def _timeline(line: Timeline) -> Timeline:
    if len(line.at_s) <= FEWEST_ROWS:
        return line
    columns = {name: column[::2] for name, column in line if isinstance(column, tuple) and name != "marks"}
    source = line.source if line.source.endswith(NOTE) else line.source + NOTE
    return line.model_copy(update={**columns, "source": source})


def _front(front: tuple[Point, ...]) -> tuple[Point, ...]:
    predicted = [point for point in front if point.basis is Basis.PREDICTED]
    if len(predicted) <= FEWEST_POINTS:
        return front
    left_out = set(map(id, predicted[1::2]))
    return tuple(point for point in front if id(point) not in left_out)
