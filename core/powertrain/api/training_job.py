"""TrainingJob: a training with a power budget; users write its spec, the operator alone writes its status."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from powertrain.api.base import (
    API_VERSION,
    DETAIL,
    FIGURE,
    ApiModel,
    Bounded,
    Count,
    Moment,
    NotNegative,
    Positive,
    Probability,
    rules,
)
from powertrain.api.conditions import Conditions
from powertrain.api.history import HistoryText
from powertrain.api.limit_fields import limit_rules, with_limits
from powertrain.api.session import (
    Figures,
    Instrumentation,
    Mode,
    ProfilingCaution,
    ProfilingProgress,
    Reason,
    ScheduleEntry,
    TrainingProgress,
    When,
)
from powertrain.batching.learning_rate import Scaling
from powertrain.limit_table import DEFAULT_WINDOW_S, MAX_WINDOW_S, LimitEntry
from powertrain.objectives import Objective, PowerStatistic
from powertrain.workload import Changes, Recurrence

KIND = "TrainingJob"
PLURAL = "trainingjobs"
# A Job is named after its TrainingJob, the replica and the attempt, and its pods add a suffix to that.
MAX_NAME = 48
MAX_BATCH_SIZES = 16
MAX_REPLICAS = 64

Labels = Annotated[
    dict[str, Annotated[str, Field(max_length=63)]],
    Field(max_length=32, json_schema_extra={"maxProperties": 32}),
]
BatchSize = Annotated[int, Field(ge=1, le=1_048_576)]


class Coupling(StrEnum):
    """Whether the replicas wait for each other at every step."""

    INDEPENDENT = "Independent"
    SYNCHRONOUS = "Synchronous"


class BatchSizeChange(StrEnum):
    """When the batch size of a running training may change."""

    NEVER = "Never"
    AT_RESTART = "AtRestart"


class JobPhase(StrEnum):
    """Where a TrainingJob stands."""

    PENDING = "Pending"
    QUEUED = "Queued"
    WAITING_FOR_NODE = "WaitingForNode"
    WAITING_FOR_POWER = "WaitingForPower"
    PROFILING = "Profiling"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Stop(StrEnum):
    """Why an attempt ends."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    SUSPENDED = "Suspended"
    DELETED = "Deleted"
    NODE_DRAINED = "NodeDrained"
    NODE_LOST = "NodeLost"
    UNPOWERED = "Unpowered"
    WAITING_FOR_POWER = "WaitingForPower"
    JOB_DELETED = "JobDeleted"
    BUDGET_UNREACHABLE = "BudgetUnreachable"
    TRIAL_DONE = "BatchSizeProfiled"
    TRIAL_FAILED = "BatchSizeExcluded"


class JobState(StrEnum):
    """What is known of the batch/v1 Job of a replica, however long that Job stays."""

    MADE = "Made"
    COMPLETE = "Complete"


class _PowerConstraints(ApiModel):
    """What must hold; absent means no limit."""

    power_watts: Annotated[
        Positive | None,
        Field(description="Module power, mean over any guardWindowSeconds from the first container to the last."),
    ] = None
    min_watts: Annotated[
        Positive | None,
        Field(description="Under a PowerBudget: a board does not start the job with a share below it."),
    ] = None
    power_statistic: Annotated[PowerStatistic, Field(description="Whether powerWatts is for the mean or the peak.")] = (
        PowerStatistic.MEAN
    )
    guard_window_seconds: Annotated[
        Positive,
        # Only in the schema: a longer window that was stored before there was a maximum is shortened, not refused.
        Field(
            description="Length of the window of the mean, for the job's own limit.",
            json_schema_extra={"maximum": MAX_WINDOW_S},
        ),
    ] = DEFAULT_WINDOW_S
    power_schedule: Annotated[
        tuple[ScheduleEntry, ...],
        Field(max_length=48, description="Limits for times of the day, which replace powerWatts."),
    ] = ()
    time_zone: Annotated[
        str,
        Field(
            max_length=64,
            pattern=r"^[A-Za-z0-9_+/-]+$",
            description="IANA time zone of the schedule, such as Europe/Berlin.",
        ),
    ] = "UTC"


