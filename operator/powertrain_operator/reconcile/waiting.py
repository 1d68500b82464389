"""What a job without nodes waits for: its turn, a node that could run it, or the watts of a PowerBudget."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Literal

from powertrain.api.v1alpha1 import JobPhase, TrainingJob, TrainingJobStatus
from powertrain_operator import claims, floors, lookup, node_view
from powertrain_operator.budgets.power_check import PowerCheck, Shortfall
from powertrain_operator.cache import Cache
from powertrain_operator.claims import Applicant
from powertrain_operator.node_view import NodeView
from powertrain_operator.plan import Context
from powertrain_operator.turns import priority

_NUMBER = re.compile(r"[0-9.]+ W")


@dataclass(frozen=True)
class Waits:
    """What a job waits for; `event`: how that is told, if it is news."""

    phase: JobPhase
    words: str
    event: Literal["Normal", "Warning"] | None = None


def why_waits(cache: Cache, job: TrainingJob, applicant: Applicant, context: Context) -> Waits:
    """Return what keeps a job from starting, in words."""
    boards = list(lookup.node_views(cache, context).values())
    unfit = partial(floors.unfit, cache, job, applicant.needs)
    reason = claims.why_waiting(applicant, boards, lookup.holders(cache), unfit)
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


def _steady(words: str, before: TrainingJobStatus) -> str:
    """Return the words; those that differ by the number of missing watts alone are not worth a write."""
    if before.phase is not JobPhase.WAITING_FOR_POWER:
        return words
    return before.message if _NUMBER.sub("", before.message) == _NUMBER.sub("", words) else words


def candidates_for(
    cache: Cache, job: TrainingJob, context: Context, check: PowerCheck, rank: int
) -> tuple[NodeView, ...]:
    """Return as many boards as the job wants, of those that could run it and that nobody holds."""
    placement = job.spec.placement
    needs = node_view.needs(job.metadata["namespace"], placement.node_selector, job.spec.workload.template)
    held = lookup.holders(cache)
    only = frozenset(job.status.return_to) if not placement.allow_move else frozenset[str]()
    fitting = [
        view
        for view in lookup.node_views(cache, context).values()
        if not floors.unfit(cache, job, needs, view) and view.name not in held and (not only or view.name in only)
    ]
    fitting.sort(key=lambda view: (check.floor_w(job, view, rank), view.name))
    return tuple(fitting[: placement.replicas]) if len(fitting) >= placement.replicas else ()


def power_shortfall(cache: Cache, job: TrainingJob, context: Context) -> Shortfall | None:
    """Return what keeps a job from the boards that it could have, None if power does not."""
    if not cache.keys("PowerBudget"):
        return None
    check, rank = PowerCheck(cache, context), priority(job.spec.workload.template, cache.each("PriorityClass"))
    boards = candidates_for(cache, job, context, check, rank)
    return check.shortfall(job, boards, rank) if boards else None
