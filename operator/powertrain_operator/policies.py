"""What the site's PowerPolicies say about one node, all of them together: the stricter value counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from powertrain.api.v1alpha1 import CpuCores, ModeFloor, NodePolicy, PowerPolicySpec, WhenUnpowered
from powertrain.limit_table import DEFAULT_WINDOW_S


@dataclass(frozen=True)
class SitePolicy:
    """The policies that select a node, as one."""

    node: NodePolicy = field(default_factory=NodePolicy)
    disabled_by: str = ""
    observed_by: str = ""
    # None: every namespace. Several policies that name some: only those that all of them name.
    namespaces: frozenset[str] | None = None
    # Whether jobs end, and wait for power, where the site can deliver 0 W; else they stay in the lowest mode.
    suspends_unpowered: bool = True

    def refuses(self, namespace: str) -> str:
        """Return why jobs of a namespace may not run there, empty if they may."""
        if self.disabled_by:
            return f"PowerPolicy {self.disabled_by} disables the node"
        if self.observed_by:
            return f"PowerPolicy {self.observed_by} lets agents only observe the node (observeOnly)"
        if self.namespaces is not None and namespace not in self.namespaces:
            allowed = ", ".join(sorted(self.namespaces)) or "none"
            return f"policy allows only namespaces: {allowed}"
        return ""


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Say whether labels fit a selector; an empty selector fits all."""
    return all(labels.get(key) == value for key, value in selector.items())


def site_policy(policies: Iterable[tuple[str, PowerPolicySpec]], labels: Mapping[str, str]) -> SitePolicy:
    """Return what the named policies say about a node with these labels."""
    matching = [(name, policy) for name, policy in policies if selects(policy.node_selector, labels)]
    specs = [policy for _, policy in matching]
    if not specs:
        return SitePolicy()
    namespaces = [frozenset(policy.allowed_namespaces) for policy in specs if policy.allowed_namespaces]
    hotplug = all(policy.cpu_cores is CpuCores.HOTPLUG for policy in specs)
    node = NodePolicy(
        max_watts=least(policy.max_watts for policy in specs),
        guard_window_seconds=min(
            (p.guard_window_seconds for p in specs if p.max_watts is not None), default=DEFAULT_WINDOW_S
        ),
        hard_max_watts=least(policy.hard_max_watts for policy in specs),
        hard_max_amps=least(policy.hard_max_amps for policy in specs),
        cpu_cores=CpuCores.HOTPLUG if hotplug else CpuCores.FIXED,
        min_cores=max((policy.min_cores for policy in specs if policy.min_cores), default=None) if hotplug else None,
        min_mode=_floor([policy.min_mode for policy in specs if policy.min_mode is not None]),
        fan_max_while_profiling=any(policy.fan_max_while_profiling for policy in specs),
        power_offset_watts=max(policy.power_offset_watts for policy in specs),
    )
    disabled_by = next((name for name, policy in matching if policy.disabled), "")
    observed_by = next((name for name, policy in matching if policy.observe_only), "")
    suspends = any(policy.when_unpowered is WhenUnpowered.SUSPEND for policy in specs)
    allowed = frozenset.intersection(*namespaces) if namespaces else None
    return SitePolicy(node, disabled_by, observed_by, allowed, suspends)


def _floor(floors: Sequence[ModeFloor]) -> ModeFloor | None:
    """Return the highest clock that any of the floors asks for, knob by knob; None without a floor."""
    if not floors:
        return None
    highest = {
        knob: max((clock for floor in floors if (clock := getattr(floor, knob)) is not None), default=None)
        for knob in ModeFloor.model_fields
    }
    return ModeFloor.model_validate(highest)


def least(values: Iterable[float | None]) -> float | None:
    """Return the lowest of the limits that are set, None if none is."""
    return min((value for value in values if value is not None), default=None)