class Constraints(with_limits(_PowerConstraints, lambda limit: limit.description)):  # type: ignore[misc]
    """What must hold; absent means no limit."""


class _NodeConstraints(ApiModel):
    """Limits of some nodes; what is absent is as in spec.constraints."""


def _override(limit: LimitEntry) -> str:
    return f"In place of constraints.{limit.wire_name}."


class NodeConstraints(with_limits(_NodeConstraints, _override, overrides_only=True)):  # type: ignore[misc]
    """Limits of some nodes; what is absent is as in spec.constraints."""


class BatchRelation(ApiModel):
    """How many samples a batch size needs, relative to the size that needs most."""

    batch_size: Annotated[BatchSize, Field(description="Samples per step.")]
    relative: Annotated[
        float, Field(gt=0, le=1, description="Samples to the target accuracy, as a share of the largest need.")
    ]


class BatchEfficiency(ApiModel):
    """Where the relation between batch size and samples needed comes from."""

    model_config = rules(
        (
            "has(self.study) != (has(self.values) && size(self.values) > 0)",
            "write either values: [{batchSize: 16, relative: 0.8}, …] or study: NAME of a BatchStudy, not both",
        )
    )

    values: Annotated[
        tuple[BatchRelation, ...], Field(max_length=MAX_BATCH_SIZES, description="The relation, written out.")
    ] = ()
    study: Annotated[str | None, Field(max_length=253, description="A BatchStudy of this namespace.")] = None


class LearningRate(ApiModel):
    """The learning rate and the batch size it was found for."""

    model_config = rules(
        (
            "has(self.atBatchSize)",
            "a learning rate belongs to a batch size: add atBatchSize, for example atBatchSize: 128",
        )
    )

    base: Annotated[Positive, Field(description="The learning rate at atBatchSize.")]
    at_batch_size: Annotated[BatchSize | None, Field(description="The batch size for which base was tuned.")] = None
    scaling: Annotated[Scaling, Field(description="Sqrt for Adam and AdamW, Linear for SGD, None.")] = Scaling.SQRT


class Workload(ApiModel):
    """What is trained."""

    model_config = rules(
        (
            "self.batchSizes.all(b, self.batchSizes.exists_one(other, other == b))",
            "batchSizes must differ: write each size once",
        ),
        (
            "size(self.batchSizes) == 1 || has(self.batchEfficiency)",
            "several batchSizes need batchEfficiency: how many samples each size needs decides which trains fastest",
        ),
    )

    name: Annotated[
        str | None,
        Field(
            max_length=63,
            pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
            description="Name under which profiles are stored; the job's name if absent.",
        ),
    ] = None
    samples_per_epoch: Annotated[Bounded | None, Field(description="Samples of one epoch.")] = None
    epochs: Annotated[Bounded | None, Field(description="Epochs of the training.")] = None
    batch_sizes: Annotated[
        tuple[BatchSize, ...],
        Field(
            min_length=1,
            max_length=MAX_BATCH_SIZES,
            description="Samples per step; of several, one is chosen together with the mode.",
        ),
    ]
    batch_efficiency: Annotated[
        BatchEfficiency | None, Field(description="How many samples each batch size needs.")
    ] = None
    learning_rate: Annotated[
        LearningRate | None, Field(description="Scaled to the batch size and given to the containers.")
    ] = None
    batch_size_change: Annotated[
        BatchSizeChange, Field(description="Whether a restart may bring another batch size.")
    ] = BatchSizeChange.NEVER
    recurrence: Annotated[Recurrence, Field(description="How often it is trained; strategy auto uses it.")] = (
        Recurrence.OFTEN
    )
    changes: Annotated[Changes, Field(description="How often it changes; strategy auto uses it.")] = Changes.OFTEN
    template: Annotated[
        dict[str, Any],
        Field(
            description="The training's pods: a PodTemplateSpec, at most 64 KiB, kept as it is.",
            json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
        ),
    ]
    backoff_limit: Annotated[int, Field(ge=0, le=100, description="How often a failed pod is tried again.")] = 3
    instrumentation: Annotated[
        Instrumentation, Field(description="Auto: steps are counted without a change of the code.")
    ] = Instrumentation.AUTO


