"""PowerBudget: one cap over many boards; administrators write it, the operator shares it out among the boards."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from powertrain.api.base import API_VERSION, FIGURE, ApiModel, Count, Moment, NotNegative, Window, rules
from powertrain.api.conditions import Conditions
from powertrain.api.session import DailySpan
from powertrain.api.training_job import Labels
from powertrain.limit_table import DEFAULT_WINDOW_S

KIND = "PowerBudget"
PLURAL = "powerbudgets"
MAX_BOARDS = 256
MAX_WAITING = 64
MAX_BATTERY = 16


class BudgetGoal(StrEnum):
    """What the watts are shared out for: the last job's end, the sum of speeds, or the same for everybody."""

    MIN_MAKESPAN = "MinMakespan"
    MAX_THROUGHPUT = "MaxThroughput"
    EQUAL = "Equal"


class BoardState(StrEnum):
    """How a board of a budget counts: by its share, by what it draws idle, by its possible maximum, or not at all."""

    GOVERNED = "Governed"
    IDLE = "Idle"
    UNMANAGED = "Unmanaged"
    OFF = "Off"


class CapEntry(DailySpan):
    """A daily stretch of time with a cap of its own."""

    watts: Annotated[NotNegative, Field(description="Replaces watts while the entry holds; 0: no training.")]


class BatteryEntry(ApiModel):
    """A cap for a battery whose charge is below a percentage."""

    below: Annotated[float, Field(gt=0, le=100, description="Holds below this charge, in percent.")]
    watts: Annotated[NotNegative, Field(description="No cap above it then; 0: no training.")]


class PowerBudgetSpec(ApiModel):
    """What the selected boards may take together."""

    model_config = rules(
        ("self.reserveWatts <= self.watts", "reserveWatts is a part of watts and can't be above it"),
        (
            "!has(self.battery) || self.battery.all(b, self.battery.exists_one(other, other.below == b.below))",
            "battery entries must differ in below: write each percentage once",
        ),
        (
            "!has(self.schedule) || self.schedule.all(e, self.schedule.exists_one(other, other.from == e.from))",
            "schedule entries must differ in from: write each time once",
        ),
    )

    node_selector: Annotated[
        Labels, Field(default_factory=dict, description="Labels of the nodes; none selects every node.")
    ]
    watts: Annotated[
        NotNegative, Field(description="What these boards take together: mean over any guardWindowSeconds.")
    ]
    reserve_watts: Annotated[
        NotNegative, Field(description="Of watts, what other devices on the same cable take: a router, a camera.")
    ] = 0.0
    goal: Annotated[BudgetGoal, Field(description="What the watts are shared out for.")] = BudgetGoal.MIN_MAKESPAN
    schedule: Annotated[tuple[CapEntry, ...], Field(max_length=48, description="Caps for times of the day.")] = ()
    time_zone: Annotated[
        str,
        Field(
            max_length=64,
            pattern=r"^[A-Za-z0-9_+/-]+$",
            description="IANA time zone of the schedule, such as Europe/Madrid.",
        ),
    ] = "UTC"
    guard_window_seconds: Annotated[
        Window, Field(description="The window over which shares are kept, whatever window a job has.")
    ] = DEFAULT_WINDOW_S
    battery: Annotated[
        tuple[BatteryEntry, ...],
        Field(
            max_length=MAX_BATTERY,
            description="Caps by the charge of a battery, from the annotation powertrain.io/battery-percent.",
        ),
    ] = ()
    unmanaged_watts: Annotated[
        NotNegative | None,
        Field(description="What a selected node without an agent counts with; absent: the most its board can take."),
    ] = None
    count_lost: Annotated[
        bool, Field(description="Whether a board that can't be seen still counts with its share: it may still draw it.")
    ] = True


