"""A PowerBudget's boards as the cache shows them: state, share, what is confirmed, what is drawn, and whose job."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from powertrain.api.v1alpha1 import BoardState, JobNode, PowerBudgetSpec, PowerShare, ShareStatus, TrainingJob
from powertrain_operator import lookup, names
from powertrain_operator.budgets.accounting import Board
from powertrain_operator.budgets.needs import device_of, most_watts, needs_of
from powertrain_operator.cache import Cache
from powertrain_operator.node_view import NodeView, parse_time
from powertrain_operator.observation import Key
from powertrain_operator.plan import Context
from powertrain_operator.policies import least, selects
from powertrain_operator.trouble import Parts
from powertrain_operator.turns import priority

# As long as a Node may be lost before its job goes elsewhere.
LOST = timedelta(minutes=5)


class BudgetBoards:
    """Finds the boards of budgets in one look at the cache; a job that can't be read is a board without one."""

    def __init__(self, cache: Cache, context: Context, parts: Parts | None = None) -> None:
        self._cache, self._context, self._parts = cache, context, parts or Parts()
        self.views = lookup.node_views(cache, context)
        self._classes = list(cache.each("PriorityClass"))

    def of(self, budget: str, spec: PowerBudgetSpec) -> list[Board]:
        """Return the boards that a budget selects, by name."""
        boards = []
        for node in self._cache.each("Node"):
            metadata = node["metadata"]
            if selects(spec.node_selector, metadata.get("labels") or {}):
                view = self.views.get(metadata["name"]) or lookup.node_view(
                    self._cache, metadata["name"], self._context
                )
                boards.append(self._board(view, budget, spec))
        return sorted(boards, key=lambda board: board.name)

    def _board(self, view: NodeView, budget: str, spec: PowerBudgetSpec) -> Board:
        share, confirmed_share = shares_of(view, budget)
        most_w = most_watts(device_of(view, view.labels.get(names.DEVICE, "")))
        reason = self._off(view, spec)
        figures = view.status.get("figures") or {}
        if reason:
            state = BoardState.OFF
        elif view.power_node is None or (view.silent and share is None):
            state, reason = BoardState.UNMANAGED, "no agent has joined from there"
        else:
            is_claimed = lookup.holder_key(self._cache, view.name) is not None
            state = BoardState.GOVERNED if is_claimed or _has_session(view) else BoardState.IDLE
        board = Board(
            name=view.name,
            state=state,
            most_w=most_w
            if state is not BoardState.UNMANAGED or spec.unmanaged_watts is None
            else spec.unmanaged_watts,
            share=share,
            confirmed_share=confirmed_share,
            idle_w=figures.get("idleWatts"),
            drawn_w=None if view.silent else figures.get("watts"),
            is_silent=view.silent,
            is_writable=view.power_node is not None,
            has_session=_has_session(view),
            is_unsure=self._cache.is_in_doubt(Key("PowerNode", "", view.name)),
            reason=reason or ("its agent is silent" if view.silent else ""),
        )
        return self._with_job(board, view) if state is BoardState.GOVERNED else board

    def _with_job(self, board: Board, view: NodeView) -> Board:
        holder_key = lookup.holder_key(self._cache, view.name)
        holder: tuple[TrainingJob, JobNode] | None = None
        if holder_key is not None:
            with self._parts.of(holder_key):
                holder = lookup.holder(self._cache, view.name)
        if holder is None:  # a session that nobody holds any more is about to end
            limit_w = ((view.spec.get("session") or {}).get("limits") or {}).get("powerWatts")
            most_w = least((limit_w, board.most_w)) or board.most_w
            return replace(board, most_w=most_w, is_stopping=True, session=view.session_uid, reason="its job is over")
        job, node = holder
        rank = priority(job.spec.workload.template, self._classes)
        needs = needs_of(self._cache, job, view, rank, node)
        status, metadata = job.status, job.metadata
        return replace(
            board,
            most_w=min(board.most_w, needs.most_w) if needs.most_w > 0 else board.most_w,
            floor_w=needs.floor_w,
            demand=needs.demand,
            job=f"{metadata['namespace']}/{metadata['name']}",
            session=node.session,
            priority=rank,
            came=(status.started_at or "9", metadata.get("creationTimestamp", ""), metadata["uid"]),
            is_stopping=status.stopping is not None or bool(metadata.get("deletionTimestamp")),
        )

    def _off(self, view: NodeView, spec: PowerBudgetSpec) -> str:
        """Return why a board counts as off, empty if it does not."""
        if not view.silent or not view.not_ready():
            return ""
        if view.annotations.get(names.POWERED_OFF, "false") == "true":
            return f"{names.POWERED_OFF} marks it as off"
        if spec.count_lost:
            return ""
        conditions = (view.node or {}).get("status", {}).get("conditions") or []
        since = next((c.get("lastTransitionTime") for c in conditions if c["type"] == "Ready"), None)
        lost = since is not None and self._context.now - parse_time(since) >= LOST
        return "it has been lost for 5 min, and countLost is false" if lost else ""


def _has_session(view: NodeView) -> bool:
    """Say whether a job may draw: an envelope is written and not over, or the agent still serves one."""
    uid = view.session_uid
    session = view.status.get("session") or {}
    serves = (
        bool(session.get("uid")) and session.get("phase") not in ("Ended", "Refused") and not session.get("restored")
    )
    return serves or bool(uid and not view.restored(uid))


def shares_of(view: NodeView, budget: str) -> tuple[PowerShare | None, ShareStatus | None]:
    """Return a board's share of a budget as it was written, and as its agent confirmed it."""
    spec_share = next((s for s in view.spec.get("shares") or () if s.get("budget") == budget), None)
    status_share = next((s for s in view.status.get("shares") or () if s.get("budget") == budget), None)
    return (
        PowerShare.model_validate(spec_share) if spec_share is not None else None,
        ShareStatus.model_validate(status_share) if status_share is not None else None,
    )
