"""PowerNode: one Jetson of the cluster; the operator writes its spec, its agent writes its status."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from powertrain.api.base import API_VERSION, ApiModel, Count, Moment, NotNegative, Positive, Window
from powertrain.api.conditions import Conditions
from powertrain.api.history import NodeHistory
from powertrain.api.session import Mode, SessionSpec, SessionStatus
from powertrain.limit_table import DEFAULT_WINDOW_S
from powertrain.modes import PowerMode

KIND = "PowerNode"
PLURAL = "powernodes"
# PowerBudgets over one board, and falls of a cap within a day that are told ahead.
MAX_SHARES = 4
MAX_BOUNDS = 16


class CpuCores(StrEnum):
    """Whether CPU cores may go offline."""

    FIXED = "Fixed"
    HOTPLUG = "Hotplug"


class ModeFloor(ApiModel):
    """The lowest clocks that a session may set: boards that also serve inference keep at least this speed."""

    cpu_khz: Annotated[int | None, Field(alias="cpuKHz", ge=1, description="No CPU clock below it, in kHz.")] = None
    gpu_hz: Annotated[int | None, Field(ge=1, description="No GPU clock below it, in Hz.")] = None
    emc_hz: Annotated[int | None, Field(ge=1, description="No memory clock below it, in Hz.")] = None

    def allows(self, mode: PowerMode) -> bool:
        """Say whether no clock of a mode is below the floor."""
        pairs = ((self.cpu_khz, mode.cpu_khz), (self.gpu_hz, mode.gpu_hz), (self.emc_hz, mode.emc_hz))
        return all(least is None or clock >= least for least, clock in pairs)


class NodePolicy(ApiModel):
    """What the site's PowerPolicies say about this node. Watts hold at once, the rest from the next session on."""

    cpu_cores: Annotated[CpuCores, Field(description="Whether cores may go offline.")] = CpuCores.FIXED
    min_cores: Annotated[
        int | None, Field(ge=1, description="Cores that stay online, what the node's pods request included.")
    ] = None
    min_mode: Annotated[ModeFloor | None, Field(description="No session sets lower clocks.")] = None
    fan_max_while_profiling: Annotated[bool, Field(description="Run the fan at its maximum while profiling.")] = False
    power_offset_watts: Annotated[
        NotNegative, Field(description="Added to every reading: what the sensors do not see.")
    ] = 0.0
    max_watts: Annotated[Positive | None, Field(description="No job's power limit is above it.")] = None
    guard_window_seconds: Annotated[
        Window, Field(description="The window over which maxWatts holds, whatever window a job has.")
    ] = DEFAULT_WINDOW_S
    hard_max_watts: Annotated[Positive | None, Field(description="No job's hard limit is above it.")] = None
    hard_max_amps: Annotated[Positive | None, Field(description="No single reading above it, in amperes.")] = None


class ShareBound(ApiModel):
    """From a moment on, a share is not above these watts."""

    at: Annotated[Moment, Field(description="From then on.")]
    watts: Annotated[NotNegative, Field(description="Not above it.")]


class PowerShare(ApiModel):
    """What a PowerBudget lets this board take. It may be there before a session is."""

    budget: Annotated[str, Field(max_length=253, description="The PowerBudget.")]
    watts: Annotated[NotNegative, Field(description="Mean over any guard window, whatever a job's own window is.")]
    revision: Annotated[int, Field(ge=1, description="Counts the writes; an agent takes no older one.")] = 1
    reserved_watts: Annotated[
        NotNegative,
        Field(description="The highest share since the one that the agent confirmed last: what it may still draw."),
    ] = 0.0
    guard_window_seconds: Annotated[Window, Field(description="The window of the mean.")] = DEFAULT_WINDOW_S
    ahead: Annotated[
        tuple[ShareBound, ...],
        Field(
            max_length=MAX_BOUNDS,
            description="How the share falls within the next 24 hours; holds also without the API server.",
        ),
    ] = ()
    writer: Annotated[
        str,
        Field(max_length=253, description="The operator process that wrote it; another process first writes it again."),
    ] = ""
    at: Annotated[Moment | None, Field(description="When it was written.")] = None


class PowerNodeSpec(ApiModel):
    """What the operator asks of a node's agent."""

    policy: Annotated[
        NodePolicy | None, Field(description="The site's policy; absent: what the agent was started with.")
    ] = None
    session: Annotated[SessionSpec | None, Field(description="The envelope; absent: no job.")] = None
    release: Annotated[
        str | None, Field(max_length=128, description="This session has ended: restore the original settings.")
    ] = None
    shares: Annotated[
        tuple[PowerShare, ...],
        Field(max_length=MAX_SHARES, description="Its shares of PowerBudgets; the lowest counts."),
    ] = ()


class ShareStatus(ApiModel):
    """A share that the agent keeps: the mode is verified, and the mean over a whole guard window is below it."""

    budget: Annotated[str, Field(max_length=253, description="The PowerBudget.")]
    watts: Annotated[NotNegative, Field(description="The share in force.")]
    revision: Annotated[int, Field(ge=1, description="Which write of the share this confirms.")]


class KnobAccess(StrEnum):
    """How far a knob or sensor can be used."""

    WRITABLE = "Writable"
    READ_ONLY = "ReadOnly"
    MISSING = "Missing"


