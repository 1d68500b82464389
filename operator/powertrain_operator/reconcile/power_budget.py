"""A PowerBudget: accounts for its boards, shares the cap out among them, and reports; the only writer of shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from powertrain.api.power_budget import MAX_BOARDS, MAX_WAITING
from powertrain.api.v1alpha1 import JobPhase, PowerBudget, PowerNodeSpec, PowerShare, WaitingJob, moment
from powertrain_operator import lookup
from powertrain_operator.budgets.accounting import Board
from powertrain_operator.budgets.cap import Cap, cap_at, falls_ahead
from powertrain_operator.budgets.decision import Decision, Limits, share_out
from powertrain_operator.budgets.observing import BudgetBoards
from powertrain_operator.budgets.power_check import PowerCheck
from powertrain_operator.budgets.protocol import ShareTerms
from powertrain_operator.budgets.reporting import Excess, excess_of, report, without_figures
from powertrain_operator.budgets.share_targets import Pace
from powertrain_operator.cache import Cache
from powertrain_operator.node_spec import spec_write
from powertrain_operator.node_view import NodeView, parse_time
from powertrain_operator.observation import Key
from powertrain_operator.plan import Action, Announce, ApplyStatus, Context, Plan
from powertrain_operator.profiles.matching import Object
from powertrain_operator.reconcile.waiting import candidates_for
from powertrain_operator.trouble import Parts
from powertrain_operator.turns import priority

REQUEUE_S = 10.0
PENDING_S = 2.0
FIGURES_S = 10.0


@dataclass(frozen=True)
class BudgetLook:
    """One look at a budget: what it is about, and what was decided."""

    budget: PowerBudget
    boards: Sequence[Board]
    cap: Cap
    excess: Excess
    decision: Decision


def reconcile(cache: Cache, key: Key, context: Context) -> Plan:
    """Return the writes that are safe now and the status; a budget that is gone takes its shares with it."""
    budget = cache.read(PowerBudget, key.kind, key.name)
    if budget is None or budget.metadata.get("deletionTimestamp"):
        return Plan(tuple(_withdrawn(cache, key.name, set(), context)))
    parts = Parts()
    budget_boards = BudgetBoards(cache, context, parts)
    boards = budget_boards.of(key.name, budget.spec)
    look = _look(budget, boards, context)
    actions: list[Action] = list(_withdrawn(cache, key.name, {board.name for board in boards}, context))
    for write in look.decision.writes:
        actions += _share_write(cache, budget_boards.views[write.board], write.share)
    actions += _status(cache, look, context)
    pending = any(not board.is_confirmed and board.share is not None and not board.is_fixed for board in boards)
    return Plan(tuple(actions), PENDING_S if pending or look.decision.writes else REQUEUE_S, troubles=parts.troubles)


def _look(budget: PowerBudget, boards: Sequence[Board], context: Context) -> BudgetLook:
    spec, status, now = budget.spec, budget.status, context.now
    cap = cap_at(spec, budget.metadata.get("annotations") or {}, now, status.battery_below)
    excess = excess_of(status, boards, cap.watts - spec.reserve_watts, now)
    others_w = spec.reserve_watts + excess.lowered_w
    falls = tuple((at, watts - others_w) for at, watts in falls_ahead(spec, now, cap.watts))
    before = {board.name: board.target_watts for board in status.boards if board.target_watts is not None}
    reshared = parse_time(status.reshared_at) if status.reshared_at else None
    decision = share_out(
        boards,
        before,
        Limits(cap.watts - others_w, falls),
        spec.goal,
        Pace(now, reshared, context.settings.reshare_s),
        ShareTerms(budget.metadata["name"], context.settings.identity, now, spec.guard_window_seconds),
    )
    return BudgetLook(budget, boards, cap, excess, decision)


def _share_write(cache: Cache, view: NodeView, share: PowerShare) -> list[Action]:
    present = PowerNodeSpec.model_validate(view.spec)
    others = [each for each in present.shares if each.budget != share.budget]
    shares = tuple(sorted([*others, share], key=lambda each: each.budget))
    return [*spec_write(cache, view, present.model_copy(update={"shares": shares}))]


def _withdrawn(cache: Cache, budget: str, selected: set[str], context: Context) -> list[Action]:
    """Return the writes that take a budget's shares from boards that it does not select (any more)."""
    actions: list[Action] = []
    for raw in cache.each("PowerNode"):
        name, spec = raw["metadata"]["name"], raw.get("spec") or {}
        if name in selected or not any(share.get("budget") == budget for share in spec.get("shares") or ()):
            continue
        view = lookup.node_view(cache, name, context)
        if view.node is None:
            continue
        present = PowerNodeSpec.model_validate(view.spec)
        left = tuple(share for share in present.shares if share.budget != budget)
        actions += spec_write(cache, view, present.model_copy(update={"shares": left}))
    return actions


def _status(cache: Cache, look: BudgetLook, context: Context) -> list[Action]:
    budget = look.budget
    waiting = _waiting(cache, budget.metadata["name"], context)[:MAX_WAITING]
    after, news = report(budget, look.boards[:MAX_BOARDS], look.cap, look.excess, look.decision, waiting, context.now)
    about = _reference(budget)
    events: list[Action] = [Announce(about, each.type, each.reason, each.message) for each in news]
    if after == budget.status:
        return events
    since_s = context.monotonic_s - (cache.changed_s("PowerBudget", "", budget.metadata["name"]) or 0.0)
    if not news and without_figures(after) == without_figures(budget.status) and since_s < FIGURES_S:
        return []
    return [ApplyStatus({**about, "status": after.wire()}, uid=budget.metadata["uid"]), *events]


def _reference(budget: PowerBudget) -> Object:
    metadata = {name: budget.metadata.get(name, "") for name in ("name", "uid")}
    return {"apiVersion": budget.api_version, "kind": budget.kind, "metadata": metadata}


def _waiting(cache: Cache, budget: str, context: Context) -> tuple[WaitingJob, ...]:
    """Return the jobs that wait for this budget's watts."""
    raws = [raw for raw in cache.each("TrainingJob") if _phase(raw) == JobPhase.WAITING_FOR_POWER]
    if not raws:
        return ()
    check, classes, waiting = PowerCheck(cache, context), list(cache.each("PriorityClass")), []
    for raw in raws:
        namespace, name = raw["metadata"]["namespace"], raw["metadata"]["name"]
        job = lookup.find_training_job(cache, namespace, name)
        if job is None:
            continue
        rank = priority(job.spec.workload.template, classes)
        short = check.shortfall(job, candidates_for(cache, job, check, rank), rank)
        if short is not None and short.budget == budget:
            free_at = None if short.free_at is None else moment(short.free_at)
            missing_w = round(max(0.0, short.missing_w), 1)
            waiting.append(WaitingJob(namespace=namespace, name=name, missing_watts=missing_w, free_at=free_at))
    return tuple(waiting)


def _phase(raw: Object) -> str:
    return str((raw.get("status") or {}).get("phase") or "")