class BudgetBoard(ApiModel):
    """One board of a budget."""

    name: Annotated[str, Field(max_length=253, description="The node.")]
    state: Annotated[BoardState, Field(description="How it counts.")]
    watts: Annotated[NotNegative, Field(description="What is reserved for it.")]
    share_watts: Annotated[NotNegative | None, Field(description="The share that was written for its agent.")] = None
    target_watts: Annotated[
        NotNegative | None, Field(description="The share that it should get as soon as others have made room.")
    ] = None
    confirmed: Annotated[bool, Field(description="Whether its agent keeps the share that was written.")] = True
    drawn_watts: Annotated[NotNegative | None, Field(description="What its sensor says."), FIGURE] = None
    lowest_watts: Annotated[
        NotNegative | None, Field(description="What its lowest mode takes; with less it can't train.")
    ] = None
    job: Annotated[str, Field(max_length=320, description="The TrainingJob on it, as namespace/name.")] = ""
    session: Annotated[str, Field(max_length=128, description="The session that this was decided about.")] = ""
    starved: Annotated[
        bool, Field(description="Whether its job has to wait: the watts are not enough for its lowest mode.")
    ] = False
    speed: Annotated[
        NotNegative | None, Field(description="Expected speed with this share, of the speed without a cap."), FIGURE
    ] = None
    ends_at: Annotated[Moment | None, Field(description="When its work should be done."), FIGURE] = None
    reason: Annotated[str, Field(max_length=256, description="Why it counts so, or why it got this share.")] = ""


class WaitingJob(ApiModel):
    """A TrainingJob that waits for power."""

    namespace: Annotated[str, Field(max_length=63, description="Its namespace.")]
    name: Annotated[str, Field(max_length=253, description="Its name.")]
    missing_watts: Annotated[NotNegative, Field(description="What is missing for its lowest modes.")]
    free_at: Annotated[Moment | None, Field(description="When the schedule frees these watts.")] = None


class Forecast(ApiModel):
    """When the last job ends with these shares, and how long it would take with simpler ones."""

    seconds: Annotated[NotNegative | None, Field(description="With the shares in force."), FIGURE] = None
    equal_seconds: Annotated[NotNegative | None, Field(description="With the same share for every board."), FIGURE] = (
        None
    )
    proportional_seconds: Annotated[
        NotNegative | None, Field(description="With shares in proportion to what each board takes at most."), FIGURE
    ] = None


class PowerBudgetStatus(ApiModel):
    """How the cap is shared out."""

    observed_generation: Annotated[Count | None, Field(description="The spec that this is about.")] = None
    cap_watts: Annotated[NotNegative | None, Field(description="The cap of now, by schedule and supply.")] = None
    cap_source: Annotated[str, Field(max_length=512, description="Where the cap of now comes from.")] = ""
    battery_below: Annotated[
        float | None, Field(ge=0, description="The battery entry in force; left two percent above it.")
    ] = None
    allocated_watts: Annotated[
        NotNegative | None, Field(description="What is reserved for boards and other devices together.")
    ] = None
    drawn_watts: Annotated[NotNegative | None, Field(description="What the boards' sensors say together."), FIGURE] = (
        None
    )
    idle_watts: Annotated[NotNegative | None, Field(description="Of that reserved, for boards without a job.")] = None
    jobs: Annotated[Count, Field(description="TrainingJobs on its boards.")] = 0
    waiting: Annotated[Count, Field(description="TrainingJobs that wait for its power.")] = 0
    unconfirmed: Annotated[Count, Field(description="Boards whose agent does not keep its share yet.")] = 0
    exceeded: Annotated[Count, Field(description="How often the boards together drew more than the cap.")] = 0
    lowered_watts: Annotated[
        NotNegative, Field(description="What the cap is lowered by because the boards drew too much.")
    ] = 0.0
    lowered_until: Annotated[Moment | None, Field(description="Until then.")] = None
    reshared_at: Annotated[Moment | None, Field(description="When the watts were shared out last.")] = None
    forecast: Annotated[Forecast | None, Field(description="When the last job ends."), FIGURE] = None
    waiting_jobs: Annotated[tuple[WaitingJob, ...], Field(max_length=MAX_WAITING, description="Job by job.")] = ()
    boards: Annotated[tuple[BudgetBoard, ...], Field(max_length=MAX_BOARDS, description="Board by board.")] = ()
    conditions: Annotated[Conditions, Field(description="Conditions.")] = ()


class PowerBudget(ApiModel):
    """One cap over many boards: the watts go where they finish the work soonest."""

    api_version: str = API_VERSION
    kind: str = KIND
    metadata: Annotated[dict[str, Any], Field(default_factory=dict)]
    spec: Annotated[PowerBudgetSpec, Field(description="Written by administrators.")]
    status: Annotated[PowerBudgetStatus, Field(description="Written by the operator only.")] = PowerBudgetStatus()
