"""What a PowerBudget's status says: the cap, board by board, conditions, and whether too much is drawn in all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite
from typing import Literal

from powertrain.api.base import FIGURE, defaults_of
from powertrain.api.samples import short
from powertrain.api.v1alpha1 import (
    BoardState,
    BudgetBoard,
    Condition,
    ConditionStatus,
    Forecast,
    PowerBudget,
    PowerBudgetStatus,
    WaitingJob,
    find,
    moment,
    with_condition,
)
from powertrain.sharing import ends_s, equal, makespan_s, proportional, relative_speed
from powertrain_operator.budgets.accounting import Board, total_counted_w
from powertrain_operator.budgets.cap import Cap
from powertrain_operator.budgets.decision import Decision
from powertrain_operator.node_view import parse_time

# Sums of readings that are not quite of one moment differ by so much.
EXCESS_FACTOR = 1.01
# What was drawn too much stays taken off the cap for so long.
LOWERED = timedelta(seconds=60)
# A share that was just written is not yet what is drawn.
SETTLE_TIME = timedelta(seconds=15)
UNCONFIRMED = timedelta(seconds=30)
WITHIN_CAP, SHARES_CONFIRMED, SUPPLY_KNOWN = "WithinCap", "SharesConfirmed", "SupplyKnown"
ALL_MANAGED, CAP_FITS = "AllManaged", "CapFits"
MAX_NAMED = 5


@dataclass(frozen=True)
class Excess:
    """What is drawn in all, and what is taken off the cap because that was too much."""

    drawn_w: float | None
    lowered_w: float
    until: str | None
    is_over: bool
    count: int


@dataclass(frozen=True)
class News:
    """A verdict that is an Event."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def excess_of(status: PowerBudgetStatus, boards: Sequence[Board], available_w: float, now: datetime) -> Excess:
    """Compare what the boards' sensors say together with the cap; what is beyond is taken off for a while."""
    readings_w = [board.drawn_w for board in boards if board.drawn_w is not None]
    drawn_w = sum(readings_w) if readings_w else None
    since = parse_time(status.lowered_until) if status.lowered_until else None
    lowered_w = status.lowered_watts if since is not None and now < since else 0.0
    until = status.lowered_until if lowered_w else None
    is_steady = all(_is_settled(board, now) for board in boards if not board.is_fixed)
    was_over = _is_over(status)
    # What boards take without a job no share can lower; a cap below that is told by another condition.
    least_w = sum(board.resting_w for board in boards)
    limit_w = EXCESS_FACTOR * max(available_w, least_w)
    is_over = drawn_w is not None and drawn_w > limit_w and (is_steady or was_over)
    if not is_over or drawn_w is None:
        return Excess(drawn_w, lowered_w, until, False, status.exceeded)
    lowered_w = max(lowered_w, round(min(drawn_w - available_w, max(0.0, available_w)), 1))
    return Excess(drawn_w, lowered_w, moment(now + LOWERED), True, status.exceeded + (not was_over))


def _is_over(status: PowerBudgetStatus) -> bool:
    within = find(status.conditions, WITHIN_CAP)
    return within is not None and within.status is ConditionStatus.FALSE


def _is_settled(board: Board, now: datetime) -> bool:
    if board.share is None:
        return board.state is BoardState.IDLE
    return board.is_confirmed and (board.share.at is None or now - parse_time(board.share.at) >= SETTLE_TIME)


def report(
    budget: PowerBudget,
    boards: Sequence[Board],
    cap: Cap,
    excess: Excess,
    decision: Decision,
    waiting: tuple[WaitingJob, ...],
    now: datetime,
) -> tuple[PowerBudgetStatus, list[News]]:
    """Return the status, and the verdicts that are new."""
    before, reserve_w = budget.status, budget.spec.reserve_watts
    conditions = _conditions(budget, boards, cap, excess, now)
    governed = [board for board in boards if board.state is BoardState.GOVERNED]
    rest = [board for board in boards if board.state is not BoardState.GOVERNED]
    status = PowerBudgetStatus(
        observed_generation=budget.metadata.get("generation"),
        cap_watts=short(cap.watts),
        cap_source=cap.source[:512],
        battery_below=cap.battery_below,
        allocated_watts=round(total_counted_w(boards) + reserve_w, 1),
        drawn_watts=None if excess.drawn_w is None else short(excess.drawn_w),
        idle_watts=round(total_counted_w(rest), 1),
        jobs=len({board.job for board in governed if board.job}),
        waiting=len(waiting),
        unconfirmed=sum(1 for board in boards if not _is_kept(board)),
        exceeded=excess.count,
        lowered_watts=excess.lowered_w,
        lowered_until=excess.until,
        reshared_at=moment(now) if decision.targets.is_new else before.reshared_at,
        forecast=_forecast(governed, boards, cap.watts - reserve_w),
        waiting_jobs=waiting,
        boards=_boards(boards, decision, now),
        conditions=conditions,
    )
    return status, _news(before.conditions, conditions)


def without_figures(status: PowerBudgetStatus) -> PowerBudgetStatus:
    """Return the status without figures: what is left is written at once when it changes."""
    plain = defaults_of(BudgetBoard, FIGURE)
    boards = tuple(board.model_copy(update=plain) for board in status.boards)
    return status.model_copy(update={**defaults_of(PowerBudgetStatus, FIGURE), "boards": boards})


def _is_kept(board: Board) -> bool:
    return board.share is None or board.is_confirmed or board.state is BoardState.OFF


