"""A PowerBudget as a plain document: `--json` prints it, the screen draws it. Pure."""

from __future__ import annotations

from datetime import datetime

from powertrain.api.v1alpha1 import BudgetBoard, ConditionStatus, Forecast, PowerBudget
from powertrain_cli.jobs.documents import Document
from powertrain_operator.node_view import parse_time


def budget_document(budget: PowerBudget, now: datetime) -> Document:
    """Return what `budget show` tells."""
    spec, status = budget.spec, budget.status
    return {
        "name": budget.metadata["name"],
        "goal": spec.goal.value,
        "cap_w": status.cap_watts,
        "cap_source": status.cap_source,
        "reserve_w": spec.reserve_watts,
        "allocated_w": status.allocated_watts,
        "drawn_w": status.drawn_watts,
        "idle_w": status.idle_watts,
        "jobs": status.jobs,
        "exceeded": status.exceeded,
        "boards": [_board(board, now) for board in status.boards],
        "waiting": [
            {
                "job": f"{each.namespace}/{each.name}",
                "missing_w": each.missing_watts,
                "free_at": each.free_at,
            }
            for each in status.waiting_jobs
        ],
        "makespan": makespans(status.forecast),
        "conditions": [
            {"type": each.type, "status": each.status.value, "reason": each.reason, "message": each.message}
            for each in status.conditions
            if each.status is not ConditionStatus.TRUE
        ],
    }


def makespans(forecast: Forecast | None) -> Document:
    """Return how long the last job still takes with these, equal and proportional shares."""
    figures = forecast or Forecast()
    return {
        "seconds": figures.seconds,
        "equal_seconds": figures.equal_seconds,
        "proportional_seconds": figures.proportional_seconds,
    }


def _board(board: BudgetBoard, now: datetime) -> Document:
    ends_s = None if board.ends_at is None else (parse_time(board.ends_at) - now).total_seconds()
    return {
        "node": board.name,
        "state": board.state.value,
        "job": board.job,
        "reserved_w": board.watts,
        "share_w": board.share_watts,
        "target_w": board.target_watts,
        "confirmed": board.confirmed,
        "drawn_w": board.drawn_watts,
        "lowest_w": board.lowest_watts,
        "speed": board.speed,
        "ends_at": board.ends_at,
        "ends_s": None if ends_s is None else max(0.0, ends_s),
        "reason": board.reason,
    }


def share_sentence(budget: str, board: BudgetBoard) -> str:
    """Say in words which share of a budget a board has, and why."""
    if board.share_watts is None:
        return f"PowerBudget {budget} has no share for it: {board.reason or 'its board is not governed'}"
    words = f"share {board.share_watts:g} W of PowerBudget {budget}"
    if board.target_watts is not None and round(board.target_watts, 1) != round(board.share_watts, 1):
        words += f", on its way to {board.target_watts:g} W"
    if not board.confirmed:
        words += ", not confirmed by its agent yet"
    if board.speed is not None:
        words += f", {board.speed:.0%} of the speed without a cap"
    return f"{words}: {board.reason}" if board.reason else words
