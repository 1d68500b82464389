"""Floors: what a board needs at least for a job, and why a limit below that keeps the job away from it."""

from __future__ import annotations

from powertrain.api.v1alpha1 import PowerProfileSpec, PriorMatch, TrainingJob
from powertrain_operator import node_view
from powertrain_operator.cache import Cache
from powertrain_operator.limits import power_limit_w
from powertrain_operator.node_view import Needs, NodeView
from powertrain_operator.profiles.lookup import profile_for

# A measured mean wavers a little: a limit as low as this is left to the agent, which measures it.
TOLERANCE = 0.98


def lowest_w(cache: Cache, job: TrainingJob, board: NodeView) -> float | None:
    """Return what the board's lowest allowed mode takes with this job, None if nobody has measured it.

    Only the very mode that the agent names counts. A higher one takes more: a limit would be refused that can be kept.
    """
    lowest = (board.status.get("capabilities") or {}).get("lowestMode")
    profile = profile_for(cache, job, board)
    if not lowest or profile.spec is None or profile.prior is None or profile.prior.match is not PriorMatch.EXACT:
        return None
    return _measured_w(profile.spec, lowest)


def unfit(cache: Cache, job: TrainingJob, needs: Needs, board: NodeView) -> str:
    """Return why a job can't run on a board, free or not; empty if it could."""
    return node_view.unfit(board, needs) or problem(cache, job, board)


def problem(cache: Cache, job: TrainingJob, board: NodeView) -> str:
    """Return why the floor keeps a job from a board, empty if it does not: the limit is below the floor's power."""
    if board.policy.node.min_mode is None:
        return ""
    limit_w = power_limit_w(job.spec, board.labels, board.policy.node)
    if limit_w is None:
        return ""
    needed_w = lowest_w(cache, job, board)
    if needed_w is None or limit_w >= TOLERANCE * needed_w:
        return ""
    floor = board.policy.node.min_mode.wire()
    clocks = ", ".join(f"{knob} {clock}" for knob, clock in floor.items())
    return (
        f"its minMode ({clocks}) takes {needed_w:.1f} W with this job and the limit is {limit_w:g} W: "
        f"set powerWatts to at least {needed_w:.1f}"
    )


def _measured_w(spec: PowerProfileSpec, mode: str) -> float | None:
    samples = spec.samples
    rows = (row for row, each in enumerate(samples.modes()) if str(each) == mode and row not in samples.unsafe)
    return min((samples.power_watts[row] for row in rows), default=None)
