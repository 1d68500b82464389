"""`budget plan`: what a PowerBudget would give to each board, from profiles and running sessions. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from powertrain.api import power_budget, training_job
from powertrain.api.v1alpha1 import BoardState, PowerBudget, TrainingJob
from powertrain.sharing import Demand, Goal, ends_s, equal, makespan_s, proportional, relative_speed, share, throughput
from powertrain_cli.errors import CliError
from powertrain_cli.jobs import snapshot
from powertrain_cli.jobs.documents import Document
from powertrain_cli.jobs.snapshot import Snapshot
from powertrain_operator import lookup
from powertrain_operator.budgets.accounting import Board
from powertrain_operator.budgets.cap import cap_at
from powertrain_operator.budgets.needs import needs_of
from powertrain_operator.budgets.observing import BudgetBoards
from powertrain_operator.reconcile.queue import is_waiting

PLANNED = "planned"


@dataclass(frozen=True)
class PlanFile:
    """What a file asks for: one PowerBudget, and TrainingJobs that are not in the cluster yet."""

    budget: PowerBudget
    jobs: tuple[TrainingJob, ...] = ()


@dataclass(frozen=True)
class Placement:
    """A job on a board, as it is or as it would be."""

    node: str
    job: str
    demand: Demand
    is_running: bool


def read_file(path: Path, namespace: str) -> PlanFile:
    """Read the PowerBudget of a manifest, and its TrainingJobs."""
    try:
        documents = [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if isinstance(each, dict)]
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise CliError(f"{path}: {' '.join(str(error).split())}") from None
    budgets = [each for each in documents if each.get("kind") == power_budget.KIND]
    if len(budgets) != 1:
        raise CliError(f"{path}: holds {len(budgets)} PowerBudgets; write one (TrainingJobs may be beside it)")
    jobs = [each for each in documents if each.get("kind") == training_job.KIND]
    try:
        return PlanFile(
            PowerBudget.model_validate(budgets[0]),
            tuple(TrainingJob.model_validate(_with_names(j, namespace)) for j in jobs),
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise CliError(f"{path}: {where}: {first['msg']}") from None


def _with_names(raw: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return a job of a file with what the API server would add."""
    metadata = raw.get("metadata") or {}
    name = metadata.get("name", PLANNED)
    return {**raw, "metadata": {"namespace": namespace, "uid": f"{PLANNED}-{name}", **metadata}}


def plan(view: Snapshot, plan_file: PlanFile) -> Document:
    """Return the shares, ends and makespans that the budget would lead to."""
    budget, context = plan_file.budget, view.context
    name, spec = str(budget.metadata.get("name", PLANNED)), budget.spec
    boards = BudgetBoards(view.cache, context).of(name, spec)
    cap = cap_at(spec, budget.metadata.get("annotations") or {}, context.now)
    placements, waiting = _placements(view, boards, plan_file.jobs)
    busy = {each.node for each in placements}
    resting_w = {board.name: board.resting_w for board in boards if board.name not in busy}
    available_w = max(0.0, cap.watts - spec.reserve_watts - sum(resting_w.values()))
    demands = [each.demand for each in placements]
    shares = share(demands, available_w, Goal(spec.goal.value))
    return {
        "name": name,
        "goal": spec.goal.value,
        "cap_w": cap.watts,
        "cap_source": cap.problem or cap.source,
        "reserve_w": spec.reserve_watts,
        "available_w": round(available_w, 2),
        "allocated_w": round(spec.reserve_watts + sum(resting_w.values()) + sum(shares.values()), 2),
        "boards": [*_training(placements, shares), *_resting(boards, resting_w)],
        "waiting": waiting,
        "makespan": _makespans(demands, shares, available_w),
        "throughput": round(throughput(demands, shares), 3),
    }


def _placements(
    view: Snapshot, boards: Sequence[Board], new: Sequence[TrainingJob]
) -> tuple[list[Placement], list[Document]]:
    """Return the jobs on boards: those that run, then those that wait, each on the best free boards of the budget."""
    running = [
        Placement(board.name, board.job, board.demand, True)
        for board in boards
        if board.state is BoardState.GOVERNED and board.demand is not None and not board.is_stopping
    ]
    free = {board.name for board in boards if board.state is BoardState.IDLE}
    placements, waiting = list(running), []
    for job in (*_waiting(view), *new):
        nodes = [each.name for each in snapshot.candidates(view, job) if each.name in free and not each.excluded]
        words = f"{job.metadata['namespace']}/{job.metadata['name']}"
        if len(nodes) < job.spec.placement.replicas:
            waiting.append({"job": words, "reason": "no free board of this budget can run it"})
            continue
        for node in nodes[: job.spec.placement.replicas]:
            free.discard(node)
            demand = needs_of(view.cache, job, lookup.node_view(view.cache, node, view.context), 0).demand
            placements.append(Placement(node, words, demand, False))
    return placements, waiting


def _waiting(view: Snapshot) -> list[TrainingJob]:
    jobs = [
        lookup.find_training_job(view.cache, raw["metadata"]["namespace"], raw["metadata"]["name"])
        for raw in view.cache.each("TrainingJob")
    ]
    waiting = [job for job in jobs if job is not None and is_waiting(job)]
    return sorted(waiting, key=lambda job: (job.status.queued_at or "9", str(job.metadata["uid"])))


def _training(placements: Sequence[Placement], shares: dict[str, float]) -> list[Document]:
    ends = ends_s([each.demand for each in placements], shares)
    return [
        {
            "node": each.node,
            "state": "Governed" if each.is_running else "Planned",
            "job": each.job,
            "share_w": round(shares[each.node], 2),
            "lowest_w": each.demand.lowest_w,
            "most_w": each.demand.max_w,
            "speed": relative_speed(each.demand, shares[each.node]),
            "ends_s": _finite(ends[each.node]),
            "has_front": bool(each.demand.watts.size),
            "reason": _reason(each.demand, shares[each.node]),
        }
        for each in placements
    ]


def _reason(demand: Demand, share_w: float) -> str:
    if share_w <= 0:
        return f"waits for power: its lowest mode needs {demand.lowest_w:.1f} W"
    return "" if demand.watts.size else "no profile: its speed is assumed to grow with its watts"


def _resting(boards: Sequence[Board], resting_w: dict[str, float]) -> list[Document]:
    return [
        {
            "node": board.name,
            "state": board.state.value,
            "job": "",
            "share_w": round(resting_w[board.name], 2),
            "lowest_w": None,
            "most_w": board.most_w,
            "speed": None,
            "ends_s": None,
            "has_front": False,
            "reason": board.reason,
        }
        for board in boards
        if board.name in resting_w
    ]


def _makespans(demands: Sequence[Demand], shares: dict[str, float], available_w: float) -> Document:
    if not any(demand.remaining is not None for demand in demands):
        return {"seconds": None, "equal_seconds": None, "proportional_seconds": None}
    return {
        "seconds": _finite(makespan_s(demands, shares)),
        "equal_seconds": _finite(makespan_s(demands, equal(demands, available_w))),
        "proportional_seconds": _finite(makespan_s(demands, proportional(demands, available_w))),
    }


def _finite(seconds: float | None) -> float | None:
    return None if seconds is None or not isfinite(seconds) else round(seconds, 1)
