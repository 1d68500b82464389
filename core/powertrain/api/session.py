"""One session on one node: the envelope that the operator writes, and what the agent reports about it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from powertrain.api.base import FIGURE, ApiModel, Count, Moment, NotNegative, Positive, Probability, rules
from powertrain.api.conditions import Conditions
from powertrain.api.limit_fields import limit_rules, with_limits
from powertrain.api.samples import Front, Samples
from powertrain.limit_table import DEFAULT_WINDOW_S, LIMITS, Quantity
from powertrain.objectives import Limits, Objective, PowerStatistic

# The language between operator and agent. An agent accepts its own number ± 1.
PROTOCOL = 2
MODE_PATTERN = r"^[0-9]{1,3}c_[0-9]{1,12}_[0-9]{1,12}_[0-9]{1,12}$"
CLOCK_PATTERN = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"

# Samples of so many other batch sizes fit into an envelope beside those of its own.
MAX_OTHERS = 4

Mode = Annotated[str, Field(pattern=MODE_PATTERN)]


ENVELOPE_RULES = (
    ("self.uid != oldSelf.uid || self.generation >= oldSelf.generation", "generation can't fall within a session"),
    *limit_rules(
        "limits",
        (
            "MinTime needs a power or an energy limit",
            "MinPower needs a time or an energy limit",
            "a limit per epoch needs workload.samplesPerEpoch",
            "a limit on the training needs workload.samplesPerEpoch and workload.epochs",
        ),
    ),
)


class When(StrEnum):
    """When modes are profiled: inside the user's run, or before it in a run of its own."""

    ONLINE = "Online"
    OFFLINE = "Offline"


class PlanAim(StrEnum):
    """What the profile is for."""

    BUDGET = "budget"
    FRONT = "front"
    ACCURACY = "accuracy"


class ProfilingCaution(StrEnum):
    """How a limit on the mean is kept while modes are tried."""

    NORMAL = "Normal"  # by what the last window of readings leaves room for
    HIGH = "High"  # a mode is tried only if it is unlikely to exceed the limit, and left at the first reading above


class Instrumentation(StrEnum):
    """Where steps come from: counted without a change of the code, by the SDK's calls, or not at all."""

    AUTO = "Auto"
    SDK = "SDK"
    NONE = "None"


class PriorMatch(StrEnum):
    """How well a stored profile fits: the same workload and board, or only a start."""

    EXACT = "Exact"
    WARM = "Warm"


class Phase(StrEnum):
    """Where a session stands."""

    STARTING = "Starting"
    PROFILING = "Profiling"
    RUNNING = "Running"
    HOLDING = "Holding"
    RESTORING = "Restoring"
    ENDED = "Ended"
    REFUSED = "Refused"


class Reason(StrEnum):
    """Why the mode is the one it is."""

    START = "Start"
    PROFILING = "Profiling"
    CHOSEN = "Chosen"
    GUARD = "Guard"
    CHECK = "Check"
    DRIFT = "Drift"
    SCHEDULE = "Schedule"
    HOLD = "Hold"
    NO_STEP_SIGNAL = "NoStepSignal"


class JobReference(ApiModel):
    """The TrainingJob that a session serves."""

    namespace: Annotated[str, Field(max_length=63, description="Its namespace.")]
    name: Annotated[str, Field(max_length=253, description="Its name.")]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class _SessionPower(ApiModel):
    """What must hold, with the site's policy already in it; absent means no limit."""

    power_watts: Annotated[Positive | None, Field(description="Mean over any guard window.")] = None
    power_statistic: Annotated[PowerStatistic, Field(description="Whether powerWatts is for the mean or the peak.")] = (
        PowerStatistic.MEAN
    )
    guard_window_seconds: Annotated[Positive, Field(description="Length of the window of the mean.")] = DEFAULT_WINDOW_S
    explore_watts: Annotated[
        Positive | None, Field(description="The limit while profiling; without it the budget of the moment.")
    ] = None


class SessionLimits(with_limits(_SessionPower, lambda limit: limit.in_session or limit.description)):  # type: ignore[misc]
    """What must hold, with the site's policy already in it; absent means no limit."""

    def core_limits(self, power_w: float | None, hard_limit_w: float | None) -> Limits:
        """Return them as the core reckons with them, with the power limits of this moment."""
        others = {
            limit.attribute: getattr(self, limit.field)
            for limit in LIMITS
            if limit.attribute is not None and limit.quantity is not Quantity.POWER
        }
        return Limits(power_w=power_w, power_statistic=self.power_statistic, hard_limit_w=hard_limit_w, **others)