class Override(ApiModel):
    """Limits of their own for some nodes."""

    node_selector: Annotated[Labels, Field(description="Labels of the nodes; the first override that fits counts.")]
    constraints: Annotated[NodeConstraints, Field(description="Their limits.")]


class Placement(ApiModel):
    """Where it runs."""

    node_selector: Annotated[Labels, Field(default_factory=dict, description="Labels that a node must have.")]
    replicas: Annotated[int, Field(ge=1, le=MAX_REPLICAS, description="How many boards, claimed all or nothing.")] = 1
    overrides: Annotated[
        tuple[Override, ...], Field(max_length=32, description="Limits of their own for some nodes.")
    ] = ()
    coupling: Annotated[
        Coupling, Field(description="Synchronous: boards profile one at a time while the others hold still.")
    ] = Coupling.INDEPENDENT
    allow_move: Annotated[bool, Field(description="Whether a drained or lost node may be replaced by another.")] = False


class Profiling(ApiModel):
    """How modes are tried."""

    strategy: Annotated[str, Field(max_length=63, description="auto, transfer, powertrain, nn, …")] = "auto"
    max_modes: Annotated[Bounded | None, Field(description="Most modes to try.")] = None
    max_watts: Annotated[
        Positive | None,
        Field(description="The limit while profiling, where the site can deliver more than powerWatts."),
    ] = None
    caution: Annotated[
        ProfilingCaution,
        Field(
            description="How a mean limit is kept while modes are tried. Normal: a mode above it may be tried for a "
            "moment, as long as no guard window exceeds the limit. High: a mode is tried only if it is unlikely to "
            "exceed the limit, and left at the first reading above it."
        ),
    ] = ProfilingCaution.NORMAL
    explore_risk: Annotated[
        Probability,
        Field(
            description="Probability that a tried mode exceeds the limit; for limits of single readings (Peak, "
            "hardLimitWatts, hardLimitAmps) and with caution: High."
        ),
    ] = 0.01
    when: Annotated[When, Field(description="Inside the training, or before it in a run of its own.")] = When.ONLINE
    reuse: Annotated[bool, Field(description="Whether a stored profile may be used.")] = True
    validate_every_seconds: Annotated[
        Positive | None, Field(description="How often points of the front are measured again; never if absent.")
    ] = None


class TrainingJobSpec(ApiModel):
    """What to train, and within which limits."""

    model_config = rules(
        *limit_rules(
            "constraints",
            (
                "MinTime needs a power or an energy limit: write constraints.powerWatts, for example powerWatts: 30",
                "MinPower needs a time or an energy limit: write constraints.epochSeconds or trainingSeconds",
                "a limit per epoch needs workload.samplesPerEpoch",
                "a limit on the whole training needs workload.samplesPerEpoch and workload.epochs",
            ),
        ),
        (
            "size(self.workload.batchSizes) == 1 || !has(self.placement) || self.placement.replicas == 1",
            "several batchSizes need placement.replicas: 1: the size is chosen for one board",
        ),
        (
            "!has(self.constraints) || !has(self.constraints.powerSchedule) || "
            "size(self.constraints.powerSchedule) == 0 || has(self.constraints.powerWatts)",
            "powerSchedule needs powerWatts, which holds when no entry does",
        ),
        (
            "!has(self.constraints) || !has(self.constraints.minWatts) || !has(self.constraints.powerWatts) || "
            "self.constraints.minWatts <= self.constraints.powerWatts",
            "minWatts can't be above powerWatts: the job would never start",
        ),
    )

    objective: Annotated[Objective, Field(description="What to minimise.")] = Objective.MIN_TIME
    constraints: Annotated[Constraints, Field(description="What must hold.")] = Constraints()
    risk: Annotated[Probability, Field(description="Joint probability that the chosen mode breaks a constraint.")] = (
        0.05
    )
    workload: Annotated[Workload, Field(description="What is trained.")]
    placement: Annotated[Placement, Field(description="Where it runs.")] = Placement(node_selector={})
    profiling: Annotated[Profiling, Field(description="How modes are tried.")] = Profiling()
    suspend: Annotated[bool, Field(description="Stop the pods and restore the boards; false starts again.")] = False
    ttl_seconds_after_finished: Annotated[
        Count | None,
        Field(description="Seconds after its end until it is deleted; absent: it stays until a user deletes it."),
    ] = None


