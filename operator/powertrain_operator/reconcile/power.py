"""A job under PowerBudgets: whether its boards have their shares, which it shows, and when it has to wait for power."""

from __future__ import annotations

from collections.abc import Sequence

from powertrain.api.v1alpha1 import JobNode, PowerBudget, Stop, TrainingJob
from powertrain_operator.attempts import ReplicaView
from powertrain_operator.budgets.needs import needs_of
from powertrain_operator.cache import Cache
from powertrain_operator.node_view import NodeView
from powertrain_operator.policies import selects
from powertrain_operator.reconcile.conditions import POWERED, Conditions
from powertrain_operator.reconcile.stopping import Reason

# A share may be so much below what a job needs: it is rounded down.
SHORT_W = 0.1


def budgets_of(cache: Cache, board: NodeView) -> list[PowerBudget]:
    """Return the PowerBudgets that select a board."""
    budgets = (cache.read(PowerBudget, key.kind, key.name) for key in cache.keys("PowerBudget"))
    return [each for each in budgets if each is not None and selects(each.spec.node_selector, board.labels)]


def share_missing(cache: Cache, job: TrainingJob, node: JobNode, board: NodeView) -> str:
    """Return why a job can't begin on its board yet, empty if it can: a budget has not given it the watts it needs."""
    budgets = budgets_of(cache, board)
    if not budgets:
        return ""
    floor_w = needs_of(cache, job, board, 0, node).floor_w
    shares = {share.get("budget"): share.get("watts", 0.0) for share in board.spec.get("shares") or ()}
    for budget in budgets:
        name = budget.metadata["name"]
        if shares.get(name, 0.0) < floor_w - SHORT_W:
            return f"{board.name} waits for its share of PowerBudget {name}: {floor_w:.1f} W at least"
    return ""


def lowest_share_w(board: NodeView) -> float | None:
    """Return the lowest share of a board, None without any."""
    return min((share.get("watts", 0.0) for share in board.spec.get("shares") or ()), default=None)


def starvation(cache: Cache, job: TrainingJob) -> Reason | None:
    """Return why a job must end for now: a budget has too few watts for the lowest modes of its boards."""
    sessions = {node.session for node in job.status.nodes if node.holds and node.session}
    for key in cache.keys("PowerBudget"):
        budget = cache.brief(key.kind, key.name) or {}
        for board in (budget.get("status") or {}).get("boards") or ():
            if board.get("starved") and board.get("session") in sessions:
                words = (
                    f"PowerBudget {key.name} has too few watts for {board['name']}, which needs "
                    f"{board.get('lowestWatts', 0.0):g} W in its lowest mode; the job resumes by itself when there are"
                )
                return Reason(Stop.WAITING_FOR_POWER, words)
    return None


def evaluate_power(cache: Cache, conditions: Conditions, views: Sequence[ReplicaView]) -> None:
    """Say whether every board under a budget has its share."""
    under = [view for view in views if budgets_of(cache, view.board)]
    if not under:
        return
    lowest_w = {view.node.name: lowest_share_w(view.board) for view in under}
    if all(view.board.session_uid == view.node.session for view in under):
        words = ", ".join(f"{name}: {watts:g} W" for name, watts in lowest_w.items() if watts is not None)
        conditions.set(POWERED, True, "SharesGiven", words)
    else:
        missing = [view.node.name for view in under if view.board.session_uid != view.node.session]
        conditions.set(POWERED, False, "SharePending", f"waits for its share: {', '.join(missing)}")
