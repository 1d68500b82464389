"""Coupling: which board of a synchronous job may try modes, while the others hold still."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from powertrain.api.v1alpha1 import Coupling, Phase, TrainingJob
from powertrain_operator.attempts import ReplicaView, observe
from powertrain_operator.cache import Cache
from powertrain_operator.plan import Context

# How long one board of a synchronous job may try modes before it is the next one's turn, once all have chosen.
TURN_S = 120.0


def holds_still(cache: Cache, job: TrainingJob, view: ReplicaView, context: Context) -> bool:
    """Say whether this board waits because another one of a synchronous job may try modes.

    Running ones try modes as well: for a raised limit, a check, a drift. So there is always one that may, and it may
    only once all others have said that they hold still.
    """
    if job.spec.placement.coupling is not Coupling.SYNCHRONOUS:
        return False
    views = [each for each in observe(cache, job, context) if not each.complete]
    if not views or _turn(views, context.now) != view.node.replica:
        return True
    session_spec = view.board.spec.get("session") or {}
    if session_spec.get("uid") == view.node.session and not session_spec["plan"].get("hold"):
        return False  # it is at it, and no other was let go since
    return not all(_holds(each) for each in views if each.node.replica != view.node.replica)


def _turn(views: Sequence[ReplicaView], now: datetime) -> int:
    """Return which replica may try modes: the one that does, else the first that has none yet, else one by one."""
    phases = {view.node.replica: view.report.phase if view.report is not None else None for view in views}
    trying = [replica for replica, phase in phases.items() if phase is Phase.PROFILING]
    unfinished = [replica for replica, phase in phases.items() if phase in (None, Phase.STARTING)]
    if trying or unfinished:
        return min(trying or unfinished)
    return sorted(phases)[int(now.timestamp() // TURN_S) % len(phases)]


def _holds(view: ReplicaView) -> bool:
    """Say whether a board is known to try no modes: it was told so and has answered, or was told nothing else ever."""
    session_spec = view.board.spec.get("session") or {}
    if session_spec.get("uid") != view.node.session:
        return True
    never_else = view.report is None and session_spec["generation"] == 1
    return bool(session_spec["plan"].get("hold")) and (view.up_to_date or never_else)
