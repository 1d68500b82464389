"""The limits in force on one node: the job's own, its override for that node, and the site's policy over both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from powertrain.api.v1alpha1 import Constraints, NodePolicy, ScheduleEntry, SessionLimits, TrainingJobSpec
from powertrain.limit_table import LIMITS, MAX_WINDOW_S, Quantity
from powertrain_operator.policies import least, selects


@dataclass(frozen=True)
class NodeLimits:
    """What the envelope of a node says, and what the policy took from the job."""

    limits: SessionLimits
    schedule: tuple[ScheduleEntry, ...]
    lowered: tuple[str, ...] = ()


def _own(spec: TrainingJobSpec, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return what the first override that fits a node with these labels names."""
    for override in spec.placement.overrides:
        if selects(override.node_selector, labels):
            return {name: value for name, value in override.constraints if value is not None}
    return {}


def constraints_for(spec: TrainingJobSpec, labels: Mapping[str, str]) -> Constraints:
    """Return the job's limits on a node with these labels: the first override that fits replaces what it names.

    An entry of the schedule is for all nodes, so it does not raise what was said of one.
    """
    own = _own(spec, labels)
    constraints_here = spec.constraints.model_copy(update=own)
    entries = tuple(
        entry.model_copy(update={"watts": least((entry.watts, own.get("power_watts")))})
        for entry in constraints_here.power_schedule
    )
    constraints: Constraints = constraints_here.model_copy(update={"power_schedule": entries})
    return constraints


def power_limit_w(spec: TrainingJobSpec, labels: Mapping[str, str], policy: NodePolicy) -> float | None:
    """Return the limit on the mean power alone, None if there is none."""
    # Asked for every free board at every claim, so without a copy of all constraints.
    return least((_own(spec, labels).get("power_watts", spec.constraints.power_watts), policy.max_watts))


def limits_for(spec: TrainingJobSpec, labels: Mapping[str, str], policy: NodePolicy) -> NodeLimits:
    """Return the limits of a session; no value is above the policy's."""
    constraints = constraints_for(spec, labels)
    power_w, hard_w = power_limit_w(spec, labels, policy), least((constraints.hard_limit_watts, policy.hard_max_watts))
    hard_a = least((constraints.hard_limit_amps, policy.hard_max_amps))
    # Without one of its own the agent explores within the budget of the moment, which it alone knows at every time.
    explore_w = None if spec.profiling.max_watts is None else least((spec.profiling.max_watts, policy.max_watts))
    schedule = tuple(
        entry.model_copy(update={"watts": least((entry.watts, policy.max_watts))})
        for entry in constraints.power_schedule
    )
    lowered = [
        f"{name} {requested:g} → {effective:g} {unit}"
        for name, requested, effective, unit in (
            ("powerWatts", constraints.power_watts, power_w, "W"),
            ("hardLimitWatts", constraints.hard_limit_watts, hard_w, "W"),
            ("hardLimitAmps", constraints.hard_limit_amps, hard_a, "A"),
            ("profiling.maxWatts", spec.profiling.max_watts, explore_w, "W"),
        )
        if requested is not None and effective is not None and effective < requested
    ]
    lowered += [
        f"powerSchedule from {before.from_} {before.watts:g} → {after.watts:g} W"
        for before, after in zip(constraints.power_schedule, schedule, strict=True)
        if after.watts < before.watts
    ]
    return NodeLimits(
        SessionLimits(
            power_watts=power_w,
            power_statistic=constraints.power_statistic,
            guard_window_seconds=min(constraints.guard_window_seconds, MAX_WINDOW_S),
            explore_watts=explore_w,
            hard_limit_watts=hard_w,
            hard_limit_amps=hard_a,
            **{
                limit.field: getattr(constraints, limit.field)
                for limit in LIMITS
                if limit.quantity is not Quantity.POWER
            },
        ),
        schedule,
        tuple(lowered),
    )