class JobNode(ApiModel):
    """One replica: its node, the session there and what the node's agent reports."""

    replica: Annotated[Count, Field(description="Number of the replica, from 0.")]
    name: Annotated[str, Field(max_length=253, description="The node.")]
    holds: Annotated[bool, Field(description="Whether the job still has the node.")] = True
    session: Annotated[str, Field(max_length=128, description="The session on it.")] = ""
    job: Annotated[JobState | None, Field(description="Whether its Job was made, and came to its end.")] = None
    job_uid: Annotated[
        str, Field(alias="jobUID", max_length=128, description="The uid of its Job: only that Job's pods count.")
    ] = ""
    profile: Annotated[str | None, Field(max_length=253, description="The PowerProfile it used or made."), FIGURE] = (
        None
    )
    phase: Annotated[str, Field(max_length=32, description="Phase of the session."), DETAIL] = ""
    limit_watts: Annotated[
        NotNegative | None, Field(description="The power limit in force: the lower of job and policy."), DETAIL
    ] = None
    share_watts: Annotated[
        NotNegative | None, Field(description="Its share of a PowerBudget; absent without one."), DETAIL
    ] = None
    mode: Annotated[Mode | None, Field(description="The applied mode: cores, CPU kHz, GPU Hz, memory Hz."), DETAIL] = (
        None
    )
    batch_size: Annotated[int | None, Field(ge=1, description="Samples per step.")] = None
    trial: Annotated[bool, Field(description="Whether this attempt only profiles its batch size.")] = False
    predicted: Annotated[Figures | None, Field(description="Expected step time and power of the mode."), DETAIL] = None
    observed: Annotated[Figures | None, Field(description="Measured step time and power of the mode."), FIGURE] = None
    runner_up: Annotated[Mode | None, Field(description="The next best mode."), DETAIL] = None
    reason: Annotated[Reason | None, Field(description="Why this mode, in one word."), DETAIL] = None
    message: Annotated[str, Field(max_length=1024, description="Why this mode, in words."), DETAIL] = ""
    profiling: Annotated[ProfilingProgress | None, Field(description="Progress of profiling."), DETAIL] = None
    training: Annotated[TrainingProgress | None, Field(description="Progress of the training."), FIGURE] = None
    energy_joules: Annotated[NotNegative, Field(description="Energy of this session."), FIGURE] = 0.0
    violations: Annotated[Count, Field(description="Guard windows and readings above a limit."), DETAIL] = 0
    history: Annotated[
        HistoryText | None,
        Field(description="The session over time, kept when it ended: JSON of columns, for `powertrain report`."),
        FIGURE,
    ] = None
    waiting_since: Annotated[Moment | None, Field(description="Since when none of its pods has reached the gate.")] = (
        None
    )
    unreachable_since: Annotated[
        Moment | None, Field(description="Since when no mode keeps the limits that are in force.")
    ] = None