class DailySpan(ApiModel):
    """A stretch of time that comes back every day."""

    model_config = rules(("!has(self.to) || self.to != self.from", "an entry can't end when it begins"))

    from_: Annotated[str, Field(alias="from", pattern=CLOCK_PATTERN, max_length=5, description="Begin, as HH:MM.")]
    to: Annotated[
        str | None,
        Field(
            pattern=CLOCK_PATTERN,
            max_length=5,
            description="End, as HH:MM; without it the entry holds until the next begins.",
        ),
    ] = None


class ScheduleEntry(DailySpan):
    """A daily stretch of time with a power limit of its own."""

    watts: Annotated[Positive, Field(description="Replaces powerWatts while the entry holds.")]


class AvailableWatts(ApiModel):
    """What the site says it can deliver right now (a solar charger, a shared supply); it can only lower a limit."""

    watts: Annotated[NotNegative, Field(description="Power that is available; 0 also where it can't be read.")]
    observed_at: Annotated[
        Moment, Field(description="When it was measured; stale after ten minutes, a time in the future counts as now.")
    ]
    problem: Annotated[
        str | None, Field(max_length=253, description="Why the site's value can't be parsed and counts as 0 W.")
    ] = None


class SessionWorkload(ApiModel):
    """What is trained."""

    name: Annotated[str, Field(max_length=253, description="Name of the workload.")]
    batch_size: Annotated[int, Field(ge=1, description="Samples per step.")] = 1
    samples_per_epoch: Annotated[int | None, Field(ge=1, description="Samples of one epoch.")] = None
    epochs: Annotated[int | None, Field(ge=1, description="Epochs of the training.")] = None
    instrumentation: Annotated[Instrumentation, Field(description="Where the steps come from.")] = Instrumentation.AUTO


class SessionPlan(ApiModel):
    """How to profile."""

    strategy: Annotated[str, Field(max_length=63, description="Name of the strategy.")] = "transfer"
    aim: Annotated[PlanAim, Field(description="What the profile is for.")] = PlanAim.BUDGET
    max_modes: Annotated[
        int | None, Field(ge=1, description="Most modes to measure; the strategy's own if absent.")
    ] = None
    when: Annotated[
        When, Field(description="Inside the user's run, or in a run of its own that may end when Profiled is true.")
    ] = When.ONLINE
    validate_every_seconds: Annotated[
        Positive | None, Field(description="How often points of the front are measured again; never if absent.")
    ] = None
    caution: Annotated[ProfilingCaution, Field(description="How a mean limit is kept while modes are tried.")] = (
        ProfilingCaution.NORMAL
    )
    hold: Annotated[
        bool,
        Field(description="Try no modes for now: the safe start mode, or the chosen one, is kept and guarded."),
    ] = False


class Prior(ApiModel):
    """What a PowerProfile already knows."""

    match: Annotated[PriorMatch, Field(description="How well the profile fits this job and board.")] = PriorMatch.WARM
    samples: Annotated[Samples, Field(description="Measured modes.")] = Samples()
    others: Annotated[
        tuple[Samples, ...],
        Field(
            max_length=MAX_OTHERS,
            description="Measured modes at other batch sizes.",
        ),
    ] = ()


class SessionSpec(ApiModel):
    """The envelope: within which limits the agent may choose a mode for one job."""

    model_config = rules(*ENVELOPE_RULES)

    protocol: Annotated[int, Field(ge=1, description="Version of the protocol; an agent accepts its own ± 1.")]
    uid: Annotated[str, Field(min_length=1, max_length=128, description="Identity of the session.")]
    generation: Annotated[int, Field(ge=1, description="Counts the changes of this envelope.")] = 1
    job: Annotated[JobReference, Field(description="The TrainingJob.")]
    pod_uids: Annotated[
        tuple[Annotated[str, Field(max_length=128)], ...],
        Field(alias="podUIDs", max_length=64, description="Pods that hold the board while they have a cgroup on it."),
    ] = ()
    objective: Annotated[Objective, Field(description="What to minimise.")] = Objective.MIN_TIME
    risk: Annotated[Probability, Field(description="Joint probability that the choice breaks a limit.")] = 0.05
    explore_risk: Annotated[Probability, Field(description="Probability that a tried mode exceeds exploreWatts.")] = (
        0.01
    )
    limits: Annotated[SessionLimits, Field(description="What must hold.")] = SessionLimits()
    schedule: Annotated[
        tuple[ScheduleEntry, ...], Field(max_length=48, description="Daily limits, over powerWatts.")
    ] = ()
    time_zone: Annotated[str, Field(max_length=64, description="IANA time zone of the schedule.")] = "UTC"
    available_watts: Annotated[AvailableWatts | None, Field(description="What the site can deliver now.")] = None
    workload: Annotated[SessionWorkload, Field(description="What is trained.")]
    plan: Annotated[SessionPlan, Field(description="How to profile.")] = SessionPlan()
    prior: Annotated[Prior | None, Field(description="What is known from earlier sessions.")] = None


