"""What each board of a budget should get: who may train, a fall of the cap in proportion, and the best shares else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isinf

from powertrain.api.v1alpha1 import BoardState, BudgetGoal
from powertrain.sharing import Demand, Goal, makespan_s, share, throughput
from powertrain_operator.budgets.accounting import Board
from powertrain_operator.budgets.protocol import LEAST_W, ROUNDING_W, rounded

# Shares are made anew only if the last job ends so much sooner, or the sum of speeds is so much higher.
LEAST_GAIN = 1.03


@dataclass(frozen=True)
class Targets:
    """Watts by board; `starved` can't train with what is left; `is_new`: the shares were made anew."""

    watts: Mapping[str, float]
    starved: frozenset[str] = frozenset()
    is_new: bool = False


@dataclass(frozen=True)
class Pace:
    """When the shares were made last, and how often they may be."""

    now: datetime
    reshared_at: datetime | None
    least_s: float

    @property
    def is_due(self) -> bool:
        """Say whether they may be made anew."""
        return self.reshared_at is None or self.now - self.reshared_at >= timedelta(seconds=self.least_s)


def decide(
    boards: Sequence[Board], before: Mapping[str, float], available_w: float, goal: BudgetGoal, pace: Pace
) -> Targets:
    """Return what each board should get; `before` are the targets that were decided last."""
    resting = {board.name: _resting_w(board) for board in boards if not _is_active(board)}
    free_w = available_w - sum(board.resting_w for board in boards if not _is_active(board))
    admitted, starved = admit([board for board in boards if _is_active(board)], free_w)
    targets = {name: watts for name, watts in resting.items() if watts is not None}
    targets |= {board.name: min(_present_w(board, before), board.waiting_w) for board in starved}
    free_w -= sum(board.waiting_w for board in starved)
    present = {board.name: _present_w(board, before) for board in admitted}
    lost = frozenset(board.name for board in starved)
    if not admitted:
        return Targets(targets, lost)
    best = best_shares(admitted, free_w, goal)
    if pace.is_due and _is_worth_it(admitted, present, best, free_w, goal):
        return Targets(targets | best, lost, is_new=True)
    present |= _for_newcomers(admitted, present, best, free_w)
    return Targets(targets | within(admitted, present, free_w), lost)


def admit(boards: Iterable[Board], free_w: float) -> tuple[list[Board], list[Board]]:
    """Return the boards that can train in their lowest modes, and those that can't: whole jobs, in their order.

    A board whose job has to wait still takes what it takes without one, so that is kept for all of them first.
    """
    jobs: dict[str, list[Board]] = {}
    for board in sorted(boards, key=lambda b: (-b.priority, b.came, b.job, b.name)):
        jobs.setdefault(board.job, []).append(board)
        free_w -= board.waiting_w
    admitted: list[Board] = []
    starved: list[Board] = []
    for members in jobs.values():
        more_w = sum(board.floor_w - board.waiting_w for board in members)
        if more_w <= free_w + ROUNDING_W or all(board.is_stopping for board in members):
            admitted += members
            free_w -= more_w
        else:
            starved += members
    return admitted, starved


def best_shares(boards: Sequence[Board], free_w: float, goal: BudgetGoal) -> dict[str, float]:
    """Return the best shares of boards that can all train."""
    shares = share([_demand(board) for board in boards], max(0.0, free_w), Goal(goal.value))
    return {board.name: rounded(shares[board.name]) or board.floor_w for board in boards}


def _for_newcomers(
    boards: Sequence[Board], present: Mapping[str, float], best: Mapping[str, float], free_w: float
) -> dict[str, float]:
    """Return shares for boards that can't train with theirs yet, out of watts that nobody has: no other share changes.

    Each in its order gets what its lowest mode takes; then each gets more, up to its best share.
    """
    left_w = free_w - sum(present.values())
    newcomers: dict[str, float] = {}
    for board in boards:
        more_w = board.floor_w - present[board.name]
        if LEAST_W / 2 < more_w <= left_w:
            newcomers[board.name] = board.floor_w
            left_w -= more_w
    for name, floor_w in newcomers.items():
        newcomers[name] = floor_w + rounded(min(left_w, max(0.0, best[name] - floor_w)))
        left_w -= newcomers[name] - floor_w
    return newcomers


def within(boards: Sequence[Board], shares: Mapping[str, float], free_w: float) -> dict[str, float]:
    """Return shares that are lowered in proportion where they are too much together, none below its board's floor."""
    wanted_w = {board.name: shares[board.name] for board in boards}
    if sum(wanted_w.values()) <= free_w + ROUNDING_W:
        return wanted_w
    floors = {board.name: min(board.floor_w, wanted_w[board.name]) for board in boards}
    above_w = sum(wanted_w.values()) - sum(floors.values())
    part = max(0.0, free_w - sum(floors.values())) / above_w if above_w > 0 else 0.0
    return {name: rounded(floors[name] + min(1.0, part) * (watts - floors[name])) for name, watts in wanted_w.items()}


def _is_active(board: Board) -> bool:
    """Say whether a job has the board, and an agent is there that takes a share."""
    return board.state is BoardState.GOVERNED and not board.is_fixed


def _resting_w(board: Board) -> float | None:
    """Return the share of a board that does not train, or whose agent is silent: that keeps what was written."""
    if not board.is_writable:
        return None
    if board.state is BoardState.OFF:
        return 0.0
    if board.is_silent or board.idle_w is None:
        return board.share.watts if board.share is not None else board.counted_w
    return board.resting_w


def _present_w(board: Board, before: Mapping[str, float]) -> float:
    """Return what a board has now, or was promised."""
    share_w = board.share.watts if board.share is not None else board.counted_w
    present_w = before.get(board.name, share_w)
    return min(present_w, board.floor_w) if board.is_stopping else present_w


def _demand(board: Board) -> Demand:
    """Return what a board could do with how many watts; one that is stopping gets what it needs at least."""
    if board.demand is not None and not board.is_stopping:
        return board.demand
    floor_w = max(board.floor_w, 0.1)
    return Demand(board.name, (), (), None, floor_w, floor_w, board.priority)  # type: ignore[arg-type]


def _is_worth_it(
    boards: Sequence[Board], present: Mapping[str, float], best: Mapping[str, float], free_w: float, goal: BudgetGoal
) -> bool:
    """Say whether other shares gain enough, compared with the present ones as far as they fit."""
    present_w = within(boards, present, free_w)
    if any(present_w[board.name] + LEAST_W / 2 < board.floor_w for board in boards):
        return True  # somebody can't train
    demands = [_demand(board) for board in boards]
    if goal is BudgetGoal.MIN_MAKESPAN:
        now_s, then_s = makespan_s(demands, present_w), makespan_s(demands, best)
        return not isinf(then_s) and (isinf(now_s) or now_s > LEAST_GAIN * then_s)
    if goal is BudgetGoal.MAX_THROUGHPUT:
        return throughput(demands, best) > LEAST_GAIN * throughput(demands, present_w)
    return any(abs(best[name] - present_w[name]) > (LEAST_GAIN - 1) * max(best[name], 1.0) + LEAST_W for name in best)