class BatchSizeState(StrEnum):
    """What is known of a batch size."""

    PENDING = "Pending"
    PROFILED = "Profiled"
    EXCLUDED = "Excluded"


class BatchSizeStatus(ApiModel):
    """One batch size of several."""

    batch_size: Annotated[BatchSize, Field(description="Samples per step.")]
    state: Annotated[BatchSizeState, Field(description="What is known of it.")] = BatchSizeState.PENDING
    reason: Annotated[str, Field(max_length=512, description="Why it is excluded, or profiled again.")] = ""
    relative_time: Annotated[
        NotNegative | None, Field(description="Time to accuracy of its best mode, relative to the largest size's.")
    ] = None


class BatchStatus(ApiModel):
    """The choice among several batch sizes."""

    chosen: Annotated[int | None, Field(ge=1, description="The size that trains.")] = None
    time_against_largest: Annotated[
        NotNegative | None,
        Field(description="Its time to accuracy, as a share of the largest size's."),
    ] = None
    reason: Annotated[str, Field(max_length=1024, description="Why, in words.")] = ""
    sizes: Annotated[tuple[BatchSizeStatus, ...], Field(max_length=MAX_BATCH_SIZES, description="Size by size.")] = ()


class JobProgress(ApiModel):
    """How far the training is, all replicas together."""

    samples: Annotated[Count, Field(description="Samples seen in this attempt.")] = 0
    epoch: Annotated[Count | None, Field(description="Epochs finished, of the slowest replica.")] = None
    percent: Annotated[float | None, Field(ge=0, le=100, description="Share that is done, where it is known.")] = None


class TrainingJobStatus(ApiModel):
    """What the operator knows of the job."""

    observed_generation: Annotated[Count | None, Field(description="The spec that this is about.")] = None
    phase: Annotated[JobPhase | None, Field(description="Its phase.")] = None
    message: Annotated[str, Field(max_length=1024, description="What it waits for or what happened, in words.")] = ""
    attempt: Annotated[Count, Field(description="Counts the starts; each is a Job of its own per replica.")] = 0
    stopping: Annotated[Stop | None, Field(description="Why the attempt is being ended.")] = None
    stopping_since: Annotated[Moment | None, Field(description="Since when.")] = None
    return_to: Annotated[
        tuple[Annotated[str, Field(max_length=253)], ...],
        Field(max_length=MAX_REPLICAS, description="Nodes that it waits to come back; any others if empty."),
    ] = ()
    queued_at: Annotated[Moment | None, Field(description="Its place in the queue.")] = None
    started_at: Annotated[Moment | None, Field(description="When its nodes were first claimed.")] = None
    completed_at: Annotated[Moment | None, Field(description="When it ended.")] = None
    where: Annotated[str, Field(max_length=1024, description="Its nodes, for people.")] = ""
    power_watts: Annotated[NotNegative | None, Field(description="Observed power, all nodes together."), FIGURE] = None
    batch: Annotated[BatchStatus | None, Field(description="The choice among several batch sizes.")] = None
    progress: Annotated[JobProgress | None, Field(description="Progress of the training."), FIGURE] = None
    eta: Annotated[Moment | None, Field(description="When it should end."), FIGURE] = None
    remaining: Annotated[str, Field(max_length=16, description="Time until then, for people."), FIGURE] = ""
    energy_joules: Annotated[NotNegative, Field(description="Energy of all attempts and nodes."), FIGURE] = 0.0
    earlier_joules: Annotated[NotNegative, Field(description="Of that, of attempts before this one.")] = 0.0
    template_hash: Annotated[str, Field(max_length=64, description="Hash of the pods' template that was checked.")] = ""
    conditions: Annotated[Conditions, Field(description="Conditions.")] = ()
    nodes: Annotated[
        tuple[JobNode, ...], Field(max_length=MAX_REPLICAS, description="Node by node; named here means claimed.")
    ] = ()


