"""PowerPolicy: what a site allows on its nodes; administrators write it, no job can exceed it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from powertrain.api.base import API_VERSION, ApiModel, Count, NotNegative, Positive, Window, rules
from powertrain.api.conditions import Conditions
from powertrain.api.power_node import CpuCores, ModeFloor
from powertrain.api.training_job import Labels
from powertrain.limit_table import DEFAULT_WINDOW_S

KIND = "PowerPolicy"
PLURAL = "powerpolicies"


class WhenUnpowered(StrEnum):
    """What happens to a job on a node whose site says that it can deliver 0 W."""

    SUSPEND = "Suspend"
    LOWEST_MODE = "LowestMode"


class PowerPolicySpec(ApiModel):
    """What holds on the nodes that it selects. Where several policies select a node, the stricter value counts."""

    model_config = rules(
        (
            "!has(self.maxWatts) || !has(self.hardMaxWatts) || self.hardMaxWatts >= self.maxWatts",
            "hardMaxWatts is for single readings and can't be below maxWatts, which is for the mean",
        ),
        (
            "!has(self.minCores) || self.cpuCores == 'Hotplug'",
            "minCores needs cpuCores: Hotplug; with Fixed all cores stay online",
        ),
    )

    node_selector: Annotated[
        Labels, Field(default_factory=dict, description="Labels of the nodes; none selects every node.")
    ]
    max_watts: Annotated[Positive | None, Field(description="No job's mean power above it.")] = None
    guard_window_seconds: Annotated[
        Window, Field(description="The window over which maxWatts holds, whatever window a job has.")
    ] = DEFAULT_WINDOW_S
    hard_max_watts: Annotated[Positive | None, Field(description="No single reading above it.")] = None
    hard_max_amps: Annotated[
        Positive | None,
        Field(description="No single reading above it, in amperes at the supply's measured voltage: a fuse."),
    ] = None
    when_unpowered: Annotated[
        WhenUnpowered,
        Field(
            description="At 0 W of powertrain.io/available-watts: Suspend ends the pods and resumes the job by itself "
            "when there is power; LowestMode lets it train on in the lowest mode."
        ),
    ] = WhenUnpowered.SUSPEND
    cpu_cores: Annotated[CpuCores, Field(description="Hotplug: modes may switch cores off.")] = CpuCores.FIXED
    min_cores: Annotated[
        int | None,
        Field(ge=1, le=256, description="Fewest cores that stay online; more where the node's pods request more."),
    ] = None
    min_mode: Annotated[
        ModeFloor | None,
        Field(
            description="The lowest clocks that a session may set, for boards that also serve inference. The lowest "
            "mode is then the lowest one at or above it. A job with a limit below its power does not run there."
        ),
    ] = None
    fan_max_while_profiling: Annotated[bool, Field(description="Run the fan at full speed while modes are tried.")] = (
        False
    )
    power_offset_watts: Annotated[
        NotNegative, Field(description="Added to every reading: the carrier board, which the sensors do not see.")
    ] = 0.0
    allowed_namespaces: Annotated[
        tuple[Annotated[str, Field(max_length=63)], ...],
        Field(max_length=256, description="Namespaces whose jobs may use the nodes; none named: all."),
    ] = ()
    observe_only: Annotated[
        bool, Field(description="No job on these nodes: their agents show metrics and self-checks, and change nothing.")
    ] = False
    disabled: Annotated[bool, Field(description="No job on these nodes.")] = False


class PowerPolicyStatus(ApiModel):
    """What it covers."""

    nodes: Annotated[Count, Field(description="PowerNodes that it selects.")] = 0
    conditions: Annotated[Conditions, Field(description="Conditions.")] = ()


class PowerPolicy(ApiModel):
    """What a site allows on its nodes."""

    api_version: str = API_VERSION
    kind: str = KIND
    metadata: Annotated[dict[str, Any], Field(default_factory=dict)]
    spec: Annotated[PowerPolicySpec, Field(description="Written by administrators.")] = PowerPolicySpec(
        node_selector={}
    )
    status: Annotated[PowerPolicyStatus, Field(description="Written by the operator only.")] = PowerPolicyStatus()
