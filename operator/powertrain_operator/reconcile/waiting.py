"""What a job without nodes waits for: its turn, a node that could run it, or the watts of a PowerBudget."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from powertrain.api.v1alpha1 import JobPhase, TrainingJob, TrainingJobStatus
from powertrain_operator import floors, lookup, node_view
from powertrain_operator.budgets.power_check import PowerCheck, Shortfall
from powertrain_operator.cache import Cache
from powertrain_operator.claims import Applicant
from powertrain_operator.node_view import NodeView
from powertrain_operator.plan import Context
from powertrain_operator.profiles.matching import Object
from powertrain_operator.turns import priority

# Nodes that are named with those who hold them; each change of the words is a write for every job that waits.
MAX_NAMED = 5
TURN_S = 0.25
_NUMBER = re.compile(r"[0-9.]+ W")


@dataclass(frozen=True)
class Waits:
    """What a job waits for; `event`: how that is told, if it is news."""

    phase: JobPhase
    words: str
    event: Literal["Normal", "Warning"] | None = None


@dataclass(frozen=True)
class NodeWait:
    """What keeps a job from its nodes, in words; `turn`: only its turn, `held_up`: others have those it could have."""

    words: str
    turn: bool = False
    held_up: bool = False


def look_again_s(cache: Cache, least_s: float) -> float:
    """Return when a job that waits is looked at again: each look is at all boards, so many jobs take turns."""
    return max(least_s, TURN_S * sum(map(might_wait, cache.each("TrainingJob"))))


def might_wait(raw: Object) -> bool:
    """Say, without reading the whole object, whether a job could be waiting."""
    status = raw.get("status") or {}
    over = status.get("phase") in (JobPhase.SUCCEEDED, JobPhase.FAILED)
    return not over and not any(node.get("holds") for node in status.get("nodes") or [])


def why_waits(cache: Cache, job: TrainingJob, applicant: Applicant, context: Context) -> Waits:
    """Return what keeps a job from starting, in words."""
    boards = list(lookup.node_views(cache, context).values())
    unfit = partial(floors.unfit, cache, job, applicant.needs)
    reason = wait_for_nodes(applicant, boards, lookup.holders(cache), unfit)
    before = job.status
    shortfall = power_shortfall(cache, job, context) if reason.turn else None
    if shortfall is not None:  # its condition is an Event
        return Waits(JobPhase.WAITING_FOR_POWER, _steady(shortfall.words, before))
    phase = JobPhase.QUEUED if reason.turn else JobPhase.WAITING_FOR_NODE
    # Whom it waits for may change often, why no node could run it does not.
    if reason.held_up and before.phase is not phase:
        return Waits(phase, reason.words, "Normal")
    is_news = not reason.turn and (before.phase, before.message) != (phase, reason.words)
    return Waits(phase, reason.words, "Warning" if is_news else None)


def wait_for_nodes(
    applicant: Applicant, boards: Sequence[NodeView], busy: Mapping[str, str], unfit: Callable[[NodeView], str]
) -> NodeWait:
    """Return what keeps a job from its nodes."""
    reasons = {board.name: unfit(board) for board in boards}
    fitting = [name for name, reason in reasons.items() if not reason]
    if applicant.only:
        missing = sorted(name for name in applicant.only if reasons.get(name, "gone"))
        if missing:
            words = ", ".join(f"{name} ({reasons.get(name, 'there is no such node')})" for name in missing)
            return NodeWait(
                f"waits for its own node to return: {words}; with placement.allowMove it may use another one"
            )
    if len(fitting) < applicant.replicas:
        if not boards:
            return NodeWait("no Jetson has joined: is the agent's DaemonSet running?")
        listed = "; ".join(f"{name}: {reason}" for name, reason in sorted(reasons.items()) if reason)
        return NodeWait(f"needs {applicant.replicas} nodes, {len(fitting)} could run it ({listed})"[:1000])
    busy_words = sorted(f"{name} by {busy[name]}" for name in fitting if name in busy)
    more = f" and {len(busy_words) - MAX_NAMED} more" if len(busy_words) > MAX_NAMED else ""
    words = f"waits for its turn: {', '.join(busy_words[:MAX_NAMED]) or 'other jobs come first'}{more}"[:1000]
    return NodeWait(words, turn=True, held_up=len(fitting) - len(busy_words) < applicant.replicas)


def _steady(words: str, before: TrainingJobStatus) -> str:
    """Return the words; those that differ by the number of missing watts alone are not worth a write."""
    if before.phase is not JobPhase.WAITING_FOR_POWER:
        return words
    return before.message if _NUMBER.sub("", before.message) == _NUMBER.sub("", words) else words


def candidates_for(cache: Cache, job: TrainingJob, check: PowerCheck, rank: int) -> tuple[NodeView, ...]:
    """Return as many boards as the job wants, of those that could run it and that nobody holds."""
    placement = job.spec.placement
    needs = node_view.needs(job.metadata["namespace"], placement.node_selector, job.spec.workload.template)
    holders = lookup.holders(cache)
    only = frozenset(job.status.return_to) if not placement.allow_move else frozenset[str]()
    fitting = [
        view
        for view in check.views.values()
        if not floors.unfit(cache, job, needs, view) and view.name not in holders and (not only or view.name in only)
    ]
    fitting.sort(key=lambda view: (check.floor_w(job, view, rank), view.name))
    return tuple(fitting[: placement.replicas]) if len(fitting) >= placement.replicas else ()


def power_shortfall(cache: Cache, job: TrainingJob, context: Context) -> Shortfall | None:
    """Return what keeps a job from the boards that it could have, None if power does not."""
    if not cache.keys("PowerBudget"):
        return None
    check, rank = PowerCheck(cache, context), priority(job.spec.workload.template, cache.each("PriorityClass"))
    boards = candidates_for(cache, job, check, rank)
    return check.shortfall(job, boards, rank) if boards else None