class Figures(ApiModel):
    """Time of a step and power, each with one standard deviation where it is known."""

    step_seconds: Annotated[NotNegative | None, Field(description="Time of a step.")] = None
    step_std_seconds: Annotated[NotNegative | None, Field(description="± of the time.")] = None
    power_watts: Annotated[NotNegative | None, Field(description="Mean power.")] = None
    power_std_watts: Annotated[NotNegative | None, Field(description="± of the power.")] = None


class ProfilingProgress(ApiModel):
    """Progress of profiling."""

    measured: Annotated[Count, Field(description="Modes measured.")] = 0
    planned: Annotated[Count | None, Field(description="Modes at most.")] = None
    seconds: Annotated[NotNegative, Field(description="Time spent so far.")] = 0.0
    corrections: Annotated[
        Count, Field(description="How often all of it was corrected because some points were measured again.")
    ] = 0


class TrainingProgress(ApiModel):
    """How far the training is, as far as it tells."""

    steps: Annotated[Count, Field(description="Steps seen.")] = 0
    samples: Annotated[Count, Field(description="Samples seen.")] = 0
    epoch: Annotated[Count | None, Field(description="Epochs finished.")] = None
    accuracy: Annotated[float | None, Field(description="Last accuracy that the training reported.")] = None


class ModelError(ApiModel):
    """Mean absolute errors of a model on modes that it did not learn from, in percent."""

    time_percent: Annotated[NotNegative, Field(description="Error of the step time.")]
    power_percent: Annotated[NotNegative, Field(description="Error of the power.")]


class SessionResult(ApiModel):
    """What was learnt; goes into the PowerProfile."""

    strategy: Annotated[str, Field(max_length=63, description="The strategy that ran.")]
    reference: Annotated[str | None, Field(max_length=253, description="The reference model it started from.")] = None
    reference_version: Annotated[
        str | None, Field(max_length=63, description="Which data, and which release, that reference was made from.")
    ] = None
    validation_error: Annotated[
        ModelError | None, Field(description="The strategy's own validation; absent where it has none.")
    ] = None
    samples: Annotated[Samples, Field(description="Measured modes, those left early included.")] = Samples()
    front: Annotated[Front, Field(description="The front.")] = Front()
    error: Annotated[str | None, Field(max_length=1024, description="Why there is no (better) result.")] = None


class SessionStatus(ApiModel):
    """What the agent reports about the session it serves."""

    protocol: Annotated[int, Field(ge=1, description="The agent's version of the protocol.")] = PROTOCOL
    uid: Annotated[str, Field(description="The session this is about.")]
    observed_generation: Annotated[Count, Field(description="The envelope's generation that is in force.")] = 0
    phase: Annotated[Phase, Field(description="Phase of the session.")] = Phase.STARTING
    gate_open: Annotated[bool, Field(description="Whether training pods may start.")] = False
    mode: Annotated[Mode | None, Field(description="The applied mode: cores, CPU kHz, GPU Hz, memory Hz.")] = None
    reason: Annotated[Reason, Field(description="Why this mode.")] = Reason.START
    message: Annotated[str, Field(max_length=1024, description="The last decision in words."), FIGURE] = ""
    verified: Annotated[bool, Field(description="Whether the mode was read back from the board.")] = False
    boot_id: Annotated[str, Field(alias="bootID", description="The boot that all of this holds for.")] = ""
    runner_up: Annotated[Mode | None, Field(description="The next best mode.")] = None
    predicted: Annotated[Figures | None, Field(description="Expected step time and power of the mode.")] = None
    observed: Annotated[Figures | None, Field(description="Measured step time and power of the mode."), FIGURE] = None
    profiling: Annotated[ProfilingProgress, Field(description="Progress of profiling.")] = ProfilingProgress()
    training: Annotated[TrainingProgress, Field(description="Progress of the training."), FIGURE] = TrainingProgress()
    energy_joules: Annotated[NotNegative, Field(description="Energy since the session began."), FIGURE] = 0.0
    violations: Annotated[Count, Field(description="Guard windows and readings above a limit.")] = 0
    conditions: Annotated[Conditions, Field(description="Conditions of the session.")] = ()
    result: Annotated[SessionResult | None, Field(description="What was learnt.")] = None
    restored: Annotated[bool, Field(description="Whether the board has its original settings again.")] = False
