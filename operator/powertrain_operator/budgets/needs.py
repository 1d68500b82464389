"""What a job needs of a board's watts at least and could use at most, by its profile, its session and the catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

import numpy as np

from powertrain import devices
from powertrain.api.v1alpha1 import (
    Coupling,
    Front,
    JobNode,
    ModeFloor,
    PowerNode,
    PowerProfileSpec,
    Samples,
    SessionStatus,
    TrainingJob,
    find,
)
from powertrain.objectives import Work
from powertrain.sharing import Demand
from powertrain_operator import floors
from powertrain_operator.attempts import report
from powertrain_operator.cache import Cache
from powertrain_operator.limits import power_limit_w
from powertrain_operator.node_view import NodeView
from powertrain_operator.policies import least
from powertrain_operator.profiles.lookup import profile_for

# An agent confirms a share when its mean is below it, so the lowest mode needs a little more than its mean.
FLOOR_FACTOR, FLOOR_EXTRA_W = 1.05, 0.2
# What a board takes beyond its highest preset: MAXN has no limit but the module's.
MAXN_FACTOR, PRESET_FACTOR = 1.5, 1.1


@dataclass(frozen=True)
class Needs:
    """The least and the most watts of a job on a board, and its front."""

    floor_w: float
    most_w: float
    demand: Demand


def device_of(board: NodeView, label: str = "") -> str:
    """Return the name of a board in the catalogue, as its agent or its Node's label says."""
    return str((board.status.get("device") or {}).get("name") or label)


def most_watts(device: str) -> float:
    """Return what a board can draw at most; of one that is not in the catalogue, the most of any."""
    if device in devices.names():
        presets = devices.get(device).presets
        preset_watts = [preset.watts for preset in presets if preset.watts is not None]
        factor = MAXN_FACTOR if any(preset.watts is None for preset in presets) else PRESET_FACTOR
        if preset_watts:
            return factor * max(preset_watts)
    return max(most_watts(name) for name in devices.names() if _is_labelled(name))


def least_watts(device: str) -> float:
    """Return what a board's lowest modes take while it trains, as its smallest preset is called."""
    names = (
        [device] if device in devices.names() and _is_labelled(device) else list(filter(_is_labelled, devices.names()))
    )
    return max(min(w for p in devices.get(name).presets if (w := p.watts) is not None) for name in names)


def _is_labelled(name: str) -> bool:
    return any(preset.watts is not None for preset in devices.get(name).presets)


def needs_of(cache: Cache, job: TrainingJob, board: NodeView, priority: int, node: JobNode | None = None) -> Needs:
    """Return what a job needs on a board that it has (`node`) or could get."""
    device = device_of(board)
    session_status = report(board, node.session) if node is not None and node.session else None
    size = (node.batch_size if node is not None else None) or job.spec.workload.batch_sizes[0]
    match = profile_for(cache, job, board, size)
    watts, speed = _front(cache, board, session_status, match.spec)
    most_w = least((power_limit_w(job.spec, board.labels, board.policy.node), most_watts(device)))
    if board.supply is not None:
        most_w = least((most_w, board.supply.watts))
    most_w = most_w or 0.0
    lowest_w = _lowest_w(_known_lowest_w(cache, job, board, watts, match.spec), session_status, device)
    # Shares are written in steps of a tenth, rounded down.
    floor_w = min(ceil(10 * max(lowest_w, job.spec.constraints.min_watts or 0.0) - 1e-6) / 10, most_w)
    unit = str(job.metadata["uid"]) if job.spec.placement.coupling is Coupling.SYNCHRONOUS else ""
    left = _steps_left(job, size, session_status) if watts.size else None
    demand = Demand(board.name, watts, speed, left, floor_w, most_w, priority, unit)
    return Needs(floor_w, most_w, demand)


def _front(
    cache: Cache, board: NodeView, session_status: SessionStatus | None, profile: PowerProfileSpec | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return watts and steps per second along the front of the profile, else of the running session; empty if none."""
    front = profile.front if profile is not None and profile.front.step_seconds else None
    if front is None and session_status is not None and session_status.result is not None:
        whole = cache.read(PowerNode, "PowerNode", board.name)
        session = whole.status.session if whole is not None else None
        front = session.result.front if session is not None and session.result is not None else None
    if front is None or not front.step_seconds:
        return np.empty(0), np.empty(0)
    return _ascending(front, board.policy.node.min_mode)


def _ascending(front: Front, floor: ModeFloor | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the points that a session may set: none that the site's floor forbids."""
    watts, step_s = np.array(front.power_watts), np.array(front.step_seconds)
    order = np.argsort(watts, kind="stable")
    usable = order[step_s[order] > 0]
    if floor is not None:
        usable = usable[np.array([floor.allows(mode) for mode in front.modes()])[usable]]
    return watts[usable], 1.0 / step_s[usable]


def _known_lowest_w(
    cache: Cache, job: TrainingJob, board: NodeView, front_w: np.ndarray, profile: PowerProfileSpec | None
) -> float | None:
    """Return what the lowest allowed mode of a board was measured to take with a job, None if nobody has."""
    allowed_w = floors.lowest_w(cache, job, board)
    if allowed_w is not None or board.policy.node.min_mode is not None:
        return allowed_w  # the profile may hold modes below the site's floor
    return min((*_measured(profile.samples if profile is not None else None), *map(float, front_w)), default=None)


def _lowest_w(measured_w: float | None, session_status: SessionStatus | None, device: str) -> float:
    """Return what the lowest mode of a board takes with a job: as measured, else as its smallest preset is called."""
    lowest_w = least_watts(device) if measured_w is None else measured_w
    lowest_w = FLOOR_FACTOR * lowest_w + FLOOR_EXTRA_W
    reachable = find(session_status.conditions, "BudgetReachable") if session_status is not None else None
    if (
        reachable is not None
        and reachable.reason == "WaitingForBudget"
        and session_status is not None
        and session_status.observed
    ):
        # It is in its lowest mode and takes more than was thought.
        lowest_w = max(lowest_w, FLOOR_FACTOR * (session_status.observed.power_watts or 0.0) + FLOOR_EXTRA_W)
    return lowest_w


def _measured(samples: Samples | None) -> Iterable[float]:
    if samples is None:
        return ()
    unsafe = set(samples.unsafe)
    return (watts for place, watts in enumerate(samples.power_watts) if place not in unsafe and watts > 0)


def _steps_left(job: TrainingJob, batch_size: int, session_status: SessionStatus | None) -> float | None:
    workload = job.spec.workload
    steps = Work(batch_size, workload.samples_per_epoch, workload.epochs).steps
    if steps is None:
        return None
    return float(max(0, steps - (session_status.training.steps if session_status is not None else 0)))
