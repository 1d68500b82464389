"""Builds the report of a PowerBudget: its boards against the cap, their shares, and the makespan of other sharings."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from powertrain.api.v1alpha1 import BudgetBoard, Forecast, PowerBudget
from powertrain_cli.report.document import Basis, Fleet, FleetBoard, Makespan, Timeline

POINTS = 400
SHARINGS = {
    "seconds": "the shares in force",
    "equal_seconds": "the same share for every board",
    "proportional_seconds": "shares in proportion to what each board takes at most",
}


def fleet(budget: PowerBudget, lines: Mapping[str, Timeline], caps: Timeline | None = None) -> Fleet:
    """Return the boards of a budget on one clock. `caps` has the cap over time as its limit, else that of now holds."""
    dated_lines = {node: line for node, line in lines.items() if line.at_s and line.began_at}
    begins = {node: _began(line) for node, line in dated_lines.items()}
    zero = min(begins.values(), default=None)
    at_s: tuple[float, ...] = ()
    if zero is not None:
        end_s = max((begins[node] - zero).total_seconds() + line.at_s[-1] for node, line in dated_lines.items())
        at_s = tuple(end_s * place / (POINTS - 1) for place in range(POINTS))
    boards = []
    for board in budget.status.boards:
        line, later_s = dated_lines.get(board.name), 0.0
        if line is not None and zero is not None:
            later_s = (begins[board.name] - zero).total_seconds()
        boards.append(_board(board, line, [moment - later_s for moment in at_s]))
    return Fleet(
        name=str(budget.metadata.get("name", "")),
        began_at=None if zero is None else zero.isoformat(),
        at_s=at_s,
        cap_w=_caps(budget, caps, zero, at_s),
        source="; ".join(dict.fromkeys(line.source for line in dated_lines.values())),
        boards=tuple(boards),
        makespans=tuple(makespans(budget.status.forecast)),
    )


def _began(line: Timeline) -> datetime:
    assert line.began_at is not None
    return datetime.fromisoformat(line.began_at)


def _board(board: BudgetBoard, line: Timeline | None, moments: Sequence[float]) -> FleetBoard:
    nothing: tuple[float | None, ...] = (None,) * len(moments)
    return FleetBoard(
        node=board.name,
        power_w=nothing if line is None else _at(line.at_s, line.power_mean_w, moments),
        share_w=nothing if line is None else _at(line.at_s, line.limit_w, moments),
        state=board.state.value,
        job=board.job,
        reserved_w=board.watts,
        drawn_w=board.drawn_watts,
        speed=board.speed,
        reason=board.reason,
    )


def _at(at_s: Sequence[float], column: Sequence[float | None], moments: Sequence[float]) -> tuple[float | None, ...]:
    """Return a column at other moments: the last value before, none before the first and after the last."""
    gap_s = max((later - before for before, later in pairwise(at_s)), default=0.0)
    values = []
    for moment in moments:
        place = bisect_right(at_s, moment) - 1
        values.append(column[place] if place >= 0 and moment <= at_s[-1] + gap_s else None)
    return tuple(values)


def _caps(
    budget: PowerBudget, caps: Timeline | None, zero: datetime | None, at_s: Sequence[float]
) -> tuple[float | None, ...]:
    if caps is None or not caps.at_s or zero is None:
        return (budget.status.cap_watts,) * len(at_s)
    later_s = (_began(caps) - zero).total_seconds()
    return _at(caps.at_s, caps.limit_w, [moment - later_s for moment in at_s])


def makespans(forecast: Forecast | None) -> list[Makespan]:
    """Return how long all jobs need with each sharing, as the operator predicts it."""
    forecasts = [(SHARINGS[name], getattr(forecast, name, None)) for name in SHARINGS]
    return [Makespan(sharing=words, seconds=s, basis=Basis.PREDICTED) for words, s in forecasts if s is not None]
