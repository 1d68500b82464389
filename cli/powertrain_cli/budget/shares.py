"""The shares of one board: what every PowerBudget over it says, for `explain`."""

from __future__ import annotations

from collections.abc import Sequence

from powertrain.api.resources import POWER_BUDGETS
from powertrain.api.v1alpha1 import PowerBudget
from powertrain_cli.budget.documents import share_sentence
from powertrain_cli.jobs.connection import Connection
from powertrain_cli.jobs.documents import Document
from powertrain_kube import ForbiddenError, NotFoundError


def read_budgets(cluster: Connection) -> list[PowerBudget]:
    """Return the PowerBudgets that these credentials may see; none in a cluster that does not know them."""
    try:
        listed = cluster.api.list(POWER_BUDGETS.path(), {})["items"]
    except (ForbiddenError, NotFoundError):
        return []
    return [PowerBudget.model_validate(raw) for raw in listed]


def shares_of(budgets: Sequence[PowerBudget], node: str) -> list[Document]:
    """Return the shares of a board, the lowest first: that one counts."""
    boards = [
        (budget.metadata["name"], board) for budget in budgets for board in budget.status.boards if board.name == node
    ]
    ordered = sorted(boards, key=lambda pair: float("inf") if pair[1].share_watts is None else pair[1].share_watts)
    return [
        {
            "budget": name,
            "share_w": board.share_watts,
            "target_w": board.target_watts,
            "confirmed": board.confirmed,
            "reason": board.reason,
            "sentence": share_sentence(name, board),
        }
        for name, board in ordered
    ]
