"""The report as data: what `powertrain report --json` prints and what the page embeds. Units are in the names."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

# More digits than any sensor gives would only make the page larger.
Figure = Annotated[float, AfterValidator(lambda value: float(f"{value:.6g}"))]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Basis(StrEnum):
    """Where a figure comes from."""

    MEASURED = "measured"
    PREDICTED = "predicted"


class MarkKind(StrEnum):
    """What happened at a mark of the time line."""

    MODE = "mode"
    TRIAL = "trial"
    GUARD = "guard"
    LIMIT = "limit"


class Mark(_Part):
    """Something that happened, with the words that hover shows."""

    at_s: Figure
    kind: MarkKind
    text: str


class Timeline(_Part):
    """A board over time: parallel columns, seconds since the session began; None where a value is not known."""

    source: str
    began_at: str | None = None
    at_s: tuple[Figure, ...] = ()
    power_min_w: tuple[Figure | None, ...] = ()
    power_mean_w: tuple[Figure | None, ...] = ()
    power_max_w: tuple[Figure | None, ...] = ()
    step_s: tuple[Figure | None, ...] = ()
    limit_w: tuple[Figure | None, ...] = ()
    mode: tuple[str | None, ...] = ()
    marks: tuple[Mark, ...] = ()


class Point(_Part):
    """A mode with its step time and power; ± is two standard deviations."""

    mode: str
    human: str
    step_s: Figure
    power_w: Figure
    basis: Basis
    step_pm_s: Figure | None = None
    power_pm_w: Figure | None = None


class Trial(_Part):
    """One measured mode, in the order of trying, and why it was tried."""

    point: Point
    reason: str = ""
    over_limit: bool = False
    left_early: bool = False
    # What the front says of it: predicted without this one measurement where that is known.
    predicted: Point | None = None


class Comparison(_Part):
    """The chosen mode against another one: its speed and its energy, as multiples of the other's."""

    name: str
    point: Point
    energy_per_step_j: Figure
    speed_ratio: Figure
    energy_ratio: Figure
    keeps_limit: bool | None = None


class BoardFacts(_Part):
    """What a bug report needs to know of a board."""

    name: str = ""
    model: str = ""
    module: str = ""
    l4t: str = ""
    core_policy: str = ""
    total_rail: str = ""
    agent: str = ""


class Board(_Part):
    """One board of the job."""

    node: str
    facts: BoardFacts = BoardFacts()
    phase: str = ""
    message: str = ""
    batch_size: int | None = None
    limit_w: Figure | None = None
    strategy: str = ""
    reference: str = ""
    chosen: Point | None = None
    runner_up: Point | None = None
    predicted: Point | None = None
    observed: Point | None = None
    trials: tuple[Trial, ...] = ()
    front: tuple[Point, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    profiling_s: Figure = 0.0
    energy_j: Figure | None = None
    violations: int = 0
    timeline: Timeline


class FleetBoard(_Part):
    """One board's part of a fleet: its power and its share of the cap, at the fleet's moments."""

    node: str
    power_w: tuple[Figure | None, ...]
    share_w: tuple[Figure | None, ...]
    # Of a PowerBudget, as it is now.
    state: str = ""
    job: str = ""
    reserved_w: Figure | None = None
    drawn_w: Figure | None = None
    speed: Figure | None = None
    reason: str = ""


class Makespan(_Part):
    """How long all boards need under one way of sharing the cap."""

    sharing: str
    seconds: Figure
    basis: Basis


class Fleet(_Part):
    """Several boards against one cap."""

    name: str
    began_at: str | None = None
    at_s: tuple[Figure, ...]
    cap_w: tuple[Figure | None, ...]
    source: str = ""
    boards: tuple[FleetBoard, ...]
    makespans: tuple[Makespan, ...] = ()


class Report(_Part):
    """Everything that the page shows."""

    schema_version: Literal[1] = 1
    name: str
    namespace: str = ""
    workload: str = ""
    phase: str = ""
    objective: str = "MinTime"
    limits: str = ""
    summary: str
    note: str = ""
    made_at: str
    versions: dict[str, str]
    boards: tuple[Board, ...]
    fleet: Fleet | None = None
