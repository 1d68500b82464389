"""Which shares are written next, so that what is reserved never exceeds the cap, whoever dies or is late.

What is reserved for a board is in its object: the share in the spec, and the highest since the agent confirmed one. A
lower share frees watts only when the agent has confirmed it. A higher one is written only from watts that are free, and
only when no other write can still be under way: every share must have been written by this process (a write with an
object's version voids all earlier ones), and every answer must have come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import floor

from powertrain.api.v1alpha1 import BoardState, PowerShare, ShareBound, moment
from powertrain_operator.budgets.accounting import Board, total_counted_w

# A change of less is not worth a write.
LEAST_W = 0.2
_STEPS_PER_W = 10
ROUNDING_W = 1e-6
# A bound that is told ahead may be so much above what it should be.
BOUND_FACTOR = 1.02


@dataclass(frozen=True)
class ShareTerms:
    """What is the same for all shares of a budget at a moment."""

    budget: str
    writer: str
    now: datetime
    window_s: float


@dataclass(frozen=True)
class ShareWrite:
    """A share to be written for a board."""

    board: str
    share: PowerShare


def rounded(watts: float) -> float:
    """Return watts as they are written: in steps of a tenth, never more."""
    return floor(watts * _STEPS_PER_W + ROUNDING_W) / _STEPS_PER_W


def next_writes(
    boards: Iterable[Board],
    targets: Mapping[str, float],
    ahead: Mapping[str, tuple[ShareBound, ...]],
    available_w: float,
    terms: ShareTerms,
) -> list[ShareWrite]:
    """Return the writes that are safe now, decreases first; `available_w` is the cap without what is no board's."""
    everybody = list(boards)
    mine = [board for board in everybody if board.is_writable and board.name in targets]
    # Where there is too much in all, every tenth counts.
    least_w = LEAST_W if total_counted_w(everybody) <= available_w + ROUNDING_W else 0.0
    lowered = [write for board in mine if (write := _not_raised(board, targets, ahead, terms, least_w)) is not None]
    lowered_names = {write.board for write in lowered}
    if not all(_is_fenced(board, terms) for board in everybody):
        return lowered
    return lowered + _raised(
        [board for board in mine if board.name not in lowered_names], targets, ahead, terms, everybody, available_w
    )


def _is_fenced(board: Board, terms: ShareTerms) -> bool:
    """Say whether no write of somebody else, or without an answer, can still raise the board's share.

    A first share raises nothing: it is at most what the board counts with.
    """
    if not board.is_writable:
        return True
    return not board.is_unsure and (board.share is None or board.share.writer == terms.writer)


def _not_raised(
    board: Board,
    targets: Mapping[str, float],
    ahead: Mapping[str, tuple[ShareBound, ...]],
    terms: ShareTerms,
    least_w: float,
) -> ShareWrite | None:
    """Return the write that lowers a share, makes the first one, takes it over, or tells other bounds ahead.

    A share that would be lowered by less than `least_w` stays.
    """
    target_w, bounds = rounded(targets[board.name]), ahead.get(board.name, ())
    share = board.share
    if share is None:
        # Without a job a board is told what it takes anyway; more is given from free watts, as to all others.
        is_measured = board.has_session or board.idle_allowance_w is not None
        return _write(board, min(target_w, board.counted_w), bounds, terms) if is_measured else None
    if target_w < share.watts and (share.watts - target_w >= least_w - ROUNDING_W or target_w == 0):
        return _write(board, target_w, bounds, terms)
    if not _is_fenced(board, terms) or share.guard_window_seconds != terms.window_s:
        return _write(board, share.watts, bounds, terms)
    return _write(board, share.watts, bounds, terms) if _needs_bounds(share, bounds, terms.now) else None


def _raised(
    boards: list[Board],
    targets: Mapping[str, float],
    ahead: Mapping[str, tuple[ShareBound, ...]],
    terms: ShareTerms,
    everybody: list[Board],
    available_w: float,
) -> list[ShareWrite]:
    """Return the writes that raise shares, as far as watts are free; those who can't train yet come first."""
    free_w = available_w - total_counted_w(everybody)
    is_pending = any(not b.is_confirmed and not b.is_fixed for b in everybody if b.share is not None)
    writes = []
    for board in sorted(boards, key=lambda b: (b.share is None or b.share.watts >= b.floor_w, -b.priority, b.came)):
        share, target_w = board.share, rounded(targets[board.name])
        if share is None or target_w < share.watts + LEAST_W:
            continue
        needed_w = max(0.0, target_w - board.counted_w)
        if needed_w > free_w + ROUNDING_W:
            # Others are about to make room; else what is there is given.
            target_w = share.watts if is_pending else rounded(board.counted_w + max(0.0, free_w))
            needed_w = max(0.0, target_w - board.counted_w)
        if target_w >= share.watts + LEAST_W and needed_w <= max(0.0, free_w) + ROUNDING_W:
            writes.append(_write(board, target_w, ahead.get(board.name, ()), terms))
            free_w -= needed_w
    return writes


def _needs_bounds(share: PowerShare, bounds: tuple[ShareBound, ...], now: datetime) -> bool:
    """Say whether the bounds that an agent has are too high for what it should have, or hold it down by mistake."""
    for bound in bounds:
        told_w = min((b.watts for b in share.ahead if b.at <= bound.at), default=share.watts)
        if bound.watts * BOUND_FACTOR < told_w:
            return True
    return any(datetime.fromisoformat(b.at) <= now and b.watts + LEAST_W < share.watts for b in share.ahead)


def _write(board: Board, watts: float, bounds: tuple[ShareBound, ...], terms: ShareTerms) -> ShareWrite:
    before, confirmed = board.share, board.confirmed_share
    revisions = [each.revision for each in (before, confirmed) if each is not None]
    # What a board without a job draws is no promise of its agent, so nothing more than the share is reserved for it.
    may_draw_w = board.reserved_w if board.state is not BoardState.OFF else 0.0
    watts = rounded(watts) if before is None or watts != before.watts else watts
    share = PowerShare(
        budget=terms.budget,
        watts=watts,
        revision=max(revisions, default=0) + 1,
        reserved_watts=max(watts, may_draw_w),
        guard_window_seconds=terms.window_s,
        ahead=tuple(bound for bound in bounds if bound.watts < watts),
        writer=terms.writer,
        at=moment(terms.now),
    )
    return ShareWrite(board.name, share)
