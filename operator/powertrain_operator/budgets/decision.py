"""One decision about a budget: targets, bounds ahead, and the writes that are safe now. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from powertrain.api.power_node import MAX_BOUNDS
from powertrain.api.v1alpha1 import BoardState, BudgetGoal, ShareBound, moment
from powertrain_operator.budgets.accounting import Board
from powertrain_operator.budgets.protocol import ShareTerms, ShareWrite, next_writes
from powertrain_operator.budgets.share_targets import Pace, Targets, decide, within


@dataclass(frozen=True)
class Limits:
    """The cap without what is no board's, now and where the schedule lowers it within a day."""

    available_w: float
    falls: tuple[tuple[datetime, float], ...] = ()


@dataclass(frozen=True)
class Decision:
    """What is decided, and what is written of it now."""

    targets: Targets
    writes: tuple[ShareWrite, ...]


def share_out(
    boards: Sequence[Board],
    before: Mapping[str, float],
    limits: Limits,
    goal: BudgetGoal,
    pace: Pace,
    terms: ShareTerms,
) -> Decision:
    """Decide about a budget; `before` are the targets of the last decision."""
    targets = decide(boards, before, limits.available_w, goal, pace)
    ahead = bounds_ahead(boards, targets, limits)
    writes = next_writes(boards, targets.watts, ahead, limits.available_w, terms)
    return Decision(targets, tuple(writes))


def bounds_ahead(boards: Sequence[Board], targets: Targets, limits: Limits) -> dict[str, tuple[ShareBound, ...]]:
    """Return how the shares of training boards fall with the cap, in proportion: agents keep this by themselves."""
    training = [
        board
        for board in boards
        if board.state is BoardState.GOVERNED and board.name in targets.watts and board.name not in targets.starved
    ]
    others_w = sum(
        max(board.resting_w, targets.watts.get(board.name, 0.0)) for board in boards if board not in training
    )
    bounds: dict[str, list[ShareBound]] = {board.name: [] for board in training}
    shares = {board.name: targets.watts[board.name] for board in training}
    for at, available_w in limits.falls[:MAX_BOUNDS]:
        shares = within(training, shares, available_w - others_w)
        for name, watts in shares.items():
            bounds[name].append(ShareBound(at=moment(at), watts=watts))
    return {name: tuple(ahead) for name, ahead in bounds.items()}