class DeviceInfo(ApiModel):
    """What the board is. Module to totalRail are its fingerprint: a profile holds where they are equal."""

    name: Annotated[str, Field(max_length=253, description="Name in the catalogue, else what the board says.")] = ""
    model: Annotated[str, Field(max_length=253, description="What the board calls itself.")] = ""
    module: Annotated[str, Field(max_length=253, description="Module number.")] = ""
    l4t: Annotated[str, Field(alias="l4t", max_length=63, description="Release of Jetson Linux.")] = ""
    tables: Annotated[str, Field(max_length=64, description="Hash of the frequency tables.")] = ""
    tpc_mask: Annotated[str, Field(max_length=64, description="Which GPU clusters are switched off.")] = ""
    core_policy: Annotated[str, Field(max_length=16, description="Fixed, or Hotplug.")] = ""
    total_rail: Annotated[str, Field(max_length=64, description="The sensor that gives the module's power.")] = ""


class KnobCapability(ApiModel):
    """What can be done with one knob or sensor, and why not more."""

    knob: Annotated[str, Field(max_length=63, description="cores, cpu, gpu, emc, power, …")]
    access: Annotated[KnobAccess, Field(description="How far it can be used.")]
    reason: Annotated[str, Field(max_length=1024, description="What is in the way.")] = ""


class Capabilities(ApiModel):
    """What the agent can do with this board."""

    modes: Annotated[Count, Field(description="Power modes that can be applied.")] = 0
    lowest_mode: Annotated[
        Mode | None, Field(description="The lowest of them: no clock is below the site's minMode.")
    ] = None
    knobs: Annotated[tuple[KnobCapability, ...], Field(max_length=32, description="Knob by knob.")] = ()
    strategies: Annotated[tuple[str, ...], Field(max_length=32, description="Strategies that can run here.")] = ()


class KnobCheck(ApiModel):
    """One knob or sensor as the agent's self-check found it."""

    knob: Annotated[str, Field(max_length=63, description="cores, cpu, gpu, emc, power, …")]
    usable: Annotated[bool, Field(description="Whether the agent can read it and, if it is a knob, set it.")]
    shows: Annotated[str, Field(max_length=253, description="What it shows.")] = ""
    reason: Annotated[str, Field(max_length=512, description="What is in the way.")] = ""
    fix: Annotated[str, Field(max_length=512, description="What to do about it.")] = ""


class SelfCheck(ApiModel):
    """What the agent found when it examined the board last; it wrote nothing for that."""

    at: Annotated[Moment, Field(description="When.")]
    works: Annotated[bool, Field(description="Whether PowerTrain can work on this board.")]
    verdict: Annotated[str, Field(max_length=512, description="That in words.")] = ""
    mount_family: Annotated[str, Field(max_length=63, description="The entry of agent.families that fits.")] = ""
    knobs: Annotated[tuple[KnobCheck, ...], Field(max_length=32, description="Knob by knob.")] = ()
    hints: Annotated[
        tuple[Annotated[str, Field(max_length=512)], ...], Field(max_length=8, description="What else was noticed.")
    ] = ()


class NodeFigures(ApiModel):
    """What the sensors say, as of `at`."""

    watts: Annotated[NotNegative | None, Field(description="Module power, mean of the last seconds.")] = None
    temperature_celsius: Annotated[float | None, Field(description="Hottest zone.")] = None
    step_seconds: Annotated[NotNegative | None, Field(description="Time of a training step.")] = None
    idle_watts: Annotated[
        NotNegative | None,
        Field(description="The highest mean over three seconds without a job, within the last ten minutes of that."),
    ] = None
    expected_speedup_percent: Annotated[
        NotNegative | None,
        Field(
            description="Observing agents: how much faster the present load could be at its power, predicted by the "
            "shipped reference; absent while the GPU idles."
        ),
    ] = None
    expected_power_saving_percent: Annotated[
        NotNegative | None, Field(description="The same for the power that it could save at its present speed.")
    ] = None
    at: Annotated[Moment | None, Field(description="When.")] = None


class AgentInfo(ApiModel):
    """Which agent serves the node."""

    version: Annotated[str, Field(max_length=63, description="Its release.")] = ""
    protocol: Annotated[
        Count, Field(description="Its version of the protocol; it accepts envelopes of this version ± 1.")
    ] = 0
    observes: Annotated[bool, Field(description="It writes nothing to the board and takes no job.")] = False


class PowerNodeStatus(ApiModel):
    """What the agent of the node reports."""

    agent: Annotated[AgentInfo, Field(description="Which agent.")] = AgentInfo()
    device: Annotated[DeviceInfo | None, Field(description="What the board is.")] = None
    capabilities: Annotated[Capabilities | None, Field(description="What can be done with it.")] = None
    self_check: Annotated[
        SelfCheck | None, Field(description="The agent's last check of every knob; `powertrain doctor NODE` shows it.")
    ] = None
    figures: Annotated[NodeFigures | None, Field(description="What the sensors say.")] = None
    conditions: Annotated[Conditions, Field(description="Conditions of the node.")] = ()
    session: Annotated[SessionStatus | None, Field(description="The session it serves.")] = None
    share_watts: Annotated[
        NotNegative | None, Field(description="The lowest share of a PowerBudget that is in force; absent without one.")
    ] = None
    shares: Annotated[
        tuple[ShareStatus, ...] | None, Field(max_length=MAX_SHARES, description="The shares that are confirmed.")
    ] = None
    history: Annotated[
        NodeHistory | None, Field(description="That session over time, or the last one's, in a few kilobytes.")
    ] = None


class PowerNode(ApiModel):
    """One Jetson of the cluster, named after its Node."""

    api_version: str = API_VERSION
    kind: str = KIND
    metadata: Annotated[dict[str, Any], Field(default_factory=dict)]
    spec: Annotated[PowerNodeSpec, Field(description="Written by the operator only.")] = PowerNodeSpec()
    status: Annotated[PowerNodeStatus, Field(description="Written by the node's agent only.")] = PowerNodeStatus()
