"""Whether a job's lowest modes fit under the caps of its boards: what is missing, and when the schedule frees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from powertrain.api.v1alpha1 import BoardState, JobPhase, PowerBudget, PowerBudgetSpec, TrainingJob, moment
from powertrain_operator.budgets.accounting import Board
from powertrain_operator.budgets.cap import cap_at, rises_to
from powertrain_operator.budgets.needs import needs_of
from powertrain_operator.budgets.observing import BudgetBoards
from powertrain_operator.cache import Cache
from powertrain_operator.limits import power_limit_w
from powertrain_operator.node_view import NodeView
from powertrain_operator.plan import Context

# A job that was stopped for lack of power starts again when so much more is there: a supply that wavers must not stop
# and start it again and again.
RESUME_FACTOR = 1.03


@dataclass(frozen=True)
class Shortfall:
    """What a job lacks of a budget; `blocks`: it fits when others have ended, so later jobs must not overtake it."""

    budget: str
    missing_w: float
    needed_w: float
    free_at: datetime | None
    blocks: bool

    @property
    def words(self) -> str:
        """Return it for people."""
        when = f"; the schedule frees them at {moment(self.free_at)}" if self.free_at is not None else ""
        return (
            f"needs {self.needed_w:.1f} W in its lowest modes, and {self.missing_w:.1f} W of PowerBudget {self.budget} "
            f"are missing{when}"
        )


@dataclass
class _Cap:
    spec: PowerBudgetSpec
    available_w: float
    boards: dict[str, Board]


class PowerCheck:
    """Answers for several jobs in one look at the cache; what was granted to one counts for the next."""

    def __init__(self, cache: Cache, context: Context) -> None:
        self._cache, self._context = cache, context
        self._caps: dict[str, _Cap] = {}
        self._floors_w: dict[tuple[object, ...], float] = {}
        self._blocked: dict[str, int] = {}  # budgets that an earlier job waits for, and its priority
        budget_boards = BudgetBoards(cache, context)
        self.views: Mapping[str, NodeView] = budget_boards.views
        for key in cache.keys("PowerBudget"):
            budget = cache.read(PowerBudget, key.kind, key.name)
            if budget is None:
                continue
            available_w = available(budget, context)
            boards = {board.name: board for board in budget_boards.of(key.name, budget.spec)}
            self._caps[key.name] = _Cap(budget.spec, available_w, boards)

    def shortfall(self, job: TrainingJob, boards: Sequence[NodeView], priority: int) -> Shortfall | None:
        """Return what keeps a job from these boards, None if nothing does."""
        for name, cap in self._caps.items():
            mine = [view for view in boards if view.name in cap.boards]
            if not mine:
                continue
            floor_w = sum(self._floor_w(job, view, priority) for view in mine)
            shortfall = self._of(name, cap, job, [view.name for view in mine], floor_w, priority)
            if shortfall is not None:
                return shortfall
        return None

    def _of(
        self, name: str, cap: _Cap, job: TrainingJob, mine: Sequence[str], floor_w: float, priority: int
    ) -> Shortfall | None:
        others = [board for board in cap.boards.values() if board.name not in mine]
        alone_w = sum(board.resting_w for board in others)
        others_w = sum(_committed_w(board, priority) for board in others)
        was_stopped = job.status.phase is JobPhase.WAITING_FOR_POWER and job.status.attempt > 0
        needed_w = (RESUME_FACTOR if was_stopped else 1.0) * floor_w
        missing_w = others_w + needed_w - cap.available_w
        blocks = alone_w + needed_w <= cap.available_w
        if missing_w <= 0 and self._blocked.get(name, priority - 1) < priority:
            return None
        if missing_w <= 0:  # an earlier job of this priority waits for these watts
            return Shortfall(name, floor_w, floor_w, None, blocks=False)
        free_at = rises_to(cap.spec, self._context.now, cap.spec.reserve_watts + others_w + needed_w)
        return Shortfall(name, missing_w, floor_w, free_at, blocks)

    def note_waiting(self, shortfall: Shortfall, priority: int) -> None:
        """Take note that a job waits: those behind it do not overtake it where it will fit once others have ended."""
        if shortfall.blocks:
            self._blocked[shortfall.budget] = max(priority, self._blocked.get(shortfall.budget, priority))

    def grant(self, job: TrainingJob, boards: Sequence[NodeView], priority: int) -> None:
        """Count a job's lowest modes from now on."""
        for cap in self._caps.values():
            for view in boards:
                if view.name in cap.boards:
                    floor_w = self._floor_w(job, view, priority)
                    cap.boards[view.name] = replace(
                        cap.boards[view.name], state=BoardState.GOVERNED, floor_w=floor_w, priority=priority
                    )

    def floor_w(self, job: TrainingJob, board: NodeView, priority: int) -> float:
        """Return what a job needs of a board that is under a budget, 0 for one that is not."""
        if any(board.name in cap.boards for cap in self._caps.values()):
            return self._floor_w(job, board, priority)
        return 0.0

    def _floor_w(self, job: TrainingJob, view: NodeView, priority: int) -> float:
        """Return it as `needs_of` does; boards of one kind, limit and floor need the same."""
        device, capabilities = view.status.get("device") or {}, view.status.get("capabilities") or {}
        limit_w = power_limit_w(job.spec, view.labels, view.policy.node)
        supply_w = view.supply.watts if view.supply is not None else None
        kind = (job.metadata["uid"], limit_w, supply_w, view.policy.node.min_mode, capabilities.get("lowestMode"))
        key = (*kind, *device.items())
        if key not in self._floors_w:
            self._floors_w[key] = needs_of(self._cache, job, view, priority).floor_w
        return self._floors_w[key]


def available(budget: PowerBudget, context: Context) -> float:
    """Return the cap of now without what is no board's."""
    cap = cap_at(budget.spec, budget.metadata.get("annotations") or {}, context.now, budget.status.battery_below)
    return cap.watts - budget.spec.reserve_watts - budget.status.lowered_watts


def _committed_w(board: Board, priority: int) -> float:
    """Return what a board needs that is not for a job of this priority: jobs of a lower one make room."""
    if board.is_fixed or board.state is not BoardState.GOVERNED:
        return board.resting_w
    return board.floor_w if board.priority >= priority else board.resting_w