def _boards(boards: Sequence[Board], decision: Decision, now: datetime) -> tuple[BudgetBoard, ...]:
    new_shares = {write.board: write.share.watts for write in decision.writes}
    shares = {board.name: board.share.watts for board in boards if board.share is not None} | new_shares
    demands = [board.demand for board in boards if board.demand is not None]
    ends = ends_s(demands, shares)
    return tuple(
        BudgetBoard(
            name=board.name,
            state=board.state,
            watts=round(board.counted_w, 1),
            share_watts=shares.get(board.name),
            target_watts=decision.targets.watts.get(board.name),
            confirmed=_is_kept(board) and board.name not in new_shares,
            drawn_watts=board.drawn_w,
            lowest_watts=round(board.floor_w, 1) if board.floor_w else None,
            job=board.job,
            session=board.session,
            starved=board.name in decision.targets.starved,
            speed=_speed(board, shares),
            ends_at=_ends_at(ends.get(board.name), now),
            reason=_reason(board, decision)[:256],
        )
        for board in boards
    )


def _reason(board: Board, decision: Decision) -> str:
    if board.name in decision.targets.starved:
        return f"needs {board.floor_w:.1f} W in its lowest mode, more than the cap leaves: the job waits for power"
    if board.reason or board.state is not BoardState.GOVERNED:
        return board.reason
    if board.is_stopping:
        return "its job ends"
    if board.demand is not None and not board.demand.watts.size:
        return "its front is not known yet; the share leaves room to explore"
    return ""


def _speed(board: Board, shares: dict[str, float]) -> float | None:
    if board.demand is None or not board.demand.watts.size or board.name not in shares:
        return None
    return round(relative_speed(board.demand, shares[board.name]), 3)


def _ends_at(seconds: float | None, now: datetime) -> str | None:
    if seconds is None or not isfinite(seconds) or seconds > 10 * 365 * 86400:
        return None
    return moment(now + timedelta(seconds=seconds))


def _forecast(governed: Sequence[Board], boards: Sequence[Board], available_w: float) -> Forecast | None:
    demands = [board.demand for board in governed if board.demand is not None and not board.is_stopping]
    if not demands or any(not demand.watts.size or demand.remaining is None for demand in demands):
        return None
    names = {demand.name for demand in demands}
    free_w = max(0.0, available_w - total_counted_w(board for board in boards if board.name not in names))
    shares = {board.name: board.share.watts for board in governed if board.share is not None}
    makespans_s = [
        makespan_s(demands, each) for each in (shares, equal(demands, free_w), proportional(demands, free_w))
    ]
    seconds = [round(each, 0) if isfinite(each) else None for each in makespans_s]
    return Forecast(seconds=seconds[0], equal_seconds=seconds[1], proportional_seconds=seconds[2])


def _conditions(
    budget: PowerBudget, boards: Sequence[Board], cap: Cap, excess: Excess, now: datetime
) -> tuple[Condition, ...]:
    conditions, available_w = budget.status.conditions, cap.watts - budget.spec.reserve_watts
    late = [board.name for board in boards if _is_late(board, now)]
    unmanaged = [board.name for board in boards if board.state is BoardState.UNMANAGED]
    least_w = total_counted_w(board for board in boards if board.state is not BoardState.GOVERNED or board.is_fixed)
    drawn_w = excess.drawn_w or 0.0
    verdicts = (
        (
            WITHIN_CAP,
            not excess.is_over,
            "CapExceeded" if excess.is_over else "Within",
            f"the boards together draw {drawn_w:.1f} W of {available_w:.1f} W: the operator lowers all shares"
            if excess.is_over
            else "",
        ),
        (
            SHARES_CONFIRMED,
            not late,
            "ShareUnconfirmed" if late else "Confirmed",
            f"30 s after the write, these agents do not keep their share: {_listed(late)}; the old watts stay reserved"
            if late
            else "",
        ),
        (SUPPLY_KNOWN, not cap.problem, "SupplyUnknown" if cap.problem else "Known", cap.problem),
        (
            ALL_MANAGED,
            not unmanaged,
            "NodesUnmanaged" if unmanaged else "Managed",
            f"without an agent: {_listed(unmanaged)}; they count with their maximum power" if unmanaged else "",
        ),
        (
            CAP_FITS,
            least_w <= available_w,
            "Fits" if least_w <= available_w else "CapTooLow",
            ""
            if least_w <= available_w
            else f"boards without a training take {least_w:.1f} W, but only {available_w:.1f} W are available",
        ),
    )
    generation = budget.metadata.get("generation")
    for type_, holds, reason, message in verdicts:
        conditions = with_condition(conditions, type_, holds, reason, message, at=now, generation=generation)
    return conditions


def _is_late(board: Board, now: datetime) -> bool:
    share = board.share
    if share is None or _is_kept(board) or board.is_silent or share.at is None:
        return False
    return now - parse_time(share.at) >= UNCONFIRMED


def _news(before: Sequence[Condition], after: Sequence[Condition]) -> list[News]:
    """Return an Event for each verdict that got worse, and for each that is well again."""
    news = []
    for condition in after:
        was = find(before, condition.type)
        if condition.status is ConditionStatus.FALSE:
            if was is None or was.status is not ConditionStatus.FALSE:
                news.append(News("Warning", condition.reason, condition.message))
        elif was is not None and was.status is ConditionStatus.FALSE:
            news.append(News("Normal", condition.reason, f"{condition.type} holds again"))
    return news


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more