_STARTED = "!has(oldSelf.status) || !has(oldSelf.status.startedAt)"
# Fields that stay as they were, by the part of the spec; the literal is what they are where the whole part is left out.
_WORKLOAD_ALWAYS = ("batchSizes", "batchSizeChange", "recurrence", "changes", "backoffLimit", "instrumentation")
_WORKLOAD_OPTIONAL = ("name", "samplesPerEpoch", "epochs", "batchEfficiency", "learningRate")
_PLACEMENT = {"replicas": "1", "coupling": f"'{Coupling.INDEPENDENT}'"}
_PROFILING = {"strategy": "'auto'", "when": f"'{When.ONLINE}'", "reuse": "true"}
IMMUTABLE_MESSAGE = (
    "{what} can't change once the job has started: suspend and delete it, and apply it again "
    "(constraints, risk, suspend, placement.overrides and profiling limits can be changed at any time)"
)


def _same_optional(part: str, *names: str) -> str:
    """Return a rule: these fields are as they were, absent ones included."""
    rules = []
    for name in names:
        now, before = (f"(has({side}.spec.{part}) && has({side}.spec.{part}.{name}))" for side in ("self", "oldSelf"))
        rules.append(f"{now} == {before} && (!{now} || self.spec.{part}.{name} == oldSelf.spec.{part}.{name})")
    return " && ".join(rules)


def _same_filled(part: str, defaults: dict[str, str]) -> str:
    """Return a rule: these fields, which the server fills in where their part is written at all, are as they were."""
    rules = []
    for name, default in defaults.items():
        now, before = (
            f"(has({side}.spec.{part}) ? {side}.spec.{part}.{name} : {default})" for side in ("self", "oldSelf")
        )
        rules.append(f"{now} == {before}")
    return " && ".join(rules)


def _untouched(part: str) -> str:
    """Return a rule: the whole part is as it was. Most writes are of the status; then no field needs to be compared."""
    there, before = f"has(self.spec.{part})", f"has(oldSelf.spec.{part})"
    return f"!{there} && !{before} || {there} && {before} && self.spec.{part} == oldSelf.spec.{part}"


def _fixed(what: str, *same: str, part: str = "") -> tuple[str, str]:
    untouched = f"{_untouched(part)} || " if part else ""
    return f"{_STARTED} || {untouched}({' && '.join(same)})", IMMUTABLE_MESSAGE.format(what=what)


class TrainingJob(ApiModel):
    """A training with a power budget: the fastest mode within it is found while it runs."""

    model_config = rules(
        (
            f"size(self.metadata.name) <= {MAX_NAME}",
            f"the name may have at most {MAX_NAME} characters: its Jobs and pods add to it",
        ),
        (
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "the name must be a DNS label that begins with a letter, such as mobilenet-v3: pods and a Service have it",
        ),
        _fixed(
            "workload",
            _same_optional("workload", *_WORKLOAD_OPTIONAL),
            *(f"self.spec.workload.{name} == oldSelf.spec.workload.{name}" for name in _WORKLOAD_ALWAYS),
            part="workload",
        ),
        _fixed("objective", "self.spec.objective == oldSelf.spec.objective"),
        _fixed(
            "placement other than overrides and allowMove",
            _same_filled("placement", _PLACEMENT),
            _same_optional("placement", "nodeSelector"),
            part="placement",
        ),
        _fixed(
            "profiling.strategy, maxModes, when and reuse",
            _same_filled("profiling", _PROFILING),
            _same_optional("profiling", "maxModes"),
            part="profiling",
        ),
    )

    api_version: str = API_VERSION
    kind: str = KIND
    metadata: Annotated[dict[str, Any], Field(default_factory=dict)]
    spec: Annotated[TrainingJobSpec, Field(description="Written by users.")]
    status: Annotated[TrainingJobStatus, Field(description="Written by the operator only.")] = TrainingJobStatus()
